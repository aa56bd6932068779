"""The window of this moment: the first part of the law that applies decides."""

from throttler.law import cruise, knee, trouble
from throttler.law.sight import Course, Sight, course, with_memory
from throttler.law.throttle_reasons import ThrottleReason, because
from throttler.law.verdict import Phase

LEAST_START = 4.0
"""A cold start tries at least so many joins: fewer show nothing."""

PROMPT_START = 0.5
"""Prompt joins begin with this share of what was learned: a doubling costs them two scrapes, while a whole window that
goes in at once meets the servers cold (real: 63 joins, 100-220 errors, the first ten usable after 14-19 s, not 3)."""

PARTS = (
    trouble.blind,
    trouble.braked,
    trouble.silent,
    trouble.alarmed,
    cruise.unknown,
    cruise.slow_start,
)
"""In this order; what none of them claims is congestion avoidance."""


def steered(sight: Sight) -> Course:
    """Where the window goes, and why."""
    if sight.joins.waiting + sight.joins.in_flight == 0:
        return _idle(sight)
    sight = _awake(sight)
    for part in PARTS:
        claimed = part(sight)
        if claimed is not None:
            return claimed
        if part is trouble.blind:
            sight = cruise.known_knee(with_memory(sight, blind_since_s=None))
    return cruise.avoidance(sight)


def _idle(sight: Sight) -> Course:
    window = knee.start_window(sight.memory.knee, sight.now_s, sight.settings)
    sight = with_memory(sight, is_idle=True, blind_since_s=None, silent=frozenset())
    pods = sight.joins.hopeless_pods
    why = because(ThrottleReason.NO_HOPE, pods=pods) if pods else because(ThrottleReason.IDLE)
    return course(sight, window, Phase.IDLE, why)


def _awake(sight: Sight) -> Sight:
    """A scale-up begins: cold in slow start, warm near the knee that was learned.

    While nothing is known of the servers it has not begun: being blind makes the window small, and that is no lesson.
    """
    if not sight.memory.is_idle or sight.health.is_blind:
        return sight
    window = _start_window(sight)
    by_load = sight.warm_window
    has_room = by_load is not None and window < by_load
    return with_memory(
        sight,
        window=window,
        is_slow_start=has_room or sight.is_prompt or sight.memory.knee.window is None,
        is_idle=False,
        doubled_s=sight.now_s,
        moved_s=sight.now_s,
    )


def _start_window(sight: Sight) -> float:
    """What was learned; cold, no more than what the requests of joins may cost allows."""
    window = knee.start_window(sight.memory.knee, sight.now_s, sight.settings)
    if sight.memory.knee.window is not None:
        if sight.is_prompt:
            return max(sight.settings.window_initial, PROMPT_START * window)
        window = max(window, _by_cost(sight))
        bearable = sight.committed_window
        return window if bearable is None else max(min(window, sight.settings.window_initial), min(window, bearable))
    guess = _guess(sight)
    if guess is None:
        return window
    return max(min(window, max(LEAST_START, guess)), sight.settings.guess_trust * guess)


def _by_cost(sight: Sight) -> float:
    """What the idle CPU bears at the remembered cost of a join; 0 where a knee was met, which is the limit then.

    A cost that was measured on few joins at a time is not believed for ever so many.
    """
    by_load, known = sight.warm_window, sight.memory.knee
    if by_load is None or known.window is None or known.is_proven:
        return 0.0
    return min(by_load, sight.settings.feed_forward_limit * known.window)


def _guess(sight: Sight) -> float | None:
    """Joins in flight by what their requests may cost; None while that is unknown."""
    pace_per_s = sight.prior_pace_per_s
    return None if pace_per_s is None else pace_per_s * sight.settings.join_guess_s
