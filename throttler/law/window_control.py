"""The window of this moment: the first part of the law that applies decides.

Before the ordinary law go blindness, errors, ill health and alarms. The ordinary law is slow start, then congestion
avoidance.
"""

import math
from dataclasses import replace

from throttler.kube.reasons_and_events import Because, because
from throttler.law import error_brake, window_formulas
from throttler.law.law_input import LawInput, WindowUpdate, judged, update, with_memory
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, error_share
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_formulas import Cuts
from throttler.signals.reading import Reading

FAR_BELOW_KNEE = 0.7
"""Below this share of the knee the window grows twice as fast: it was right before (study)."""
NEAR = (0.5, 1.5)
"""Shares of the equilibrium between which the window counts as right, for the knee."""
BEYOND_CREST = 1.25
"""Of waves the window may be so many times the highest crest."""
NEARLY = 0.9
"""Share of the estimate by utilisation at which slow start has done its part."""
QUIET_START = 2.0
"""Servers too quiet to tell what a request costs have room: a cold start tries so many times `window_initial` where a
lever at the join lets them in at a pace. Without one they come at once, and twice as many ended no sooner (real)."""
LEAST_START = 4.0
"""A cold start tries at least so many joins: fewer show nothing."""
PROMPT_START = 0.5
"""Prompt joins behind a gate begin with this share of what was learned: a doubling costs them two scrapes, while a
whole window that goes in at once meets the servers cold (real: 63 joins, 100-220 errors, the first ten usable after
14-19 s, not 3). Waves begin with the knee itself: it is the crest of one, and boots spread the first one too."""


def blind(facts: LawInput) -> WindowUpdate | None:
    """No server gives a usable reading: hold, then fall to half; joins that take longer cut as ever."""
    if not facts.health.is_blind:
        return None
    known_s = facts.memory.blind_since_s
    since_s = facts.now_s if known_s is None else known_s
    age_s = facts.now_s - since_s
    used = facts.window if known_s is not None else min(facts.window, facts.joins.joining)
    window = max(facts.settings.window_min, drifted(used, age_s, facts.elapsed_s, facts.settings))
    reason = ThrottleReason.SIGNALS_STALE if window < facts.window else ThrottleReason.SIGNALS_LOST
    facts = with_memory(facts, blind_since_s=since_s)
    # The last reading was used until it was stale.
    heard_s = max((trace.ended_s for trace in facts.memory.traces), default=since_s)
    age_s = facts.now_s - min(heard_s, since_s)
    return update(facts, window, Phase.STALE, because(reason, age_s=age_s, window=window))


def braked(facts: LawInput) -> WindowUpdate | None:
    """Errors in a new reading cut the window by up to half; then nothing is let in for a moment."""
    ours = facts.memory.foreign.ours(facts.health, facts.now_s)
    bad = (reading for reading in ours if error_brake.is_alarming(reading, reading.errors))
    culprit = max(bad, key=error_share, default=None)
    if culprit is not None:
        mean = facts.memory.flow.mean_joining(culprit.ended_s - culprit.span_s, culprit.ended_s)
        # Whether anything was joining while the reading was made; unknown counts as yes.
        if not (facts.joins.joining if mean is None else mean):
            return _braked_idle(facts, culprit)
    brake = facts.memory.brake
    # The former pull has had its time to show: of waves that is a boot and a join.
    has_shown = brake.pulled_s is None or facts.now_s - brake.pulled_s >= facts.effect_s
    if culprit is not None and has_shown and brake.may_pull(facts.now_s, facts.latest_join_s):
        # Of the worst server, by all fresh readings: the scrapes of several servers come one after the other.
        rates = (reading.errors / reading.span_s for reading in facts.health.fresh if reading.span_s > 0)
        joining, per_s = facts.loading, max(rates, default=0.0)
        high = facts.high_index
        # Errors alone tell of an overload: one that feeds itself goes on when joins have become few.
        is_calm = high is not None and high < facts.settings.calm_below
        if is_calm and brake.has_not_helped(facts.now_s, joining, per_s):
            foreign = facts.memory.foreign.with_unmoved(per_s, culprit.server, facts.now_s)
            facts = with_memory(facts, foreign=foreign, brake=replace(facts.memory.brake, pulls=0))
            figures = {"server": culprit.server, "share": error_share(culprit), "window": facts.window}
            return update(judged(facts), facts.window, Phase.AVOID, because(ThrottleReason.ERRORS_UNMOVED, **figures))
        window, share = facts.window, error_share(culprit)
        if not facts.is_crowded:
            window = error_brake.cut(window, joining, share, facts.settings, has_waves=facts.has_waves)
            window = max(window, facts.settings.window_min)
        why = because(ThrottleReason.ERRORS, server=culprit.server, share=share, window=window)
        again = facts.memory.brake.pulled(facts.now_s, joining, per_s)
        pulled = with_memory(facts, brake=again, is_slow_start=False)
        return update(judged(pulled), window, Phase.BRAKE, why)
    return _recovering(facts, culprit)


