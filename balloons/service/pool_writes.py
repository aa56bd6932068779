"""Writes what was decided: each pool in a task of its own, so that none waits for or fails with another.

A pool that is being written, or whose last write the caches do not show yet, is passed over; the next decision sees the
world as it is then. Order within a pool: its actions, then its status, then its Events.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from balloons.decide.plan import Action, ApplyObject, Plan, PoolDecision, ReleaseBalloon
from balloons.service.batches import batches
from balloons.service.fence import Fence
from balloons.service.in_words import failure_in_words, in_words
from balloons.service.metrics import Metrics
from balloons.service.preemptions import Preemptions
from balloons.service.report import Reporter
from balloons.service.standing import TURNED_AWAY
from balloons.service.write_outcome import Outcome, kind_of, least_rest_s, outcome_of
from balloons.service.writer import Writer
from throttler.client.errors import ApiError
from throttler.kube.metadata import ObjectKey
from throttler.service.drain import drain

AT_ONCE = 32
"""Writes of single pods and nodes under way at the same time."""
AWAITED_S = 0.1
"""A write that was made is seen within milliseconds as a rule: look again this soon."""
RESTING_S = 1.0
"""After a failure there is no such hurry."""
TURN_AWAY_PERIOD_S = 1.0
"""Between two statuses that say that a pool is not served: a fifth of the writes that we may make."""
SWEEPS = ObjectKey("", "")
"""What is swept up after pools that are gone is written like a pool of its own."""

_NOBODYS_FAULT = (Outcome.CONFLICT, Outcome.FENCED)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Failure:
    """A write that was not done: why, in words (none when somebody merely was faster), and for how long to rest."""

    words: str
    least_rest_s: float


class Caches(Protocol):
    """What the fence asks the watch caches."""

    def version_of(self, plural: str) -> str:
        """The version up to which a resource's cache is up to date."""

    def has_pod(self, node: str, uid: str) -> bool:
        """Whether the cache still has the pod, not leaving."""


