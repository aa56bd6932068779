"""Looks for the law's tests, of one healthy server: many by a clock that goes on by itself, or a single one."""

from dataclasses import dataclass, field, replace

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.join_model import JoinFlow, JoinTime, with_counts
from throttler.law.law_input import LawInput
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, ServerTrace
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.signals.reading import Reading, Signals

STEP_S = 5.0
CALM_S = 0.04
"""Delay of an idle server; the baseline in most tests."""
EQUILIBRIUM = LawSettings().equilibrium
NOW_S = 1000.0
"""When a single look is made."""
SETTINGS = LawSettings(has_gate=True)
"""Of a single look."""


def reading(now_s: float, **figures: object) -> Reading:
    """A complete window of 10 s that ends now: 100 requests, no errors, as calm as an idle server."""
    usual = Reading(server="a", ended_s=now_s, span_s=10.0, requests=100.0, errors=0.0, latency_s=CALM_S)
    return replace(usual, **figures)  # type: ignore[arg-type]


@dataclass
class Loop:
    """Calls `govern` every 5 s, as the service does."""

    settings: LawSettings = field(default_factory=LawSettings)
    memory: LawMemory = field(default_factory=LawMemory.start)
    now_s: float = 1000.0

    def look(self, signals: Signals, joins: Joins) -> Verdict:
        """One step later."""
        self.now_s += STEP_S
        verdict, self.memory = govern(signals, joins, self.memory, self.settings, self.now_s)
        return verdict

    def calm(self, joins: Joins, times: int = 1, **figures: object) -> Verdict:
        """So many looks at a new reading each; returns the last verdict."""
        for _ in range(times):
            verdict = self.look(Signals(readings=(reading(self.now_s + STEP_S, **figures),)), joins)
        return verdict

    def blind(self, joins: Joins, times: int = 1) -> Verdict:
        """So many looks at nothing."""
        for _ in range(times):
            verdict = self.look(Signals(), joins)
        return verdict


def begun(window: float = 100.0, *, joining: int = 90, held: int = 500, **settings: float) -> tuple[Loop, Joins]:
    """A scale-up that goes on in congestion avoidance with this window, nearly filled."""
    loop = Loop(settings=LawSettings(**settings))  # type: ignore[arg-type]
    loop.calm(Joins(), times=10)
    joins = Joins(held=held, joining=joining, joined=100, join_s=80.0, boot_s=120.0)
    loop.calm(joins)
    loop.memory = replace(loop.memory, window=window, is_slow_start=False)
    return loop, joins


def a_look(
    window: float = 100.0,
    *,
    index: tuple[float, float] = (1.0, 1.0),
    joining: int = 90,
    waiting: int = 500,
    seats: float = 0.0,
    settings: LawSettings = SETTINGS,
    is_new: bool = True,
    is_controller_bound: bool = False,
    **memory: object,
) -> LawInput:
    """A look in avoidance, one adaptation time (10 s) after the last; `index` is of the two newest windows."""
    before, newest = (CALM_S * factor for factor in index)
    newest_reading = reading(NOW_S, latency_s=newest, seats_share=seats)
    joins = Joins(
        held=waiting, joining=joining, joined=100, join_s=80.0, boot_s=120.0, is_controller_bound=is_controller_bound
    )
    usual = LawMemory(
        window=window,
        is_slow_start=False,
        is_idle=False,
        moved_s=NOW_S - 10.0,
        flow=with_counts(with_counts(JoinFlow(), joins, NOW_S - 10.0), joins, NOW_S),
        join_time=JoinTime(now_s=80.0, least_s=80.0),
        boot_s=120.0,
    )
    usual = replace(usual, baseline=replace(usual.baseline, remembered_s=CALM_S))
    return LawInput(
        memory=replace(usual, **memory),  # type: ignore[arg-type]
        health=Health(
            fresh=(newest_reading,),
            new=(newest_reading,) if is_new else (),
            own=(),
            new_own=(),
            traces=(ServerTrace(server="a", ended_s=NOW_S, delay_s=newest, before_s=before),),
            silent=None,
            never_seen=(),
            servers=1,
            alarm=None,
        ),
        joins=joins,
        settings=settings,
        now_s=NOW_S,
        elapsed_s=5.0,
    )


def with_health(facts: LawInput, **changes: object) -> LawInput:
    return replace(facts, health=replace(facts.health, **changes))  # type: ignore[arg-type]


def with_errors(facts: LawInput, errors: float, requests: float = 1000.0) -> LawInput:
    readings = tuple(replace(one, errors=errors, requests=requests) for one in facts.health.fresh)
    return with_health(facts, fresh=readings, new=readings)
