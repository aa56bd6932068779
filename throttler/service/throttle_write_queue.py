"""Writes what was decided for throttles: each in tasks of its own, its levers first, then its status and Events.

Writes on one object are made in order; those on different objects at the same time, so that one that fails or gets no
answer stops no other. Ceilings go their own way: one blocks growth for everybody, and must not wait until thousands of
gates and taints have been released one by one, nor until a busy server has taken a status or an Event. Nor does a node
wait for pods. An object is not written again before the caches show our last write, or that of whoever was faster, nor
for a while after one that failed.

Pods and nodes are let go some at a time, and there may be thousands. Those whose turn has not come are taken back at
the next decision and decided anew: a throttle that was paused for a moment, or a brake, must not find them gone later.

How users are told: `throttler.kube.write_queue_and_status`; here is what of a throttle's status is news, and how often
figures go out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from throttler.api.throttle import ThrottleStatus
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import ObjectKey
from throttler.kube.requests import NODES, PODS
from throttler.kube.write_queue_and_status import StatusWriter, WriteJobs
from throttler.levers.lever_and_reasons import LeverState, LeverWrite
from throttler.service.all_levers import CEILINGS
from throttler.service.decide_throttles import Turn
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter, WriteResult
from throttler.service.throttle_metrics import ThrottleMetrics
from throttler.service.throttle_status import ThrottleAnnouncer, next_status
from throttler.service.throttle_watches import THROTTLES

COUNTS_PERIOD_S = 5.0
"""Between two writes of one status that differ in figures only: the servers are read that often. At 2 s this was the
service's most frequent request of all (a ramp of 60 nodes in 84 s: 61 of 195)."""
FAILED_REST_S = 10.0
"""After a write that failed."""

_SETTLED = {LeverState.PENDING.value: LeverState.CONFIRMED.value}
log = structlog.get_logger()


class ThrottleStatusWriter:
    """Writes what users are told of throttles: their status and Events."""

    def __init__(self, client: KubeClient, announcer: ThrottleAnnouncer, clock: Callable[[], float]) -> None:
        self._announcer = announcer
        self._clock = clock
        self._status = StatusWriter(
            client,
            THROTTLES,
            clock,
            figures_period_s=lambda: COUNTS_PERIOD_S,
            rest_s=lambda error: max(FAILED_REST_S, error.retry_after_s or 0.0),
        )

    def due(self, turn: Turn, problem: str) -> ThrottleStatus | None:
        """The status to write now; None: the stored one says it already, or it was written a moment ago."""
        findings = turn.findings if turn.findings.problem else replace(turn.findings, problem=problem)
        status = next_status(turn.stored, findings, self._status.now())
        before = self._status.standing(turn.stored.metadata, turn.stored.status)
        if status is None or status == before:
            return None
        is_news = _meaning(before) != _meaning(status)
        return status if self._status.may_write(turn.stored.metadata, is_news=is_news) else None

    async def write(self, turn: Turn, status: ThrottleStatus | None) -> None:
        """Write the status if there is one to write, and what there is to announce."""
        events = self._announcer.due(turn, turn.stored.status, self._clock(), self._status.now())
        if status is not None:
            await self._status.write(turn.stored.metadata, status)
        await self._status.announce(turn.stored.metadata, events)

    def forget(self, known: Collection[str]) -> None:
        """Drop what is about throttles that are gone: one of the same name that comes later is another."""
        self._announcer.forget(known)
        self._status.forget({ObjectKey("", name) for name in known})


def _meaning(status: ThrottleStatus) -> tuple[object, ...]:
    """What a reader would call news: the phase, the conditions, the levers' states, and which spec they are about.

    The law's reason is not among them: in a ramp it changes with every scrape. Nor is a lever that is pending for a
    moment after every move of its ceiling.
    """
    told = tuple((c.type, c.status, c.reason) for c in status.conditions if c.type != "Ready" or c.status != "True")
    levers = tuple((lever.name, _SETTLED.get(lever.state, lever.state)) for lever in status.levers)
    return status.phase, status.observed_generation, told, levers


AT_ONCE = 16
"""Objects that are written at the same time: of ceilings, of pods and of nodes each."""
CEILING_KINDS = frozenset(lever.WRITES_ON.kind for lever in CEILINGS)
"""Of all others there may be one per node or pod."""
UNSEEN_S = 20.0
"""The caches show a change within a second as a rule; one that they never show is tried again after this."""
RESTS_S = {
    LeverWriteOutcome.FORBIDDEN: 30.0,
    LeverWriteOutcome.INVALID: 30.0,
    LeverWriteOutcome.WEBHOOK: 10.0,
    LeverWriteOutcome.BUSY: 5.0,
    LeverWriteOutcome.UNKNOWN: 5.0,
}
"""How long an object rests after a write that ended so; the others are simply decided anew."""
TOLD_S = 90.0
"""For so long a write that failed is told, unless it has succeeded since: its object rests for a minute at most, and is
tried again."""
_OTHER_SINCE = (LeverWriteOutcome.DONE, LeverWriteOutcome.CONFLICT, LeverWriteOutcome.GONE)
"""The object is another than the one decided on, by our doing or by others': until the caches show that, no write that
was decided on it can succeed."""
_HARMLESS = (LeverWriteOutcome.DONE, LeverWriteOutcome.CONFLICT, LeverWriteOutcome.GONE, LeverWriteOutcome.FENCED)

