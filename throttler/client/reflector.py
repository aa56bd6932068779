"""Keeps a Store of one resource up to date: list, watch, resume, relist; freezes it when it goes deaf."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from throttler.client.backoff import Backoff
from throttler.client.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    ServerError,
    SilentWatchError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from throttler.client.intake import CacheEvent, Intake
from throttler.client.kube_client import KubeClient
from throttler.client.pages import Wire
from throttler.client.requests import EVERYTHING, Selection
from throttler.client.resource import Resource
from throttler.client.store import Listener, Store
from throttler.client.transport import HttpResponse
from throttler.client.watch_deadlines import SILENCE_S, WatchDeadlines
from throttler.client.watch_frames import LineFrames

RELIST_S = (600.0, 900.0)
"""A list every 10-15 min, drawn anew each time, mends events that were lost (reliability.md row 19)."""
POSTPONED_S = (60.0, 120.0)
"""When such a list fails, the watch goes on and the list is tried again this much later."""
LIFETIME_S = (240, 480)
"""Asked as timeoutSeconds, drawn anew each time, so that watches do not all end together."""
SHORT_LIFETIME_S = (45, 60)
"""Asked until a server has shown that it sends bookmarks without events. It does so only where etcd notifies
of its progress (kubeadm: every 5 s; etcd's default: 10 min); elsewhere a quiet watch says nothing at all
[seen on 1.36], and only its own end, sooner than the 70 s of silence, tells it from a dead one."""
SHORT_WATCH_S = 1.0
"""A watch that ends sooner without a word is a failure, or the loop would run hot."""
TOO_NEW = "Too large resource version"
"""The server's words when it does not know our version (yet): its etcd may have been restored."""

CacheObserver = Callable[[str, CacheEvent], None]
"""Called with the resource's plural and what happened."""

W = TypeVar("W", bound=Wire)
T = TypeVar("T")


def ignore_cache_event(plural: str, event: CacheEvent) -> None:
    """For callers who do not count."""


class Reflector(Generic[W, T]):
    """A watch cache: decodes each object into `wire`, keeps `shape(wire)` of it in `store`.

    `run` never returns and survives whatever a server does; cancel it to end it. The store is complete from
    the first full list on, except while relisting after 410, and from any failure of the watch until it has
    been resumed and the missed events are in. A periodic relist leaves it complete.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        wire: type[W],
        shape: Callable[[W], T],
        selection: Selection = EVERYTHING,
        *,
        on_change: Callable[[], None] = lambda: None,
        observer: CacheObserver = ignore_cache_event,
        listener: Listener[T] | None = None,
        random: Random | None = None,
    ) -> None:
        self.store: Store[T] = Store(listener)
        self.last_error: ApiError | None = None
        self._client = client
        self._resource = resource
        self._wire = wire
        self._selection = selection
        self._on_change = on_change
        self._observer = observer
        self._random = random or Random()
        self._backoff = Backoff(self._random)
        self._intake = Intake(self.store, wire, shape, self._tell)
        self._must_list = True
        self._relist_at = 0.0
        self._seen_version = 0
        self._changed = asyncio.Event()

    @property
    def age_s(self) -> float:
        """Seconds since the server last spoke of this resource (a minute is normal); infinite before that."""
        return self.store.age_s(_now())

    async def wait_complete(self) -> None:
        """Returns when the store is complete."""
        while not self.store.is_complete:
            await self._changed.wait()

    async def wait_changed(self, version: int) -> int:
        """Returns the store's version as soon as it is not `version`."""
        while self.store.version == version:
            await self._changed.wait()
        return self.store.version

    def distrust(self) -> None:
        """What is held may be wrong: the next `run` begins with a list. End the one under way, and run again."""
        self._must_list = True
        self.store.set_complete(False)

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        while True:
            try:
                if self._must_list or _now() >= self._relist_at:
                    await self._list()
                await self._watch()
            except ApiError as error:
                self._lost(error)
                await asyncio.sleep(self._backoff.next_s(error.retry_after_s))

    async def _list(self) -> None:
        self._intake.begin_list()
        version = ""
        async for page in self._client.pages(self._resource, self._wire, self._selection):
            self._intake.add_page(page)
            version = page.resource_version
            await asyncio.sleep(0)
        self._intake.end_list(version)
        self._must_list = False
        self._relist_at = _now() + self._random.uniform(*RELIST_S)
        self._heard()

    async def _watch(self) -> None:
        opened = self._client.watch(
            self._resource,
            self._selection,
            resource_version=self.store.resource_version,
            lifetime_s=self._random.randint(*(LIFETIME_S if self._intake.has_progress else SHORT_LIFETIME_S)),
        )
        async with opened as response:
            self._tell(CacheEvent.WATCHING)
            self._heard()
            started_at = _now()
            has_spoken = await self._read(response)
        is_cut_short = _now() - started_at < SHORT_WATCH_S and _now() < self._relist_at
        if is_cut_short and not has_spoken:
            raise UnreachableError("the watch ended at once")
        self._backoff.reset()

    async def _read(self, response: HttpResponse) -> bool:
        """Takes in events until the stream ends or a relist is due; returns whether there was any."""
        frames, has_spoken = LineFrames(), False
        due = WatchDeadlines(_now(), relist_at=self._relist_at, is_catching_up=not self.store.is_complete)
        while not due.is_relist_due(_now()):
            self._check(due)
            chunk = await _chunk_until(response, due.next_at)
            if chunk == b"":
                self._heard()
                break
            if lines := frames.feed(chunk or b""):
                has_spoken = True
                due.heard(_now())
                self._take(lines)
                await asyncio.sleep(0)
        return has_spoken

    def _check(self, due: WatchDeadlines) -> None:
        now = _now()
        if due.is_silent(now):
            raise SilentWatchError(f"no word about {self._resource.plural} for {SILENCE_S:.0f} s")
        if due.has_caught_up(now):
            self.store.set_complete(True)
            self._heard()

    def _take(self, lines: list[bytes]) -> None:
        self._backoff.reset()
        try:
            for line in lines:
                self._intake.add_line(line)
        finally:
            self._heard()

    def _heard(self) -> None:
        """The server spoke: note when, and wake whoever waits if something changed."""
        self.last_error = None
        self.store.touch(_now())
        self._notify()

    def _lost(self, error: ApiError) -> None:
        """The view is not kept up to date now: say so, and decide how to go on."""
        self.last_error = error
        self._must_list |= needs_list(error)
        if _now() >= self._relist_at:
            self._relist_at = _now() + self._random.uniform(*POSTPONED_S)
        self.store.set_complete(False)
        self._intake.has_progress &= not isinstance(error, SilentWatchError)
        self._tell(_event_of(error))
        self._notify()

    def _notify(self) -> None:
        if self.store.version != self._seen_version:
            self._seen_version = self.store.version
            self._changed.set()
            self._changed = asyncio.Event()
            self._on_change()

    def _tell(self, event: CacheEvent) -> None:
        self._observer(self._resource.plural, event)


def needs_list(error: ApiError) -> bool:
    """Whether the version we hold is of no more use, as against a server that is only away or unwilling."""
    if isinstance(error, UnreachableError | TooManyRequestsError | UnauthorizedError | ForbiddenError):
        return False
    return not isinstance(error, ServerError) or TOO_NEW in error.message


def _event_of(error: ApiError) -> CacheEvent:
    if isinstance(error, GoneError):
        return CacheEvent.GONE
    return CacheEvent.SILENT if isinstance(error, SilentWatchError) else CacheEvent.BROKEN


async def _chunk_until(response: HttpResponse, when: float) -> bytes | None:
    """The next bytes, empty at the end of the stream, None when `when` came first."""
    try:
        async with asyncio.timeout_at(when):
            return await response.read_chunk()
    except TimeoutError:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
