"""What all levers have in common: what they are told, what they ask to be written, and what they report."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from throttler.kube.because import Because
from throttler.kube.metadata import ObjectKey

FIELD_MANAGER = "kube-balloons-throttle"
"""Who owns the fields that a throttle writes, in `metadata.managedFields`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a lever is to enforce now, in nodes of its own selector."""

    existing: int
    """Registered nodes."""
    booting: int
    """Asked for and not registered: an existing promise that no ceiling may go below."""
    allowance: int
    """How many more may be asked for now."""
    spare: int = 0
    """How many beyond those a ceiling leaves open for demand that is not seen yet."""
    admit: int
    """How many held ones may be let in now."""
    waiting: int
    """Wanted and not asked for; while it is 0 nothing needs pacing and ceilings are handed back."""
    may_move: bool
    """False while the view is incomplete or stale: nothing is raised or lowered."""
    is_atomic: bool = False
    """Whether the allowance is the whole size of a request that takes all of its nodes or none."""
    is_stopping: bool = False
    """True on shutdown, pause or deletion of the throttle: give everything back."""


class LeverState(enum.Enum):
    """How far a lever can be trusted."""

    HANDED_BACK = "HandedBack"
    """Not in force: nothing waits, the user's value stands."""
    PENDING = "Pending"
    """Written, and not yet seen to be taken up."""
    CONFIRMED = "Confirmed"
    """Seen to be in force."""
    UNCONFIRMED = "Unconfirmed"
    """Written, and not taken up in time: growth is not paced here."""
    CONTESTED = "Contested"
    """Somebody else writes the same field: their value is the new original, and we write at most every 30 s."""
    LOST = "Lost"
    """The object that was there is gone."""
    REFUSED = "Refused"
    """Cannot be used here: kind not served, version too old, or nothing to derive a ceiling from."""


class How(enum.Enum):
    """The kind of call a write is."""

    APPLY = "apply"
    """Server-side apply under the throttle's field manager; `body` is the whole intent."""
    MERGE = "merge"
    """JSON merge patch; `body` carries metadata.resourceVersion as its precondition."""
    JSON = "json"
    """JSON patch; `body` is the list of operations, and one of them replaces /metadata/resourceVersion by itself, which
    makes it the precondition. For one element of a list whose others must stay byte for byte."""
    DELETE = "delete"
    """Delete an object that we made; `body` carries metadata.uid and resourceVersion as preconditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverWrite:
    """One call. `api_version`, `kind` and `key` name the object."""

    api_version: str
    kind: str
    key: ObjectKey
    how: How
    body: Mapping[str, Any] | Sequence[Any]
    because: Because
    is_forced: bool = False
    """For APPLY: take the field over from another manager."""
    field_manager: str = FIELD_MANAGER
    """Another name only where a field is given back to the manager who had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverReport:
    """What users see of one lever on one object."""

    name: str
    """Kind/name, such as `CapacityQuota/kube-balloons` or `NodePool/gpu`."""
    state: LeverState
    because: Because
    ceiling: str = ""
    original: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverOutcome:
    """Writes in the order in which they must be made; each is useful and harmless without the next."""

    report: LeverReport
    writes: tuple[LeverWrite, ...] = ()