def _recovering(facts: LawInput, culprit: Reading | None) -> WindowUpdate | None:
    """Between a cut and the next: a pause, and what errors mean that go on."""
    left_s = _pause_left_s(facts)
    if culprit is None:
        if left_s <= 0:
            return None
        return update(facts, facts.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=left_s))
    figures = {"server": culprit.server, "share": error_share(culprit), "window": facts.window}
    if left_s <= 0 and facts.window <= facts.settings.window_min:
        # Waiting for the errors to end could last for ever.
        return update(judged(facts), facts.window, Phase.AVOID, because(ThrottleReason.FLOOR_PACE, **figures))
    if facts.has_waves:
        # The former cut stands until it has shown.
        return update(judged(facts), facts.window, Phase.AVOID, because(ThrottleReason.ERRORS, **figures))
    return update(judged(facts), facts.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=left_s))


def _pause_left_s(facts: LawInput) -> float:
    """How long nothing is let in any more.

    Of waves the smaller window is enough: what is ordered now comes a boot later, and after a pause the servers would
    have nothing to do for as long.
    """
    return 0.0 if facts.has_waves else facts.memory.brake.left_s(facts.now_s, facts.latest_join_s)


def _braked_idle(facts: LawInput, culprit: Reading) -> WindowUpdate | None:
    """Errors that nothing of ours can have caused: wait a moment, once, and keep the window."""
    if facts.memory.brake.may_pull(facts.now_s, facts.latest_join_s):
        facts = with_memory(facts, brake=error_brake.Brake(pulled_s=facts.now_s))
    left_s = _pause_left_s(facts)
    if left_s <= 0:
        return None
    figures = {"server": culprit.server, "share": error_share(culprit), "left_s": left_s}
    return update(judged(facts), facts.window, Phase.BRAKE, because(ThrottleReason.IDLE_ERRORS, **figures))


def silent(facts: LawInput) -> WindowUpdate | None:
    """A lost server's clients move to the others: its share of the window goes once, and growth waits."""
    lost = facts.health.silent
    if lost is None:
        return None
    share = 1.0
    if lost.server not in facts.memory.silent:
        share = max(0.5, (facts.health.servers - 1) / facts.health.servers)
    low = facts.low_index or 0.0
    facts, window = cut(facts, low)
    # Delay may want a cut, too, as where the others cannot bear those clients: both together take no more than half.
    window = max(share * window, 0.5 * facts.used_window)
    why = because(ThrottleReason.SERVER_SILENT, server=lost.server, problem=lost.problem)
    facts = with_memory(facts, silent=facts.memory.silent | {lost.server})
    return update(judged(facts), window, Phase.AVOID, why)


def alarmed(facts: LawInput) -> WindowUpdate | None:
    """An extra signal over its threshold counts as the worst congestion."""
    alarm = facts.health.alarm
    if alarm is None:
        return None
    facts, window = cut(facts, far_above(facts.settings))
    figures = {"alarm": alarm.name, "value": alarm.value, "threshold": alarm.threshold}
    why = because(ThrottleReason.ALARM, **figures, window=window)
    return update(judged(with_memory(facts, is_slow_start=False)), window, Phase.AVOID, why)


