"""The window of this moment: the first part of the law that applies decides.

Before the ordinary law go blindness, errors, ill health and alarms. The ordinary law is slow start, then congestion
avoidance.
"""

import math
from dataclasses import replace

from throttler.kube.because import Because, because
from throttler.law import error_brake, window_steps
from throttler.law.law_input import Course, Sight, course, judged, with_memory
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, error_share
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_steps import Cuts
from throttler.signals.reading import Reading

FAR_BELOW_KNEE = 0.7
"""Below this share of the knee the window grows twice as fast: it was right before (study)."""
NEAR = (0.5, 1.5)
"""Shares of the equilibrium between which the window counts as right, for the knee."""
BEYOND_CREST = 1.25
"""Of waves the window may be so many times the highest crest."""
NEARLY = 0.9
"""Share of the estimate by utilisation at which slow start has done its part."""
LEAST_START = 4.0
"""A cold start tries at least so many joins: fewer show nothing."""
PROMPT_START = 0.5
"""Prompt joins behind a gate begin with this share of what was learned: a doubling costs them two scrapes, while a
whole window that goes in at once meets the servers cold (real: 63 joins, 100-220 errors, the first ten usable after
14-19 s, not 3). Waves begin with the knee itself: it is the crest of one, and boots spread the first one too."""


def blind(sight: Sight) -> Course | None:
    """No server gives a usable reading: hold, then fall to half; joins that take longer cut as ever."""
    if not sight.health.is_blind:
        return None
    known_s = sight.memory.blind_since_s
    since_s = sight.now_s if known_s is None else known_s
    age_s = sight.now_s - since_s
    window = sight.window if known_s is not None else min(sight.window, max(1.0, sight.joins.joining))
    window = drifted(window, age_s, sight.elapsed_s, sight.settings)
    reason = ThrottleReason.SIGNALS_STALE if window < sight.window else ThrottleReason.SIGNALS_LOST
    sight = with_memory(sight, blind_since_s=since_s)
    return course(sight, window, Phase.STALE, because(reason, age_s=age_s, window=window))


def braked(sight: Sight) -> Course | None:
    """Errors in a new reading cut the window by up to half; then nothing is let in for a moment."""
    culprit = error_brake.culprit(sight.memory.foreign.ours(sight.health, sight.now_s), sight.settings)
    left_s = sight.memory.brake.left_s(sight.now_s, sight.latest_join_s, sight.settings)
    if culprit is not None and not _had_joins(sight, culprit):
        return _braked_idle(sight, culprit, left_s)
    if culprit is not None and sight.may_brake:
        joining, per_s = sight.loading, _errors_per_s(sight)
        if _is_calm(sight) and sight.memory.brake.has_not_helped(joining, per_s):
            foreign = replace(sight.memory.foreign, unmoved_per_s=per_s)
            sight = with_memory(sight, foreign=foreign, brake=replace(sight.memory.brake, pulls=0))
            figures = {"server": culprit.server, "share": error_share(culprit), "window": sight.window}
            return course(judged(sight), sight.window, Phase.AVOID, because(ThrottleReason.ERRORS_UNMOVED, **figures))
        window = sight.window
        if not sight.is_crowded:
            window = max(
                error_brake.cut(window, joining, error_share(culprit), sight.settings), sight.settings.window_min
            )
        why = because(ThrottleReason.ERRORS, server=culprit.server, share=error_share(culprit), window=window)
        again = sight.memory.brake.pulled(sight.now_s, joining, per_s, sight.settings)
        pulled = with_memory(sight, brake=again, is_slow_start=False)
        return course(judged(pulled), window, Phase.BRAKE, why)
    if culprit is not None and left_s <= 0 and sight.window <= sight.settings.window_min:
        # Waiting for the errors to end could last for ever.
        figures = {"server": culprit.server, "share": error_share(culprit), "window": sight.window}
        return course(judged(sight), sight.window, Phase.AVOID, because(ThrottleReason.FLOOR_PACE, **figures))
    if culprit is not None:
        return course(judged(sight), sight.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=left_s))
    if left_s <= 0:
        return None
    return course(sight, sight.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=left_s))


def _errors_per_s(sight: Sight) -> float:
    """Of the worst server, by all fresh readings: the scrapes of several servers come one after the other."""
    return max((each.errors / each.span_s for each in sight.health.fresh if each.span_s > 0), default=0.0)


