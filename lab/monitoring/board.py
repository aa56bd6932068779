"""What a dashboard is made of, before it is Grafana's JSON: rows of panels, each with its queries."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from balloons.service.metrics import PoolWriteOutcome
from balloons.service.preemptions_and_warm_hits import Found, Leaving
from balloons.text_and_colours import COLOURS, NEUTRAL
from throttler.service.lever_calls import LeverWriteOutcome
from throttler.signals.reading import ReadOutcome

WORDS: Mapping[str, tuple[str, ...]] = {
    "{{found}}": tuple(answer.value for answer in Found),
    "{{how}}": tuple(answer.value for answer in Leaving),
    "{{outcome}}": (
        *("decided", "stood_by", "failed"),
        *(outcome.value for outcomes in (PoolWriteOutcome, LeverWriteOutcome, ReadOutcome) for outcome in outcomes),
    ),
}
"""What a label may say where that is no name of a user's."""


def thing_of(name: str) -> str:
    """What a series shows, by its name or the template of its names: the last word."""
    return name.rpartition(" ")[2]


class Kind(enum.Enum):
    """How a panel shows its series; the value is Grafana's name of it."""

    LINES = "timeseries"
    NUMBER = "stat"
    STATES = "state-timeline"
    BARS = "bargauge"


@dataclass(frozen=True)
class Query:
    """One PromQL expression with dashboard variables in it; `legend` is a template such as `{{pool}}`."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Word:
    """What a value of a STATES panel means, and its colour."""

    text: str
    colour: str


@dataclass(frozen=True)
class Step:
    """Of a judgement: from this value on the number has this colour."""

    least: float
    colour: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel. `unit` is Grafana's: short, s, bytes, percentunit, ops.

    `words` stand for the values 0, 1, 2, ... of a STATES panel. `steps` colour a NUMBER, in rising order, `below` what
    is below the first; without them it has the colour of the thing that it counts. `width` is of 24.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = Kind.LINES
    width: int = 12
    is_stacked: bool = False
    words: tuple[Word, ...] = ()
    steps: tuple[Step, ...] = ()
    below: str = ""

    def colour_of(self, value: float) -> str:
        """Of a NUMBER."""
        reached = [step.colour for step in self.steps if value >= step.least]
        return reached[-1] if reached else self.base

    @property
    def base(self) -> str:
        """What is no series, and has reached no step; `text` is Grafana's name of what it writes texts in."""
        if self.below:
            return self.below
        if self.kind is not Kind.NUMBER:
            return NEUTRAL
        thing = COLOURS.get(thing_of(self.queries[0].legend))
        return thing.line if thing else "text"

    @property
    def height(self) -> int:
        """In Grafana's grid units of 30 pixels."""
        return 4 if self.kind is Kind.NUMBER else 8

    @property
    def is_instant(self) -> bool:
        """Whether it shows the present values only, not their course."""
        return self.kind in (Kind.NUMBER, Kind.BARS)


def number(title: str, description: str, expr: str, legend: str, unit: str = "short", **more: Any) -> Panel:
    """A figure, six to a row; `more` is its colours, `steps` and `below`."""
    queries = (Query(expr, legend),)
    return Panel(title=title, description=description, unit=unit, kind=Kind.NUMBER, width=4, queries=queries, **more)


@dataclass(frozen=True)
class Row:
    """A titled row of panels, filled from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Variable:
    """A choice at the top, filled with the values of a label of a series."""

    name: str
    series: str

    @property
    def query(self) -> str:
        """As Grafana's Prometheus data source understands it."""
        return f"label_values({self.series}, {self.name})"


@dataclass(frozen=True)
class Annotation:
    """Marks on every panel while a query has values."""

    name: str
    query: Query


@dataclass(frozen=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> Iterator[Panel]:
        """All of them, in order."""
        return (panel for row in self.rows for panel in row.panels)

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """All of them, those of annotations among them."""
        of_panels = (query for panel in self.panels for query in panel.queries)
        return (*of_panels, *(annotation.query for annotation in self.annotations))
