"""What comes from the server goes into the store here, object by object; a bad one never stops the rest."""

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from throttler.client.errors import cut
from throttler.client.pages import Key, Page, Wire, key_of
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
    """Fills a store with `shape(wire)` of each object.

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
        self.has_progress = False
        self.begin_list()

    def begin_list(self) -> None:
        """Forget the pages of a list that was not finished."""
        self._items: dict[Key, T] = {}
        self._skipped: dict[Key, str] = {}

    def add_page(self, page: Page[W]) -> None:
        """One page of the list; nothing is visible in the store yet."""
        for bad in page.skipped:
            self._skip_in_list(bad.key, bad.why)
        for wire in page.items:
            try:
                self._items[key_of(wire)] = self._shape(wire)
            except Exception as error:  # noqa: BLE001  one object must not stop the others (I-20)
                self._skip_in_list(key_of(wire), _why(error))

    def end_list(self, resource_version: str) -> None:
        """The list is whole: it replaces what the store had."""
        if self._store.replace(self._items, self._skipped, resource_version):
            self._tell(CacheEvent.WENT_BACK)
        self._tell(CacheEvent.LISTED)
        self.begin_list()

    def add_line(self, line: bytes) -> None:
        """One line of the watch; raises what `EventDecoder.decode` raises."""
        event = self._decoder.decode(line)
        if self._store.is_stale(event.resource_version):
            self._tell(CacheEvent.STALE_EVENT)
            return
        if event.kind is EventKind.BOOKMARK and event.resource_version != self._store.resource_version:
            self.has_progress = True
        self._add_event(event)
        self._store.advance(event.resource_version)

    def _add_event(self, event: WatchEvent[W]) -> None:
        if event.kind is EventKind.DELETED:
            self._store.drop(event.key)
        elif event.item is not None:
            self._put(event.key, event.item)
        elif event.kind is not EventKind.BOOKMARK:
            self._skip(event.key, event.why)

    def _put(self, key: Key, wire: W) -> None:
        try:
            self._store.put(key, self._shape(wire))
        except Exception as error:  # noqa: BLE001  one object must not stop the others (I-20)
            self._skip(key, _why(error))

    def _skip(self, key: Key, why: str) -> None:
        self._store.skip(key, why)
        self._tell(CacheEvent.SKIPPED)

    def _skip_in_list(self, key: Key, why: str) -> None:
        self._skipped[key] = why
        self._tell(CacheEvent.SKIPPED)


def _why(error: Exception) -> str:
    return cut(f"{type(error).__name__}: {error}")