def _is_calm(sight: Sight) -> bool:
    """Whether nothing but errors tells of an overload: one that feeds itself goes on when joins have become few."""
    high = sight.high_index
    return high is not None and high < sight.settings.calm_index * sight.settings.equilibrium


def _had_joins(sight: Sight, reading: Reading) -> bool:
    """Whether anything was joining while the reading was made; unknown counts as yes."""
    mean = sight.memory.flow.mean_joining(reading.ended_s - reading.span_s, reading.ended_s)
    return bool(sight.joins.joining if mean is None else mean)


def _braked_idle(sight: Sight, culprit: Reading, left_s: float) -> Course | None:
    """Errors that nothing of ours can have caused: wait a moment, once, and keep the window."""
    if sight.memory.brake.may_pull(sight.now_s, sight.latest_join_s, sight.settings):
        sight = with_memory(sight, brake=error_brake.Brake(pulled_s=sight.now_s))
        left_s = sight.memory.brake.left_s(sight.now_s, sight.latest_join_s, sight.settings)
    if left_s <= 0:
        return None
    figures = {"server": culprit.server, "share": error_share(culprit), "left_s": left_s}
    return course(judged(sight), sight.window, Phase.BRAKE, because(ThrottleReason.IDLE_ERRORS, **figures))


def silent(sight: Sight) -> Course | None:
    """A lost server's clients move to the others: its share of the window goes once, and growth waits."""
    lost = sight.health.silent
    if lost is None:
        return None
    share = 1.0
    if lost.server not in sight.memory.silent:
        share = max(0.5, (sight.health.servers - 1) / sight.health.servers)
    low = sight.low_index or 0.0
    sight, window = cut(sight, low)
    window *= share
    why = because(ThrottleReason.SERVER_SILENT, server=lost.server, problem=lost.problem)
    sight = with_memory(sight, silent=sight.memory.silent | {lost.server})
    return course(judged(sight), window, Phase.AVOID, why)


def alarmed(sight: Sight) -> Course | None:
    """An extra signal over its threshold counts as the worst congestion."""
    alarm = sight.health.alarm
    if alarm is None:
        return None
    sight, window = cut(sight, far_above(sight.settings))
    figures = {"alarm": alarm.name, "value": alarm.value, "threshold": alarm.threshold}
    why = because(ThrottleReason.ALARM, **figures, window=window)
    return course(judged(with_memory(sight, is_slow_start=False)), window, Phase.AVOID, why)


def far_above(settings: LawSettings) -> float:
    """An index that nobody can take for noise."""
    return 100.0 * settings.equilibrium


def delayed(sight: Sight, low: float) -> Course:
    """Delay above the equilibrium cuts the window while anything joins, as long as that helps."""
    low_s, known = sight.health.low_s or 0.0, sight.memory.cuts
    is_due = sight.joins.joining > 0 and _is_cut_due(sight)
    if is_due and known is not None and not known.is_useless(low_s, sight.now_s):
        known = None if known.useless_since_s is not None or known.has_moved(low_s) else known
        is_least = sight.window <= sight.settings.window_min
        known = known and known.judged(sight.joins.joining, low_s, sight.now_s, is_least=is_least)
    if known is not None and known.is_useless(low_s, sight.now_s):
        window = max(sight.window, known.window)
        return course(judged(with_memory(sight, cuts=known)), window, Phase.AVOID, _not_ours(known, sight.health))
    window = sight.window
    if is_due:
        known = known or Cuts(count=0, joining=sight.joins.joining, delay_s=low_s, window=sight.window)
        sight, window = cut(with_memory(sight, cuts=replace(known, count=known.count + 1)), low)
    figures = {"server": sight.health.worst_server, "index": low, "target": sight.settings.equilibrium}
    return course(judged(sight), window, Phase.AVOID, because(ThrottleReason.BACKING_OFF, window=window, **figures))


def _not_ours(known: Cuts, health: Health) -> Because:
    figures = {"cuts": known.count, "server": health.worst_server, "window": known.window}
    return because(ThrottleReason.DELAY_NOT_OURS, **figures)


