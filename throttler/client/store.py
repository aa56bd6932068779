"""What a reflector knows about one resource, and how far that can be trusted. No I/O, no clock."""

import math
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Generic, TypeVar

from throttler.client.pages import Key

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
