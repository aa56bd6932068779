"""A dashboard as a picture: panels in Grafana's own arrangement, with the values that its queries gave."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from balloons.text_and_colours import COLOURS, WARNING_LIGHT
from lab.monitoring.board import Board, Kind, Panel, thing_of
from lab.monitoring.grafana import COLUMNS, Json, board_json
from lab.monitoring.panel_values import Course, courses, in_unit, numbers, steps, unit_size
from lab.monitoring.prometheus import STEP_S, RecordedRun

COLUMN_IN, LINE_IN = 0.66, 0.34
"""Inches per column and per line of Grafana's grid."""
TEXT = "#222"
FRAME, PAPER = "#c8ccd2", "#f4f5f7"
SMALL, MOST_NAMES = 7, 8
LEAST_TOP = {"short": 1.0, "percentunit": 0.05}
"""So that nothing at all does not look like much."""


@dataclass(frozen=True)
class Sheet:
    """A figure and where things go on it."""

    figure: Figure
    lines: int

    def axes(self, place: Json, *, head: float = 1.0, foot: float = 0.7, left: float = 1.0, right: float = 0.3) -> Axes:
        """Axes within a panel's frame; margins are in grid units."""
        x, y, w, h = (place[name] for name in ("x", "y", "w", "h"))
        box = (x + left, y + head, w - left - right, h - head - foot)
        return self.figure.add_axes(self._share(*box))

    def frame(self, place: Json, title: str) -> None:
        """A panel's background and title."""
        x, y, w, h = (place[name] for name in ("x", "y", "w", "h"))
        back = self.figure.add_axes(self._share(x + 0.06, y + 0.06, w - 0.12, h - 0.12), facecolor="white")
        back.set(xticks=[], yticks=[])
        for spine in back.spines.values():
            spine.set_color(FRAME)
        self.write(x + 0.3, y + 0.6, title, size=8, weight="bold")

    def write(self, x: float, y: float, text: str, *, size: float, weight: str = "normal", colour: str = TEXT) -> None:
        """Text that begins at a place of the grid."""
        at = (x / COLUMNS, 1 - y / self.lines)
        self.figure.text(*at, text, fontsize=size, fontweight=weight, color=colour, va="center")

    def _share(self, x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
        return x / COLUMNS, 1 - (y + h) / self.lines, w / COLUMNS, h / self.lines


def draw(board: Board, run: RecordedRun) -> Figure:
    """The whole board over the whole run."""
    placed = board_json(board)["panels"]
    top = 2
    lines = top + max(box["gridPos"]["y"] + box["gridPos"]["h"] for box in placed)
    sheet = Sheet(Figure(figsize=(COLUMNS * COLUMN_IN, lines * LINE_IN), facecolor=PAPER), lines)
    sheet.write(0.3, 0.7, board.title, size=13, weight="bold")
    sheet.write(0.3, 1.5, f"{board.description} Drawn from the recorded run; minutes since its start.", size=8)
    marks = [mark for annotation in board.annotations for mark in courses(run, annotation.query)]
    panels = iter(board.panels)
    for box in placed:
        place = {**box["gridPos"], "y": box["gridPos"]["y"] + top}
        if box["type"] == "row":
            sheet.write(0.3, place["y"] + 0.55, box["title"], size=10, weight="bold", colour="#555")
            continue
        panel = next(panels)
        sheet.frame(place, panel.title)
        DRAWN[panel.kind](sheet, place, panel, run, marks)
    return sheet.figure


def _lines(sheet: Sheet, place: Json, panel: Panel, run: RecordedRun, marks: list[Course]) -> None:
    series = [course for query in panel.queries for course in courses(run, query)]
    minutes = [after_s / 60 for after_s in steps(run)]
    axes = sheet.axes(place, foot=1.4 + 0.45 * math.ceil(min(len(series), MOST_NAMES) / _names_per_line(place)))
    if panel.is_stacked:
        stacked = [[0.0 if math.isnan(value) else value for value in course.values] for course in series]
        paints = [paint for course in series if (paint := _paint(course))]
        names, colours = [course.name for course in series], paints if len(paints) == len(series) else None
        axes.stackplot(minutes, stacked, labels=names, alpha=0.75, colors=colours)
    else:
        for course in series:
            axes.plot(minutes, course.values, label=course.name, linewidth=1.2, color=_paint(course))
    _mark(axes, minutes, marks)
    axes.set_xlim(minutes[0], minutes[-1])
    _scale(axes, panel.unit)
    _legend(axes, series, _names_per_line(place))


def _paint(course: Course) -> str | None:
    """The colour of the thing, as in Grafana; None for one that has none."""
    thing = COLOURS.get(thing_of(course.name))
    return thing.line if thing else None


def _mark(axes: Axes, minutes: list[float], marks: list[Course]) -> None:
    for mark in marks:
        for minute, value in zip(minutes, mark.values, strict=True):
            if not math.isnan(value):
                axes.axvspan(minute, minute + STEP_S / 60, color=WARNING_LIGHT, alpha=0.13, linewidth=0)


def _scale(axes: Axes, unit: str) -> None:
    top = max(axes.get_ylim()[1], LEAST_TOP.get(unit, 0.1))
    axes.set_ylim(-0.015 * top, top)  # a line of zeros is seen whole
    size = unit_size(top, unit)
    marks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, top / size)
    axes.yaxis.set_major_locator(FixedLocator([size * mark for mark in marks]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, unit)))
    axes.tick_params(labelsize=SMALL, length=2, color=FRAME)
    axes.grid(color="#e6e8eb", linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _names_per_line(place: Json) -> int:
    return 4 if place["w"] > COLUMNS // 3 else 3


def _legend(axes: Axes, series: list[Course], per_line: int) -> None:
    """The series that show most, in the order of their size."""
    handles, names = axes.get_legend_handles_labels()
    sizes = [max((value for value in course.values if not math.isnan(value)), default=0.0) for course in series]
    order = sorted(range(len(names)), key=lambda n: -sizes[n])[:MOST_NAMES]
    shown = [names[n] for n in order]
    if len(names) > MOST_NAMES:
        shown[-1] += f" (and {len(names) - MOST_NAMES} more)"
    axes.legend(
        [handles[n] for n in order],
        shown,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.12),
        ncols=per_line,
        fontsize=SMALL - 0.5,
        frameon=False,
        borderaxespad=0,
        columnspacing=1.0,
        handlelength=1.2,
    )


