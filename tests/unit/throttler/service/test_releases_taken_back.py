"""Releases that were decided and not begun: a throttle that holds nothing back for a moment lets few pods go."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from balloons.service.metrics import Metrics
from tests.unit.throttler.joins.cluster import WALL_S, pending
from tests.unit.throttler.service.throttle_scene import (
    FakeHolding,
    FakeSources,
    FakeWatches,
    a_throttle,
    refused,
)
from throttler.kube.pod import Scheduling
from throttler.levers.lever_and_reasons import LeverWrite
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.lever_calls import LeverWriteOutcome, WriteResult
from throttler.service.throttle_write_queue import AT_ONCE, ThrottleWrites
from throttler.service.throttling import ClusterView, Throttling

pytestmark = pytest.mark.virtual_time

MOST, PODS, PER_S = 6, 300, 5.0
SPEC: dict[str, Any] = {
    "nodes": {"matchLabels": {"pool": "a"}},
    "levers": {"schedulingGates": {}},
    "window": {"initial": MOST, "min": MOST, "max": MOST},
    "maxInFlight": MOST,
    "reserved": {"nodes": 0},
}
GATED = {"is_gated": True, "is_tried": False, "gates": (PACED_GATE,), "node_selector": {"pool": "a"}}


class SilentStatus:
    def due(self, turn: Any, problem: str) -> None:
        """Nothing is told."""

    def forget(self, known: Any) -> None:
        """Nothing is kept."""


class Cluster:
    """Gated pods, a service that lets them go, and a client that makes so many calls a second."""

    def __init__(self, *throttles: Any) -> None:
        clock = asyncio.get_running_loop().time
        self.pods = {f"p{number:04}": pending(f"p{number:04}", **GATED) for number in range(PODS)}
        self.gone: set[str] = set()
        self.is_deaf = False
        """Whether no answer comes, and no watch tells what was done."""
        self.watches = FakeWatches(throttles=throttles)
        self.next_s = clock()
        parts: tuple[Any, ...] = (self.watches, FakeSources(None), FakeHolding(), SilentStatus(), self)
        watches, sources, holding, status, writer = parts
        metrics = Metrics("test").throttle
        self.writes = ThrottleWrites(writer, writer, status, metrics, clock, is_dry_run=False)
        self.throttling = Throttling(
            watches, sources, self.writes, holding, metrics, clock=clock, wall=lambda: WALL_S + clock()
        )

    async def carry_out(self, writes: Iterable[LeverWrite]) -> tuple[WriteResult, ...]:
        now_s = asyncio.get_running_loop().time()
        self.next_s = max(self.next_s, now_s) + 1.0 / PER_S
        await asyncio.sleep(self.next_s - now_s)
        (write,) = writes
        self.gone.add(write.key.name)
        if not self.is_deaf:
            pod = self.pods[write.key.name]
            self.pods[write.key.name] = msgspec.structs.replace(pod, scheduling=Scheduling())
        return (
            WriteResult(write=write, outcome=LeverWriteOutcome.UNKNOWN if self.is_deaf else LeverWriteOutcome.DONE),
        )

    async def go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            self.throttling.tick(ClusterView(unplaced=tuple(self.pods.values())))
            await asyncio.sleep(1.0)


def paused(cluster: Cluster) -> None:
    cluster.watches.throttles = (a_throttle(**SPEC, paused=True),)


def deleted(cluster: Cluster) -> None:
    cluster.watches.throttles = ()


def broken(cluster: Cluster) -> None:
    cluster.watches.throttles = (refused("default"),)


def renamed(cluster: Cluster) -> None:
    other = a_throttle("other", nodes={"matchLabels": {"pool": "b"}}, levers={"schedulingGates": {}})
    cluster.watches.throttles = (other,)


def without_gates(cluster: Cluster) -> None:
    cluster.watches.throttles = (a_throttle(**{**SPEC, "levers": {"headroom": True}}),)


@pytest.mark.parametrize("lapse", [paused, deleted, broken, renamed, without_gates])
@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_throttle_that_holds_nothing_for_a_moment_goes_on_with_what_it_has_let_go(
    lapse: Callable[[Cluster], None], is_deaf: bool
) -> None:
    cluster = Cluster(a_throttle(**SPEC))
    await cluster.go_on(10)
    assert len(cluster.gone) == MOST
    cluster.is_deaf = is_deaf
    lapse(cluster)
    await cluster.go_on(2)
    cluster.watches.throttles = (a_throttle(**SPEC),)
    await cluster.go_on(60)
    await cluster.writes.drain(60)
    assert len(cluster.gone) <= MOST + 2 * PER_S + AT_ONCE + 1, "what was begun is made"


async def test_who_loses_the_lead_makes_no_release_that_was_not_begun() -> None:
    cluster = Cluster(a_throttle(**SPEC, paused=True))
    await cluster.go_on(1)
    cluster.throttling.stand_by()
    await asyncio.sleep(60.0)
    assert len(cluster.gone) <= PER_S + AT_ONCE + 1
