"""What the writes of a decision are: of which kind, how they ended, in words, and which may go out together. Pure."""

import enum
from collections.abc import Mapping, Sequence
from itertools import groupby

from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    LeaveNode,
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

FORBIDDEN_REST_S = 30.0
"""Without the right there is no use in asking more than twice a minute."""
UNKNOWN_REST_S = 10.0
"""As long as one attempt may take: a write that was under way has ended by then, one way or the other."""
_TOGETHER = (AnnotateNode, LeaveNode, MarkBalloon, ReleaseBalloon, RemoveFailed)
"""Actions on one pod or node each: those of one kind in a row do not depend on each other."""


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


KINDS: Mapping[type[Action], ActionKind] = {
    ApplyObject: ActionKind.APPLY,
    DeleteObject: ActionKind.DELETE,
    MarkBalloon: ActionKind.MARK,
    ReleaseBalloon: ActionKind.RELEASE,
    LeaveNode: ActionKind.RELEASE,
    AnnotateNode: ActionKind.ANNOTATE,
    RemoveFailed: ActionKind.REMOVE,
}
"""The kind of each action of a decision."""


class PoolWriteOutcome(enum.StrEnum):
    """How a write ended: a label of writes_total.

    Coarser than a lever's: whatever the cause, the whole pool rests, and users read the server's words in its status.
    """

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
        case LeaveNode():
            return f"delete balloon {action.key} on {action.node}, which is about to go"
        case AnnotateNode():
            return f"annotate node {action.node}"
        case RemoveFailed():
            return f"remove Failed balloon {action.key} of {action.node}"


def failure_in_words(action: Action, error: ApiError) -> str:
    """What could not be done, and the server's words for it (they name the right, the webhook or the quota)."""
    return f"could not {in_words(action)}: {error.message}"


def batches(actions: Sequence[Action]) -> list[list[Action]]:
    """The actions in order; each inner list may be carried out concurrently."""
    ordered: list[list[Action]] = []
    for kind, group in groupby(actions, key=type):
        together = list(group)
        ordered += [together] if kind in _TOGETHER else [[action] for action in together]
    return ordered