def far_above(settings: LawSettings) -> float:
    """An index that nobody can take for noise."""
    return 100.0 * settings.equilibrium


def delayed(facts: LawInput, low: float) -> WindowUpdate:
    """Delay above the equilibrium cuts the window while anything joins, as long as that helps."""
    low_s, known = facts.health.low_s, facts.memory.cuts
    assert low_s is not None, "`low` is made of it"
    is_due = facts.joins.joining > 0 and _is_cut_due(facts)
    if is_due and known is not None and not known.is_useless(low_s, facts.now_s):
        known = None if known.useless_since_s is not None or known.has_moved(low_s) else known
        is_least = facts.window <= facts.settings.window_min
        known = known and known.judged(facts.joins.joining, low_s, facts.now_s, is_least=is_least)
    if known is not None and known.is_useless(low_s, facts.now_s):
        # What the user bounds may be less by now than it was before the first cut.
        window = min(max(facts.window, known.window), facts.settings.window_max)
        why = _not_ours(known, facts.health, window)
        return update(judged(with_memory(facts, cuts=known)), window, Phase.AVOID, why)
    window = facts.window
    if is_due:
        known = known or Cuts(count=0, joining=facts.joins.joining, delay_s=low_s, window=facts.window)
        facts, window = cut(with_memory(facts, cuts=replace(known, count=known.count + 1)), low)
    figures = {"server": facts.health.worst_server, "index": low, "target": facts.settings.equilibrium}
    return update(judged(facts), window, Phase.AVOID, because(ThrottleReason.BACKING_OFF, window=window, **figures))


def _not_ours(known: Cuts, health: Health, window: float) -> Because:
    figures = {"cuts": known.count, "server": health.worst_server, "window": window}
    return because(ThrottleReason.DELAY_NOT_OURS, **figures)


def left_out(health: Health, memory: LawMemory, now_s: float) -> tuple[Because, ...]:
    """What does not count, and why."""
    reasons = []
    if memory.foreign.are_told(now_s):
        reasons.append(because(ThrottleReason.ERRORS_NOT_OURS, server=memory.foreign.server))
    known = memory.cuts
    if known is not None and known.is_useless(health.low_s, now_s):
        reasons.append(_not_ours(known, health, memory.window or known.window))
    if health.never_seen:
        names = ", ".join(server.server for server in health.never_seen)
        reasons.append(because(ThrottleReason.NEVER_SEEN, servers=names))
    return tuple(reasons)


def _is_cut_due(facts: LawInput) -> bool:
    """Whether the former cut has had its time to show."""
    since_s = math.inf if facts.memory.cut_s is None else facts.now_s - facts.memory.cut_s
    is_due = since_s >= max(window_formulas.cut_time_s(facts.scrape_s, facts.join_s), facts.effect_s)
    return is_due and facts.is_new and not facts.is_crowded


def cut(facts: LawInput, index: float) -> tuple[LawInput, float]:
    """The window after a cut for this index, if the former cut has had its time to show."""
    if index <= facts.settings.equilibrium or not _is_cut_due(facts):
        return facts, facts.window
    window = max(facts.settings.window_min, window_formulas.shrunk(facts.used_window, index, facts.settings))
    return with_memory(facts, cut_s=facts.now_s), window


def drifted(window: float, blind_s: float, elapsed_s: float, settings: LawSettings) -> float:
    """The window after `elapsed_s` more of being blind, `blind_s` in all: it halves once over `stale_drift_s`."""
    end_s = settings.stale_hold_s + settings.stale_drift_s
    from_s = min(max(blind_s - elapsed_s, settings.stale_hold_s), end_s)
    to_s = min(max(blind_s, settings.stale_hold_s), end_s)
    if settings.stale_drift_s <= 0:
        return window / 2.0 if blind_s - elapsed_s < settings.stale_hold_s <= blind_s else window
    return window * math.pow(0.5, (to_s - from_s) / settings.stale_drift_s)


