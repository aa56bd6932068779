"""The loop: take a snapshot, decide once, write; rediscover the world at the next tick.

When the next decision is due: soon after a change, at the latest after the interval.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import thread_time, time
from typing import Protocol

import structlog

from balloons.api.pool import BalloonPool
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory, PoolMemory
from balloons.service.metrics import Metrics
from balloons.service.pool_write_queue import PoolWrites
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.view.index_and_snapshot import Circumstances, Index, Now, Snapshot
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import Lane, PoolGrowth
from throttler.service.throttling import BLIND_PATIENCE_S, ClusterView

REST_SHARE = 3.0
"""A decision that took t of CPU is followed by a rest of at least 3 t: a quarter of one core, whatever the churn. A
process that was frozen or starved meanwhile has used none: by the clock it would rest until it lost the Lease."""
FAILED_S = 1.0
BLIND_S = 1.0
"""After a tick that failed, and while the view is incomplete: look again this soon."""
GROWTH_S = 0.05
"""After a decision that found other growth than the throttle knew of."""
log = structlog.get_logger()
Decide = Callable[[Snapshot, Memory, ImageSettings, Now, Sequence[Lane] | None], tuple[Decision, Memory]]


class Wake:
    """Collects calls for a decision; the earliest counts, and later ones do not put it off."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due_at: float | None = None
        self._poked = asyncio.Event()

    def poke(self, within_s: float | None) -> None:
        """Ask for a decision within this time; None asks for nothing."""
        if within_s is None:
            return
        due_at = self._clock() + within_s
        if self._due_at is None or due_at < self._due_at:
            self._due_at = due_at
            self._poked.set()

    async def sleep(self, not_before_at: float, latest_at: float) -> None:
        """Returns when a decision is due; what was asked for until then is answered by it."""
        while (now := self._clock()) < (until := self._until(not_before_at, latest_at)):
            self._poked.clear()
            try:
                async with asyncio.timeout(until - now):
                    await self._poked.wait()
            except TimeoutError:
                continue
        self._due_at = None

    def _until(self, not_before_at: float, latest_at: float) -> float:
        due_at = latest_at if self._due_at is None else min(self._due_at, latest_at)
        return max(due_at, not_before_at)


class View(Protocol):
    """What the loop asks the watch caches."""

    def circumstances(self) -> Circumstances:
        """What the next snapshot says about itself."""


class Pacer(Protocol):
    """What the loop asks the throttle: one call per tick."""

    @property
    def again_s(self) -> float | None:
        """How soon a tick is wanted although nothing changes."""

    def tick(self, cluster: ClusterView) -> Sequence[Lane] | None:
        """How much Headroom may grow; None: as much as it wants."""

    def stand_by(self) -> None:
        """Somebody else leads: forget what was decided."""


def _always() -> bool:
    return True


