"""How many held machines are let in now: up to the window, spread over time, and the overdue ones in any case."""

import math
from dataclasses import dataclass

from throttler.joins.joins import Joins
from throttler.law.flow import Flow
from throttler.law.settings import LawSettings
from throttler.law.stock import MARGIN_S, OUT_OF_TURN_S

OVERDUE_WINDOW = 1.25
"""Machines that near their time limit may fill the window so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A token bucket: one token lets one join in. It fills at the pace, up to a burst."""

    per_s: float
    burst: float

    def filled(self, tokens: float | None, elapsed_s: float) -> float:
        """The tokens after `elapsed_s` more; None is a bucket that nothing was taken from yet."""
        return self.burst if tokens is None else min(self.burst, tokens + self.per_s * max(0.0, elapsed_s))


def bucket(window: float, join_s: float, gain: float, per_min: float | None, settings: LawSettings) -> Bucket:
    """The pace at which a full window renews itself, as far as `gain` and a bound allow.

    A small window may fill by half at once: a cold start must see something.
    """
    per_s = settings.pacing * gain * window / join_s
    if per_min is not None:
        per_s = min(per_s, per_min / 60.0)
    burst = max(settings.burst_s * per_s, gain * min(window, settings.window_initial) / 2.0, 1.0)
    return Bucket(per_s=per_s, burst=burst if per_min is None else max(1.0, min(burst, per_min / 12.0)))


def overdue(joins: Joins, flow: Flow, boot_s: float, elapsed_s: float, now_s: float, settings: LawSettings) -> int:
    """Held machines that want to go in whatever delay says, because their time limit is near.

    Who nears it follows from when how many arrived; those are spread over what is left of their time. Should the
    oldest be older than that history says, one goes in at each step.
    """
    limit_s = min(settings.max_wait_s - OUT_OF_TURN_S, settings.kill_timer_s - boot_s) - MARGIN_S
    from_s = max(0.0, limit_s - settings.deadline_s)
    if joins.oldest_held_s < from_s or not joins.held:
        return 0
    near = max(1, flow.held_since(now_s - from_s))
    share = min(1.0, max(elapsed_s, 1.0) / settings.deadline_s)
    late = flow.held_since(now_s - limit_s)
    return min(joins.held, max(late, math.ceil(near * share)))


def bearable(window: float, joins: Joins) -> int:
    """Overdue machines that may go in, beyond the window too, but not all that are late together.

    A machine that is lost to its timer is asked for again; in an overload no join ends at all.
    """
    return max(0, math.floor(OVERDUE_WINDOW * window) - joins.joining)


def admitted(tokens: float, window: float, joins: Joins) -> int:
    """Held machines to let in: what the window has room for, and the tokens pay."""
    return max(0, min(joins.held, math.floor(min(window - joins.joining, tokens))))