def unknown(facts: LawInput) -> WindowUpdate | None:
    """No request that joins use has ended lately: nothing is known that could allow growth."""
    if facts.high_index is not None:
        return None
    phase = Phase.SLOW_START if facts.memory.is_slow_start else Phase.AVOID
    why = because(ThrottleReason.UNKNOWN_LOAD) if facts.joins.joining else _beginning(facts)
    return update(judged(facts), facts.window, phase, why)


def _beginning(facts: LawInput) -> Because:
    is_cold = facts.memory.knee.window is None
    return because(ThrottleReason.STARTING if is_cold else ThrottleReason.REMEMBERED, window=facts.window)


def slow_start(facts: LawInput) -> WindowUpdate | None:
    """Double while the servers are calm; None once they are warm, or in avoidance."""
    low, high = facts.low_index, facts.high_index
    if not facts.memory.is_slow_start or high is None:
        return None
    if (low is not None and low >= facts.settings.calm_below) or _is_filled(facts):
        return None
    if not facts.joins.joining and not facts.memory.join_time.now_s:
        return update(judged(facts), facts.window, Phase.SLOW_START, _beginning(facts))
    if not facts.is_used:
        return update(judged(facts), facts.window, Phase.SLOW_START, _unused(facts))
    if facts.joins.is_controller_bound or not facts.is_new:
        return update(facts, facts.window, Phase.SLOW_START, _warming(facts, high))
    return _ramped(facts, high)


def _is_filled(facts: LawInput) -> bool:
    """Whether the servers are used as far as slow start may go, or will be with this window."""
    if facts.has_waves and facts.health.crest_share >= facts.settings.feed_forward_share:
        return True
    if facts.is_prompt:
        return facts.do_joins_queue
    by_load = facts.warm_window
    is_reached = by_load is not None and facts.window >= NEARLY * by_load
    return is_reached or (facts.health.utilisation or 0.0) >= facts.cpu_at(facts.settings.feed_forward_share)


def _ramped(facts: LawInput, high: float) -> WindowUpdate:
    ramp = _ramp(facts, high)
    doubled = window_formulas.doubled(ramp, facts.settings)
    fed = window_formulas.fed_forward(ramp, facts.settings)
    window = min(max(doubled, fed), facts.settings.window_max)
    if window <= facts.window:
        why = _warming(facts, high)
        if facts.is_at_maximum:
            figures = {"index": high, "target": facts.settings.equilibrium}
            why = because(ThrottleReason.AT_MAXIMUM, **figures, window=facts.window)
        return update(judged(facts), facts.window, Phase.SLOW_START, why)
    figures = {"joining": facts.peak, "index": high, "window": window}
    if fed > doubled:
        why = because(ThrottleReason.UTILISATION, load=facts.memory.load.per_join or 0.0, window=window)
    else:
        why = because(ThrottleReason.DOUBLING, **figures)
    return update(judged(with_memory(facts, doubled_s=facts.now_s)), window, Phase.SLOW_START, why)


def _ramp(facts: LawInput, high: float) -> window_formulas.Ramp:
    since_s = facts.now_s if facts.memory.doubled_s is None else facts.memory.doubled_s
    return window_formulas.Ramp(
        window=facts.window,
        joining=facts.peak,
        index=high,
        since_doubling_s=facts.now_s - since_s,
        scrape_s=facts.scrape_s,
        join_s=facts.join_s,
        by_load=facts.warm_window,
        full=_most(facts),
    )


def _most(facts: LawInput) -> float | None:
    """How far doubling may go. A doubled wave comes at once: it is to fit where slow start aims."""
    if facts.is_prompt:
        return None
    return facts.warm_window if facts.has_waves else facts.full_window


def _warming(facts: LawInput, high: float) -> Because:
    figures = {"index": high, "target": facts.settings.calm_below, "window": facts.window}
    if high >= facts.settings.calm_below:
        return because(ThrottleReason.HIGH_ONCE, **figures)
    return because(ThrottleReason.WARMING_UP, **figures, joining=facts.joins.joining)


