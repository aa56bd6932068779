"""The loop: take a snapshot, decide once, write; rediscover the world at the next tick."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

import structlog

from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.plan import Plan
from balloons.decide.settings import DecideSettings
from balloons.service.metrics import Metrics
from balloons.service.pool_writes import PoolWrites
from balloons.service.preemptions import Preemptions
from balloons.service.wake import REST_SHARE, Wake
from balloons.view.index import Circumstances, Index
from balloons.view.snapshot import Now, Snapshot
from throttler.kube.metadata import ObjectKey

FAILED_S = 1.0
BLIND_S = 1.0
"""After a tick that failed, and while the view is incomplete: look again this soon."""
BLIND_PATIENCE_S = 15.0
"""A view that is incomplete for no longer than this (a watch that reconnects) is not reported to users."""

log = structlog.get_logger()

Decide = Callable[[Snapshot, Memory, DecideSettings, Now, int | None], tuple[Plan, Memory]]


class View(Protocol):
    """What the loop asks the watch caches."""

    @property
    def is_complete(self) -> bool:
        """Whether every cache shows everything."""

    def circumstances(self) -> Circumstances:
        """What the next snapshot says about itself."""


class DecisionLoop:
    """Decides at every change and at every interval, until it is told to stop."""

    def __init__(
        self,
        index: Index,
        view: View,
        writes: PoolWrites,
        wake: Wake,
        metrics: Metrics,
        preemptions: Preemptions,
        settings: DecideSettings,
        *,
        interval_s: float,
        clock: Callable[[], float],
        decide: Decide = decide,
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
        self._decide = decide
        self._memory = Memory()
        self._told: dict[ObjectKey, str] = {}
        self._complete_at = clock()
        self.decided_at: float | None = None
        """Monotonic time of the last decision that was made; None before the first."""

    async def run(self, stop: asyncio.Event) -> None:
        """Decide until `stop` is set; one tick that fails is counted and logged, and the next one comes."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                started_at = self._clock()
                again_s = self.tick()
                took_s = self._clock() - started_at
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
        outcome, again_s = "decided", FAILED_S
        try:
            again_s = self._tick()
            self.decided_at = self._clock()
        except Exception:
            outcome = "failed"
            log.exception("tick failed")
        self._metrics.tick(outcome, self._clock() - started_at)
        return again_s

    def _tick(self) -> float:
        now_s = self._clock()
        snapshot = self._index.snapshot(self._view.circumstances())
        if snapshot.is_complete:
            self._complete_at = now_s
        now = Now(now_s, datetime.now(UTC))
        plan, memory = self._decide(snapshot, self._memory, self._settings, now, None)
        self._metrics.show(plan.pools)
        self._log_changes(plan)
        self._preemptions.prune(now_s)
        if now_s - self._complete_at > BLIND_PATIENCE_S or snapshot.is_complete:
            return self._write(plan, memory)
        self._memory = memory
        return BLIND_S

    def _write(self, plan: Plan, memory: Memory) -> float:
        passed = self._writes.start(plan)
        self._memory = _without(passed.keys(), memory, self._memory)
        return min([self._interval_s, *passed.values()])

    def _log_changes(self, plan: Plan) -> None:
        """One line per pool whose reason changed; the figures are in status and metrics."""
        for decision in plan.pools:
            if self._told.get(decision.pool) != decision.because.code:
                log.info(
                    "decided", pool=str(decision.pool), because=decision.because.code, why=decision.because.sentence
                )
        self._told = {decision.pool: decision.because.code for decision in plan.pools}


def _without(passed: Collection[ObjectKey], new: Memory, old: Memory) -> Memory:
    """The next memory, in which pools whose actions nobody carries out did not take part."""
    kept = {key: old.pools[key] for key in passed if key in old.pools}
    pools = {key: memory for key, memory in new.pools.items() if key not in passed}
    return replace(new, pools={**pools, **kept})
