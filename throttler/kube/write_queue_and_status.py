"""How the service writes, for pools and throttles alike: jobs, whom to leave alone, status and Events.

Who may be acted on again: nobody before the caches show our last write. After a write the cache still shows the world
before it. Deciding on that would do the same once more, or undo it. So whoever was written for rests until the watch of
each resource that was written has passed the version of our write, and until deleted pods are gone. A write whose
outcome is unknown counts as maybe done: then there is a rest.

A status is written through /status when it changes. Mere figures may change many times a second while nodes join:
those wait; a new reason or condition goes out at once. A status that the cache does not show yet is not written again
for two minutes, nor for a while after one that failed.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
import structlog

from throttler.kube.errors import ApiError, FencedError, NotFoundError, ServerError, UnreachableError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import Metadata, ObjectKey, VersionMetadata, key_of
from throttler.kube.reasons_and_events import EVENT_NAMESPACE
from throttler.kube.requests import EVENTS, Resource

LATE_S = 120.0
"""A watch that does not show a write by then never will: a dead one has been found out (70 s of silence) and resumed.
Some proxy has lost the event; a pool must not wait for it for ever."""
FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0
"""Rests after failures double from the first to the longest."""
FIRST_REPEAT_S = 10.0
LONGEST_REPEAT_S = 600.0
"""So long after the second time the same may be applied a third time, and at most so long after any other."""
VersionOf = Callable[[str], str]
"""Plural of a resource -> the version up to which its cache is up to date."""
IsThere = Callable[[str, str], bool]
"""Node and uid of a pod -> whether the cache still has it, not leaving."""
FIELD_MANAGER = "kube-balloons"
"""Of everything that we write for pools, and of every status. Levers have one of their own."""
log = structlog.get_logger()


class _Versioned(msgspec.Struct, frozen=True):
    metadata: VersionMetadata = VersionMetadata()


def version_in(answer: bytes) -> str:
    """The resourceVersion of an answered object; empty where the answer is a mere Status."""
    return decode(answer, _Versioned).metadata.resource_version


def number_of(version: str) -> int:
    """A resourceVersion as a number; 0 where it is none."""
    return int(version) if version.isdecimal() else 0


T = TypeVar("T", bound=msgspec.Struct)
Owner = TypeVar("Owner", bound=Hashable)
Sort = TypeVar("Sort", bound=Hashable)


class WriteJobs(Generic[Owner, Sort]):
    """What is being written: for each owner one job of each sort at a time. None waits for another, or fails with it.

    Also what a dry run has told. `what` says in logs what the owners are; `on_crash` is called with a job that ended by
    an error that nobody could foresee.
    """

    def __init__(self, what: str, on_crash: Callable[[Owner, Sort], None]) -> None:
        self._what = what
        self._on_crash = on_crash
        self._tasks: dict[tuple[Owner, Sort], asyncio.Task[None]] = {}
        self._count = Counter[Sort]()
        self._shown: dict[Owner, tuple[str, ...]] = {}

    @property
    def owners(self) -> set[Owner]:
        """Those for whom anything is being written now."""
        return {owner for owner, _ in self._tasks}

    def is_busy(self, owner: Owner, sort: Sort) -> bool:
        """Whether such a job is under way."""
        return (owner, sort) in self._tasks

    def count(self, sort: Sort) -> int:
        """How many such jobs are under way, of all owners."""
        return self._count[sort]

    def begin(self, owner: Owner, sort: Sort, work: Coroutine[Any, Any, None]) -> None:
        """Begin a job of a sort of which none is under way."""
        self._count[sort] += 1
        task = asyncio.create_task(work, name=f"write {self._what} {owner} {sort}")
        self._tasks[owner, sort] = task
        task.add_done_callback(lambda ended: self._ended(owner, sort, ended))

    async def drain(self, timeout_s: float) -> None:
        """Let all jobs finish, and those that they begin; what takes longer is cancelled, and its end waited for."""
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + timeout_s
        while self._tasks:
            _, late = await asyncio.wait(list(self._tasks.values()), timeout=max(0.0, deadline_s - clock()))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            await asyncio.sleep(0)

    def show(self, owner: Owner, words: Iterable[str]) -> None:
        """A dry run tells each plan once, not at every tick."""
        told = tuple(words)
        if self._shown.get(owner, ()) != told:
            self._shown[owner] = told
            log.info("would write", **{self._what: str(owner)}, actions=list(told))

    def forget(self, known: Collection[Owner]) -> None:
        """Drop what is about owners that are gone."""
        self._shown = {owner: words for owner, words in self._shown.items() if owner in known}

    def _ended(self, owner: Owner, sort: Sort, task: asyncio.Task[None]) -> None:
        self._count[sort] -= 1
        if not self._count[sort]:
            # Sorts may be objects that come and go.
            del self._count[sort]
        if self._tasks.get((owner, sort)) is task:
            del self._tasks[owner, sort]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_crash(owner, sort)
            log.error("writing failed", **{self._what: str(owner)}, exc_info=error)


@dataclass(slots=True)
class _Pending:
    versions: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)
    since_s: float = 0.0
    rest_until_s: float = 0.0
    failures: int = 0

    def is_late(self, now_s: float) -> bool:
        return bool(self.versions or self.deleted) and now_s - self.since_s >= LATE_S


class OwnWrites:
    """Our own writes that each pool waits for until the caches show them; `now_s` is monotonic."""

    def __init__(self) -> None:
        self._pending: dict[ObjectKey, _Pending] = {}

    def wrote(self, pool: ObjectKey, plural: str, resource_version: str, now_s: float) -> None:
        """The server answered our write with this version."""
        pending = self._of(pool, now_s)
        if resource_version.isdecimal():
            pending.versions[plural] = max(int(resource_version), pending.versions.get(plural, 0))

    def deleted(self, pool: ObjectKey, node: str, uid: str, now_s: float) -> None:
        """The server has accepted the deletion of this pod."""
        self._of(pool, now_s).deleted[uid] = node

    def failed(self, pool: ObjectKey, least_s: float, now_s: float) -> None:
        """A write failed or its outcome is unknown: rest, longer each time."""
        pending = self._of(pool, now_s)
        rest_s = min(LONGEST_REST_S, FIRST_REST_S * 2**pending.failures)
        pending.failures = min(pending.failures + 1, 10)
        pending.rest_until_s = now_s + max(rest_s, least_s)

    def succeeded(self, pool: ObjectKey) -> None:
        """Everything that was decided has been written: the next failure rests briefly again."""
        if pool in self._pending:
            self._pending[pool].failures = 0

    def may_act(self, pool: ObjectKey, version_of: VersionOf, is_there: IsThere, now_s: float) -> bool:
        """Whether the pool may be acted on."""
        pending = self._pending.get(pool)
        if pending is None:
            return True
        for plural in [p for p, wanted in pending.versions.items() if number_of(version_of(p)) >= wanted]:
            del pending.versions[plural]
        for uid in [uid for uid, node in pending.deleted.items() if not is_there(node, uid)]:
            del pending.deleted[uid]
        return not pending.versions and not pending.deleted and now_s >= pending.rest_until_s

    def is_resting(self, pool: ObjectKey, now_s: float) -> bool:
        """Whether the pool rests after a failure, as against waiting for the caches."""
        pending = self._pending.get(pool)
        return pending is not None and now_s < pending.rest_until_s

    def resting(self, now_s: float) -> frozenset[ObjectKey]:
        """All pools that rest after they failed again: one conflict or time-out is over at the next try."""
        again = (key for key, pending in self._pending.items() if pending.failures > 1)
        return frozenset(key for key in again if self.is_resting(key, now_s))

    def give_up(self, now_s: float) -> set[ObjectKey]:
        """Pools that have waited in vain for `LATE_S` to see a write of theirs: they go on with what can be seen."""
        late = {key for key, pending in self._pending.items() if pending.is_late(now_s)}
        for key in late:
            self._pending[key].versions.clear()
            self._pending[key].deleted.clear()
        return late

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about pools that are gone."""
        self._pending = {key: pending for key, pending in self._pending.items() if key in known}

    def _of(self, pool: ObjectKey, now_s: float) -> _Pending:
        pending = self._pending.setdefault(pool, _Pending())
        pending.since_s = now_s
        return pending


