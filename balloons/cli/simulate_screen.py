"""Runs what-if simulations, and prints them: for a terminal, a pipe, or machines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from balloons.cli.documents import printed
from balloons.cli.plan_command import DURATIONS
from balloons.cli.plan_files import documents
from balloons.cli.plan_screen import basis_of
from balloons.cli.plan_text import answer_lines, wrapped
from balloons.cli.terminal import CommandError, ExitCode, Look, Row, table, working
from balloons.cli.values import Number, Seconds
from balloons.display_text import POLICIES, duration, end, share, times
from balloons.preview.forecast import NONE, THROTTLE, PolicyError
from balloons.preview.inputs import NAMES, PlanInputs, StatedError, ThrottleFacts
from balloons.preview.scale_up_plan import PlanError
from balloons.preview.simulate import Cell, Sweep, simulate, simulation_json
from balloons.report.sentences import answer_of_sides, hurts, may_hurt
from throttler.kube.quantities_and_durations import count
from throttler.law.settings import LawSettings
from throttler.simulator.scenario_and_faults import FaultError, fault_of

COLUMNS = ("POLICY", "ETA", "NINE-IN-TEN", "API-LOAD", "OTHERS-WAIT", "REFUSED", "LOST", "LIMITED-BY", "PEAK-REQ/S")
FIRST_TO_GO = ("PEAK-REQ/S", "LOST", "REFUSED", "LIMITED-BY", "NINE-IN-TEN")
"""Where there is no room: the end and what others feel of it stay."""
DEFAULT_POLICIES = (NONE, THROTTLE)


def show_simulation(options: Mapping[str, Any]) -> int:
    """Run and print."""
    options = {**options, **_from_file(options)}
    try:
        inputs = _inputs(options)
        sweep = _sweep(options["sweep"]) if options["sweep"] else None
        policies = options["policies"] or DEFAULT_POLICIES
        runs = len(policies) * (len(sweep.values) if sweep else 1)
        with working("running policies through possible worlds", runs * options["add"]):
            cells = simulate(inputs, options["pool"], options["add"], policies, sweep)
    except (FaultError, PlanError, PolicyError, StatedError) as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error
    if options["output"]:
        click.echo(printed(simulation_json(cells, sweep), options["output"]), nl=False)
    else:
        look = Look.of_terminal("", has_headers=not options["no_headers"])
        click.echo("".join(f"{line}\n" for line in simulation_lines(cells, sweep, look)), nl=False)
    return ExitCode.DONE


def simulation_lines(cells: tuple[Cell, ...], sweep: Sweep | None, look: Look) -> list[str]:
    """One row per run."""
    headers = (sweep.name.upper(), *COLUMNS) if sweep else COLUMNS
    rows = [_row(cell, sweep) for cell in cells]
    sides = [cell.side for cell in cells]
    head = _answers(cells, sweep, look) if sweep else answer_lines(answer_of_sides(sides), look)
    notes = [line for cell in cells if (note := _endless(cell)) for line in wrapped(note, look)]
    kept = 2 if sweep else 1
    drawn = table(headers, rows, width=look.width, kept=kept, first_to_go=FIRST_TO_GO, has_headers=look.has_headers)
    return [*head, "", *drawn, *([""] if notes else []), *notes]


def _answers(cells: tuple[Cell, ...], sweep: Sweep, look: Look) -> list[str]:
    """At which values each policy hurts others."""
    lines = []
    for policy in dict.fromkeys(cell.policy for cell in cells):
        own = [cell for cell in cells if cell.policy == policy]
        said = [
            f"{how} others at {sweep.name} {', '.join(values)}"
            for how, does in (("hurts", hurts), ("may hurt", may_hurt))
            if (values := [_shown(sweep.name, cell.value) for cell in own if does(cell.side)])
        ]
        lines += wrapped(f"{POLICIES.get(policy, policy)}: {', '.join(said) or 'hurts nobody'}", look)
    return lines


def _endless(cell: Cell) -> str:
    """Why a row has no end."""
    if cell.side.eta_s is not None:
        return ""
    name, ready = POLICIES.get(cell.policy, cell.policy), cell.forecast.run.moments[-1].ready
    if cell.side.is_stuck:
        return f"{name}: never, as the autoscaler destroys machines before they have registered, and orders them anew."
    return f"{name}: {ready:,} of {count(cell.add, 'node')} ready after 12 h, where the simulation stops."


def _row(cell: Cell, sweep: Sweep | None) -> Row:
    side, eta = cell.side, cell.forecast.eta_s
    named = {sweep.name.upper(): _shown(sweep.name, cell.value)} if sweep else {}
    return {
        **named,
        "POLICY": POLICIES.get(cell.policy, cell.policy),
        "ETA": end(side.eta_s, is_collapse=side.is_collapse, is_stuck=side.is_stuck),
        "NINE-IN-TEN": f"{duration(eta.low)}-{duration(eta.high)}" if eta.high is not None else "",
        "PEAK-REQ/S": f"{side.peak_requests_per_s:,.0f}",
        "API-LOAD": share(side.peak_utilisation),
        "REFUSED": share(side.error_share),
        "OTHERS-WAIT": times(side.slower_by),
        "LOST": f"{cell.forecast.lost.median or 0:.0f}",
        "LIMITED-BY": cell.limit.value if cell.limit else "",
    }


def _shown(name: str, value: float | None) -> str:
    """As it was given: times as times."""
    if value is None:
        return ""
    return duration(value) if name in DURATIONS else f"{value:,g}" if value < 1e5 else f"{value:,.0f}"


def _inputs(options: Mapping[str, Any]) -> PlanInputs:
    inputs = replace(basis_of(options, "simulate").inputs, faults=tuple(map(fault_of, options["faults"])))
    throttle = inputs.throttle
    if options["gate"] is None:
        return inputs
    facts = throttle or ThrottleFacts(name="simulated", settings=LawSettings())
    return replace(inputs, throttle=replace(facts, settings=replace(facts.settings, has_gate=options["gate"])))


def _sweep(text: str) -> Sweep:
    name, equals, values = text.partition("=")
    try:
        numbers = tuple(_value(name, value) for value in values.split(","))
    except click.BadParameter as error:
        raise StatedError(
            f"sweep {text[:80]!r} is not accepted; accepted: NAME=A,B,C, such as servers=1,2,4"
        ) from error
    if not equals:
        raise StatedError(f"sweep {text[:80]!r} is not accepted; accepted: NAME=A,B,C, such as servers=1,2,4")
    return Sweep(name, numbers)


def _value(name: str, text: str) -> float:
    kind = Seconds() if name in DURATIONS else Number()
    return kind.convert(text, None, None)


def _from_file(options: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a file, under those of the command line."""
    path = options["file"]
    body = documents(path)[0] if path else {}
    if not isinstance(body, dict):
        raise CommandError(f"{path}: accepted: a mapping of {', '.join(NAMES)}", ExitCode.BAD_INPUT)
    stated: dict[str, Any] = {}
    for name, value in body.items():
        if name not in NAMES:
            text = f"{path}: {str(name)[:60]!r} is not known; accepted: {', '.join(NAMES)}"
            raise CommandError(text, ExitCode.BAD_INPUT)
        try:
            number = _value(name, str(value))
        except click.BadParameter as error:
            raise CommandError(f"{path}: {name}: {str(value)[:60]!r} is no number", ExitCode.BAD_INPUT) from error
        if options[name.replace("-", "_")] is None:
            stated[name.replace("-", "_")] = number
    return stated