def _unused(facts: LawInput) -> Because:
    joins = facts.joins
    if not joins.coming:
        return because(ThrottleReason.NO_DEMAND, window=facts.window)
    return because(ThrottleReason.NOT_FILLED, joining=joins.joining, window=facts.window, coming=joins.coming)


def avoidance(facts: LawInput) -> WindowUpdate:
    """The gradient law, with growth only under demand."""
    low, high = facts.low_index, facts.high_index
    facts = with_memory(facts, is_slow_start=False)
    target = facts.settings.equilibrium
    if low is not None and low > target:
        return delayed(facts, low)
    facts = with_memory(facts, cuts=None)
    assert high is not None, "unknown load is claimed before"
    if high >= target:
        reason = ThrottleReason.AT_EQUILIBRIUM if high <= NEAR[1] * target else ThrottleReason.HIGH_ONCE
        why = because(reason, index=high, target=target, window=facts.window)
        return update(judged(facts), facts.window, Phase.AVOID, why)
    return _grown(facts, high)


def _grown(facts: LawInput, high: float) -> WindowUpdate:
    figures = {"index": high, "target": facts.settings.equilibrium}
    if facts.is_crowded:
        # What a cut could not hold back any more is borne where the servers are calm: the cut was not of joins.
        borne = facts.borne if high < facts.settings.calm_below else 0
        window = min(float(borne), facts.settings.window_max)
        if window <= facts.window:
            why = because(ThrottleReason.CROWDED, window=facts.window)
            return update(judged(facts), facts.window, Phase.AVOID, why)
        return update(judged(facts), window, Phase.AVOID, because(ThrottleReason.PROBING_UP, **figures, window=window))
    if not facts.is_used:
        return update(judged(facts), facts.window, Phase.AVOID, _unused(facts))
    if facts.joins.is_controller_bound:
        return update(judged(facts), facts.window, Phase.AVOID, because(ThrottleReason.CONTROLLER_MANAGER))
    if facts.do_joins_queue:
        why = because(ThrottleReason.AT_EQUILIBRIUM, **figures, window=facts.window)
        return update(judged(facts), facts.window, Phase.AVOID, why)
    window = window_formulas.grown(facts.window, high, _room(facts), _boost(facts) * facts.steps, facts.settings)
    if facts.has_waves:
        # What was ordered for the last step has not come yet: no more is proven than the crest of a wave.
        window = max(facts.window, min(window, BEYOND_CREST * facts.peak))
    elif facts.committed_window is not None:
        window = max(facts.window, min(window, facts.committed_window))
    window = min(window, facts.settings.window_max)
    reason = ThrottleReason.AT_MAXIMUM if facts.is_at_maximum else ThrottleReason.PROBING_UP
    return update(judged(facts), window, Phase.AVOID, because(reason, **figures, window=window))


def _boost(facts: LawInput) -> float:
    """Quick far below the knee, slow beyond it."""
    knee = facts.memory.knee
    if knee.window is None:
        return 1.0
    if facts.window < FAR_BELOW_KNEE * knee.window:
        return window_formulas.FAR_BELOW_KNEE_BOOST
    return facts.settings.beyond_knee if knee.is_proven and facts.window >= knee.window else 1.0


def known_knee(facts: LawInput) -> LawInput:
    """Learn from a used window whose index is right; below the equilibrium it is at least harmless."""
    low, high = facts.low_index, facts.high_index
    if not facts.is_new or not facts.is_used or high is None or facts.is_crowded:
        return facts
    knee, (least, most) = facts.memory.knee, (share * facts.settings.equilibrium for share in NEAR)
    if high < least:
        # Against what was met counts only what was surely felt.
        joining = facts.borne if knee.is_proven else facts.joins.joining
        return with_memory(facts, knee=window_formulas.borne(knee, joining, facts.now_s))
    if (low or high) > most:
        return facts
    met = window_formulas.near_equilibrium(knee, facts.steady_window, facts.now_s, facts.settings)
    return with_memory(facts, knee=met)


