"""What the service itself costs the API server: requests per node that it let in, counted from the audit log."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.demo.rush import RushRecord, run_rush
from lab.demo.rush_scene import Pacing, open_rush

AGENT = "kube-balloons"
SETTLE_S = 15.0
"""Between the service's start and the rush: its first lists and its baseline are not part of any scale-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequests:
    """Requests of our user agent from the job's submission to its last worker, by verb and resource."""

    nodes: int
    by_kind: dict[str, int]
    record: RushRecord

    @property
    def per_node(self) -> float:
        """All of them, scrapes and the Lease included, over the nodes."""
        return sum(self.by_kind.values()) / self.nodes


async def measure_own_requests(nodes: int) -> OwnRequests:
    """Run `balloons run` as its ServiceAccount through a rush on a real Karpenter."""
    async with open_rush(Pacing()) as scene:
        await asyncio.sleep(SETTLE_S)
        before = _count(scene.plane.audit_events())
        record = await run_rush(scene, nodes)
        after = _count(scene.plane.audit_events())
    return OwnRequests(nodes=nodes, by_kind=dict((after - before).most_common()), record=record)


def _count(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(_kind(event) for event in events if event.get("userAgent", "").startswith(AGENT))


def _kind(event: Mapping[str, Any]) -> str:
    reference = event.get("objectRef") or {}
    resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
    return f"{event['verb']} {resource or event['requestURI'].partition('?')[0]}"
