"""The pacing law: how many joins the API servers can bear now, and what may be done to fill the window.

Read in this order: settings (constants and sources), server_health (what is seen), join_model (what joins teach),
window_control (which part decides), window_formulas and error_brake (how far), admission (what may be done). Here
stands what every look teaches, whatever the window then does: counts, durations, the baseline, the load of a join.
"""

import math
from dataclasses import replace

from throttler.joins.joins import Joins
from throttler.kube.reasons_and_events import because
from throttler.law import error_brake, join_model
from throttler.law.admission import filled
from throttler.law.law_input import LawInput
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, error_share, examine, worst_high_s
from throttler.law.settings import LawSettings
from throttler.law.verdict import ThrottleReason, Verdict
from throttler.law.window_control import left_out, steered
from throttler.signals.reading import Signals

LONGEST_ELAPSED_S = 30.0
"""A pause of the service counts as no more than this."""
DELAYS_KEPT_S = 300.0
"""Longer than any cycle that is judged."""
SATURATED = 0.97
"""Above this utilisation is no longer linear in the joins in flight."""
SHORTEST_S, LONGEST_S = 0.1, 86_400.0
"""Shorter and longer durations of a join or a boot, and greater ages, are not believed."""
FORGET_JOINS = 0.5
"""Time constant with which the load of a join is forgotten: half a join."""
LAG_JOINS = 0.2
"""A join's load comes some time after it was let in: utilisation now tells of the joins of that long ago."""
USED_THROUGHOUT = 0.6
"""A window in which most joins only began tells less than they cost. Real: 47 joins that began at the end of an idle
window seemed to cost nothing, and the window jumped to 282."""


def govern(
    signals: Signals, joins: Joins, memory: LawMemory, settings: LawSettings, now_s: float
) -> tuple[Verdict, LawMemory]:
    """Decide once. Call about every 5 s and whenever something happened; `now_s` is monotonic.

    A reading is judged once, however often it is seen. Figures that are no finite numbers are not used. Raises
    ValueError when `now_s` itself is none.
    """
    if not math.isfinite(now_s):
        raise ValueError(f"now_s {now_s}: accepted are finite seconds")
    joins = sane(joins)
    looked_s = now_s if memory.looked_s is None else memory.looked_s
    now_s = max(now_s, looked_s)
    health = examine(signals, memory.traces, now_s, memory.own_until_s)
    facts = LawInput(
        memory=observed(memory, health, joins, settings, now_s),
        health=health,
        joins=joins,
        settings=settings,
        now_s=now_s,
        elapsed_s=min(now_s - looked_s, LONGEST_ELAPSED_S),
    )
    if facts.is_patient:
        facts = replace(facts, settings=settings.with_patience(facts.memory.baseline.within(settings)))
    update = steered(facts)
    # Not every part that moves the window minds the bounds.
    window = min(max(update.memory.window or settings.window_initial, settings.window_min), settings.window_max)
    if window != update.memory.window:
        update = replace(update, memory=replace(update.memory, window=window))
    filling = filled(facts, update)
    worst, overdue = max((*health.fresh, *health.own), key=error_share, default=None), filling.overdue
    verdict = Verdict(
        phase=update.phase,
        window=window,
        admit=filling.admit,
        allowance=filling.allowance,
        spare=filling.spare,
        pace_per_min=filling.pace_per_min,
        because=because(ThrottleReason.DEADLINE, overdue=overdue) if overdue else update.because,
        index=facts.low_index if facts.low_index is not None else facts.high_index,
        error_share=error_share(worst) if worst is not None else 0.0,
        left_out=left_out(health, update.memory, facts.now_s),
    )
    return verdict, replace(update.memory, tokens=filling.tokens, ask_tokens=filling.ask_tokens, order=filling.order)


def observed(memory: LawMemory, health: Health, joins: Joins, settings: LawSettings, now_s: float) -> LawMemory:
    """The memory after this look; the window is left alone."""
    elapsed_s = now_s - memory.looked_s if memory.looked_s is not None else 0.0
    # A night without a join says nothing of how long joins take.
    joining_s = elapsed_s if joins.joining else 0.0
    if memory.knee.at_s is None:
        memory = replace(memory, knee=replace(memory.knee, at_s=now_s - memory.knee.age_s))
    memory = replace(
        memory,
        flow=join_model.with_counts(memory.flow, joins, now_s),
        join_time=join_model.with_duration(memory.join_time, joins.join_s, joining_s),
        boot_s=joins.boot_s or memory.boot_s,
        boot_spread_s=joins.boot_spread_s or memory.boot_spread_s,
        quiet_since_s=_quiet_since(memory, joins, now_s),
        traces=health.traces if health.traces else memory.traces,
        delays=_delays(memory, health, now_s),
        own_until_s=max((reading.ended_s for reading in health.own), default=memory.own_until_s),
        looked_s=now_s,
    )
    return _learned_from_servers(memory, health, settings, now_s, elapsed_s, has_demand=joins.coming > 0)


