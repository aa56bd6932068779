"""Writes what was decided: each pool by itself, so that none waits for or fails with another.

Of each pool there are up to four turns under way at a time, of sorts that do not wait for each other and have
ceilings of their own: what makes and removes balloons, the deletion of balloons whose nodes are about to go, notes (on
nodes, and the removal of what failed balloons leave), and the status. A turn that
gives nodes back to work is urgent as a whole. Balloons leave nodes that go after the pool's sizes are written, and also
where that fails or rests. A pool whose turn is under way, or whose last write the caches do not
show yet, is passed over; the next decision sees the world as it is then. A decision's status comes after its balloons.
Events are written in one turn for all pools, and every decision is heard: one that a turn under way passes over, too.
"""

import asyncio
import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import structlog

from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    Decision,
    DeleteObject,
    LeaveNode,
    MarkBalloon,
    PoolDecision,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.service.action_calls_and_pool_status import (
    KINDS,
    PoolStatusWriter,
    Writer,
    in_words,
    least_rest_s,
    outcome_of,
)
from balloons.service.metrics import Metrics, PoolWriteOutcome
from balloons.service.pool_status_and_events import TURNED_AWAY
from balloons.service.preemptions_and_warm_hits import Preemptions
from throttler.kube.errors import ApiError
from throttler.kube.metadata import ObjectKey
from throttler.kube.write_queue_and_status import OwnWrites, Repeats, WriteJobs

AT_ONCE = 32
"""Writes of one pool under way, or waiting at the ceiling, at the same time: no pool has others wait for more."""
NOTES_PER_TURN = 16
"""Nodes that a pool notes something on in one turn, or Failed balloons; the next decision knows what is left."""
LEFT_AGAIN_S = 30.0
"""Balloons that tolerate every taint come back to a node that goes: it is left again after this long."""
AWAITED_S = 0.1
"""A write that was made is seen within milliseconds as a rule: look again this soon."""
RESTING_S = 1.0
"""After a failure there is no such hurry."""
TURN_AWAY_PERIOD_S = 1.0
"""Between two statuses that say that a pool is not served: less than half of those that we may write."""
SWEEPS = ObjectKey("", "")
"""What is swept up after pools that are gone is written like a pool of its own."""

_NOTES = (AnnotateNode, RemoveFailed)
_TOGETHER = (AnnotateNode, LeaveNode, MarkBalloon, ReleaseBalloon, RemoveFailed)
"""Actions on one pod or node each: those of one kind in a row do not depend on each other."""
_NOBODYS_FAULT = (PoolWriteOutcome.CONFLICT, PoolWriteOutcome.FENCED)

log = structlog.get_logger()


class _Sort(enum.Enum):
    BALLOONS = "balloons"
    LEAVING = "leaving"
    NOTES = "notes"
    STATUS = "status"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A write that was not done: why, in words (none when somebody merely was faster), and for how long to rest."""

    words: str
    least_rest_s: float


class Caches(Protocol):
    """What is asked of the watch caches: whether they show what we wrote."""

    def version_of(self, plural: str) -> str:
        """The version up to which a resource's cache is up to date."""

    def has_pod(self, node: str, uid: str) -> bool:
        """Whether the cache still has the pod, not leaving."""