def _room(facts: LawInput) -> float | None:
    """Share by which the window may grow until the busiest server is full; None while unknown, or of no use."""
    if facts.is_prompt or facts.health.seats >= facts.settings.seats_taken:
        return None
    full = facts.full_window
    return None if full is None else full / (facts.settings.pacing * facts.window) - 1.0


PARTS = (
    blind,
    braked,
    silent,
    alarmed,
    unknown,
    slow_start,
)
"""In this order; what none of them claims is congestion avoidance."""


def steered(facts: LawInput) -> WindowUpdate:
    """Where the window goes, and why."""
    if facts.joins.waiting + facts.joins.in_flight == 0:
        return _idle(facts)
    if facts.memory.is_idle and not facts.health.is_blind:
        # A scale-up begins: cold in slow start, warm near the knee that was learned. While nothing is known of the
        # servers it has not begun: being blind makes the window small, and that is no lesson.
        window, by_load = _start_window(facts), facts.warm_window
        has_room = by_load is not None and window < by_load
        # Waves that begin at a limit that was met have nothing to double to.
        is_at_knee = facts.has_waves and facts.memory.knee.is_proven
        cuts = facts.memory.cuts
        facts = with_memory(
            facts,
            window=window,
            is_slow_start=facts.memory.knee.window is None or ((has_room or facts.is_prompt) and not is_at_knee),
            is_idle=False,
            doubled_s=facts.now_s,
            moved_s=facts.now_s,
            # What was open when the last scale-up ended proves nothing of this one.
            cuts=cuts if cuts is not None and cuts.useless_since_s is not None else None,
        )
    for part in PARTS:
        claimed = part(facts)
        if claimed is not None:
            return claimed
        if part is blind:
            facts = known_knee(facts if facts.memory.blind_since_s is None else with_memory(facts, blind_since_s=None))
    return avoidance(facts)


def _idle(facts: LawInput) -> WindowUpdate:
    window = window_formulas.start_window(facts.memory.knee, facts.now_s, facts.settings)
    facts = with_memory(facts, is_idle=True, blind_since_s=None, silent=frozenset())
    pods = facts.joins.hopeless_pods
    why = because(ThrottleReason.NO_HOPE, pods=pods) if pods else because(ThrottleReason.IDLE)
    return update(facts, window, Phase.IDLE, why)


def _start_window(facts: LawInput) -> float:
    """What was learned; cold, no more than what the requests of joins may cost allows."""
    window = window_formulas.start_window(facts.memory.knee, facts.now_s, facts.settings)
    knee = facts.memory.knee.window
    if knee is not None:
        if facts.has_waves:
            window = min(window, max(knee, facts.settings.window_initial))
        if facts.is_prompt:
            return max(facts.settings.window_initial, window if facts.has_waves else PROMPT_START * window)
        window = max(window, _by_cost(facts))
        bearable = facts.committed_window
        return window if bearable is None else max(min(window, facts.settings.window_initial), min(window, bearable))
    guess = _guess(facts)
    if guess is None:
        is_quiet = facts.settings.has_gate and bool(facts.memory.load.idle)
        return min(QUIET_START * window, facts.settings.window_max) if is_quiet else window
    return max(min(window, max(LEAST_START, guess)), facts.settings.guess_trust * guess)


def _by_cost(facts: LawInput) -> float:
    """What the idle CPU bears at the remembered cost of a join; 0 where a knee was met, which is the limit then.

    A cost that was measured on few joins at a time is not believed for ever so many.
    """
    by_load, known = facts.warm_window, facts.memory.knee
    if by_load is None or known.window is None or known.is_proven:
        return 0.0
    return min(by_load, facts.settings.feed_forward_limit * known.window)


def _guess(facts: LawInput) -> float | None:
    """Joins in flight by what their requests may cost; None while that is unknown."""
    pace_per_s = facts.prior_pace_per_s
    return None if pace_per_s is None else pace_per_s * facts.settings.join_guess_s
