"""What each reason means for whoever waits on a pool: settled, on its way, blind, or in need of a person. Pure."""

import enum

from balloons.decide.plan import Reason
from throttler.kube.because import Sentence


class Standing(enum.Enum):
    """The four answers that conditions, Events and metrics distinguish."""

    SETTLED = "as wanted, or as near to it as the rules allow"
    MOVING = "on its way"
    BLIND = "unknown: the view cannot be trusted now"
    STUCK = "needs a person: nothing changes until somebody changes something"


_MOVING = {
    Reason.WARMING,
    Reason.GROWING,
    Reason.FALLBACK,
    Reason.ALLOWANCE,
    Reason.SHRINKING,
    Reason.LEAVING,
    Reason.SHRINK_LIMITED,
    Reason.BURST_RELEASE,
    Reason.RESERVED,
    Reason.POOL_GONE,
}
_BLIND = {Reason.INCOMPLETE_VIEW, Reason.STALE_VIEW, Reason.SHRUNKEN_VIEW}
_STUCK = {
    Reason.INVALID,
    Reason.NOT_SERVED,
    Reason.BOUND,
    Reason.REFUSED,
    Reason.CONFLICT,
    Reason.NO_PRIORITY_CLASS,
    Reason.NO_SHAPE,
    Reason.TOO_SMALL,
    Reason.NODES_REFUSE,
    Reason.SHAPES_ALIKE,
    Reason.IMAGE_NOT_ALLOWED,
    Reason.NO_IMAGE_VOLUMES,
    Reason.NO_BUFFERS,
}
TURNED_AWAY = frozenset({Reason.NOT_SERVED, Reason.BOUND})
"""Pools that are not ours to serve: whoever makes thousands of them costs the others neither series nor Events."""
HOLDS = (
    _BLIND
    | _STUCK
    | {
        Reason.PAUSED,
        Reason.TOO_FEW_NODES,
        Reason.MAX_SIZE,
        Reason.ALLOWANCE,
        Reason.SHRINK_LIMITED,
        Reason.RESERVED,
    }
)
"""Reasons for which less was done than the pool asks for: the labels of holds_total."""


def standing(reason: Sentence) -> Standing:
    """The standing of a pool that was decided for this reason."""
    if reason in _STUCK:
        return Standing.STUCK
    if reason in _BLIND:
        return Standing.BLIND
    return Standing.MOVING if reason in _MOVING else Standing.SETTLED
