"""The ordinary law: slow start, then congestion avoidance."""

import math

from throttler.law import avoid, knee, trouble
from throttler.law import slow_start as ramps
from throttler.law.sight import Course, Sight, course, judged, with_memory
from throttler.law.throttle_reasons import Because, ThrottleReason, because
from throttler.law.verdict import Phase

FAR_BELOW_KNEE = 0.7
"""Below this share of the knee the window grows twice as fast: it was right before (study)."""
NEAR = (0.5, 1.5)
"""Shares of the equilibrium between which the window counts as right, for the knee."""

BEYOND_CREST = 1.25
"""Of waves the window may be so many times the highest crest."""

NEARLY = 0.9
"""Share of the estimate by utilisation at which slow start has done its part."""


def unknown(sight: Sight) -> Course | None:
    """No request that joins use has ended lately: nothing is known that could allow growth."""
    if sight.high_index is not None:
        return None
    phase = Phase.SLOW_START if sight.memory.is_slow_start else Phase.AVOID
    why = because(ThrottleReason.UNKNOWN_LOAD) if sight.joins.joining else _beginning(sight)
    return course(judged(sight), sight.window, phase, why)


def _beginning(sight: Sight) -> Because:
    is_cold = sight.memory.knee.window is None
    return because(ThrottleReason.STARTING if is_cold else ThrottleReason.REMEMBERED, window=sight.window)


def slow_start(sight: Sight) -> Course | None:
    """Double while the servers are calm; None once they are warm, or in avoidance."""
    low, high = sight.low_index, sight.high_index
    if not sight.memory.is_slow_start or high is None:
        return None
    if (low or 0.0) >= sight.settings.calm_index * sight.settings.equilibrium or _is_filled(sight):
        return None
    if not sight.joins.joining and not sight.memory.join_time.now_s:
        return course(judged(sight), sight.window, Phase.SLOW_START, _beginning(sight))
    if not sight.is_used:
        return course(judged(sight), sight.window, Phase.SLOW_START, _unused(sight))
    if sight.joins.is_controller_bound or not sight.is_new:
        return course(sight, sight.window, Phase.SLOW_START, _warming(sight, high))
    return _ramped(sight, high)


def _is_filled(sight: Sight) -> bool:
    """Whether the servers are used as far as slow start may go, or will be with this window."""
    if sight.is_prompt:
        return False
    by_load = sight.warm_window
    is_reached = by_load is not None and sight.window >= NEARLY * by_load
    return is_reached or (sight.health.utilisation or 0.0) >= sight.settings.feed_forward_share


def _ramped(sight: Sight, high: float) -> Course:
    ramp = _ramp(sight, high)
    doubled = ramps.doubled(ramp, sight.settings)
    fed = ramps.fed_forward(ramp, sight.settings)
    window = max(doubled, fed)
    if window <= sight.window:
        return course(judged(sight), sight.window, Phase.SLOW_START, _warming(sight, high))
    figures = {"joining": sight.peak, "index": high, "window": window}
    if fed > doubled:
        why = because(ThrottleReason.UTILISATION, load=sight.memory.load.per_join or 0.0, window=window)
    else:
        why = because(ThrottleReason.DOUBLING, **figures)
    return course(judged(with_memory(sight, doubled_s=sight.now_s)), window, Phase.SLOW_START, why)


def _ramp(sight: Sight, high: float) -> ramps.Ramp:
    since_s = sight.now_s if sight.memory.doubled_s is None else sight.memory.doubled_s
    return ramps.Ramp(
        window=sight.window,
        joining=sight.peak,
        index=high,
        since_doubling_s=sight.now_s - since_s,
        scrape_s=sight.scrape_s,
        join_s=sight.join_s,
        by_load=sight.warm_window,
        full=_most(sight),
    )


def _most(sight: Sight) -> float | None:
    """How far doubling may go. A doubled wave comes at once: it is to fit where slow start aims."""
    if sight.is_prompt:
        return None
    return sight.warm_window if sight.has_waves else sight.full_window


