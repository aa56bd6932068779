"""A decision's actions, cut into steps: what may go out together, and what must wait for what. Pure."""

from collections.abc import Sequence
from itertools import groupby

from balloons.decide.plan import Action, AnnotateNode, MarkBalloon, ReleaseBalloon, RemoveFailed

_TOGETHER = (AnnotateNode, MarkBalloon, ReleaseBalloon, RemoveFailed)
"""Actions on one pod or node each: those of one kind in a row do not depend on each other."""


def batches(actions: Sequence[Action]) -> list[list[Action]]:
    """The actions in order; each inner list may be carried out concurrently."""
    found: list[list[Action]] = []
    for kind, group in groupby(actions, key=type):
        together = list(group)
        found += [together] if kind in _TOGETHER else [[action] for action in together]
    return found
