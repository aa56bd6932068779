"""Looks for the law's tests: readings of one healthy server, and a clock that goes on by itself."""

from dataclasses import dataclass, field, replace

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.signals.reading import Reading, Signals

STEP_S = 5.0
CALM_S = 0.04
"""Delay of an idle server; the baseline in most tests."""
EQUILIBRIUM = LawSettings().equilibrium


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