def _delays(memory: LawMemory, health: Health, now_s: float) -> tuple[tuple[float, float], ...]:
    kept = tuple(sample for sample in memory.delays if now_s - sample[0] <= DELAYS_KEPT_S)
    return (*kept, (now_s, health.newest_s)) if health.new and health.newest_s is not None else kept


def _quiet_since(memory: LawMemory, joins: Joins, now_s: float) -> float | None:
    if joins.joining:
        return None
    return memory.quiet_since_s if memory.quiet_since_s is not None else now_s


def _learned_from_servers(
    memory: LawMemory, health: Health, settings: LawSettings, now_s: float, elapsed_s: float, *, has_demand: bool
) -> LawMemory:
    new = (*health.new, *health.new_own)
    if not new:
        return memory
    began_s = min(reading.ended_s - reading.span_s for reading in new)
    ended_s = max(reading.ended_s for reading in new)
    is_idle = memory.quiet_since_s is not None and began_s >= memory.quiet_since_s
    memory = replace(memory, foreign=error_brake.observed(memory.foreign, health, now_s, settings, is_idle=is_idle))
    if not health.new:
        return memory
    if memory.quiet_since_s is not None:
        return _idled(memory, health, settings, now_s) if is_idle else memory
    cpu = health.utilisation
    if cpu is None or not has_demand or cpu > SATURATED * health.full_cpu or _is_delayed(memory, health, settings):
        return memory
    join_s = memory.join_time.or_guess(settings.join_guess_s)
    lag_s = LAG_JOINS * join_s
    joining = memory.flow.mean_joining(began_s - lag_s, ended_s - lag_s) or 0.0
    if (memory.flow.least_joining(began_s - lag_s, ended_s - lag_s) or 0) < USED_THROUGHOUT * joining:
        return memory
    kept = math.exp(-elapsed_s / (FORGET_JOINS * join_s))
    return replace(memory, load=join_model.with_join_cpu(memory.load, cpu, joining, kept))


def _is_delayed(memory: LawMemory, health: Health, settings: LawSettings) -> bool:
    """Whether requests queue, for seats if not for the CPU: joins that stand still seem to cost little."""
    return health.low_s is not None and health.low_s > settings.equilibrium * memory.baseline.within(settings)


def _idled(memory: LawMemory, health: Health, settings: LawSettings, now_s: float) -> LawMemory:
    """Nothing joined throughout the new windows: they are the baseline."""
    named = {reading.server for reading in health.new}
    delay_s, _ = worst_high_s(trace for trace in health.traces if trace.server in named)
    memory = replace(memory, load=join_model.with_idle_cpu(memory.load, health.utilisation, health.new))
    if delay_s is None:
        return memory
    return replace(memory, baseline=join_model.with_idle_delay(memory.baseline, delay_s, now_s, settings))


def sane(joins: Joins) -> Joins:
    """The same counts without what cannot be: negative counts, durations and ages that are no numbers.

    Late machines are not reckoned with: in all that the law does but its hardest bound they are lost already.
    """
    late_booting = min(max(0, joins.late_booting), max(0, joins.booting))
    late_joining = min(max(0, joins.late_joining), max(0, joins.joining))
    return replace(
        joins,
        waiting=max(0, joins.waiting),
        urgent=max(0, joins.urgent),
        booting=max(0, joins.booting) - late_booting,
        late_booting=late_booting,
        late_joining=late_joining,
        released=max(0, joins.released),
        held=max(0, joins.held),
        joining=max(0, joins.joining) - late_joining,
        joined=max(0, joins.joined),
        lost=max(0, joins.lost) + late_booting + late_joining,
        join_s=_duration(joins.join_s),
        boot_s=_duration(joins.boot_s),
        boot_spread_s=_duration(joins.boot_spread_s) or 0.0,
        oldest_booting_s=_duration(joins.oldest_booting_s) or 0.0,
        oldest_held_s=_duration(joins.oldest_held_s) or 0.0,
        oldest_joining_s=_duration(joins.oldest_joining_s) or 0.0,
    )


def _duration(figure: float | None) -> float | None:
    finite = _finite(figure)
    return None if finite is None else min(max(finite, SHORTEST_S), LONGEST_S)


def _finite(figure: float | None) -> float | None:
    return figure if figure is not None and math.isfinite(figure) and figure > 0 else None
