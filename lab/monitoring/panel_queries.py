"""A panel's queries, as Grafana would send them with every choice at All, and their answers under their legends."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.monitoring.board import Query
from lab.monitoring.prometheus import STEP_S, RecordedRun

RATE_INTERVAL = f"{4 * STEP_S}s"
"""What Grafana puts in place of `$__rate_interval`: four scrapes."""
_CHOICE = re.compile(r"\$(cluster|namespace|pool|throttle)\b")


@dataclass(frozen=True)
class Course:
    """One named series over the run: a value per step, NaN where there is none."""

    name: str
    values: tuple[float, ...]


def filled(expr: str, window: str) -> str:
    """The expression without variables; `window` is the time range."""
    expr = expr.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", window)
    return _CHOICE.sub(".*", expr)


def courses(run: RecordedRun, query: Query) -> list[Course]:
    """The answer over the run, in the order in which Prometheus gives it."""
    answer = run.over_run(filled(query.expr, run.window))
    return [Course(legend(query.legend, series.labels), _on_steps(run, dict(series.points))) for series in answer]


def numbers(run: RecordedRun, query: Query) -> list[tuple[str, float]]:
    """The answer at the run's end."""
    answer = run.at_end(filled(query.expr, run.window))
    return [(legend(query.legend, series.labels), series.points[0][1]) for series in answer]


def legend(template: str, labels: Mapping[str, str]) -> str:
    """A legend as Grafana fills it in."""
    return re.sub(r"{{(\w+)}}", lambda field: labels.get(field.group(1), ""), template)


def steps(run: RecordedRun) -> list[float]:
    """The moments at which a range query is answered, in seconds since the run's start."""
    return [STEP_S * number for number in range(int((run.end_s - run.start_s) / STEP_S) + 1)]


def _on_steps(run: RecordedRun, points: dict[float, float]) -> tuple[float, ...]:
    known = {round(at_s, 1): value for at_s, value in points.items()}
    return tuple(known.get(round(run.start_s + after_s, 1), math.nan) for after_s in steps(run))
