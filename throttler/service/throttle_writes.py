"""Writes what was decided for throttles: each in a task of its own, its levers first, then its status and Events.

Writes on one object are made in order; those on different objects at the same time, so that one that fails stops no
other. An object is not written again before the caches show our last write, nor for a while after one that failed.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from throttler.kube.metadata import ObjectKey
from throttler.levers.lever import LeverWrite
from throttler.service.drain import drain
from throttler.service.lever_writer import LeverWriter, WriteOutcome, WriteResult
from throttler.service.throttle_metrics import ThrottleMetrics
from throttler.service.throttle_report import ThrottleReport
from throttler.service.tick_view import Turn

AT_ONCE = 16
"""Objects that are written at the same time."""
UNSEEN_S = 20.0
"""The caches show a write within a second as a rule; one that they never show is tried again after this."""
RESTS_S = {
    WriteOutcome.FORBIDDEN: 30.0,
    WriteOutcome.INVALID: 30.0,
    WriteOutcome.WEBHOOK: 10.0,
    WriteOutcome.BUSY: 5.0,
    WriteOutcome.UNKNOWN: 5.0,
}
"""How long an object rests after a write that ended so; the others are simply decided anew."""
_HARMLESS = (WriteOutcome.DONE, WriteOutcome.CONFLICT, WriteOutcome.GONE, WriteOutcome.FENCED)

_Place = tuple[str, ObjectKey]
log = structlog.get_logger()

ANY = "*"
"""The version of a rest after a failure: the object is left alone, whatever has become of it."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """Until when an object is left alone; `version` is the one decided on, empty for an object that was not there."""

    version: str
    until_s: float


class ThrottleWrites:
    """The writing half; `start` returns at once."""

    def __init__(
        self,
        writer: LeverWriter,
        report: ThrottleReport,
        metrics: ThrottleMetrics,
        clock: Callable[[], float],
        *,
        is_dry_run: bool,
    ) -> None:
        self._writer = writer
        self._report = report
        self._metrics = metrics
        self._clock = clock
        self._is_dry_run = is_dry_run
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._rests: dict[_Place, _Rest] = {}
        self._problems: dict[str, str] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def start(self, name: str, wanted: Iterable[LeverWrite], turn: Turn | None = None) -> bool:
        """Begin to write what is wanted, then what the turn has to tell; False while earlier writes are under way."""
        if name in self._tasks:
            return False
        writes = self._open(wanted)
        if self._is_dry_run:
            self._show(name, writes)
        elif writes or (turn is not None and self._report.due(turn, self._problems.get(name, "")) is not None):
            task = asyncio.create_task(self._write(name, writes, turn), name=f"write throttle {name}")
            self._tasks[name] = task
            task.add_done_callback(lambda ended: self._ended(name, ended))
        return True

    def forget(self, known: Collection[str]) -> None:
        """Drop what is about throttles that are gone."""
        self._problems = {name: text for name, text in self._problems.items() if name in known}
        self._shown = {name: words for name, words in self._shown.items() if name in known}
        now_s = self._clock()
        self._rests = {place: rest for place, rest in self._rests.items() if rest.until_s > now_s}

    async def drain(self, timeout_s: float) -> None:
        """Let writes under way finish; what takes longer is cancelled."""
        await drain(self._tasks.values(), timeout_s)

    def _open(self, writes: Iterable[LeverWrite]) -> list[LeverWrite]:
        """Those whose objects do not rest."""
        now_s = self._clock()
        found = []
        for write in writes:
            rest = self._rests.get((write.kind, write.key))
            is_resting = rest is not None and now_s < rest.until_s and rest.version in (ANY, version_of(write))
            found += [] if is_resting else [write]
        return found

    async def _write(self, name: str, writes: Sequence[LeverWrite], turn: Turn | None) -> None:
        rows: dict[_Place, list[LeverWrite]] = {}
        for write in writes:
            rows.setdefault((write.kind, write.key), []).append(write)
        found = await asyncio.gather(*(self._write_row(name, row) for row in rows.values()))
        problems = [text for text in found if text]
        self._problems[name] = problems[0] if problems else ""
        if turn is not None:
            await self._report.report(turn, self._report.due(turn, self._problems[name]))

    async def _write_row(self, name: str, row: Sequence[LeverWrite]) -> str:
        """The writes of one object; returns what went wrong, in words, empty if nothing did."""
        async with self._room:
            results = await self._writer.carry_out(row)
        for result in results:
            self._noted(name, result)
        last = results[-1]
        return "" if last.outcome in _HARMLESS else f"{last.write.kind} {last.write.key}: {last.message}"

    def _noted(self, name: str, result: WriteResult) -> None:
        write, outcome, now_s = result.write, result.outcome, self._clock()
        self._metrics.wrote(write.kind, outcome)
        told = {"throttle": name, "object": f"{write.kind} {write.key}", "because": write.because.code}
        if outcome is WriteOutcome.DONE:
            log.info("wrote", **told)
            self._rests[write.kind, write.key] = _Rest(version_of(write), now_s + UNSEEN_S)
            return
        log.warning("write failed", outcome=outcome.value, problem=result.message, **told)
        rest_s = max(RESTS_S.get(outcome, 0.0), result.retry_after_s or 0.0)
        if rest_s:
            self._rests[write.kind, write.key] = _Rest(ANY, now_s + rest_s)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("writing failed", throttle=name, exc_info=error)

    def _show(self, name: str, writes: Sequence[LeverWrite]) -> None:
        """A dry run tells each plan once, not at every tick."""
        words = tuple(f"{write.how.value} {write.kind} {write.key}: {write.because.sentence}" for write in writes)
        if self._shown.get(name, ()) != words:
            self._shown[name] = words
            log.info("would write", throttle=name, actions=list(words))


def version_of(write: LeverWrite) -> str:
    """The version of the object that was decided on, which the write names as its precondition; empty without one."""
    if isinstance(write.body, Mapping):
        return str(write.body.get("metadata", {}).get("resourceVersion", ""))
    found = (each.get("value", "") for each in write.body if each.get("path") == "/metadata/resourceVersion")
    return str(next(found, ""))
