"""Keeps a Store of one resource up to date: list, watch, resume; says when it no longer is."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Generic, TypeVar

from throttler.kube.decoding import LineFrames, ListPage, Wire
from throttler.kube.errors import (
    ApiError,
    AttemptTimeoutError,
    ForbiddenError,
    GoneError,
    InvalidError,
    ServerError,
    SilentWatchError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from throttler.kube.kube_client import KubeClient
from throttler.kube.requests import EVERYTHING, Resource, Selection
from throttler.kube.store import CacheEvent, Intake, Listener, Store
from throttler.kube.transport import HttpResponse

SHORTEST_BACKOFF_S = 0.8
LONGEST_BACKOFF_S = 30.0
"""0.8 to 30 s are the bounds of client-go's reflector (tools/cache, backoffManager)."""


class Backoff:
    """Waits drawn evenly from [0.8 s, a bound that doubles from 1.6 s to 30 s]: no herd after an outage."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def next_s(self, at_least_s: float | None = None) -> float:
        """The next wait; a server's Retry-After (`at_least_s`) is a minimum."""
        self._failures = min(self._failures + 1, 10)
        bound_s = min(LONGEST_BACKOFF_S, SHORTEST_BACKOFF_S * 2**self._failures)
        return max(self._random.uniform(SHORTEST_BACKOFF_S, bound_s), at_least_s or 0.0)

    def reset(self) -> None:
        """Start small again: something worked."""
        self._failures = 0


SILENCE_S = 70.0
"""Servers send a bookmark about once a minute; kopf's limit after years of deaf watches (1.44)."""
QUIET_S = 1.0
"""After a broken watch was resumed: no event for so long means that the missed ones are in."""
CATCH_UP_S = 5.0
"""The longest wait for that quiet, where events never stop."""


class WatchDeadlines:
    """What the reader of one watch waits for besides the next event."""

    def __init__(self, now: float, *, is_catching_up: bool) -> None:
        self._caught_up_by = now + CATCH_UP_S if is_catching_up else math.inf
        self.heard(now)

    def heard(self, now: float) -> None:
        """Whole events arrived; bytes that complete none do not count."""
        self._silent_at = now + SILENCE_S
        self._quiet_at = now + QUIET_S

    @property
    def next_at(self) -> float:
        """The first moment at which one of the questions below changes its answer."""
        return min(self._silent_at, self._caught_up_at)

    def is_silent(self, now: float) -> bool:
        """Whether the watch must be given up as dead."""
        return now >= self._silent_at

    def has_caught_up(self, now: float) -> bool:
        """True once: when the events missed while the watch was broken have been taken in."""
        if now < self._caught_up_at:
            return False
        self._caught_up_by = math.inf
        return True

    @property
    def _caught_up_at(self) -> float:
        return math.inf if math.isinf(self._caught_up_by) else min(self._caught_up_by, self._quiet_at)


LIFETIME_S = (240, 480)
"""Asked as timeoutSeconds, drawn anew each time, so that watches do not all end together."""
SHORT_LIFETIME_S = (45, 60)
"""Asked until a server has shown that it sends bookmarks without events. It does so only where etcd notifies
of its progress (kubeadm: every 5 s; etcd's default: 10 min); elsewhere a quiet watch says nothing at all
[seen on 1.36], and only its own end, sooner than the 70 s of silence, tells it from a dead one."""
ENOUGH_PROGRESS = 3
"""Bookmarks in a row that brought the version forward without an event of ours. Any consistent list of the resource, by
anybody, makes the server ask etcd how far it is: one or two of them prove nothing [seen on 1.36]."""
DOUBT_S = 3600.0
"""After a watch that said nothing for 70 s the short lifetimes stay for so long."""
SHORT_WATCH_S = 1.0
"""A watch that ends sooner without a word is a failure, or the loop would run hot."""
LIST_LIFETIME_S = 600
"""Asked for a streamed list, which ends long before."""
GAP_S = 5.0
"""See Reflector: what may be missing in a view that stays complete after a 410, in seconds of the server's news. As
much as a stream that is never quiet may hide while it catches up, see WatchDeadlines."""
HURRY_S = 60.0
"""Between two lists that are begun without a wait after a 410."""
TOO_NEW = "Too large resource version"
"""The server's words when it does not know our version (yet): its etcd may have been restored."""

CacheObserver = Callable[[str, CacheEvent], None]
"""Called with the watch's name and what happened."""

W = TypeVar("W", bound=Wire)
T = TypeVar("T")


def ignore_cache_event(name: str, event: CacheEvent) -> None:
    """For callers who do not count."""


