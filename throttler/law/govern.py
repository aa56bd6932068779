"""The pacing law: how many joins the API servers can bear now, and what may be done to fill the window.

Read in this order: settings (constants and sources), health (what is seen), steer (which part decides), slow_start,
avoid, brake, trouble (the parts), foreign and cuts (what is not ours), fill and forecast (what may be done).
"""

import math
from dataclasses import replace

from throttler.joins.joins import Joins
from throttler.law.fill import Filling, filled
from throttler.law.law_memory import LawMemory
from throttler.law.observe import observed, sane
from throttler.law.server_health import error_share, examine
from throttler.law.settings import LawSettings
from throttler.law.sight import Course, Sight
from throttler.law.steer import steered
from throttler.law.throttle_reasons import ThrottleReason, because
from throttler.law.trouble import left_out
from throttler.law.verdict import Verdict
from throttler.signals.reading import Signals

LONGEST_ELAPSED_S = 30.0
"""A pause of the service counts as no more than this."""


def govern(
    signals: Signals, joins: Joins, memory: LawMemory, settings: LawSettings, now_s: float
) -> tuple[Verdict, LawMemory]:
    """Decide once. Call about every 5 s and whenever something happened; `now_s` is monotonic.

    A reading is judged once, however often it is seen. Figures that are no finite numbers are not used. Raises
    ValueError when `now_s` itself is none.
    """
    if not math.isfinite(now_s):
        raise ValueError(f"now_s {now_s}: accepted are finite seconds")
    sight = _sight(signals, sane(joins), memory, settings, now_s)
    course = _bounded(steered(sight), settings)
    filling = filled(sight, course)
    memory = replace(course.memory, tokens=filling.tokens, ask_tokens=filling.ask_tokens)
    return _verdict(sight, course, filling), memory


def _sight(signals: Signals, joins: Joins, memory: LawMemory, settings: LawSettings, now_s: float) -> Sight:
    looked_s = now_s if memory.looked_s is None else memory.looked_s
    now_s = max(now_s, looked_s)
    health = examine(signals, memory.traces, settings, now_s, memory.own_until_s)
    sight = Sight(
        memory=observed(memory, health, joins, settings, now_s),
        health=health,
        joins=joins,
        settings=settings,
        now_s=now_s,
        elapsed_s=min(now_s - looked_s, LONGEST_ELAPSED_S),
    )
    return replace(sight, settings=settings.with_patience()) if sight.is_prompt else sight


def _bounded(course: Course, settings: LawSettings) -> Course:
    """Clamped once, at the exit."""
    window = course.memory.window or settings.window_initial
    bounded = min(max(window, settings.window_min), settings.window_max)
    return replace(course, memory=replace(course.memory, window=bounded))


def _verdict(sight: Sight, course: Course, filling: Filling) -> Verdict:
    worst = sight.health.worst_errors
    why = course.because
    if filling.overdue:
        why = because(ThrottleReason.DEADLINE, overdue=filling.overdue)
    return Verdict(
        phase=course.phase,
        window=course.memory.window or sight.settings.window_initial,
        admit=filling.admit,
        allowance=filling.allowance,
        spare=filling.spare,
        pace_per_min=filling.pace_per_min,
        because=why,
        index=sight.low_index if sight.low_index is not None else sight.high_index,
        error_share=error_share(worst) if worst is not None else 0.0,
        worst_server=sight.health.worst_server,
        left_out=left_out(sight.health, course.memory, sight.now_s),
    )
