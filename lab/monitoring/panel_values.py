"""A panel's queries as Grafana sends them with every choice at All, and its values as Grafana writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.monitoring.board import Query
from lab.monitoring.prometheus import STEP_S, RecordedRun

RATE_INTERVAL = f"{4 * STEP_S}s"
"""What Grafana puts in place of `$__rate_interval`: four scrapes."""
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_MINUTES_FROM_S = 300.0
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


def in_unit(value: float, unit: str) -> str:
    """The value with its unit, short enough for an axis."""
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return _time(value)
    if unit in ("bytes", "Bps"):
        return _binary(value) + ("/s" if unit == "Bps" else "")
    return f"{value:.3g}/s" if unit == "ops" else f"{round(value, 2):,g}"


def unit_size(top: float, unit: str) -> float:
    """How much one of the units is in which `top` is written: steps of an axis are round in it."""
    if unit == "s":
        return 60.0 if top >= _MINUTES_FROM_S else 1.0
    return 1024.0 ** _power(top) if unit in ("bytes", "Bps") else 1.0


def _time(seconds: float) -> str:
    if 0 < abs(seconds) < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if abs(seconds) < _MINUTES_FROM_S else f"{seconds / 60:.3g} min"


def _binary(value: float) -> str:
    power = _power(value)
    return f"{value / 1024**power:.3g} {_BINARY[power]}"


def _power(value: float) -> int:
    """Of 1024, in whose multiples it is written."""
    return next((power for power in range(len(_BINARY) - 1) if abs(value) < 1024 ** (power + 1)), len(_BINARY) - 1)