class Reflector(Generic[W, T]):
    """A watch cache: decodes each object into `wire`, keeps `shape(wire)` of it in `store`.

    `run` never returns and survives whatever a server does; cancel it to end it. It lists once, and again only when the
    server says that our version is of no more use (410), as client-go does: a watch that goes on loses nothing. One
    that broke goes on where the server's own version is no older than ours, which one small request tells.

    The store is complete when it shows every object and every change up to the last word of the server (`age_s`). It
    is not before the first list has ended, nor from any failure of the watch until it has been resumed and the missed
    events are in. After a 410 it is not until all has been listed anew, with one exception: where the server spoke no
    more than `GAP_S` before, the view stays complete while the list is read in pages beneath the new watch. It then
    shows everything up to the last word and every event since the list began; of what happened in the gap between, each
    object is put right by its page or its next event, and those that were deleted in it are gone with the last page.
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
        name: str = "",
    ) -> None:
        self.name = name or resource.plural
        """What messages and observers call it: the resource, unless it is but one of several watches of that."""
        self.store: Store[T] = Store(listener)
        self._client = client
        self._resource = resource
        self._wire = wire
        self._selection = selection
        self._on_change = on_change
        self._observer = observer
        self._random = random or Random()
        self._backoff = Backoff(self._random)
        self._intake = Intake(self.store, wire, shape, self._tell)
        self._watch_error: ApiError | None = None
        self._list_error: ApiError | None = None
        self._must_list = True
        self._paging: asyncio.Task[None] | None = None
        self._is_following = False
        self._can_stream = True
        self._may_hurry_at = 0.0
        self._doubts_until = 0.0
        self._seen_version = 0
        self._changed = asyncio.Event()

    @property
    def last_error(self) -> ApiError | None:
        """What the server says against the watch or the list, until it no longer does."""
        return self._watch_error or self._list_error

    @property
    def in_words(self) -> str:
        """The resource, and what the server says against it."""
        error = self.last_error
        return f"{self.name} ({error.message})" if error is not None else self.name

    @property
    def age_s(self) -> float:
        """Seconds since the server last spoke of this resource (a minute is normal); infinite before that."""
        return self.store.age_s(_now())

    @property
    def is_listing(self) -> bool:
        """Whether a list is owed or under way; what the server told before it began may not all be seen."""
        return self._must_list or self._paging is not None

    async def wait_complete(self) -> None:
        """Returns when the store is complete."""
        while not self.store.is_complete:
            await self.wait_changed(self.store.version)

    async def wait_changed(self, version: int) -> int:
        """Returns the store's version as soon as it is not `version`."""
        while self.store.version == version:
            await self._changed.wait()
        return self.store.version

    async def run(self) -> None:
        """Lists and watches until cancelled. It may be run again: what was under way is owed then."""
        try:
            while True:
                try:
                    if self._must_list:
                        await self._list()
                    await self._watch()
                except ApiError as error:
                    is_hurried = self._lost(error)
                    wait_s = self._backoff.next_s(error.retry_after_s)
                    await asyncio.sleep(0.0 if is_hurried else wait_s)
        finally:
            self._must_list |= self._paging is not None
            self._is_following = False
            self.store.set_complete(False)
            self._stop_paging()

    # --- the list ---

    async def _list(self) -> None:
        """Streamed where the server offers it: one answer from its cache. In pages where it does not, and where a view
        that stays complete must go on hearing what happens."""
        self._stop_paging()
        self._intake.begin_list()
        if self._can_stream and not self.store.is_complete:
            try:
                await self._list_streamed()
            except InvalidError:
                self._can_stream = False
            else:
                return
        await self._list_in_pages()

    async def _list_streamed(self) -> None:
        opened = self._client.streamed_list(self._resource, self._selection, lifetime_s=LIST_LIFETIME_S)
        async with opened as response:
            version = await self._read_streamed(response)
        self._intake.begin_events(version)
        self._is_following, self._must_list = True, False
        self._end_list()

    async def _read_streamed(self, response: HttpResponse) -> str:
        """Takes in the list; returns its version."""
        frames, silent_at = LineFrames(), _now() + SILENCE_S
        while chunk := await _chunk_until(response, silent_at):
            for line in frames.feed(chunk):
                silent_at = _now() + SILENCE_S
                if version := self._intake.add_listed_line(line):
                    return version
            await asyncio.sleep(0)
        # The server ends the stream of whoever has more news than it keeps for one watch while the list is sent: 1,000
        # events, soon reached where 150,000 pods are listed. And one that does not know streamed lists never ends one.
        self._can_stream = False
        if chunk is None:
            raise SilentWatchError(f"no word about {self.name} for {SILENCE_S:.0f} s")
        raise UnreachableError(f"the list of {self.name} ended before its end")

    async def _list_in_pages(self) -> None:
        """Reads the first page, which says from which version to watch; the others are read beneath the watch."""
        pages = self._client.pages(self._resource, self._wire, self._selection)
        try:
            async with asyncio.timeout(GAP_S if self.store.is_complete else None):
                page = await anext(pages)
        except TimeoutError as error:
            # Nothing is heard before it: a view that is to stay complete cannot wait for longer.
            raise AttemptTimeoutError(f"no page of {self.name} in {GAP_S:.0f} s") from error
        self._intake.begin_events(page.resource_version)
        self._intake.add_page(page)
        self._is_following, self._must_list = True, False
        if page.continue_token:
            self._paging = asyncio.create_task(self._read_pages(pages), name=f"list {self.name}")
        else:
            self._end_list()

    async def _read_pages(self, pages: AsyncIterator[ListPage[W]]) -> None:
        """Takes in all pages; begins again, with growing waits, when one fails. The watch goes on all the while."""
        backoff = Backoff(self._random)
        while True:
            try:
                async for page in pages:
                    self._intake.add_page(page)
                    self._notify()
                    await asyncio.sleep(0)
            except ApiError as error:
                self._list_error = error
                self.store.set_complete(False)
                self._tell(CacheEvent.BROKEN)
                self._notify()
                await asyncio.sleep(backoff.next_s(error.retry_after_s))
                self._intake.begin_list()
                pages = self._client.pages(self._resource, self._wire, self._selection)
            else:
                self._paging = None
                self._end_list()
                return

    def _end_list(self) -> None:
        self._intake.end_list()
        self._list_error = None
        self.store.set_complete(self._is_following)
        self._heard()

    def _stop_paging(self) -> None:
        if self._paging is not None:
            self._paging.cancel()
            self._paging = None

    # --- the watch ---

    async def _watch(self) -> None:
        opened = self._client.watch(
            self._resource,
            self._selection,
            resource_version=self.store.resource_version,
            lifetime_s=self._random.randint(*(LIFETIME_S if self._speaks_by_itself else SHORT_LIFETIME_S)),
        )
        async with opened as response:
            if not self._is_following:
                await self._check_version()
            self._tell(CacheEvent.WATCHING)
            self._heard()
            started_at = _now()
            progress = self._intake.progress_in_a_row
            has_spoken = await self._read(response)
        if progress == self._intake.progress_in_a_row:
            self._intake.progress_in_a_row = 0
        if _now() - started_at < SHORT_WATCH_S and not has_spoken:
            raise UnreachableError("the watch ended at once")
        self._backoff.reset()

    async def _check_version(self) -> None:
        """Raises GoneError where the server is at an older version than we: its etcd was restored from a backup.

        It accepts a watch from the future all the same, and says nothing of what happens until it is there again
        (kubernetes/kubernetes#107457). For an hour or more the view would count as complete.
        """
        version = await self._client.newest_version(self._resource, self._selection)
        if self.store.is_stale(version):
            raise GoneError(f"the server went back from version {self.store.resource_version} to {version}")

    @property
    def _speaks_by_itself(self) -> bool:
        """Whether the server sends bookmarks however quiet the resource is; if not, a watch must end soon to say so."""
        return self._intake.progress_in_a_row >= ENOUGH_PROGRESS and _now() >= self._doubts_until

    async def _read(self, response: HttpResponse) -> bool:
        """Takes in events until the stream ends; returns whether there was any."""
        frames, has_spoken = LineFrames(), False
        due = WatchDeadlines(_now(), is_catching_up=not self._is_following)
        while True:
            self._check(due)
            chunk = await _chunk_until(response, due.next_at)
            if chunk == b"":
                self._heard()
                return has_spoken
            if lines := frames.feed(chunk or b""):
                has_spoken = True
                due.heard(_now())
                for line in lines:
                    self._intake.add_line(line)
                self._heard()
                self._backoff.reset()
                await asyncio.sleep(0)

    def _check(self, due: WatchDeadlines) -> None:
        now = _now()
        if self._paging is not None and self._paging.done():
            self._paging.result()
        if due.is_silent(now):
            raise SilentWatchError(f"no word about {self.name} for {SILENCE_S:.0f} s")
        if due.has_caught_up(now):
            self._is_following = True
            self.store.set_complete(not self.is_listing)
            self._heard()

    def _heard(self) -> None:
        """The server spoke: note when, and wake whoever waits if something changed."""
        self._watch_error = None
        self.store.touch(_now())
        self._notify()

    def _lost(self, error: ApiError) -> bool:
        """The view is not kept up to date now: say so, unless it is put right at once, which is what this returns."""
        is_gap = isinstance(error, GoneError) and not self.is_listing and self.store.is_complete
        is_hurried = is_gap and self.age_s <= GAP_S and _now() >= self._may_hurry_at
        self._watch_error = error
        if needs_list(error):
            self._must_list = True
        if is_hurried:
            self._may_hurry_at = _now() + HURRY_S
        else:
            self._is_following = False
            self.store.set_complete(False)
        if isinstance(error, SilentWatchError):
            self._intake.progress_in_a_row = 0
            self._doubts_until = _now() + DOUBT_S
        self._tell(_event_of(error))
        self._notify()
        return is_hurried

    def _notify(self) -> None:
        if self.store.version != self._seen_version:
            self._seen_version = self.store.version
            self._changed.set()
            self._changed = asyncio.Event()
            self._on_change()

    def _tell(self, event: CacheEvent) -> None:
        self._observer(self.name, event)


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