def _warming(sight: Sight, high: float) -> Because:
    target = sight.settings.calm_index * sight.settings.equilibrium
    return because(
        ThrottleReason.WARMING_UP, index=high, target=target, joining=sight.joins.joining, window=sight.window
    )


def _unused(sight: Sight) -> Because:
    joins = sight.joins
    if not joins.coming:
        return because(ThrottleReason.NO_DEMAND, window=sight.window)
    return because(ThrottleReason.NOT_FILLED, joining=joins.joining, window=sight.window, coming=joins.coming)


def avoidance(sight: Sight) -> Course:
    """The gradient law, with growth only under demand."""
    low, high = sight.low_index, sight.high_index
    sight = with_memory(sight, is_slow_start=False)
    target = sight.settings.equilibrium
    if low is not None and low > target:
        return trouble.delayed(sight, low)
    sight = with_memory(sight, cuts=None)
    if high is None or high >= target:
        index = target if high is None else high
        reason = ThrottleReason.AT_EQUILIBRIUM if index <= NEAR[1] * target else ThrottleReason.HIGH_ONCE
        why = because(reason, index=index, target=target, window=sight.window)
        return course(judged(sight), sight.window, Phase.AVOID, why)
    return _grown(sight, high)


def _grown(sight: Sight, high: float) -> Course:
    if sight.is_crowded:
        return course(judged(sight), sight.window, Phase.AVOID, because(ThrottleReason.CROWDED, window=sight.window))
    if not sight.is_used:
        return course(judged(sight), sight.window, Phase.AVOID, _unused(sight))
    if sight.joins.is_controller_bound:
        return course(judged(sight), sight.window, Phase.AVOID, because(ThrottleReason.CONTROLLER_MANAGER))
    window = avoid.grown(sight.window, high, _room(sight), _boost(sight) * sight.steps, sight.settings)
    if sight.has_waves:
        # What was ordered for the last step has not come yet: no more is proven than the crest of a wave.
        window = max(sight.window, min(window, BEYOND_CREST * sight.peak))
    elif sight.committed_window is not None:
        window = max(sight.window, min(window, sight.committed_window))
    figures = {"index": high, "target": sight.settings.equilibrium, "window": window}
    return course(judged(sight), window, Phase.AVOID, because(ThrottleReason.PROBING_UP, **figures))


def _boost(sight: Sight) -> float:
    """Quick far below the knee, slow beyond it."""
    known = sight.memory.knee
    if sight.window < FAR_BELOW_KNEE * (known.window or 0.0):
        return avoid.FAR_BELOW_KNEE_BOOST
    is_beyond = known.is_proven and sight.window >= (known.window or math.inf)
    return sight.settings.beyond_knee if is_beyond else 1.0


def known_knee(sight: Sight) -> Sight:
    """Learn from a used window whose index is right; below the equilibrium it is at least harmless."""
    low, high = sight.low_index, sight.high_index
    if not sight.is_new or not sight.is_used or high is None or sight.is_crowded:
        return sight
    target = sight.settings.equilibrium
    if high >= NEAR[0] * target and (low or high) <= NEAR[1] * target:
        return with_memory(
            sight, knee=knee.near_equilibrium(sight.memory.knee, sight.steady_window, sight.now_s, sight.settings)
        )
    if high < NEAR[0] * target and not sight.memory.knee.is_proven:
        return with_memory(sight, knee=knee.borne(sight.memory.knee, sight.joins.joining, sight.now_s))
    return sight


def _room(sight: Sight) -> float | None:
    """Share by which the window may grow until the busiest server is full; None while unknown, or of no use."""
    if sight.is_prompt or sight.health.seats >= sight.settings.seats_taken:
        return None
    full = sight.full_window
    return None if full is None else full / (sight.settings.pacing * sight.window) - 1.0
