"""An action or a failure as one sentence: for the log of a dry run, and for status. Pure."""

from balloons.decide.plan import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    MarkBalloon,
    ReleaseBalloon,
    RemoveFailed,
)
from throttler.kube.errors import ApiError


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