def left_out(health: Health, memory: LawMemory, now_s: float) -> tuple[Because, ...]:
    """What does not count, and why."""
    found = []
    if memory.foreign.are_told(now_s):
        found.append(because(ThrottleReason.ERRORS_NOT_OURS, server=memory.foreign.server))
    known = memory.cuts
    if known is not None and known.is_useless(health.low_s, now_s):
        found.append(_not_ours(known, health))
    if health.never_seen:
        names = ", ".join(server.server for server in health.never_seen)
        found.append(because(ThrottleReason.NEVER_SEEN, servers=names))
    return tuple(found)


def _is_cut_due(sight: Sight) -> bool:
    """Whether the former cut has had its time to show."""
    since_s = math.inf if sight.memory.cut_s is None else sight.now_s - sight.memory.cut_s
    is_due = since_s >= max(window_steps.cut_time_s(sight.scrape_s, sight.join_s), sight.effect_s)
    return is_due and sight.is_new and not sight.is_crowded


def cut(sight: Sight, index: float) -> tuple[Sight, float]:
    """The window after a cut for this index, if the former cut has had its time to show."""
    if index <= sight.settings.equilibrium or not _is_cut_due(sight):
        return sight, sight.window
    return with_memory(sight, cut_s=sight.now_s), window_steps.shrunk(sight.used_window, index, sight.settings)


def drifted(window: float, blind_s: float, elapsed_s: float, settings: LawSettings) -> float:
    """The window after `elapsed_s` more of being blind, `blind_s` in all: it halves once over `stale_drift_s`."""
    end_s = settings.stale_hold_s + settings.stale_drift_s
    from_s = min(max(blind_s - elapsed_s, settings.stale_hold_s), end_s)
    to_s = min(max(blind_s, settings.stale_hold_s), end_s)
    if settings.stale_drift_s <= 0:
        return window / 2.0 if blind_s - elapsed_s < settings.stale_hold_s <= blind_s else window
    return window * math.pow(0.5, (to_s - from_s) / settings.stale_drift_s)


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
    doubled = window_steps.doubled(ramp, sight.settings)
    fed = window_steps.fed_forward(ramp, sight.settings)
    window = max(doubled, fed)
    if window <= sight.window:
        return course(judged(sight), sight.window, Phase.SLOW_START, _warming(sight, high))
    figures = {"joining": sight.peak, "index": high, "window": window}
    if fed > doubled:
        why = because(ThrottleReason.UTILISATION, load=sight.memory.load.per_join or 0.0, window=window)
    else:
        why = because(ThrottleReason.DOUBLING, **figures)
    return course(judged(with_memory(sight, doubled_s=sight.now_s)), window, Phase.SLOW_START, why)


def _ramp(sight: Sight, high: float) -> window_steps.Ramp:
    since_s = sight.now_s if sight.memory.doubled_s is None else sight.memory.doubled_s
    return window_steps.Ramp(
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
        return delayed(sight, low)
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
    window = window_steps.grown(sight.window, high, _room(sight), _boost(sight) * sight.steps, sight.settings)
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
        return window_steps.FAR_BELOW_KNEE_BOOST
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
            sight,
            knee=window_steps.near_equilibrium(sight.memory.knee, sight.steady_window, sight.now_s, sight.settings),
        )
    if high < NEAR[0] * target and not sight.memory.knee.is_proven:
        return with_memory(sight, knee=window_steps.borne(sight.memory.knee, sight.joins.joining, sight.now_s))
    return sight


def _room(sight: Sight) -> float | None:
    """Share by which the window may grow until the busiest server is full; None while unknown, or of no use."""
    if sight.is_prompt or sight.health.seats >= sight.settings.seats_taken:
        return None
    full = sight.full_window
    return None if full is None else full / (sight.settings.pacing * sight.window) - 1.0


PARTS = (
    blind,
    braked,
    silent,
    alarmed,
    unknown,
    slow_start,
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
        if part is blind:
            sight = known_knee(with_memory(sight, blind_since_s=None))
    return avoidance(sight)


def _idle(sight: Sight) -> Course:
    window = window_steps.start_window(sight.memory.knee, sight.now_s, sight.settings)
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
    window = window_steps.start_window(sight.memory.knee, sight.now_s, sight.settings)
    if sight.memory.knee.window is not None:
        if sight.is_prompt:
            known = min(window, sight.memory.knee.window if sight.has_waves else PROMPT_START * window)
            return max(sight.settings.window_initial, known)
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