@dataclass(frozen=True, slots=True)
class _Applied:
    manifest: Mapping[str, Any]
    at_s: float
    rest_s: float


class Repeats:
    """How soon the same object may be applied with the same words again; `now_s` is monotonic.

    What was applied and is wanted again did not take: an admission webhook rewrites it, or some other controller. The
    second time is at once, somebody may have undone it by hand; the times after that are ever further apart.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[ObjectKey, str], _Applied] = {}

    def may_apply(self, key: ObjectKey, kind: str, manifest: Mapping[str, Any], now_s: float) -> bool:
        """Whether it may be applied now."""
        last = self._last.get((key, kind))
        return last is None or now_s >= last.at_s + last.rest_s or last.manifest != manifest

    def applied(self, key: ObjectKey, kind: str, manifest: Mapping[str, Any], now_s: float) -> None:
        """The server has taken it."""
        last = self._last.get((key, kind))
        rest_s = 0.0
        if last is not None and last.manifest == manifest:
            rest_s = min(LONGEST_REPEAT_S, max(FIRST_REPEAT_S, 2 * last.rest_s))
        self._last[key, kind] = _Applied(manifest, now_s, rest_s)

    def forget(self, now_s: float) -> None:
        """Drop what was not wanted again for so long that it did take."""
        self._last = {key: last for key, last in self._last.items() if now_s - last.at_s < 2 * LONGEST_REPEAT_S}


Told = Literal["status", "event"]
OnTold = Callable[[Told, ApiError | None], None]
"""Called after each attempt to tell something, with what went wrong, if anything did."""


def _nobody_counts(what: Told, error: ApiError | None) -> None:
    """For whoever keeps no count."""


@dataclass(slots=True)
class _LastStatus:
    """When figures may be written again, as which version which status was written last and when, how long it rests."""

    figures_at_s: float = float("-inf")
    version: int = 0
    status: msgspec.Struct | None = None
    written_at_s: float = float("-inf")
    rest_until_s: float = 0.0


class StatusWriter:
    """Writes status and Events of one kind; what cannot be written is logged, and never stops other writes.

    `figures_period_s` gives the time between two writes that differ in figures only, `rest_s` how long an object's
    status rests after a write that failed.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        clock: Callable[[], float],
        *,
        figures_period_s: Callable[[], float],
        rest_s: Callable[[ApiError], float],
        on_told: OnTold = _nobody_counts,
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._figures_period_s = figures_period_s
        self._rest_s = rest_s
        self._on_told = on_told
        self._last: dict[ObjectKey, _LastStatus] = {}

    def now(self) -> datetime:
        """The date of what is told: by the clock that dates all else on the object."""
        return datetime.fromtimestamp(self._client.now_s(), UTC)

    def standing(self, stored: Metadata, status: T) -> T:
        """Of the stored `status` what is ours: the one that we wrote last, while the object is as that left it.

        An apply takes away nothing that another manager owns. A condition of somebody else's would make each status
        differ from the stored one for ever.
        """
        last = self._last.get(key_of(stored))
        is_ours = last is not None and last.version and number_of(stored.resource_version) == last.version
        return cast(T, last.status) if last is not None and is_ours and last.status is not None else status

    def may_write(self, stored: Metadata, *, is_news: bool) -> bool:
        """Whether another status than the stored one may be written now; `is_news`: more of it than figures differs."""
        last, now_s = self._last.get(key_of(stored)), self._clock()
        if last is None:
            return True
        version = stored.resource_version
        is_shown = not version.isdecimal() or int(version) >= last.version
        # One that is never shown is not waited for: where etcd is restored from a backup, versions go back.
        is_shown |= now_s - last.written_at_s >= LATE_S
        return is_shown and (is_news or now_s >= last.figures_at_s) and now_s >= last.rest_until_s

    def figures_due_s(self, key: ObjectKey) -> float:
        """Since when figures of this object may be written (monotonic seconds): the first for whom was written last."""
        last = self._last.get(key)
        return last.figures_at_s if last is not None else float("-inf")

    async def write(self, stored: Metadata, status: msgspec.Struct) -> bool:
        """Write it; returns whether it was taken."""
        key = key_of(stored)
        last = self._last.setdefault(key, _LastStatus())
        last.figures_at_s = self._clock() + self._figures_period_s()
        try:
            answer = await self._client.apply(
                self._resource,
                status_manifest(self._resource, stored, status),
                key.name,
                key.namespace or None,
                field_manager=FIELD_MANAGER,
                force=True,
                subresource="status",
            )
            version = number_of(version_in(answer))
        except ApiError as error:
            last.rest_until_s = self._clock() + self._rest_s(error)
            self._failed("status", key, error)
            return False
        last.version, last.status, last.written_at_s = version, status, self._clock()
        self._on_told("status", None)
        return True

    async def announce(self, about: Metadata, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Create the Events; returns those that got no answer, or were put off, and are worth another try."""
        late = []
        for event in events:
            try:
                await self._client.create(EVENTS, event, about.namespace or EVENT_NAMESPACE)
            except ApiError as error:
                self._failed("event", key_of(about), error)
                if isinstance(error, UnreachableError | ServerError) or error.retry_after_s is not None:
                    late.append(event)
            else:
                self._on_told("event", None)
        return late

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about objects that are gone."""
        self._last = {key: last for key, last in self._last.items() if key in known}

    def _failed(self, what: Told, key: ObjectKey, error: ApiError) -> None:
        self._on_told(what, error)
        if not isinstance(error, NotFoundError | FencedError):
            log.warning(f"{what} not written", kind=self._resource.kind, object=str(key), problem=error.message)


def status_manifest(resource: Resource, stored: Metadata, status: msgspec.Struct) -> dict[str, Any]:
    """The body for server-side apply on /status; the uid makes sure that it is still the same object."""
    names = {"name": stored.name, "namespace": stored.namespace} if stored.namespace else {"name": stored.name}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**names, "uid": stored.uid},
        "status": msgspec.to_builtins(status),
    }