class PoolWrites:
    """The writing half of the loop; `start` returns at once."""

    def __init__(
        self,
        writer: Writer,
        reporter: Reporter,
        caches: Caches,
        metrics: Metrics,
        preemptions: Preemptions,
        *,
        is_dry_run: bool,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._reporter = reporter
        self._caches = caches
        self._metrics = metrics
        self._preemptions = preemptions
        self._is_dry_run = is_dry_run
        self._clock = clock
        self._fence = Fence()
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}
        self._problems: dict[ObjectKey, str] = {}
        self._shown: dict[ObjectKey, tuple[str, ...]] = {}
        self._turned_away_at_s = -math.inf
        self._room = asyncio.Semaphore(AT_ONCE)

    def start(self, plan: Plan) -> Mapping[ObjectKey, float]:
        """Begin to write; returns the pools that were passed over, whose actions nobody will carry out, each with the
        seconds after which it is worth looking again."""
        self._forget(plan)
        self._turn_away([decision for decision in plan.pools if decision.because.reason in TURNED_AWAY])
        served = [decision for decision in plan.pools if decision.because.reason not in TURNED_AWAY]
        passed = [decision.pool for decision in served if not self._start_pool(decision)]
        if plan.sweeps and not self._start_actions(SWEEPS, plan.sweeps, self._is_dry_run):
            passed.append(SWEEPS)
        if late := self._fence.give_up(self._clock()):
            log.warning("own writes were never seen", pools=sorted(map(str, late)))
        resting = {key for key in passed if self._fence.is_resting(key, self._clock())}
        return {key: RESTING_S if key in resting else AWAITED_S for key in passed}

    @property
    def is_busy(self) -> bool:
        """Whether anything is being written now."""
        return bool(self._tasks)

    @property
    def problems(self) -> dict[ObjectKey, str]:
        """What could not be written, by pool, until it has been."""
        return {key: text for key, text in self._problems.items() if text}

    def stand_by(self) -> None:
        """Somebody else leads: what was told and what failed is theirs to know. Writes under way meet the fence."""
        self._reporter.forget(())
        self._problems, self._shown = {}, {}

    async def drain(self, timeout_s: float) -> None:
        """Let writes under way finish; what takes longer is cancelled."""
        await drain(self._tasks.values(), timeout_s)

    # --- one pool ---

    def _turn_away(self, decisions: Sequence[PoolDecision]) -> None:
        """Tell one pool that it is not served, at most once a second: our writes are for those that are."""
        now_s = self._clock()
        if self._is_dry_run or now_s - self._turned_away_at_s < TURN_AWAY_PERIOD_S:
            return
        for decision in decisions:
            if decision.pool not in self._tasks and self._reporter.has_news(decision, ""):
                self._turned_away_at_s = now_s
                self._start_actions(decision.pool, (), False, decision)
                return

    def _start_pool(self, decision: PoolDecision) -> bool:
        is_dry_run = self._is_dry_run or decision.is_dry_run
        is_started = self._start_actions(decision.pool, decision.actions, is_dry_run, decision)
        return is_started or not decision.actions

    def _start_actions(
        self, key: ObjectKey, actions: Sequence[Action], is_dry_run: bool, decision: PoolDecision | None = None
    ) -> bool:
        if key in self._tasks:
            return False
        if is_dry_run:
            self._show(key, actions)
        is_open = self._fence.is_open(key, self._caches.version_of, self._caches.has_pod, self._clock())
        to_do = actions if is_open and not is_dry_run else ()
        if is_open and not to_do:
            self._problems.pop(key, None)
        has_news = (
            decision is not None
            and not self._is_dry_run
            and self._reporter.has_news(decision, self._problems.get(key, ""))
        )
        if to_do or has_news:
            task = asyncio.create_task(self._write(key, to_do, decision), name=f"write {key}")
            self._tasks[key] = task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        return is_open

    def _ended(self, key: ObjectKey, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fence.failed(key, 0.0, self._clock())
            log.error("writing failed", pool=str(key), exc_info=error)

    async def _write(self, key: ObjectKey, actions: Sequence[Action], decision: PoolDecision | None) -> None:
        if actions:
            await self._carry_out_all(key, actions)
        if decision is not None and not self._is_dry_run:
            await self._reporter.report(decision, self._problems.get(key, ""))

    async def _carry_out_all(self, key: ObjectKey, actions: Sequence[Action]) -> None:
        for batch in batches(actions):
            outcomes = await asyncio.gather(*(self._carry_out(key, action) for action in batch))
            failures = [failure for failure in outcomes if failure is not None]
            if failures:
                # Writes of one batch fail together: that is one failure to rest from, not as many as there are writes.
                self._fence.failed(key, max(failure.least_rest_s for failure in failures), self._clock())
                self._problems[key] = next(filter(None, (failure.words for failure in failures)), "")
                return
        self._problems.pop(key, None)
        self._fence.succeeded(key)

    async def _carry_out(self, key: ObjectKey, action: Action) -> "_Failure | None":
        """One write. None: what comes after it may follow; else the rest must wait."""
        async with self._room:
            try:
                if isinstance(action, ReleaseBalloon) and action.taker:
                    self._preemptions.expect_release(action.uid, self._clock())
                resource, version = await self._writer.carry_out(action)
            except ApiError as error:
                return self._failed(key, action, error)
        self._metrics.wrote(kind_of(action), Outcome.DONE)
        log.info("wrote", pool=str(key), action=in_words(action), because=action.because.code)
        if isinstance(action, ReleaseBalloon):
            self._fence.deleted(key, action.node, action.uid, self._clock())
        else:
            self._fence.wrote(key, resource.plural, version, self._clock())
        return None

    def _failed(self, key: ObjectKey, action: Action, error: ApiError) -> "_Failure | None":
        outcome = outcome_of(error)
        self._metrics.wrote(kind_of(action), outcome)
        if outcome is Outcome.GONE and not isinstance(action, ApplyObject):
            return None
        if outcome is Outcome.CONFLICT and isinstance(action, ReleaseBalloon):
            # The scheduler or the ReplicaSet is taking this very balloon: what was wanted is happening.
            return None
        words = failure_in_words(action, error)
        log.warning("write failed", pool=str(key), outcome=outcome.value, problem=words)
        return _Failure("" if outcome in _NOBODYS_FAULT else words, least_rest_s(error))

    # --- the rest ---

    def _show(self, key: ObjectKey, actions: Sequence[Action]) -> None:
        """A dry run tells each plan once, not at every tick."""
        words = tuple(f"{in_words(action)}: {action.because.sentence}" for action in actions)
        if self._shown.get(key, ()) != words:
            self._shown[key] = words
            log.info("would write", pool=str(key), actions=list(words))

    def _forget(self, plan: Plan) -> None:
        known = {SWEEPS, *(decision.pool for decision in plan.pools), *self._tasks}
        self._fence.forget(known)
        self._reporter.forget(known)
        self._problems = {key: text for key, text in self._problems.items() if key in known}
        self._shown = {key: words for key, words in self._shown.items() if key in known}
