"""What may be written together, and to whom again; what a write was, and how it ended. Pure.

An action or a failure as one sentence: for the log of a dry run, and for status. A decision's actions, cut into
steps: what may go out together, and what must wait for what.

Who may be acted on again: nobody before the caches show our last write. After a write the cache still shows the world
before it. Deciding on that would do the same once more, or undo it. So a pool rests until the watch of each resource
that was written has passed the version of our write, and until deleted pods are gone. A write whose outcome is
unknown counts as maybe done: the pool rests for a while.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from balloons.decide.plan import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    MarkBalloon,
    ReleaseBalloon,
    RemoveFailed,
)
from throttler.kube.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    UndecodableError,
    UnreachableError,
)
from throttler.kube.metadata import ObjectKey

FORBIDDEN_REST_S = 30.0
"""Without the right there is no use in asking more than twice a minute."""
UNKNOWN_REST_S = 10.0
"""As long as one attempt may take: a write that was under way has ended by then, one way or the other."""
_TOGETHER = (AnnotateNode, MarkBalloon, ReleaseBalloon, RemoveFailed)
"""Actions on one pod or node each: those of one kind in a row do not depend on each other."""
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


class ActionKind(enum.StrEnum):
    """The kinds of writes: a label of writes_total."""

    APPLY = "apply"
    DELETE = "delete"
    MARK = "mark"
    RELEASE = "release"
    ANNOTATE = "annotate"
    REMOVE = "remove"
    STATUS = "status"
    EVENT = "event"


_KINDS: dict[type[Action], ActionKind] = {
    ApplyObject: ActionKind.APPLY,
    DeleteObject: ActionKind.DELETE,
    MarkBalloon: ActionKind.MARK,
    ReleaseBalloon: ActionKind.RELEASE,
    AnnotateNode: ActionKind.ANNOTATE,
    RemoveFailed: ActionKind.REMOVE,
}


def kind_of(action: Action) -> ActionKind:
    """The kind of an action of a plan."""
    return _KINDS[type(action)]


class PoolWriteOutcome(enum.StrEnum):
    """How a write ended: a label of writes_total."""

    DONE = "done"
    GONE = "gone"
    """The object is not there any more: nothing left to do."""
    CONFLICT = "conflict"
    """Somebody changed the object since it was decided on: decide anew."""
    REFUSED = "refused"
    """The server will not have it: rights, admission, quota, or a rule."""
    UNKNOWN = "unknown"
    """No answer, or none that tells: it may have been done."""
    FENCED = "fenced"
    """Not sent: we do not lead, or not for sure."""


def outcome_of(error: ApiError) -> PoolWriteOutcome:
    """What a failed call means for what was to be done."""
    if isinstance(error, FencedError):
        return PoolWriteOutcome.FENCED
    if isinstance(error, NotFoundError):
        return PoolWriteOutcome.GONE
    if isinstance(error, ConflictError):
        return PoolWriteOutcome.CONFLICT
    if isinstance(error, UnreachableError | ServerError | UndecodableError):
        return PoolWriteOutcome.UNKNOWN
    return PoolWriteOutcome.REFUSED


def least_rest_s(error: ApiError) -> float:
    """How long a pool rests at least after this error."""
    if isinstance(error, ForbiddenError | InvalidError):
        return FORBIDDEN_REST_S
    if error.retry_after_s is not None:
        return error.retry_after_s
    return UNKNOWN_REST_S if outcome_of(error) is PoolWriteOutcome.UNKNOWN else 0.0


def in_words(action: Action) -> str:
    """What the action does, without its reason."""
    match action:
        case ApplyObject():
            return f"apply {action.kind} {action.key} with {action.replicas} replicas"
        case DeleteObject():
            return f"delete {action.kind} {action.key}"
        case MarkBalloon():
            return f"set the deletion cost of balloon {action.key} to {action.cost}"
        case ReleaseBalloon():
            return f"delete balloon {action.key} on {action.node}{f' for {action.taker}' if action.taker else ''}"
        case AnnotateNode():
            return f"annotate node {action.node}"
        case RemoveFailed():
            return f"remove Failed balloon {action.key} of {action.node}"


def failure_in_words(action: Action, error: ApiError) -> str:
    """What could not be done, and the server's words for it (they name the right, the webhook or the quota)."""
    return f"could not {in_words(action)}: {error.message}"


def batches(actions: Sequence[Action]) -> list[list[Action]]:
    """The actions in order; each inner list may be carried out concurrently."""
    found: list[list[Action]] = []
    for kind, group in groupby(actions, key=type):
        together = list(group)
        found += [together] if kind in _TOGETHER else [[action] for action in together]
    return found


@dataclass(slots=True)
class _Pending:
    versions: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)
    since_s: float = 0.0
    rest_until_s: float = 0.0
    failures: int = 0

    def is_late(self, now_s: float) -> bool:
        return bool(self.versions or self.deleted) and now_s - self.since_s >= LATE_S


class Fence:
    """What each pool waits for; `now_s` is monotonic."""

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

    def is_open(self, pool: ObjectKey, version_of: VersionOf, is_there: IsThere, now_s: float) -> bool:
        """Whether the pool may be acted on."""
        pending = self._pending.get(pool)
        if pending is None:
            return True
        for plural in [p for p, wanted in pending.versions.items() if _number(version_of(p)) >= wanted]:
            del pending.versions[plural]
        for uid in [uid for uid, node in pending.deleted.items() if not is_there(node, uid)]:
            del pending.deleted[uid]
        return not pending.versions and not pending.deleted and now_s >= pending.rest_until_s

    def is_resting(self, pool: ObjectKey, now_s: float) -> bool:
        """Whether the pool rests after a failure, as against waiting for the caches."""
        pending = self._pending.get(pool)
        return pending is not None and now_s < pending.rest_until_s

    def give_up(self, now_s: float) -> set[ObjectKey]:
        """Pools that have waited in vain for `LATE_S` to see a write of theirs: they go on with what can be seen."""
        found = {key for key, pending in self._pending.items() if pending.is_late(now_s)}
        for key in found:
            self._pending[key].versions.clear()
            self._pending[key].deleted.clear()
        return found

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


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
