"""What comes from the server goes into the store here, object by object; a bad one never stops the rest."""

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from throttler.client.errors import cut
from throttler.client.pages import Key, ListPage, Wire, key_of
from throttler.client.store import Store
from throttler.client.watch_frames import EventDecoder, EventKind, WatchEvent

W = TypeVar("W", bound=Wire)
T = TypeVar("T")


class CacheEvent(StrEnum):
    """What happens to a watch cache: the labels of its metrics."""

    LISTED = "listed"
    WATCHING = "watching"
    BROKEN = "broken"
    SILENT = "silent"
    GONE = "gone"
    SKIPPED = "skipped"
    STALE_EVENT = "stale-event"
    WENT_BACK = "went-back"


class Intake(Generic[W, T]):
    """Fills a store with `shape(wire)` of each object, from lists and from events, also at the same time.

    An object of a list is in the store as soon as it has been read, unless an event has told of it since the list
    began: the event is the newer one. What neither has told of by the end of the list is gone.

    `shape` may raise whatever it likes: the object is then counted and known as skipped. `has_progress`
    becomes True when a bookmark brings the version forward with no event of ours: this server then speaks
    once a minute, however quiet the resource is.
    """

    def __init__(
        self,
        store: Store[T],
        wire: type[W],
        shape: Callable[[W], T],
        tell: Callable[[CacheEvent], None],
    ) -> None:
        self._store = store
        self._shape = shape
        self._tell = tell
        self._decoder = EventDecoder(wire)
        self._told: set[Key] | None = None
        self.has_progress = False

    # --- lists ---

    def begin_list(self) -> None:
        """A list begins; one that was not finished is forgotten."""
        self._told = set()

    def begin_events(self, resource_version: str) -> None:
        """The list under way is of this version: events are taken in from there on."""
        if self._store.begin_from(resource_version):
            self._tell(CacheEvent.WENT_BACK)

    def add_page(self, page: ListPage[W]) -> None:
        """One page of the list under way."""
        for bad in page.skipped:
            if self._is_news(bad.key):
                self._skip(bad.key, bad.why)
        for wire in page.items:
            if self._is_news(key := key_of(wire)):
                self._put(key, wire, is_listed=True)

    def add_listed_line(self, line: bytes) -> str:
        """One line of a streamed list; returns the version that the list is of with its last line, else nothing.

        Raises what `EventDecoder.decode` raises.
        """
        event = self._decoder.decode(line)
        if event.kind is not EventKind.BOOKMARK:
            self._add_event(event, is_listed=True)
        return event.resource_version if event.ends_list else ""

    def end_list(self) -> None:
        """The list is whole: objects that it did not show, and no event since it began, are gone."""
        self._store.keep_only(self._told or set())
        self._told = None
        self._tell(CacheEvent.LISTED)

    # --- events ---

    def add_line(self, line: bytes) -> None:
        """One line of the watch; raises what `EventDecoder.decode` raises."""
        event = self._decoder.decode(line)
        if self._store.is_stale(event.resource_version):
            self._tell(CacheEvent.STALE_EVENT)
            return
        if event.kind is not EventKind.BOOKMARK:
            self._add_event(event)
        elif event.resource_version != self._store.resource_version:
            self.has_progress = True
        self._store.advance(event.resource_version)

    def _is_news(self, key: Key) -> bool:
        """Whether a list's object has not been told of yet; it has been from now on."""
        told = self._told if self._told is not None else set()
        is_news = key not in told
        told.add(key)
        return is_news

    def _add_event(self, event: WatchEvent[W], *, is_listed: bool = False) -> None:
        if self._told is not None:
            self._told.add(event.key)
        if event.kind is EventKind.DELETED:
            self._store.drop(event.key)
        elif event.item is not None:
            self._put(event.key, event.item, is_listed=is_listed)
        else:
            self._skip(event.key, event.why)

    def _put(self, key: Key, wire: W, *, is_listed: bool) -> None:
        try:
            item = self._shape(wire)
        except Exception as error:  # noqa: BLE001  one object must not stop the others (I-20)
            self._skip(key, cut(f"{type(error).__name__}: {error}"))
        else:
            # Most of what a list shows is known: nobody need be told of it.
            if not is_listed or self._store.items.get(key) != item:
                self._store.put(key, item)

    def _skip(self, key: Key, why: str) -> None:
        self._store.skip(key, why)
        self._tell(CacheEvent.SKIPPED)
