"""The loop, and when its next decision is due.

The loop: when it decides, what it keeps in mind, and that neither errors nor silence end it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from balloons.api.pool import PoolStatus
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decision_and_reasons import Decision, Memory, PoolDecision, PoolMemory, Reason
from balloons.service.loop import DecisionLoop, Wake
from balloons.service.metrics import Metrics
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.view.index_and_snapshot import Circumstances, Index, Now, Snapshot
from tests.world import a_node, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.service.throttling import BLIND_PATIENCE_S

pytestmark = pytest.mark.virtual_time
GPU, CPU = ObjectKey("ns", "gpu"), ObjectKey("ns", "cpu")


class FakeView:
    def __init__(self) -> None:
        self.missing: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.missing

    def circumstances(self) -> Circumstances:
        return Circumstances(missing=self.missing)


class FakeWrites:
    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.passed: dict[ObjectKey, float] = {}
        self.resting = frozenset[ObjectKey]()
        self.stood_by = 0

    def stand_by(self) -> None:
        self.stood_by += 1

    def start(self, decided: Decision) -> dict[ObjectKey, float]:
        self.decisions.append(decided)
        return self.passed


class FakeDecide:
    """Remembers how often each pool was decided; may fail."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.memories: list[Memory] = []
        self.resting: list[frozenset[ObjectKey]] = []
        self.failures = 0
        self.work: Callable[[], None] = lambda: None

    def __call__(
        self, snapshot: Snapshot, memory: Memory, settings: ImageSettings, now: Now, allowance: int | None
    ) -> tuple[Decision, Memory]:
        if self.failures:
            self.failures -= 1
            raise ValueError("odd object")
        self.at_s.append(now.monotonic_s)
        self.memories.append(memory)
        self.resting.append(snapshot.resting)
        self.work()
        why = because(Reason.STEADY, warm=1, target=1)
        pools = {
            key: PoolMemory(removed=(*memory.pools.get(key, PoolMemory()).removed, (0.0, 1))) for key in (GPU, CPU)
        }
        return Decision(tuple(PoolDecision(key, why, PoolStatus()) for key in (GPU, CPU))), Memory(pools=pools)


