"""A plan as text and as a chart in a terminal: what comes first is what one asks first.

The chart stacks nodes by stage, with pace and the API servers' load beneath. Each stage has a
glyph of its own, because colour alone says nothing to many; terminals that know no more than ASCII get letters of it.
"""

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from math import log10

from balloons.cli.terminal import Look, Row, table_as_asked
from balloons.preview.forecast import NONE
from balloons.preview.plan_json import Comparison
from balloons.report import sentences
from balloons.report.document import Document, PolicyCourse, Series, at, courses_of, marks, series_of
from balloons.report.sentences import Level, PlanAnswer, answer_of
from balloons.text_and_colours import COLOURS, RESET, duration, printable
from balloons.text_and_colours import times as times_as_long
from throttler.kube.quantities_and_durations import count

WAVES = ("WAVE", "FROM", "UNTIL", "NODES", "READY", "PER-MIN", "LIMITED-BY")
SIDES = ("POLICY", "ETA", "API-LOAD", "OTHERS-WAIT", "REFUSED", "PEAK-REQ/S")
STEPS = ("READY", "PREDICTED", "REAL", "OFF-BY")
INPUTS = ("INPUT", "VALUE", "SOURCE", "DETAIL")
FIRST_TO_GO = ("PEAK-REQ/S", "REFUSED", "API-LOAD")
"""Where there is no room: what others wait stays to the last."""
LIGHTS = {Level.YES: "\x1b[1;32m", Level.HURTS: "\x1b[1;33m", Level.NO: "\x1b[1;31m"}
WIDEST = 110
"""Longer lines of prose are hard to read."""
MOST_ROWS = 200
STAGES = {
    "ready": ("█", "#"),
    "joining": ("▓", "="),
    "held": ("▒", "+"),
    "booting": ("░", "."),
}
"""Glyph, and the same in ASCII; nodes that nobody has asked for yet are left blank."""
SPARKS, ASCII_SPARKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
FRAME, ASCII_FRAME = tuple("┤│└─┬"), tuple("||+-+")
ROWS, PLAN_ROWS = 11, 5
"""Of a report; of a plan, which is to fit a terminal with its answer."""
MOST_COLUMNS, LEAST_COLUMNS = 100, 40
MARGIN = 11
"""For figures and names at the left."""
LONGEST, LEAST_SLOWER = 2.0, 1.25
"""Of what others wait: the top of its strip as a power of ten, and from how many times as long on there is one."""
TICK = 8
"""Columns that the time of a mark needs at least."""


def plan_lines(plan: Document, look: Look, chart: list[str]) -> list[str]:
    """The answer, then the evidence; `chart` is drawn by whoever has a terminal. All of it with `wide`."""
    head = [f"Seen: {sentences.shown(plan.cluster.autoscaler)}"]
    if plan.request.add_nodes:
        head = [sentences.title(plan), *head, sentences.when(plan), sentences.limited_by(plan)]
    answer = answer_of(plan)
    parts = [
        answer_lines(answer, look) + [line for warning in _warnings(plan) for line in wrapped(f"! {warning}", look)],
        [line for said in filter(None, head) for line in wrapped(said, look)],
        [line for sentence in sentences.first(sentences.pods(plan), 8) for line in wrapped(sentence, look)],
        wave_lines(plan, look) if look.output == "wide" else [],
        side_lines(plan, look),
        chart,
        [line for sentence in (*sentences.risks(plan), *sentences.cost(plan)) for line in wrapped(sentence, look)],
        _basis(plan, look),
        [line for text in plan.unseen for line in wrapped(sentences.shown(text), look)],
    ]
    return [line for index, part in enumerate(filter(None, parts)) for line in ([""] if index else []) + part]


def answer_lines(answer: PlanAnswer, look: Look) -> list[str]:
    """First of all; the command stands in a line of its own and is not wrapped: it is there to be pasted."""
    said = wrapped(answer.sentence, look)
    if look.is_coloured:
        said = [f"{LIGHTS[answer.level]}{line}{RESET}" for line in said]
    return [*said, f"  {answer.command}"] if answer.command else said


def wrapped(text: str, look: Look) -> list[str]:
    """For a terminal at its width, for a pipe one line; a number and its sign stay together."""
    if look.width is None:
        return [text]
    width, together = min(look.width, WIDEST), text.replace(" %", "\xa0%")
    lines = textwrap.wrap(together, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines] or [text]


