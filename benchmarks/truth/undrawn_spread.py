"""How wide a band must be, from kept runs of any seeds: what no world draws, and whether it holds a run left out.

A band is as wide as the plan's worlds, whole seconds and `UNDRAWN_SPREAD` make it together
(`balloons.preview.forecast.time_band`). The plans' own bands tell the worlds' part. What is then left of the real ends'
deviations is what no world drew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean

from balloons.preview.forecast import SECOND_S, TO_HIGH, UNDRAWN_SPREAD
from benchmarks.report import Figure
from benchmarks.truth.figures import OF
from benchmarks.truth.trial import Trial

GOAL = 18
"""Of `OF` runs: nine in ten."""
MOST, HALVINGS = 1.0, 30
"""The spread is looked for from nothing to the whole predicted time, and found to a billionth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One run: where its end was predicted, how far off it was, and what the band allowed for on that side."""

    said_s: float
    off_s: float
    drawn_s: float
    """Standard deviation of the worlds and of whole seconds together."""

    def standard(self, spread: float) -> float:
        """By how many standard deviations it was off, with so much for what no world draws."""
        return abs(self.off_s) / hypot(self.drawn_s, spread * self.said_s)

    def is_within(self, spread: float) -> bool:
        """Whether a band with so much for what no world draws holds the end."""
        return self.standard(spread) <= TO_HIGH


def deviation(trial: Trial) -> Deviation | None:
    """None where other nodes came than the plan said, or it predicted no end."""
    said = trial.said
    if trial.off_by is None or said.eta_s is None or said.low_s is None or said.high_s is None:
        return None
    off_s = trial.real_s - said.eta_s
    reach_s = said.high_s - said.eta_s if off_s >= 0 else said.eta_s - said.low_s
    rest = (reach_s / TO_HIGH) ** 2 - (UNDRAWN_SPREAD * said.eta_s) ** 2
    return Deviation(said_s=said.eta_s, off_s=off_s, drawn_s=sqrt(max(rest, SECOND_S**2)))


def fitted(deviations: Sequence[Deviation]) -> float:
    """The share of the end with which real ends lie one standard deviation off on average; 0 where worlds explain all.

    Each run counts by its own width: a plan whose worlds differ much says nothing about those of the others.
    """
    low, high = 0.0, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        is_wider = fmean(run.standard(middle) ** 2 for run in deviations) > 1.0
        low, high = (middle, high) if is_wider else (low, middle)
    return low


def held_left_out(deviations: Sequence[Deviation]) -> int:
    """How many lie in the band that all others give."""
    others = [[*deviations[:number], *deviations[number + 1 :]] for number in range(len(deviations))]
    return sum(run.is_within(fitted(rest)) for run, rest in zip(deviations, others, strict=True))


def calibration(trials: Sequence[Trial]) -> Iterator[Figure]:
    """The spread that these runs give, and how many of them bands by the others hold: of all, those without an end too.

    Needs two runs with an end: without others there is no band.
    """
    deviations = [run for run in map(deviation, trials) if run is not None]
    runs = len(trials)
    yield Figure(name="runs", what="real scale-ups, each planned before", value=float(runs), unit="")
    if len(deviations) < 2:
        return
    what = f"of the end, what no world draws (the plan uses {100 * UNDRAWN_SPREAD:g} %)"
    yield Figure(name="undrawn_spread", what=what, value=100 * fitted(deviations), unit="%")
    yield Figure(
        name="left_out_held",
        what="each left out in turn: the band that the others give holds it",
        value=float(held_left_out(deviations)),
        unit=f"of {runs}",
        goal=GOAL * runs / OF,
        is_higher_better=True,
    )