class Scene:
    def __init__(self) -> None:
        self.view, self.writes, self.decide = FakeView(), FakeWrites(), FakeDecide()
        self.metrics = Metrics("test")
        self.is_leader = True
        self.cpu_s = self.ahead_s = 0.0
        self.wake = Wake(self.clock)
        self.index = Index()
        writes: Any = self.writes
        self.loop = DecisionLoop(
            self.index,
            self.view,
            writes,
            self.wake,
            self.metrics,
            Preemptions(),
            ImageSettings(),
            interval_s=10.0,
            clock=self.clock,
            cpu_s=lambda: self.cpu_s,
            decide=self.decide,
            leads=lambda: self.is_leader,
        )

    def clock(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s

    async def run_for(self, seconds: float) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(self.loop.run(stop))
        await asyncio.sleep(seconds)
        stop.set()
        await asyncio.wait_for(running, 0.001)

    def ticks(self, outcome: str) -> float | None:
        return self.metrics.registry.get_sample_value("kube_balloons_ticks_total", {"outcome": outcome})


async def test_decides_at_the_interval_while_nothing_changes() -> None:
    scene = Scene()
    await scene.run_for(35)
    start = scene.decide.at_s[0]
    assert [at_s - start for at_s in scene.decide.at_s] == [0, 10, 20, 30]


async def test_change_is_answered_soon() -> None:
    scene = Scene()
    asyncio.get_running_loop().call_later(3, scene.wake.poke, 0.05)
    await scene.run_for(5)
    assert scene.decide.at_s[1] - scene.decide.at_s[0] == pytest.approx(3.05)


async def test_a_decision_that_took_long_is_followed_by_three_times_the_rest() -> None:
    scene = Scene()

    def work() -> None:
        scene.cpu_s += 2.0
        scene.ahead_s += 2.0

    scene.decide.work = work
    scene.writes.passed = {GPU: 0.1}
    await scene.run_for(20)
    start = scene.decide.at_s[0]
    assert [at_s - start for at_s in scene.decide.at_s] == pytest.approx([0, 8, 16, 24])


async def test_a_process_that_was_frozen_while_it_decided_decides_on_at_once() -> None:
    """It rested three times as long, 36 s, and lost the Lease again that it had taken meanwhile."""
    scene = Scene()

    def freeze() -> None:
        scene.ahead_s = 12.0

    scene.decide.work = freeze
    await scene.run_for(25)
    start = scene.decide.at_s[0]
    assert [at_s - start for at_s in scene.decide.at_s] == [0, 12, 22, 32]


async def test_stop_ends_the_wait_at_once() -> None:
    await Scene().run_for(0.5)  # run_for fails if the loop takes longer than a millisecond to end


async def test_tick_that_fails_is_counted_and_the_next_one_comes() -> None:
    scene = Scene()
    scene.decide.failures = 2
    await scene.run_for(5)
    assert (scene.ticks("failed"), scene.ticks("decided")) == (2, 1)
    assert scene.loop.decided_at is not None


async def test_unfinished_work_is_looked_at_again_soon() -> None:
    scene = Scene()
    scene.writes.passed = {GPU: 1.0}
    await scene.run_for(3.5)
    assert len(scene.decide.at_s) == 4


async def test_memory_of_pools_that_were_passed_over_stays_as_it_was() -> None:
    """What nobody carried out must not count as done, against the limit on removals for one."""
    scene = Scene()
    scene.writes.passed = {GPU: 1.0}
    scene.loop.tick()
    scene.loop.tick()
    scene.loop.tick()
    seen = scene.decide.memories[-1].pools
    assert GPU not in seen
    assert len(seen[CPU].removed) == 2


async def test_decisions_know_whose_writes_fail() -> None:
    scene = Scene()
    scene.loop.tick()
    scene.writes.resting = frozenset({GPU})
    scene.loop.tick()
    assert scene.decide.resting == [frozenset(), {GPU}]


async def test_brief_blindness_is_not_reported() -> None:
    scene = Scene()
    scene.loop.tick()
    scene.view.missing = ("pods",)
    await asyncio.sleep(BLIND_PATIENCE_S - 1)
    scene.loop.tick()
    assert len(scene.writes.decisions) == 1
    await asyncio.sleep(2)
    scene.loop.tick()
    assert len(scene.writes.decisions) == 2


async def test_pools_are_shown_as_decided() -> None:
    scene = Scene()
    scene.loop.tick()
    labels = {"namespace": "ns", "pool": "gpu"}
    assert scene.metrics.registry.get_sample_value("kube_balloons_pool_warm_nodes", labels) == 0


async def test_a_replica_that_stands_by_decides_and_writes_nothing_and_is_alive() -> None:
    scene = Scene()
    scene.is_leader = False
    await scene.run_for(35)
    assert (scene.decide.at_s, scene.writes.decisions) == ([], [])
    assert scene.ticks("stood_by") == 4
    assert scene.loop.decided_at is not None


async def test_a_replica_that_stands_by_for_weeks_keeps_nothing_of_nodes_that_went() -> None:
    scene = Scene()
    scene.is_leader = False
    for at in range(500):
        spot = a_node(f"spot-{at}")
        job = work(f"job-{at}", spot.name)
        scene.index.change_node(None, spot)
        scene.index.change_pod(None, job)
        scene.index.change_pod(job, None)
        scene.index.change_node(spot, None)
        scene.loop.tick()
    kept = {name: len(filed) for name, filed in vars(scene.index).items() if isinstance(filed, dict) and filed}
    assert kept == {}


async def test_who_leads_again_begins_anew_and_shows_no_old_figures_meanwhile() -> None:
    scene = Scene()
    scene.loop.tick()
    scene.is_leader = False
    scene.loop.tick()
    assert scene.writes.stood_by == 1
    labels = {"namespace": "ns", "pool": "gpu"}
    assert scene.metrics.registry.get_sample_value("kube_balloons_pool_warm_nodes", labels) is None
    scene.is_leader = True
    scene.loop.tick()
    assert scene.decide.memories[-1] == Memory()


async def test_blindness_of_a_replica_that_stood_by_is_not_reported_at_once() -> None:
    scene = Scene()
    scene.is_leader, scene.view.missing = False, ("pods",)
    await scene.run_for(2 * BLIND_PATIENCE_S)
    scene.is_leader = True
    scene.loop.tick()
    assert scene.writes.decisions == []


def clock() -> float:
    return asyncio.get_running_loop().time()


async def slept_s(wake: Wake, not_before_s: float = 0.0, latest_s: float = 10.0) -> float:
    started = clock()
    await wake.sleep(started + not_before_s, started + latest_s)
    return round(clock() - started, 3)


async def test_nothing_changes_until_the_interval_is_over() -> None:
    assert await slept_s(Wake(clock)) == 10.0


async def test_change_during_the_sleep_ends_it_soon() -> None:
    wake = Wake(clock)
    asyncio.get_running_loop().call_later(3, wake.poke, 0.05)
    assert await slept_s(wake) == 3.05


async def test_change_before_the_sleep_is_not_lost() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    assert await slept_s(wake) == 0.05


async def test_urgent_change_overtakes_an_earlier_calm_one() -> None:
    wake = Wake(clock)
    wake.poke(1.0)
    asyncio.get_running_loop().call_later(0.2, wake.poke, 0.05)
    assert await slept_s(wake) == 0.25


async def test_later_changes_do_not_put_it_off() -> None:
    wake = Wake(clock)
    for i in range(10):
        asyncio.get_running_loop().call_later(i * 0.02, wake.poke, 0.05)
    assert await slept_s(wake) == 0.05


async def test_changes_wait_for_the_rest_after_a_long_decision() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    assert await slept_s(wake, not_before_s=0.75) == 0.75


async def test_answered_change_does_not_wake_again() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    await slept_s(wake)
    assert await slept_s(wake) == 10.0


async def test_nothing_relevant_asks_for_nothing() -> None:
    wake = Wake(clock)
    wake.poke(None)
    assert await slept_s(wake) == 10.0
