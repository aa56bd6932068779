"""How every benchmark is asked and how it answers: arguments, the table for people, the object for programs."""

import argparse
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number. `floor` must hold on any machine, `goal` is wanted, `peer` is what it is held against.

    Figures that differ only in `case` share a name: one for each way of doing the same.
    """

    name: str
    what: str
    value: float
    unit: str
    case: str = ""
    peer: str = ""
    floor: float | None = None
    goal: float | None = None
    is_higher_better: bool = False

    def reaches(self, bound: float) -> bool:
        """Whether the value is as good as the bound, or better."""
        return self.value >= bound if self.is_higher_better else self.value <= bound

    @property
    def is_below_floor(self) -> bool:
        """Whether the one bound that must hold does not."""
        return self.floor is not None and not self.reaches(self.floor)

    @property
    def verdict(self) -> str:
        """What a reader wants to know first."""
        if self.is_below_floor:
            return "BELOW FLOOR"
        if self.goal is None:
            return ""
        if self.reaches(self.goal):
            return "goal met"
        return "floor held" if self.floor is not None else "goal missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A benchmark's answer. `behind` holds everything the figures were made from; `faked` says what is not real."""

    name: str
    figures: tuple[Figure, ...]
    faked: tuple[str, ...]
    behind: Mapping[str, Any] = field(default_factory=dict)
    is_quick: bool = False


def run(name: str, measure: Callable[[bool], Report], arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, measure, print; returns the exit code: 1 when a figure is below its floor.

    `measure` is told whether the run is a quick one, whose figures mean nothing and are not judged.
    """
    asked = parser_of(name).parse_args(arguments)
    return answer(measure(asked.quick), asked)


def parser_of(name: str) -> argparse.ArgumentParser:
    """What every benchmark can be asked; those that can be asked more add to it."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--json", action="store_true", help="print one object of figures instead of a table")
    parser.add_argument("--quick", action="store_true", help="a small run that shows that it works, not how fast")
    return parser


def answer(report: Report, asked: argparse.Namespace, beside: Sequence[str] = ()) -> int:
    """Print the object, or what stands `beside` the figures and then them; returns 1 when one is below its floor."""
    print(as_json(report) if asked.json else "\n\n".join((*beside, as_table(report))))
    return int(any(figure.is_below_floor for figure in report.figures) and not report.is_quick)


def progress(text: str) -> None:
    """Tell the person who waits; standard output belongs to the figures."""
    print(f"  {text}", file=sys.stderr, flush=True)


def as_json(report: Report) -> str:
    """The named figures, then what they were made from."""
    fields = _by_name(report.figures)
    fields |= {
        "bounds": {f.name: _bounds(f) for f in report.figures},
        "behind": report.behind,
        "faked": report.faked,
        "machine": machine(),
        "is_quick": report.is_quick,
    }
    return msgspec.json.format(msgspec.json.encode(fields)).decode()


def _by_name(figures: Sequence[Figure]) -> dict[str, Any]:
    """Values by name; a name with cases has an object of values by case."""
    values: dict[str, Any] = {}
    for figure in figures:
        if figure.case:
            values.setdefault(figure.name, {})[figure.case] = figure.value
        else:
            values[figure.name] = figure.value
    return values


def _bounds(figure: Figure) -> dict[str, Any]:
    return {"unit": figure.unit, "floor": figure.floor, "goal": figure.goal, "verdict": figure.verdict}


def as_table(report: Report) -> str:
    """The figures with floor and goal beside them, and what is faked below."""
    head = ("figure", "what was measured", "ours", "peer", "floor", "goal", "")
    rows = [head, *(_row(figure) for figure in report.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    rule = "-" * max(len(line) for line in lines)
    title = f"{report.name} ({machine()['text']})" + (", QUICK: figures mean nothing" if report.is_quick else "")
    faked = [f"  - {text}" for text in report.faked]
    return "\n".join([title, "", lines[0], rule, *lines[1:], "", "What is faked or simplified:", *faked])


def _row(figure: Figure) -> tuple[str, ...]:
    floor, goal = (_bound(bound, figure) for bound in (figure.floor, figure.goal))
    name = " ".join(filter(None, (figure.name, figure.case)))
    return name, figure.what, f"{_short(figure.value)} {figure.unit}", figure.peer, floor, goal, figure.verdict


def _bound(bound: float | None, figure: Figure) -> str:
    sign = ">=" if figure.is_higher_better else "<="
    return "" if bound is None else f"{sign} {_short(bound)}"


def _short(value: float) -> str:
    """Three significant digits, and all digits before the point."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def machine() -> dict[str, Any]:
    """Where the figures come from, as far as it matters for repeating them."""
    cores, python = os.cpu_count() or 1, platform.python_version()
    return {"cores": cores, "python": python, "arch": platform.machine(), "text": f"{cores} cores, Python {python}"}
