"""What goes before the ordinary law: blindness, errors, ill health and alarms."""

import math
from dataclasses import replace

from throttler.law import avoid, brake
from throttler.law.cuts import Cuts
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, error_share
from throttler.law.settings import LawSettings
from throttler.law.sight import Course, Sight, course, judged, with_memory
from throttler.law.throttle_reasons import Because, ThrottleReason, because
from throttler.law.verdict import Phase
from throttler.signals.reading import Reading


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
    culprit = brake.culprit(sight.memory.foreign.ours(sight.health, sight.now_s), sight.settings)
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
            window = max(brake.cut(window, joining, error_share(culprit), sight.settings), sight.settings.window_min)
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
        sight = with_memory(sight, brake=brake.Brake(pulled_s=sight.now_s))
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
    is_due = since_s >= max(avoid.cut_time_s(sight.scrape_s, sight.join_s), sight.effect_s)
    return is_due and sight.is_new and not sight.is_crowded


def cut(sight: Sight, index: float) -> tuple[Sight, float]:
    """The window after a cut for this index, if the former cut has had its time to show."""
    if index <= sight.settings.equilibrium or not _is_cut_due(sight):
        return sight, sight.window
    return with_memory(sight, cut_s=sight.now_s), avoid.shrunk(sight.used_window, index, sight.settings)


def drifted(window: float, blind_s: float, elapsed_s: float, settings: LawSettings) -> float:
    """The window after `elapsed_s` more of being blind, `blind_s` in all: it halves once over `stale_drift_s`."""
    end_s = settings.stale_hold_s + settings.stale_drift_s
    from_s = min(max(blind_s - elapsed_s, settings.stale_hold_s), end_s)
    to_s = min(max(blind_s, settings.stale_hold_s), end_s)
    if settings.stale_drift_s <= 0:
        return window / 2.0 if blind_s - elapsed_s < settings.stale_hold_s <= blind_s else window
    return window * math.pow(0.5, (to_s - from_s) / settings.stale_drift_s)
