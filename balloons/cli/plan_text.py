"""A plan as text: what comes first is what one asks first. Pure."""

import textwrap

from balloons.cli.look import Look
from balloons.cli.table import Row
from balloons.cli.table import table as table_lines
from balloons.preview.plan_json import Comparison
from balloons.preview.words import count, duration
from balloons.printable import printable
from balloons.report import sentences
from balloons.report.document import Document
from balloons.report.sentences import Level, PlanVerdict, verdict

WAVES = ("WAVE", "FROM", "UNTIL", "NODES", "READY", "PER-MIN", "LIMITED-BY")
SIDES = ("POLICY", "ETA", "API-LOAD", "OTHERS-WAIT", "REFUSED", "PEAK-REQ/S")
STEPS = ("READY", "PREDICTED", "REAL", "OFF-BY")
INPUTS = ("INPUT", "VALUE", "SOURCE", "DETAIL")
BOLD, END = "\x1b[1m", "\x1b[0m"
LIGHTS = {Level.YES: "\x1b[1;32m", Level.HURTS: "\x1b[1;33m", Level.NO: "\x1b[1;31m"}
WIDEST = 110
"""Longer lines of prose are hard to read."""
MOST_ROWS = 200


def plan_lines(plan: Document, look: Look, chart: list[str]) -> list[str]:
    """The answer, then the evidence; `chart` is drawn by whoever has a terminal. All of it with `wide`."""
    head = [f"Seen: {sentences.shown(plan.cluster.autoscaler)}"]
    if plan.request.add_nodes:
        head = [sentences.title(plan), *head, sentences.when(plan), sentences.limited_by(plan)]
    found = verdict(plan)
    parts = [
        verdict_lines(found, look) + [line for each in _warnings(plan) for line in wrapped(f"! {each}", look)],
        [line for said in filter(None, head) for line in wrapped(said, look)],
        [line for each in sentences.first(sentences.pods(plan), 8) for line in wrapped(each, look)],
        wave_lines(plan, look) if look.output == "wide" else [],
        side_lines(plan, look),
        chart,
        [line for each in (*sentences.risks(plan), *sentences.cost(plan)) for line in wrapped(each, look)],
        _basis(plan, look),
        [sentences.shown(each) for each in plan.unseen],
    ]
    return [line for index, part in enumerate(filter(None, parts)) for line in ([""] if index else []) + part]


def verdict_lines(found: PlanVerdict, look: Look) -> list[str]:
    """First of all; the command stands in a line of its own and is not wrapped: it is there to be pasted."""
    said = wrapped(found.sentence, look)
    if look.is_coloured:
        said = [f"{LIGHTS[found.level]}{line}{END}" for line in said]
    return [*said, f"  {found.command}"] if found.command else said


def wrapped(text: str, look: Look) -> list[str]:
    """For a terminal at its width, for a pipe one line; a number and its sign stay together."""
    if look.width is None:
        return [text]
    width, together = min(look.width, WIDEST), text.replace(" %", "\xa0%")
    lines = textwrap.wrap(together, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines] or [text]


def _warnings(plan: Document) -> list[str]:
    broken = [sentences.shown(each) for each in plan.broken[1:]]
    return [*sentences.first(broken, 5), *filter(None, [sentences.nothing_seen(plan)])]


def wave_lines(plan: Document, look: Look) -> list[str]:
    """One row per stretch of time in which one thing binds."""
    rows: list[Row] = [
        dict(zip(WAVES, sentences.wave_row(number, wave), strict=True))
        for number, wave in enumerate(plan.waves[:MOST_ROWS], start=1)
    ]
    return table(WAVES, rows, look) if rows else []


def side_lines(plan: Document, look: Look) -> list[str]:
    """With and without pacing; `*` is what the cluster does now."""
    rows: list[Row] = []
    for side in plan.pacing.sides[:MOST_ROWS]:
        name, ends, requests, load, refused, slower = sentences.side_row(side)
        name += " *" if side.policy == plan.pacing.policy else ""
        rows.append(dict(zip(SIDES, (name, ends, load, slower, refused, requests), strict=True)))
    return table(SIDES, rows, look) if rows else []


def _basis(plan: Document, look: Look) -> list[str]:
    """What the plan rests on: where it says nothing of the future that is of no interest."""
    if look.output == "wide":
        return _inputs(plan, look)
    return wrapped(f"{sentences.assumed(plan)} -o wide shows all.", look) if plan.eta else []


def _inputs(plan: Document, look: Look) -> list[str]:
    rows: list[Row] = [dict(zip(INPUTS, sentences.input_row(each), strict=True)) for each in plan.inputs[:MOST_ROWS]]
    rows += [
        {
            "INPUT": "ceiling",
            "VALUE": f"{each.nodes:,} more",
            "SOURCE": sentences.shown(each.name),
            "DETAIL": sentences.shown(each.detail),
        }
        for each in plan.ceilings[:MOST_ROWS]
    ]
    return table(INPUTS, rows, look)


def table(headers: tuple[str, ...], rows: list[Row], look: Look) -> list[str]:
    """As every table of this program."""
    return table_lines(headers, rows, width=look.width, kept=2, has_headers=look.has_headers)


def comparison_lines(found: Comparison, look: Look) -> list[str]:
    """A saved plan against what happened."""
    saved = found.saved
    name = f" in {printable(saved.pool)}" if saved.pool else ""
    text = [
        f"Planned {saved.at:%Y-%m-%d %H:%M:%S} UTC: {count(saved.nodes, 'node')}{name} in {duration(saved.eta_s)} "
        f"(nine in ten: {duration(saved.low_s)} to {duration(saved.high_s)})",
        f"Since then {count(found.came, 'node')} came, {found.ready:,} of them are usable; "
        f"it began {duration(max(0.0, found.since_s))} after the plan",
    ]
    if found.is_in_band is not None:
        where = "inside" if found.is_in_band else "outside"
        text.append(f"The end is {where} the range that the plan gave.")
    rows: list[Row] = [
        {
            "READY": f"{step.ready:,}",
            "PREDICTED": duration(step.predicted_s),
            "REAL": "not yet" if step.real_s is None else duration(step.real_s),
            "OFF-BY": "" if step.off_by is None else f"{100 * step.off_by:+.0f} %",
        }
        for step in found.steps
    ]
    return [*text, "", *table(STEPS, rows, look)]
