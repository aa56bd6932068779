"""A plan over time in a terminal: nodes stacked by stage, then pace and the API servers' load beneath.

Each stage has a glyph of its own, because colour alone says nothing to many; terminals that know no more than ASCII get
letters of it.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log10

from balloons.cli.look import Look
from balloons.preview.forecast import NONE
from balloons.preview.words import duration
from balloons.preview.words import times as times_as_long
from balloons.report.document import PolicyCourse, Series, at, marks

STAGES = {
    "ready": ("█", "#", "\x1b[32m"),
    "joining": ("▓", "=", "\x1b[33m"),
    "held": ("▒", "+", "\x1b[35m"),
    "booting": ("░", ".", "\x1b[36m"),
}
"""Glyph, the same in ASCII, colour; nodes that nobody has asked for yet are left blank."""
SPARKS, ASCII_SPARKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
FRAME, ASCII_FRAME = tuple("┤│└─┬"), tuple("||+-+")
END = "\x1b[0m"
ROWS, PLAN_ROWS = 11, 5
"""Of a report; of a plan, which is to fit a terminal with its answer."""
MOST_COLUMNS, LEAST_COLUMNS = 100, 40
MARGIN = 11
"""For figures and names at the left."""
LONGEST, LEAST_SLOWER = 2.0, 1.25
"""Of what others wait: the top of its strip as a power of ten, and from how many times as long on there is one."""
TICK = 8
"""Columns that the time of a mark needs at least."""


def chart(series: Series | None, look: Look, rows: int = ROWS, courses: Sequence[PolicyCourse] = ()) -> list[str]:
    """The lines; none where the terminal is too narrow for them, or nothing happens over time.

    Beneath is paced against not paced where `courses` hold both, else pace and load.
    """
    columns = min(look.width or 80, MOST_COLUMNS) - MARGIN
    if series is None or columns < LEAST_COLUMNS - MARGIN:
        return []
    end_s = series.times_s[-1]
    times = [end_s * (column + 0.5) / columns for column in range(columns)]
    legend = "  ".join(f"{_painted([name], look)} {name}" for name in series.stages if name in STAGES)
    return [
        f"Nodes over time: {legend}",
        *_area(series, times, look, rows),
        *_axis(end_s, columns, look),
        *(_compared(courses, times, look) if courses else _strips(series, times, look)),
    ]


def _area(series: Series, times: Sequence[float], look: Look, rows: int) -> list[str]:
    """From the top; a cell shows the stage that its middle lies in."""
    tops = {name: [at(series.times_s, values, each) for each in times] for name, values in series.tops.items()}
    most = max(max(values) for values in series.tops.values()) or 1
    tick, bar = _frame(look)[:2]
    found = []
    for row in range(rows, 0, -1):
        middle = most * (row - 0.5) / rows
        names = [next((name for name in tops if tops[name][column] > middle), "") for column in range(len(times))]
        label = {rows: f"{most:,}", (rows + 1) // 2: f"{most * (rows // 2 + 0.5) / rows:,.0f}", 1: "0"}.get(row, "")
        found.append(f"{label:>{MARGIN - 2}} {tick if label else bar}{_painted(names, look)}".rstrip())
    return found


def _painted(names: Sequence[str], look: Look) -> str:
    """Cells of one row; a run of equal ones is coloured once."""
    text, before = "", ""
    for name in names:
        if look.is_coloured and name != before:
            text += (END if before in STAGES else "") + (STAGES[name][2] if name in STAGES else "")
        text += _glyph(name, look)
        before = name
    return text + (END if look.is_coloured and before in STAGES else "")


def _axis(end_s: float, columns: int, look: Look) -> list[str]:
    """The line below with its marks, and their times."""
    _, _, corner, line, mark = _frame(look)
    rule, words = [line] * columns, [" "] * (columns + MARGIN)
    for time_s in marks(end_s, max(1, columns // TICK)):
        column = min(columns - 1, int(columns * time_s / end_s))
        rule[column] = mark
        text = duration(time_s)
        if MARGIN + column + len(text) <= len(words):
            words[MARGIN + column : MARGIN + column + len(text)] = text
    return [" " * (MARGIN - 1) + corner + "".join(rule), "".join(words).rstrip()]


def _strips(series: Series, times: Sequence[float], look: Look) -> list[str]:
    """Pace against its own most, load against all that the servers can do.

    The title says what full height means and no figure of the course: the tables' figures are of all possible worlds.
    """
    middles = [(before + after) / 2 for before, after in pairwise(series.edges_s)]
    most = max(series.pace)
    title = f"Full height: pace {most:,.0f} joins/min"
    found = [_strip("pace", [at(middles, series.pace, each) for each in times], most, look)]
    if series.load:
        title += ", API load 100 %"
        found.append(_strip("load", [at(series.times_s, series.load, each) for each in times], 1.0, look))
    return [title, *found]


def _compared(courses: Sequence[PolicyCourse], times: Sequence[float], look: Look) -> list[str]:
    """The API servers' load and what others wait, one line for each policy; times as long by powers of ten."""
    load = [_course_strip(course, course.load, 1.0, times, look) for course in courses]
    longer = [[log10(factor) for factor in course.slower_by] for course in courses]
    waits = [_course_strip(*pair, LONGEST, times, look) for pair in zip(courses, longer, strict=True)]
    text = ["Full height: API load 100 %", *load]
    if any(max(course.slower_by) >= LEAST_SLOWER for course in courses):
        return [*text, f"Full height: others wait {times_as_long(10**LONGEST)} longer", *waits]
    return [*text, "Others wait no longer."]


def _course_strip(course: PolicyCourse, values: Sequence[float], top: float, times: Sequence[float], look: Look) -> str:
    name = "unpaced" if course.policy == NONE else "paced"
    return _strip(name, [at(course.times_s, values, time_s) for time_s in times], top, look)


def _strip(name: str, values: Sequence[float], top: float, look: Look) -> str:
    sparks = SPARKS if look.is_unicode else ASCII_SPARKS
    steps = [min(len(sparks) - 1, round((len(sparks) - 1) * value / top)) if top else 0 for value in values]
    return f"{name:>{MARGIN - 2}}  {''.join(sparks[step] for step in steps)}".rstrip()


def _glyph(name: str, look: Look) -> str:
    return STAGES[name][0 if look.is_unicode else 1] if name in STAGES else " "


def _frame(look: Look) -> tuple[str, ...]:
    return FRAME if look.is_unicode else ASCII_FRAME
