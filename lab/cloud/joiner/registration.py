"""Registering the Node, as kubelet_node_status.go does."""

from __future__ import annotations

import asyncio

from lab.cloud.joiner import node_objects
from lab.cloud.joiner.node_api import STRATEGIC_MERGE_PATCH, NodeApi
from lab.cloud.joiner.retry import growing_waits_s
from lab.cloud.joiner.settings import JoinerSettings
from lab.cloud.joiner.wall_clock import timestamp

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 7.0
"""registerWithAPIServer waits before each attempt, the first included."""


async def register(api: NodeApi, settings: JoinerSettings) -> None:
    """Create the Node, or take over the one that is there; tries for ever."""
    for wait_s in growing_waits_s(FIRST_WAIT_S, 2.0, LONGEST_WAIT_S):
        await asyncio.sleep(wait_s)
        if await _try_to_register(api, settings):
            return


async def _try_to_register(api: NodeApi, settings: JoinerSettings) -> bool:
    answer = await api.send("POST", node_objects.NODES, node_objects.node(settings, timestamp()))
    return answer.is_ok or (answer.status == 409 and await _take_over(api, settings))


async def _take_over(api: NodeApi, settings: JoinerSettings) -> bool:
    path = f"{node_objects.NODES}/{settings.name}"
    if not (await api.send("GET", path)).is_ok:
        return False
    body = node_objects.taken_over(settings, timestamp())
    return (await api.send("PATCH", f"{path}/status", body, kind=STRATEGIC_MERGE_PATCH)).is_ok
