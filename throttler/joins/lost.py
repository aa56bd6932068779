"""Machines that never arrive: they leave the window by their kill timer, the autoscaler's or ours.

Both autoscalers give up on a machine that has not registered for 15 min. If one does not, its machine
must not hold a place for ever.
"""

from throttler.joins.join_world import JoinRules

MARGIN_S = 60.0
"""A machine that goes so shortly before its timer was given up: the autoscaler's clock began a little earlier."""


def past_timer(asked_s: float, rules: JoinRules, now_s: float) -> bool:
    """Whether nobody waits any more for a machine that was asked for then."""
    return now_s - asked_s > rules.kill_timer_s


def vanished_late(asked_s: float, rules: JoinRules, now_s: float) -> bool:
    """Whether a machine that was asked for then and is gone now was given up, not merely cancelled."""
    return now_s - asked_s > rules.kill_timer_s - MARGIN_S