class PoolWrites:
    """The writing half of the loop; `start` returns at once."""

    def __init__(
        self,
        writer: Writer,
        status_writer: PoolStatusWriter,
        caches: Caches,
        metrics: Metrics,
        preemptions: Preemptions,
        *,
        is_dry_run: bool,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._status_writer = status_writer
        self._caches = caches
        self._metrics = metrics
        self._preemptions = preemptions
        self._is_dry_run = is_dry_run
        self._clock = clock
        self._own_writes = {_Sort.BALLOONS: OwnWrites(), _Sort.LEAVING: OwnWrites(), _Sort.NOTES: OwnWrites()}
        self._left_s: dict[str, float] = {}
        """When a balloon was last made to leave each node."""
        self._repeats = Repeats()
        self._jobs: WriteJobs[ObjectKey, _Sort] = WriteJobs("pool", self._crashed)
        self._problems: dict[tuple[ObjectKey, _Sort], str] = {}
        """What could not be written, in words, until it has been."""
        self._turned_away_at_s = -math.inf

    def start(self, decided: Decision) -> Mapping[ObjectKey, float]:
        """Begin to write; returns the pools that were passed over, whose balloons nobody will see to, each with the
        seconds after which it is worth looking again."""
        self._forget(decided)
        self._turn_away([decision for decision in decided.pools if decision.because.reason in TURNED_AWAY])
        served = [decision for decision in decided.pools if decision.because.reason not in TURNED_AWAY]
        busy = {decision.pool for decision in served if self._jobs.is_busy(decision.pool, _Sort.BALLOONS)}
        passed = [decision.pool for decision in served if not self._start_pool(decision)]
        for decision in sorted(served, key=lambda decision: self._status_writer.figures_due_s(decision.pool)):
            if decision.pool not in busy and not self._jobs.is_busy(decision.pool, _Sort.BALLOONS):
                self._write_status(decision)
        self._tell(served)
        if decided.sweeps and self._is_dry_run:
            self._jobs.show(SWEEPS, _told(decided.sweeps))
        if decided.sweeps and not self._start_turn(SWEEPS, _Sort.BALLOONS, () if self._is_dry_run else decided.sweeps):
            passed.append(SWEEPS)
        if late := set[ObjectKey]().union(*(own.give_up(self._clock()) for own in self._own_writes.values())):
            log.warning("own writes were never seen", pools=sorted(map(str, late)))
        resting = {key for key in passed if self._own_writes[_Sort.BALLOONS].is_resting(key, self._clock())}
        return {key: RESTING_S if key in resting else AWAITED_S for key in passed}

    @property
    def is_busy(self) -> bool:
        """Whether anything is being written now."""
        return bool(self._jobs.owners)

    @property
    def resting(self) -> frozenset[ObjectKey]:
        """Pools whose balloons nobody sees to for a while, because a write failed."""
        return self._own_writes[_Sort.BALLOONS].resting(self._clock())

    @property
    def problems(self) -> dict[ObjectKey, str]:
        """What could not be written, by pool, until it has been."""
        return {key: text for (key, _), text in self._problems.items() if text}

    def stand_by(self) -> None:
        """Somebody else leads: what was told and what failed is theirs to know. Writes under way meet the fence."""
        self._status_writer.forget(())
        self._jobs.forget(())
        self._problems.clear()

    async def drain(self, timeout_s: float) -> None:
        """Let writes under way finish, their statuses included; what takes longer is cancelled."""
        await self._jobs.drain(timeout_s)

    # --- one pool ---

    def _turn_away(self, decisions: Sequence[PoolDecision]) -> None:
        """Tell one pool that it is not served, at most once a second: our writes are for those that are."""
        now_s = self._clock()
        if self._is_dry_run or now_s - self._turned_away_at_s < TURN_AWAY_PERIOD_S:
            return
        for decision in decisions:
            if not self._jobs.is_busy(decision.pool, _Sort.STATUS) and self._status_writer.status_due(decision, ""):
                self._turned_away_at_s = now_s
                self._write_status(decision)
                return

    def _start_pool(self, decision: PoolDecision) -> bool:
        """Whether somebody sees to the pool's balloons, or nothing is to be done for them."""
        key, is_dry_run = decision.pool, self._is_dry_run or decision.is_dry_run
        if is_dry_run:
            self._jobs.show(key, _told(decision.actions))
        actions = () if is_dry_run else decision.actions
        notes = [action for action in actions if isinstance(action, _NOTES)]
        balloons = [action for action in actions if not isinstance(action, (*_NOTES, LeaveNode))]
        may_act = self._start_turn(key, _Sort.BALLOONS, balloons, decision)
        if not self._jobs.is_busy(key, _Sort.BALLOONS):
            self._start_leaving(key, actions)
        self._start_turn(key, _Sort.NOTES, notes[:NOTES_PER_TURN])
        return may_act or not decision.actions

    def _start_turn(
        self, key: ObjectKey, sort: _Sort, actions: Sequence[Action], decision: PoolDecision | None = None
    ) -> bool:
        """Whether the pool may be acted on; `decision` is what the status tells of afterwards."""
        if self._jobs.is_busy(key, sort):
            return False
        may_act = self._own_writes[sort].may_act(key, self._caches.version_of, self._caches.has_pod, self._clock())
        if not may_act:
            return False
        is_urgent = any(isinstance(action, ReleaseBalloon | LeaveNode | DeleteObject) for action in actions)
        # What was applied again and again and did not take waits, but never where nodes are given back to work.
        to_do = [
            action
            for action in actions
            if is_urgent
            or not isinstance(action, ApplyObject)
            or self._repeats.may_apply(action.key, action.kind, action.manifest, self._clock())
        ]
        if not actions:
            self._problems.pop((key, sort), None)
        if to_do:
            self._jobs.begin(key, sort, self._carry_out_all(key, sort, to_do, is_urgent=is_urgent, decision=decision))
        return True

    def _start_leaving(self, key: ObjectKey, actions: Sequence[Action]) -> None:
        """Delete some of the balloons on nodes that are about to go: most go with the size of their Deployment."""
        now_s = self._clock()
        self._left_s = {node: at_s for node, at_s in self._left_s.items() if now_s - at_s < LEFT_AGAIN_S}
        leaving = [action for action in actions if isinstance(action, LeaveNode) and action.node not in self._left_s]
        self._start_turn(key, _Sort.LEAVING, leaving[:AT_ONCE])

    def _crashed(self, key: ObjectKey, sort: _Sort) -> None:
        if sort in self._own_writes:
            self._own_writes[sort].failed(key, 0.0, self._clock())

    async def _carry_out_all(
        self,
        key: ObjectKey,
        sort: _Sort,
        actions: Sequence[Action],
        *,
        is_urgent: bool,
        decision: PoolDecision | None,
    ) -> None:
        room = asyncio.Semaphore(AT_ONCE)
        own = self._own_writes[sort]
        # What pools left is theirs alone: a webhook that keeps one thing of one pool keeps nothing of another.
        for batch in [list(actions)] if key == SWEEPS else _batches(actions):
            outcomes = await asyncio.gather(
                *(self._carry_out(key, own, action, room, is_urgent=is_urgent) for action in batch)
            )
            failures = [failure for failure in outcomes if failure is not None]
            if failures:
                # Writes of one batch fail together: that is one failure to rest from, not as many as there are writes.
                own.failed(key, max(failure.least_rest_s for failure in failures), self._clock())
                self._problems[key, sort] = next(filter(None, (failure.words for failure in failures)), "")
                break
        else:
            self._problems.pop((key, sort), None)
            own.succeeded(key)
        if decision is not None:
            self._start_leaving(key, decision.actions)
            self._write_status(decision)

    async def _carry_out(
        self, key: ObjectKey, own: OwnWrites, action: Action, room: asyncio.Semaphore, *, is_urgent: bool
    ) -> "_Failure | None":
        """One write. None: what comes after it may follow; else the rest must wait."""
        async with room:
            try:
                if isinstance(action, ReleaseBalloon) and action.taker:
                    self._preemptions.expect_release(action.uid, self._clock())
                resource, version = await self._writer.carry_out(action, is_urgent=is_urgent)
            except ApiError as error:
                return self._failed(key, action, error)
        self._metrics.wrote(KINDS[type(action)], PoolWriteOutcome.DONE)
        log.info("wrote", pool=str(key), action=in_words(action), because=action.because.code)
        if isinstance(action, LeaveNode):
            self._left_s[action.node] = self._clock()
        if isinstance(action, ReleaseBalloon | LeaveNode | RemoveFailed):
            own.deleted(key, action.node, action.uid, self._clock())
        else:
            own.wrote(key, resource.plural, version, self._clock())
        if isinstance(action, ApplyObject):
            self._repeats.applied(action.key, action.kind, action.manifest, self._clock())
        return None

    def _failed(self, key: ObjectKey, action: Action, error: ApiError) -> "_Failure | None":
        outcome = outcome_of(error)
        self._metrics.wrote(KINDS[type(action)], outcome)
        if outcome is PoolWriteOutcome.GONE and not isinstance(action, ApplyObject):
            return None
        if outcome is PoolWriteOutcome.CONFLICT and isinstance(action, ReleaseBalloon):
            # The scheduler or the ReplicaSet is taking this very balloon: what was wanted is happening.
            return None
        # The server's words name the right, the webhook or the quota.
        words = f"could not {in_words(action)}: {error.message}"
        log.warning("write failed", pool=str(key), outcome=outcome.value, problem=words)
        return _Failure("" if outcome in _NOBODYS_FAULT else words, least_rest_s(error))

    def _write_status(self, decision: PoolDecision) -> None:
        if self._is_dry_run or self._jobs.is_busy(decision.pool, _Sort.STATUS):
            return
        # Of a pool that is not served any more nobody tries to write again what failed before.
        is_served = decision.because.reason not in TURNED_AWAY
        problem, under_way = self.problems.get(decision.pool, "") if is_served else "", self._jobs.count(_Sort.STATUS)
        status = self._status_writer.status_due(decision, problem, under_way)
        if status is not None:
            self._jobs.begin(decision.pool, _Sort.STATUS, self._status_writer.write(decision, status))

    def _tell(self, decisions: Sequence[PoolDecision]) -> None:
        if self._is_dry_run:
            return
        for decision in decisions:
            self._status_writer.notice(decision)
        announcer = self._status_writer.announcer
        if not self._jobs.is_busy(SWEEPS, _Sort.EVENTS) and (events := announcer.due(self._clock())):
            self._jobs.begin(SWEEPS, _Sort.EVENTS, self._status_writer.tell(events))

    # --- the rest ---

    def _forget(self, decided: Decision) -> None:
        known = {SWEEPS, *(decision.pool for decision in decided.pools), *self._jobs.owners}
        for own in self._own_writes.values():
            own.forget(known)
        self._status_writer.forget(known)
        self._repeats.forget(self._clock())
        self._jobs.forget(known)
        self._problems = {key: problem for key, problem in self._problems.items() if key[0] in known}


def _told(actions: Sequence[Action]) -> Iterable[str]:
    return (f"{in_words(action)}: {action.because.sentence}" for action in actions)


def _batches(actions: Sequence[Action]) -> list[list[Action]]:
    """The actions in order; each inner list may be carried out concurrently."""
    ordered: list[list[Action]] = []
    for kind, group in groupby(actions, key=type):
        together = list(group)
        ordered += [together] if kind in _TOGETHER else [[action] for action in together]
    return ordered