def _warnings(plan: Document) -> list[str]:
    broken = [sentences.shown(text) for text in plan.broken[1:]]
    return [*sentences.first(broken, 5), *filter(None, [sentences.nothing_seen(plan)])]


def wave_lines(plan: Document, look: Look) -> list[str]:
    """One row per stretch of time in which one thing binds."""
    rows: list[Row] = [
        dict(zip(WAVES, sentences.wave_row(number, wave), strict=True))
        for number, wave in enumerate(plan.waves[:MOST_ROWS], start=1)
    ]
    return table_as_asked(look, WAVES, rows, kept=2) if rows else []


def side_lines(plan: Document, look: Look) -> list[str]:
    """With and without pacing; `*` is what the cluster does now."""
    rows: list[Row] = []
    for side in plan.pacing.sides[:MOST_ROWS]:
        name, ends, requests, load, refused, slower = sentences.side_row(side)
        name += " *" if side.policy == plan.pacing.policy else ""
        rows.append(dict(zip(SIDES, (name, ends, load, slower, refused, requests), strict=True)))
    return table_as_asked(look, SIDES, rows, kept=2, first_to_go=FIRST_TO_GO) if rows else []


def _basis(plan: Document, look: Look) -> list[str]:
    """What the plan rests on: where it says nothing of the future that is of no interest."""
    if look.output == "wide":
        return _inputs(plan, look)
    return wrapped(f"{sentences.assumed(plan)} -o wide shows all.", look) if plan.eta else []


def _inputs(plan: Document, look: Look) -> list[str]:
    rows: list[Row] = [
        dict(zip(INPUTS, sentences.input_row(figure), strict=True)) for figure in plan.inputs[:MOST_ROWS]
    ]
    rows += [
        {
            "INPUT": "ceiling",
            "VALUE": f"{ceiling.nodes:,} more",
            "SOURCE": sentences.shown(ceiling.name),
            "DETAIL": sentences.shown(ceiling.detail),
        }
        for ceiling in plan.ceilings[:MOST_ROWS]
    ]
    return table_as_asked(look, INPUTS, rows, kept=2)


def comparison_lines(comparison: Comparison, look: Look) -> list[str]:
    """A saved plan against what happened."""
    saved = comparison.saved
    pools = [printable(pool) for pool in sorted({saved.pool, *saved.pods_pools}) if pool]
    name = f" in {', '.join(sentences.first(pools, 4))}" if pools else ""
    high = "no end" if saved.high_s is None else duration(saved.high_s)
    end = f" in {duration(saved.eta_s)} (nine in ten: {duration(saved.low_s)} to {high})"
    text = [
        f"Planned {saved.at:%Y-%m-%d %H:%M:%S} UTC: {count(saved.nodes, 'node')}{name}"
        f"{', and no end' if saved.eta_s is None else end}",
        f"Since then {count(comparison.came, 'node')} came, {comparison.ready:,} of them usable; "
        f"it began {duration(max(0.0, comparison.since_s))} after the plan"
        if comparison.came
        else "Since then no node came",
    ]
    if comparison.is_in_band is not None:
        where = "inside" if comparison.is_in_band else "outside"
        text.append(f"The end is {where} the range that the plan gave.")
    rows: list[Row] = [
        {
            "READY": f"{step.ready:,}",
            "PREDICTED": duration(step.predicted_s),
            "REAL": "not yet" if step.real_s is None else duration(step.real_s),
            "OFF-BY": "" if step.off_by is None else f"{100 * step.off_by:+.0f} %",
        }
        for step in comparison.steps
    ]
    return [*text, "", *table_as_asked(look, STEPS, rows, kept=2)]


def chart(series: Series | None, look: Look, rows: int = ROWS, courses: Sequence[PolicyCourse] = ()) -> list[str]:
    """The lines; none where the terminal is too narrow for them, or nothing happens over time.

    Beneath is paced against not paced where `courses` hold both, else pace and load.
    """
    columns = min(look.width or 80, MOST_COLUMNS) - MARGIN
    if series is None or columns < LEAST_COLUMNS - MARGIN:
        return []
    end_s = series.times_s[-1]
    times = [end_s * (column + 0.5) / columns for column in range(columns)]
    return [
        *_legend(series, look),
        *_area(series, times, look, rows),
        *_axis(end_s, columns, look),
        *(_compared(courses, times, look) if courses else _strips(series, times, look)),
    ]