Place = tuple[str, ObjectKey]
"""An object: its kind and its key."""

ANY = "*"
"""The version of a rest after a failure: the object is left alone, whatever has become of it."""
_REFUSED = (LeverWriteOutcome.FORBIDDEN, LeverWriteOutcome.INVALID, LeverWriteOutcome.WEBHOOK)
"""Nothing was done, and the same will be refused again."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """Until when an object is left alone; `version` is the one decided on, empty for an object that was not there."""

    version: str
    until_s: float
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why an object could not be written, and until when that is told."""

    words: str
    until_s: float


NEWS: Place = "status and Events", ObjectKey("", "")
"""What is written for a throttle beside its objects: none waits for another."""
RELEASED_KINDS = (NODES.kind, PODS.kind)
"""Of pods there may be tens of thousands, each is one call, and a node that waits for them too long is lost."""


class ThrottleWrites:
    """The writing half; `start` returns at once. `releasing` makes the writes that are not about ceilings."""

    def __init__(
        self,
        writer: LeverWriter,
        releasing: LeverWriter,
        status_writer: ThrottleStatusWriter,
        metrics: ThrottleMetrics,
        clock: Callable[[], float],
        *,
        is_dry_run: bool,
    ) -> None:
        self._writer, self._releasing = writer, releasing
        self._status_writer = status_writer
        self._metrics = metrics
        self._clock = clock
        self._is_dry_run = is_dry_run
        self._jobs: WriteJobs[str, Place] = WriteJobs("throttle", lambda name, place: None)
        self._waiting: dict[tuple[str, str], dict[Place, Sequence[LeverWrite]]] = {}
        """By throttle and kind, releases that were not begun."""
        self._releases = Counter[str]()
        """By kind, how many are under way."""
        self._rests: dict[Place, _Rest] = {}
        self._problems: dict[tuple[str, Place], _Problem] = {}
        self._newest: dict[str, Turn] = {}
        """Of each throttle: an older one that ends late has nothing to tell any more."""
        self._ceilings_room = asyncio.Semaphore(AT_ONCE)

    @property
    def refused(self) -> frozenset[Place]:
        """Objects that rest because the API server refused a write on them."""
        now_s = self._clock()
        return frozenset(place for place, rest in self._rests.items() if rest.is_refused and now_s < rest.until_s)

    def start(self, name: str, wanted: Iterable[LeverWrite], turn: Turn | None = None) -> frozenset[Place]:
        """Begin to write what is wanted, and what the turn has to tell.

        Returns the objects with a ceiling of which an earlier write is under way: what was decided for them now is not
        written. Releases are begun some at a time, until `take_back`.
        """
        if turn is not None:
            self._newest[name] = turn
        by_object: dict[Place, list[LeverWrite]] = {}
        for write in self._open(wanted):
            by_object.setdefault((write.kind, write.key), []).append(write)
        if self._is_dry_run:
            self._jobs.show(name, (_told(write) for writes in by_object.values() for write in writes))
            return frozenset()
        for kind in RELEASED_KINDS:
            own = {place: writes for place, writes in by_object.items() if place[0] == kind}
            self._waiting[name, kind] = {place: own[place] for place in own if not self._jobs.is_busy(name, place)}
            self._begin_releases(kind)
        ceilings = {place: writes for place, writes in by_object.items() if place[0] in CEILING_KINDS}
        passed_over = frozenset(place for place in ceilings if self._jobs.is_busy(name, place))
        under_way = set(ceilings.keys() - passed_over)
        for place in ceilings:
            if place not in passed_over:
                self._jobs.begin(name, place, self._write_ceiling(name, ceilings[place], under_way, turn))
        if not under_way and turn is not None and self._status_writer.due(turn, self._problem(name)) is not None:
            self._begin_telling(name, turn)
        return passed_over

    def take_back(self) -> Mapping[str, Collection[ObjectKey]]:
        """Releases that were not begun are made no more, unless they are decided anew.

        Returns the pods among them, by throttle.
        """
        waiting, self._waiting = self._waiting, {}
        return {name: [key for _, key in own] for (name, kind), own in waiting.items() if kind == PODS.kind}

    def _begin_releases(self, kind: str) -> None:
        """As many as there is room for, those of each throttle in turn."""
        while self._releases[kind] < AT_ONCE and (turn := next((one for one in self._waiting if one[1] == kind), None)):
            if own := self._waiting.pop(turn):
                place = next(iter(own))
                self._releases[kind] += 1
                self._jobs.begin(turn[0], place, self._release(turn[0], own.pop(place)))
                self._waiting[turn] = own

    def _begin_telling(self, name: str, turn: Turn) -> None:
        if not self._jobs.is_busy(name, NEWS):
            self._jobs.begin(name, NEWS, self._tell(name, turn))

    async def _tell(self, name: str, turn: Turn) -> None:
        await self._status_writer.write(turn, self._status_writer.due(turn, self._problem(name)))

    def _problem(self, name: str) -> str:
        """What could not be written, in words."""
        now_s = self._clock()
        problems = (problem for (owner, _), problem in self._problems.items() if owner == name)
        return min((problem.words for problem in problems if now_s < problem.until_s), default="")

    def forget(self, known: Collection[str]) -> None:
        """Drop what is about throttles that are gone."""
        self._jobs.forget(known)
        self._status_writer.forget(known)
        self._newest = {name: turn for name, turn in self._newest.items() if name in known}
        now_s = self._clock()
        self._rests = {place: rest for place, rest in self._rests.items() if rest.until_s > now_s}
        self._problems = {
            key: problem for key, problem in self._problems.items() if key[0] in known and problem.until_s > now_s
        }

    async def drain(self, timeout_s: float) -> None:
        """Let writes under way finish; what takes longer is cancelled, and what was not begun is left to others."""
        self.take_back()
        await self._jobs.drain(timeout_s)

    def _open(self, writes: Iterable[LeverWrite]) -> list[LeverWrite]:
        """Those whose objects do not rest."""
        now_s = self._clock()
        ready = []
        for write in writes:
            rest = self._rests.get((write.kind, write.key))
            is_resting = rest is not None and now_s < rest.until_s and rest.version in (ANY, version_of(write))
            ready += [] if is_resting else [write]
        return ready

    async def _release(self, name: str, writes: Sequence[LeverWrite]) -> None:
        kind = writes[0].kind
        try:
            await self._write(name, writes, self._releasing)
        finally:
            self._releases[kind] -= 1
            self._begin_releases(kind)

    async def _write_ceiling(
        self, name: str, writes: Sequence[LeverWrite], under_way: set[Place], turn: Turn | None
    ) -> None:
        """The last of a turn's ceilings that are `under_way` to end has the turn told."""
        async with self._ceilings_room:
            await self._write(name, writes, self._writer)
        under_way.discard((writes[0].kind, writes[0].key))
        if turn is not None and not under_way and self._newest.get(name) is turn:
            self._begin_telling(name, turn)

    async def _write(self, name: str, writes: Sequence[LeverWrite], writer: LeverWriter) -> None:
        """The writes of one object."""
        for result in await writer.carry_out(writes):
            self._noted(name, result)

    def _noted(self, name: str, result: WriteResult) -> None:
        write, outcome, now_s = result.write, result.outcome, self._clock()
        self._metrics.wrote(write.kind, outcome)
        self._problems.pop((name, (write.kind, write.key)), None)
        told = {"throttle": name, "object": f"{write.kind} {write.key}", "because": write.because.code}
        if outcome is LeverWriteOutcome.DONE:
            log.info("wrote", **told)
        else:
            log.warning("write failed", outcome=outcome.value, problem=result.message, **told)
        if outcome in _OTHER_SINCE:
            self._rests[write.kind, write.key] = _Rest(version_of(write), now_s + UNSEEN_S)
            return
        if outcome not in _HARMLESS:
            words = f"{write.kind} {write.key}: {result.message}"
            self._problems[name, (write.kind, write.key)] = _Problem(words, now_s + TOLD_S)
        rest_s = max(RESTS_S.get(outcome, 0.0), result.retry_after_s or 0.0)
        if rest_s:
            self._rests[write.kind, write.key] = _Rest(ANY, now_s + rest_s, outcome in _REFUSED)


def _told(write: LeverWrite) -> str:
    return f"{write.how.value} {write.kind} {write.key}: {write.because.sentence}"


def version_of(write: LeverWrite) -> str:
    """The version of the object that was decided on, which the write names as its precondition; empty without one."""
    if isinstance(write.body, Mapping):
        return str(write.body.get("metadata", {}).get("resourceVersion", ""))
    versions = (
        operation.get("value", "") for operation in write.body if operation.get("path") == "/metadata/resourceVersion"
    )
    return str(next(versions, ""))
