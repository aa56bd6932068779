"""What a write was, and how it ended. Pure."""

import enum

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


FORBIDDEN_REST_S = 30.0
"""Without the right there is no use in asking more than twice a minute."""
UNKNOWN_REST_S = 10.0
"""As long as one attempt may take: a write that was under way has ended by then, one way or the other."""


def least_rest_s(error: ApiError) -> float:
    """How long a pool rests at least after this error."""
    if isinstance(error, ForbiddenError | InvalidError):
        return FORBIDDEN_REST_S
    if error.retry_after_s is not None:
        return error.retry_after_s
    return UNKNOWN_REST_S if outcome_of(error) is PoolWriteOutcome.UNKNOWN else 0.0
