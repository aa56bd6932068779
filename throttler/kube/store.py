"""What a reflector knows about one resource, how far that can be trusted, and how it comes in. No I/O, no clock.

Objects come in one by one; a bad one never stops the rest.
"""

import math
from collections.abc import Callable, Mapping, Set
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from throttler.kube.decoding import EventDecoder, EventKind, Key, ListPage, WatchEvent, Wire, key_of
from throttler.kube.errors import cut

T = TypeVar("T")

Listener = Callable[[Key, T | None, T | None], None]
"""Told of each object that changed: key, what was known before, what is now (None: not there). Must not raise."""


class Store(Generic[T]):
    """The objects of one resource by (namespace, name), kept up to date by a reflector.

    Read it between two awaits: the mapping is live. `version` grows with every change of what can be
    read here, `is_complete` included. A `listener` is told of every change in order.
    """

    def __init__(self, listener: Listener[T] | None = None) -> None:
        self._listener = listener
        self._items: dict[Key, T] = {}
        self._skipped: dict[Key, str] = {}
        self._contact_at: float | None = None
        self.version = 0
        self.resource_version = ""
        self.went_back = 0
        self.is_complete = False

    @property
    def items(self) -> Mapping[Key, T]:
        """The live objects; an object that cannot be read is not here but in `skipped`."""
        return MappingProxyType(self._items)

    @property
    def skipped(self) -> Mapping[Key, str]:
        """Objects that exist and cannot be read, with the reason: present, and unknown."""
        return MappingProxyType(self._skipped)

    def age_s(self, now: float) -> float:
        """Seconds since the server last said anything about this resource; infinite before the first list.

        Up to a minute is normal on a quiet resource: bookmarks come once a minute.
        """
        return math.inf if self._contact_at is None else max(0.0, now - self._contact_at)

    def touch(self, now: float) -> None:
        """The server has just said something."""
        self._contact_at = now

    def begin_from(self, resource_version: str) -> bool:
        """A list is of this version; returns whether that is older than what was known before.

        An older version is taken all the same (a restored etcd stays older for ever) and counted in
        `went_back`, so that consumers may wait a round before they trust it.
        """
        is_older = _is_older(resource_version, self.resource_version)
        self.went_back += is_older
        self.resource_version = resource_version
        self.version += 1
        return is_older

    def keep_only(self, keys: Set[Key]) -> None:
        """The objects that a whole list has shown, or events since it began: all others are gone."""
        for key in [key for key in (*self._items, *self._skipped) if key not in keys]:
            self.drop(key)

    def is_stale(self, resource_version: str) -> bool:
        """Whether an event of this version is older than what the stream has told already."""
        return _is_older(resource_version, self.resource_version)

    def advance(self, resource_version: str) -> None:
        """Everything up to this version is known: where the next watch goes on."""
        self.resource_version = resource_version or self.resource_version

    def put(self, key: Key, item: T) -> None:
        """The object as it is now."""
        self._skipped.pop(key, None)
        before = self._items.get(key)
        self._items[key] = item
        self.version += 1
        self._tell(key, before, item)

    def skip(self, key: Key, why: str) -> None:
        """The object exists and cannot be read: an old value would be worse than none."""
        before = self._items.pop(key, None)
        self._skipped[key] = why
        self.version += 1
        self._tell(key, before, None)

    def drop(self, key: Key) -> None:
        """The object is gone."""
        before = self._items.pop(key, None)
        self._skipped.pop(key, None)
        self.version += 1
        self._tell(key, before, None)

    def set_complete(self, is_complete: bool) -> None:
        """Whether decisions may be built on this view."""
        if self.is_complete != is_complete:
            self.is_complete = is_complete
            self.version += 1

    def _tell(self, key: Key, before: T | None, after: T | None) -> None:
        if self._listener is not None and (before is not None or after is not None):
            self._listener(key, before, after)


def _is_older(left: str, right: str) -> bool:
    """Whether both are numbers, as every built-in resource and CRD has them, and `left` is the smaller."""
    return left.isdecimal() and right.isdecimal() and int(left) < int(right)


W = TypeVar("W", bound=Wire)


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

    `shape` may raise whatever it likes: the object is then counted and known as skipped. `progress_in_a_row` counts
    bookmarks that bring the version forward with no event of ours: a server that sends them speaks once a minute,
    however quiet the resource is.
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
        self.progress_in_a_row = 0

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
            self.progress_in_a_row += 1
        else:
            self.progress_in_a_row = 0
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
