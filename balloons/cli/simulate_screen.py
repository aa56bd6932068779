"""Runs what-if simulations and prints them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.look import Look
from balloons.cli.plan_files import documents
from balloons.cli.plan_options import DURATIONS, Number, Seconds
from balloons.cli.plan_screen import basis_of, document
from balloons.cli.plan_text import table
from balloons.cli.table import Row
from balloons.preview.faults import FaultError, fault_of
from balloons.preview.inputs import PlanInputs, ThrottleFacts
from balloons.preview.plan import PlanError
from balloons.preview.policies import NONE, THROTTLE, PolicyError
from balloons.preview.stated import NAMES, StatedError
from balloons.preview.what_if import Cell, Sweep, simulate, simulation_json
from balloons.preview.words import POLICIES, duration, share
from throttler.law.settings import LawSettings

COLUMNS = ("POLICY", "ETA", "90%-BAND", "PEAK-REQ/S", "API-LOAD", "REFUSED", "SLOWER-BY", "LOST", "LIMITED-BY")
DEFAULT_POLICIES = (NONE, THROTTLE)


def show_simulation(given: Mapping[str, Any]) -> int:
    """Run and print."""
    given = {**given, **_from_file(given)}
    try:
        inputs = _inputs(given)
        sweep = _sweep(given["sweep"]) if given["sweep"] else None
        cells = simulate(inputs, given["pool"], given["add"], given["policies"] or DEFAULT_POLICIES, sweep)
    except (FaultError, PlanError, PolicyError, StatedError) as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error
    if given["output"]:
        click.echo(document(simulation_json(cells, sweep), given["output"]), nl=False)
    else:
        look = Look.of_terminal("", has_headers=not given["no_headers"])
        click.echo("".join(f"{line}\n" for line in simulation_lines(cells, sweep, look)), nl=False)
    return ExitCode.DONE


def simulation_lines(cells: tuple[Cell, ...], sweep: Sweep | None, look: Look) -> list[str]:
    """One row per run."""
    headers = (sweep.name.upper(), *COLUMNS) if sweep else COLUMNS
    rows = [_row(cell, sweep) for cell in cells]
    return table(headers, rows, look)


def _row(cell: Cell, sweep: Sweep | None) -> Row:
    side, eta = cell.side, cell.found.eta_s
    named = {sweep.name.upper(): f"{cell.value:g}"} if sweep else {}
    return {
        **named,
        "POLICY": POLICIES.get(cell.policy, cell.policy),
        "ETA": ("> " if cell.found.is_collapse and eta.median else "") + duration(eta.median),
        "90%-BAND": f"{duration(eta.low)}-{duration(eta.high)}",
        "PEAK-REQ/S": f"{side.peak_requests_per_s:,.0f}",
        "API-LOAD": share(side.peak_utilisation),
        "REFUSED": share(side.error_share),
        "SLOWER-BY": f"{side.slower_by:,.1f}x",
        "LOST": f"{cell.found.lost.median or 0:.0f}",
        "LIMITED-BY": cell.limit.value if cell.limit else "",
    }


def _inputs(given: Mapping[str, Any]) -> PlanInputs:
    inputs = replace(basis_of(given, "simulate").inputs, faults=tuple(map(fault_of, given["faults"])))
    throttle = inputs.throttle
    if given["gate"] is None:
        return inputs
    facts = throttle or ThrottleFacts(name="simulated", settings=LawSettings())
    return replace(inputs, throttle=replace(facts, settings=replace(facts.settings, has_gate=given["gate"])))


def _sweep(text: str) -> Sweep:
    name, equals, values = text.partition("=")
    try:
        found = tuple(_value(name, each) for each in values.split(","))
    except click.BadParameter as error:
        raise StatedError(
            f"sweep {text[:80]!r} is not accepted; accepted: NAME=A,B,C, such as servers=1,2,4"
        ) from error
    if not equals:
        raise StatedError(f"sweep {text[:80]!r} is not accepted; accepted: NAME=A,B,C, such as servers=1,2,4")
    return Sweep(name, found)


def _value(name: str, text: str) -> float:
    kind = Seconds() if name in DURATIONS else Number()
    return kind.convert(text, None, None)


def _from_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a file, under those of the command line."""
    path = given["file"]
    found = documents(path)[0] if path else {}
    if not isinstance(found, dict):
        raise CommandError(f"{path}: accepted: a mapping of {', '.join(NAMES)}", ExitCode.BAD_INPUT)
    stated: dict[str, Any] = {}
    for name, value in found.items():
        if name not in NAMES:
            text = f"{path}: {str(name)[:60]!r} is not known; accepted: {', '.join(NAMES)}"
            raise CommandError(text, ExitCode.BAD_INPUT)
        try:
            number = _value(name, str(value))
        except click.BadParameter as error:
            raise CommandError(f"{path}: {name}: {str(value)[:60]!r} is no number", ExitCode.BAD_INPUT) from error
        if given[name.replace("-", "_")] is None:
            stated[name.replace("-", "_")] = number
    return stated