class DecisionLoop:
    """Decides at every change and at every interval, until it is told to stop.

    While another replica leads (`leads` says no) nothing is decided: the caches are kept, what was learned is not, as
    the world has gone on without us. Leading again is like a restart with warm caches.
    """

    def __init__(
        self,
        index: Index,
        view: View,
        writes: PoolWrites,
        wake: Wake,
        metrics: Metrics,
        preemptions: Preemptions,
        settings: ImageSettings,
        *,
        interval_s: float,
        clock: Callable[[], float],
        cpu_s: Callable[[], float] = thread_time,
        wall_s: Callable[[], float] = time,
        pacing: Pacer | None = None,
        decide: Decide = decide,
        leads: Callable[[], bool] = _always,
    ) -> None:
        self._index = index
        self._view = view
        self._writes = writes
        self._wake = wake
        self._metrics = metrics
        self._preemptions = preemptions
        self._settings = settings
        self._interval_s = interval_s
        self._clock = clock
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        self._pacing = pacing
        self._growth: Mapping[ObjectKey, int] = {}
        self._decide = decide
        self._leads = leads
        self._memory = Memory()
        self._told: dict[ObjectKey, str] = {}
        self._complete_at = clock()
        self.decided_at: float | None = None
        """Monotonic time of the last decision that was made, or found not to be ours to make; None before the first."""

    async def run(self, stop: asyncio.Event) -> None:
        """Decide until `stop` is set; one tick that fails is counted and logged, and the next one comes."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                started_at, before_s = self._clock(), self._cpu_s()
                again_s = self.tick()
                took_s = self._cpu_s() - before_s
                rest = self._wake.sleep(
                    not_before_at=self._clock() + REST_SHARE * took_s,
                    latest_at=started_at + again_s,
                )
                resting = asyncio.ensure_future(rest)
                await asyncio.wait([resting, stopping], return_when=asyncio.FIRST_COMPLETED)
                resting.cancel()
        finally:
            stopping.cancel()

    def tick(self) -> float:
        """Decide once and begin to write; returns the seconds after which to look again if nothing changes."""
        started_at = self._clock()
        outcome, again_s = "decided" if self._leads() else "stood_by", FAILED_S
        try:
            again_s = self._tick() if outcome == "decided" else self._stand_by()
            self.decided_at = self._clock()
        except Exception:  # a tick that fails must not end those to come
            outcome = "failed"
            log.exception("tick failed")
        self._metrics.tick(outcome, self._clock() - started_at)
        return again_s

    def _tick(self) -> float:
        now_s = self._clock()
        snapshot = self._index.snapshot(replace(self._view.circumstances(), resting=self._writes.resting))
        if snapshot.is_complete:
            self._complete_at = now_s
        now = Now(now_s, datetime.fromtimestamp(self._wall_s(), UTC))
        decided, memory = self._decide(snapshot, self._memory, self._settings, now, self._paced(snapshot))
        if snapshot.is_complete:
            self._note_growth({decision.pool: decision.lacking for decision in decided.pools if decision.lacking})
        self._metrics.show(decided.pools)
        self._log_changes(decided)
        self._preemptions.prune(now_s)
        if snapshot.is_complete:
            return self._write(decided, memory, snapshot.resting)
        if now_s - self._complete_at > BLIND_PATIENCE_S:
            return min(BLIND_S, self._write(decided, memory, snapshot.resting))
        self._memory = memory
        return BLIND_S

    def _stand_by(self) -> float:
        self._memory, self._growth, self._told = Memory(), {}, {}
        self._complete_at = self._clock()
        # Nobody reads it: what changed is filed, so that nodes and pods that went do not pile up until we lead.
        self._index.snapshot(self._view.circumstances())
        self._preemptions.prune(self._clock())
        self._metrics.show(())
        self._writes.stand_by()
        if self._pacing is not None:
            self._pacing.stand_by()
        return self._interval_s

    def _write(self, decided: Decision, memory: Memory, resting: Collection[ObjectKey]) -> float:
        passed = self._writes.start(decided)
        # Pools whose actions nobody carries out took no part in the decision: they remember what they did before it.
        before = {key: self._memory.pools[key] for key in passed if key in self._memory.pools}
        # But what was to be let out and could not be written is there for others.
        before |= {
            key: replace(own, granted=memory.pools[key].granted) for key, own in before.items() if key in resting
        }
        after = {key: own for key, own in memory.pools.items() if key not in passed}
        self._memory = replace(memory, pools={**after, **before})
        again_s = self._pacing.again_s if self._pacing is not None else None
        return min([self._interval_s, *passed.values(), *([again_s] if again_s is not None else [])])

    def _paced(self, snapshot: Snapshot) -> Sequence[Lane] | None:
        """The throttle's turn, on the same view; it knows what pools lack from the decision before.

        If it fails, nodes are held and given way all the same, and nothing grows.
        """
        if self._pacing is None:
            return None
        growth = (self._growth_of(pool) for pool in snapshot.pools.values())
        cluster = ClusterView(
            nodes=snapshot.nodes,
            pods=self._index.pods_by_node,
            unplaced=snapshot.waiting,
            growth=tuple(growth),
            missing=snapshot.missing,
            age_s=snapshot.age_s,
        )
        try:
            return self._pacing.tick(cluster)
        except Exception:  # the pools are decided all the same, and start no node meanwhile
            log.exception("the throttle's tick failed")
            return (Lane(LabelSelector(), 0, is_shut=True),)

    def _note_growth(self, growth: Mapping[ObjectKey, int]) -> None:
        """What pools lack is the throttle's demand, so a change of it wakes the decision."""
        if self._pacing is not None and growth != self._growth:
            self._wake.poke(GROWTH_S)
        self._growth = growth

    def _growth_of(self, pool: BalloonPool) -> PoolGrowth:
        memory = self._memory.pools.get(pool.key, PoolMemory())
        selector = pool.spec.nodes.selector
        if pool.spec.dry_run:
            # What it would like to have is nobody's demand, and none of it was let out.
            return PoolGrowth(selector, 0, 0)
        return PoolGrowth(selector, self._growth.get(pool.key, 0), memory.granted or 0)

    def _log_changes(self, decided: Decision) -> None:
        """One line per pool whose reason changed; the figures are in status and metrics."""
        for decision in decided.pools:
            if self._told.get(decision.pool) != decision.because.code:
                log.info(
                    "decided", pool=str(decision.pool), because=decision.because.code, why=decision.because.sentence
                )
        self._told = {decision.pool: decision.because.code for decision in decided.pools}
