"""The loop and the throttle: what each is told of the other, and that neither's failure stops the other."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from balloons.api.pool import BalloonPool, Mode
from balloons.balloon_manifest import ImageSettings
from balloons.service.loop import DecisionLoop, Wake
from balloons.service.metrics import Metrics
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.view.index_and_snapshot import Index
from tests.unit.balloons.service.test_loop import FakeView, FakeWrites
from tests.world import CLASS, POOL_KEY, a_node, a_pool, work
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import Lane
from throttler.service.throttling import ClusterView

pytestmark = pytest.mark.virtual_time


class FakePacing:
    """Lets a given number of nodes start, in all."""

    def __init__(self, allowance: int | None) -> None:
        self.allowance = allowance
        self.seen: list[ClusterView] = []
        self.again_s: float | None = None
        self.is_broken = False
        self.stood_by = 0

    def stand_by(self) -> None:
        self.stood_by += 1

    def tick(self, cluster: ClusterView) -> Sequence[Lane] | None:
        self.seen.append(cluster)
        if self.is_broken:
            raise ValueError("odd throttle")
        return None if self.allowance is None else (Lane(LabelSelector(), self.allowance),)


class Scene:
    def __init__(self, pacing: FakePacing, pool: BalloonPool) -> None:
        self.view, self.writes, self.pacing = FakeView(), FakeWrites(), pacing
        self.index = Index()
        self.index.change_priority_class(None, CLASS)
        self.index.change_pool(None, pool)
        self.index.change_node(None, a_node("n1"))
        self.index.change_pod(None, work("busy", "n1"))
        writes: Any = self.writes
        clock = asyncio.get_running_loop().time
        self.loop = DecisionLoop(
            self.index,
            self.view,
            writes,
            Wake(clock),
            Metrics("test"),
            Preemptions(),
            ImageSettings(),
            interval_s=10.0,
            clock=clock,
            cpu_s=clock,
            pacing=pacing,
        )

    async def run_for(self, seconds: float) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(self.loop.run(stop))
        await asyncio.sleep(seconds)
        stop.set()
        await running

    @property
    def replicas(self) -> list[int]:
        """What the last decision asked for."""
        (decision,) = self.writes.decisions[-1].pools
        return [action.replicas for action in decision.actions if hasattr(action, "replicas")]


def headroom(**spec: Any) -> BalloonPool:
    return a_pool(mode=Mode.HEADROOM, **{"size": 10, "max_size": 50, **spec})


async def test_headroom_grows_by_the_throttles_lane() -> None:
    scene = Scene(FakePacing(3), headroom())
    scene.loop.tick()
    assert scene.replicas == [3]


async def test_headroom_grows_as_it_likes_where_nobody_paces_it() -> None:
    scene = Scene(FakePacing(None), headroom())
    scene.loop.tick()
    assert scene.replicas == [10]


async def test_the_throttle_is_told_at_once_what_pools_lack_and_were_granted() -> None:
    scene = Scene(FakePacing(3), headroom())
    await scene.run_for(0.2)
    first, second = scene.pacing.seen[:2]
    assert [(g.lacking, g.granted) for g in first.growth] == [(0, 0)]
    assert [(g.lacking, g.granted) for g in second.growth] == [(10, 3)]
    assert first.growth[0].selector.match_labels == {"pool": "gpu"}
    assert list(second.pods) == list(second.nodes) == ["n1"]


async def test_a_pool_in_dry_run_wants_nothing_of_the_throttle() -> None:
    scene = Scene(FakePacing(3), headroom(dry_run=True))
    await scene.run_for(12.0)
    assert {(growth.lacking, growth.granted) for seen in scene.pacing.seen for growth in seen.growth} == {(0, 0)}


async def test_what_could_not_be_written_for_a_pool_counts_as_not_let_out() -> None:
    scene = Scene(FakePacing(3), headroom())
    scene.loop.tick()
    scene.writes.passed, scene.writes.resting = {POOL_KEY: 1.0}, frozenset({POOL_KEY})
    scene.loop.tick()
    scene.loop.tick()
    assert [seen.growth[0].granted for seen in scene.pacing.seen] == [0, 3, 0]


async def test_what_is_being_written_for_a_pool_stays_let_out() -> None:
    """The caches do not show it yet."""
    scene = Scene(FakePacing(3), headroom())
    scene.loop.tick()
    scene.writes.passed, scene.pacing.allowance = {POOL_KEY: 1.0}, 0
    scene.loop.tick()
    scene.loop.tick()
    assert [seen.growth[0].granted for seen in scene.pacing.seen] == [0, 3, 3]


async def test_a_throttle_that_fails_stops_growth_and_nothing_else() -> None:
    scene = Scene(FakePacing(3), headroom())
    scene.pacing.is_broken = True
    scene.loop.tick()
    assert scene.loop.decided_at is not None
    assert scene.replicas == []
    assert scene.writes.decisions[-1].pools[0].pool == POOL_KEY


async def test_the_loop_looks_again_as_soon_as_the_throttle_wants() -> None:
    scene = Scene(FakePacing(0), headroom(size=0))
    scene.pacing.again_s = 2.0
    await scene.run_for(9)
    assert len(scene.pacing.seen) == 5