def _number(sheet: Sheet, place: Json, panel: Panel, run: RecordedRun, marks: list[Course]) -> None:
    values = [number for query in panel.queries for number in numbers(run, query)]
    text = "\n".join(in_unit(round(value) if panel.unit == "short" else value, panel.unit) for _, value in values)
    colour = panel.colour_of(values[0][1]) if values else "text"
    colour = TEXT if colour == "text" else colour
    sheet.write(place["x"] + 0.4, place["y"] + 2.1, text, size=22, weight="bold", colour=colour)
    sheet.write(place["x"] + 0.4, place["y"] + 3.4, ", ".join(name for name, _ in values), size=SMALL, colour="#666")


def _states(sheet: Sheet, place: Json, panel: Panel, run: RecordedRun, marks: list[Course]) -> None:
    series = [course for query in panel.queries for course in courses(run, query)][::-1]
    axes = sheet.axes(place, left=max(2.0, max(len(course.name) for course in series) * 0.105 + 0.4))
    for row, course in enumerate(series):
        for after_s, value in zip(steps(run), course.values, strict=True):
            if not math.isnan(value):
                colour = panel.words[int(value)].colour if panel.words else panel.base
                axes.barh(row, STEP_S / 60, left=after_s / 60, height=0.7, color=colour, linewidth=0)
    spare = max(0, 3 - len(series)) / 2
    axes.set(xlim=(0, steps(run)[-1] / 60), ylim=(-0.6 - spare, len(series) - 0.4 + spare))
    axes.set_yticks(range(len(series)), [course.name for course in series])
    axes.tick_params(labelsize=SMALL, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for number, word in enumerate(panel.words):
        at = place["x"] + place["w"] - 1.9 * (len(panel.words) - number)
        sheet.write(at, place["y"] + 0.6, f"■ {word.text}", size=SMALL, colour=word.colour)


def _bars(sheet: Sheet, place: Json, panel: Panel, run: RecordedRun, marks: list[Course]) -> None:
    bars = [number for query in panel.queries for number in numbers(run, query)][:MOST_NAMES][::-1]
    axes = sheet.axes(place, left=3.2, right=1.0)
    axes.barh([name for name, _ in bars], [value for _, value in bars], color=panel.base, height=0.6)
    for row, (_, value) in enumerate(bars):
        axes.text(value, row, f" {in_unit(value, panel.unit)}", va="center", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


Drawing = Callable[[Sheet, Json, Panel, RecordedRun, list[Course]], None]
DRAWN: dict[Kind, Drawing] = {Kind.LINES: _lines, Kind.NUMBER: _number, Kind.STATES: _states, Kind.BARS: _bars}
