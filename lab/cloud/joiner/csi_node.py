"""Initialising the CSINode, without which a kubelet does not say Ready (csi_plugin.go, nodeinfomanager.go)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

from lab.cloud.joiner.identity import identity_of
from lab.cloud.joiner.node_api import NodeApi
from lab.cloud.joiner.node_objects import CSI_NODES, NODES, csi_node

INNER_WAITS_S = (0.01, 0.05, 0.25)
"""Four attempts, 10 ms and then each wait five times the last."""
OUTER_WAITS_S = (0.015, 0.09, 0.54, 3.24, 19.44)
"""After each round of four. A real kubelet gives up and restarts after the last; a joiner goes on with it."""


async def initialise_csi_node(api: NodeApi, name: str) -> None:
    """Create the CSINode of a Node, which must exist first; tries until it is there."""
    await api.send("GET", f"{CSI_NODES}/{name}", query={"resourceVersion": "0"})
    for wait_s in _waits_s():
        if await _try_to_create(api, name):
            return
        await asyncio.sleep(wait_s)


async def _try_to_create(api: NodeApi, name: str) -> bool:
    node = await api.send("GET", f"{NODES}/{name}", is_read=True)
    if not node.is_ok:
        return False
    existing = await api.send("GET", f"{CSI_NODES}/{name}")
    if existing.status != 404:
        return existing.is_ok
    created = await api.send("POST", CSI_NODES, csi_node(name, identity_of(node.body).uid))
    return created.is_ok or created.status == 409


def _waits_s() -> Iterator[float]:
    for outer_s in itertools.chain(OUTER_WAITS_S, itertools.repeat(OUTER_WAITS_S[-1])):
        yield from INNER_WAITS_S
        yield outer_s
