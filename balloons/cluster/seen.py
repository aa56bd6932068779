"""What was read of a cluster, kind by kind, or why a kind could not be read."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from balloons.cluster.kinds import Kind

MOST_OBJECTS = 250_000
"""Of one kind: above what the largest known clusters hold of pods; more are left out of a list and counted."""


class Unread(enum.Enum):
    """Why there is no list; the value is how a sentence says it."""

    FORBIDDEN = "not allowed"
    NOT_SERVED = "not served"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind's objects as they were read, or why not.

    `objects` are JSON texts, cut down by `kept`, in the server's order. `left_out` counts those beyond the reader's
    bound, `unreadable` those that were no JSON objects. `message` is the server's, where there is no list.
    """

    objects: tuple[bytes, ...] = ()
    unread: Unread | None = None
    message: str = ""
    left_out: int = 0
    unreadable: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether this is the whole list."""
        return self.unread is None and not self.left_out and not self.unreadable


NOT_ASKED = Listed(unread=Unread.NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster at `taken_at` (aware, UTC). `lists` has one entry for each kind that was asked for, by `Kind.name`.

    `version` is the API server's (`v1.36.3`), empty where it did not say; `context` is how the user calls the cluster.
    """

    taken_at: datetime
    lists: Mapping[str, Listed] = field(default_factory=lambda: MappingProxyType({}))
    version: str = ""
    context: str = ""

    def listed(self, kind: Kind) -> Listed:
        """The kind's list; one that was never asked for says so."""
        return self.lists.get(kind.name, NOT_ASKED)

    def plain(self, kind: Kind) -> tuple[dict[str, Any], ...]:
        """The kind's objects as plain data; none where the list could not be read. Decoded on every call."""
        return tuple(map(_object, self.listed(kind).objects))

    def only(self, wanted: Iterable[Kind]) -> "SeenCluster":
        """With these kinds alone: what a command sees that would have read no others."""
        lists = {kind.name: self.listed(kind) for kind in wanted}
        return SeenCluster(taken_at=self.taken_at, lists=lists, version=self.version, context=self.context)

    @property
    def not_seen(self) -> dict[str, Listed]:
        """The kinds that were asked for and could not be read, by name; one that is not served is not missing."""
        usual = (None, Unread.NOT_SERVED, Unread.NOT_ASKED)
        return {name: listed for name, listed in self.lists.items() if listed.unread not in usual}


def _object(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text)
    return found
