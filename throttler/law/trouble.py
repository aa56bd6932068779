"""What goes before the ordinary law: blindness, errors, ill health, alarms, and growth that does not pay."""

import math

from throttler.law import avoid, brake, stale
from throttler.law.because import ThrottleReason, because
from throttler.law.health import error_share
from throttler.law.settings import LawSettings
from throttler.law.sight import Course, Sight, course, judged, with_memory
from throttler.law.verdict import Phase


def blind(sight: Sight) -> Course | None:
    """No server gives a usable reading: hold, then fall to half; joins that take longer cut as ever."""
    if not sight.health.is_blind:
        return None
    known_s = sight.memory.blind_since_s
    since_s = sight.now_s if known_s is None else known_s
    age_s = sight.now_s - since_s
    window = sight.window if known_s is not None else min(sight.window, max(1.0, sight.joins.joining))
    window = stale.drifted(window, age_s, sight.elapsed_s, sight.settings)
    reason = ThrottleReason.SIGNALS_STALE if window < sight.window else ThrottleReason.SIGNALS_LOST
    sight = with_memory(sight, blind_since_s=since_s)
    return course(sight, window, Phase.STALE, because(reason, age_s=age_s, window=window))


def braked(sight: Sight) -> Course | None:
    """Errors in a new reading cut the window by up to half; then nothing is let in for a moment."""
    culprit = brake.culprit((*sight.health.new, *sight.health.new_own), sight.settings)
    if culprit is not None and sight.memory.brake.may_pull(sight.now_s, sight.latest_join_s, sight.settings):
        window = (
            sight.window if sight.is_crowded else brake.cut(sight.window, sight.joins.joining, error_share(culprit))
        )
        window = max(window, sight.settings.window_min)
        why = because(ThrottleReason.ERRORS, server=culprit.server, share=error_share(culprit), window=window)
        pulled = with_memory(sight, brake=brake.Brake(pulled_s=sight.now_s), is_slow_start=False)
        return course(judged(pulled), window, Phase.BRAKE, why)
    if culprit is not None:
        return course(judged(sight), sight.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=0.0))
    left_s = sight.memory.brake.left_s(sight.now_s, sight.latest_join_s, sight.settings)
    if left_s <= 0:
        return None
    return course(sight, sight.window, Phase.BRAKE, because(ThrottleReason.RECOVERING, left_s=left_s))


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


def unpaid(sight: Sight) -> Course | None:
    """More joins at a time were just seen to end no more per second: back to the window that paid."""
    known = sight.memory.payoff
    if known.level is None or known.flat_since_s != sight.now_s:
        return None
    window = min(sight.window, max(known.level.joining, sight.window / 2.0))
    why = because(ThrottleReason.DOES_NOT_PAY, joining=sight.peak, window=window)
    if sight.joins.is_controller_bound:
        why = because(ThrottleReason.CONTROLLER_MANAGER)
    return course(judged(with_memory(sight, is_slow_start=False)), window, Phase.AVOID, why)


def cut(sight: Sight, index: float) -> tuple[Sight, float]:
    """The window after a cut for this index, if the former cut has had its time to show."""
    since_s = math.inf if sight.memory.cut_s is None else sight.now_s - sight.memory.cut_s
    is_due = since_s >= avoid.cut_time_s(sight.scrape_s, sight.join_s) and not sight.is_crowded
    if index <= sight.settings.equilibrium or not (sight.is_new and is_due):
        return sight, sight.window
    return with_memory(sight, cut_s=sight.now_s), avoid.shrunk(sight.used_window, index, sight.settings)