def _legend(series: Series, look: Look) -> list[str]:
    """The stages' signs, in as many lines as they need; a sign stays with its name."""
    legend, used = ["Nodes over time:"], len("Nodes over time:")
    for name in (stage for stage in series.stages if stage in STAGES):
        sign, needs = f"{_painted([name], look)} {name}", len(name) + 4
        if used + needs > (look.width or MOST_COLUMNS):
            legend, used = [*legend, " "], 1
        gap = " " if legend[-1] in ("Nodes over time:", " ") else "  "
        legend[-1] += gap + sign
        used += needs
    return legend


def _area(series: Series, times: Sequence[float], look: Look, rows: int) -> list[str]:
    """From the top; a cell shows the stage that its middle lies in."""
    tops = {name: [at(series.times_s, values, time_s) for time_s in times] for name, values in series.tops.items()}
    most = max(max(values) for values in series.tops.values()) or 1
    tick, bar = _frame(look)[:2]
    lines = []
    for row in range(rows, 0, -1):
        middle = most * (row - 0.5) / rows
        names = [next((name for name in tops if tops[name][column] > middle), "") for column in range(len(times))]
        label = {rows: f"{most:,}", (rows + 1) // 2: f"{most * (rows // 2 + 0.5) / rows:,.0f}", 1: "0"}.get(row, "")
        lines.append(f"{label:>{MARGIN - 2}} {tick if label else bar}{_painted(names, look)}".rstrip())
    return lines


def _painted(names: Sequence[str], look: Look) -> str:
    """Cells of one row; a run of equal ones is coloured once."""
    text, before = "", ""
    for name in names:
        if look.is_coloured and name != before:
            text += (RESET if before in STAGES else "") + (COLOURS[name].terminal if name in STAGES else "")
        text += STAGES[name][0 if look.is_unicode else 1] if name in STAGES else " "
        before = name
    return text + (RESET if look.is_coloured and before in STAGES else "")


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
    strips = [_strip("pace", [at(middles, series.pace, time_s) for time_s in times], most, look)]
    if series.load:
        title += ", API load 100 %"
        strips.append(_strip("load", [at(series.times_s, series.load, time_s) for time_s in times], 1.0, look))
    return [*wrapped(title, look), *strips]


def _compared(courses: Sequence[PolicyCourse], times: Sequence[float], look: Look) -> list[str]:
    """The API servers' load and what others wait, one line for each policy; times as long by powers of ten."""
    load = [_course_strip(course, course.load, 1.0, times, look) for course in courses]
    longer = [[log10(factor) for factor in course.slower_by] for course in courses]
    waits = [_course_strip(*pair, LONGEST, times, look) for pair in zip(courses, longer, strict=True)]
    text = ["Full height: API load 100 %", *load]
    if any(max(course.slower_by) >= LEAST_SLOWER for course in courses):
        full, half = times_as_long(10**LONGEST), times_as_long(10 ** (LONGEST / 2))
        return [*text, *wrapped(f"Full height: others wait {full} longer, half: {half}", look), *waits]
    return [*text, "Others wait no longer."]


def _course_strip(course: PolicyCourse, values: Sequence[float], top: float, times: Sequence[float], look: Look) -> str:
    name = "unpaced" if course.policy == NONE else "paced"
    return _strip(name, [at(course.times_s, values, time_s) for time_s in times], top, look)


def _strip(name: str, values: Sequence[float], top: float, look: Look) -> str:
    sparks = SPARKS if look.is_unicode else ASCII_SPARKS
    steps = [min(len(sparks) - 1, round((len(sparks) - 1) * value / top)) if top else 0 for value in values]
    return f"{name:>{MARGIN - 2}}  {''.join(sparks[step] for step in steps)}".rstrip()


def _frame(look: Look) -> tuple[str, ...]:
    return FRAME if look.is_unicode else ASCII_FRAME


def report_lines(plan: Document, look: Look, wide: Look) -> list[str]:
    """A plan with everything in it; `wide` is how the chart looks, which has a width also where a table has none."""
    return plan_lines(plan, look, chart(series_of(plan), wide, courses=courses_of(plan)))
