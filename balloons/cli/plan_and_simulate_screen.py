"""Makes plans, compares them with what came, runs what-if simulations, and prints all that: for a terminal, a pipe, or
machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.input_and_output_files import documents, only_document, prices, write
from balloons.cli.json_and_yaml_output import printed
from balloons.cli.options_and_values import Number, Seconds
from balloons.cli.plan_and_simulate_command import DURATIONS, stated_of
from balloons.cli.plan_text_and_chart import PLAN_ROWS, answer_lines, chart, comparison_lines, plan_lines, wrapped
from balloons.cli.terminal import CommandError, ExitCode, Look, Row, table_as_asked, warn, working
from balloons.cli.version_command import own_version
from balloons.cluster import seen_cluster
from balloons.cluster.kinds import NODES, Kind
from balloons.cluster.seen_cluster import SeenCluster
from balloons.preview.forecast import NONE, THROTTLE, PolicyError, policy_maker
from balloons.preview.from_cluster import KINDS, births_in, loads_of, plan_inputs
from balloons.preview.inputs import (
    PlanInputs,
    Stated,
    StatedError,
    ThrottleFacts,
    accepted,
    assumed_inputs,
    check,
    with_stated,
)
from balloons.preview.plan_json import SavedPlanError, compared, comparison_json, plan_json, saved_plan
from balloons.preview.scale_up_plan import Asked, PlanError, ScaleUpPlan, make_plan, room_of
from balloons.preview.simulate import FIGURES, Cell, Sweep, simulate, simulation_json
from balloons.preview.workload_pods_and_fitting import AskedPod, Fitting, PodsError, asked_pods, fit_pods
from balloons.report.document import read_document, series_of
from balloons.report.sentences import answer_of_sides, hurts, may_hurt, shown
from balloons.text_and_colours import POLICIES, duration, end, share, times
from throttler.kube.quantities_and_durations import count
from throttler.law.settings import LawSettings
from throttler.simulator.scenario_and_faults import FaultError, fault_of

COLUMNS = ("POLICY", "ETA", "NINE-IN-TEN", "API-LOAD", "OTHERS-WAIT", "REFUSED", "LOST", "LIMITED-BY", "PEAK-REQ/S")
FIRST_TO_GO = ("PEAK-REQ/S", "LOST", "REFUSED", "LIMITED-BY", "NINE-IN-TEN")
"""Where there is no room: the end and what others feel of it stay."""
DEFAULT_POLICIES = (NONE, THROTTLE)


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known when a plan is made; `cluster` is None with --offline."""

    inputs: PlanInputs
    cluster: SeenCluster | None
    at: datetime


def show_plan(options: Mapping[str, Any]) -> int:
    """Make and print the plan; the exit code says whether it keeps its promises."""
    made, body = planned(options, "plan", with_findings=bool(options["save"]))
    if options["save"]:
        write(options["save"], printed(body, "json"))
    _print(body, options)
    return ExitCode.FINDINGS if made.broken else ExitCode.DONE


def planned(options: Mapping[str, Any], command: str, *, with_findings: bool) -> tuple[ScaleUpPlan, dict[str, Any]]:
    """The plan that the options ask for, and the form in which it is kept; raises CommandError, ConfigError, ApiError.

    What is kept is looked at when something went wrong: it says what `doctor` found then, which takes a few more reads.
    """
    # A large cluster is not read for files that are refused afterwards.
    pods, cost = _pods(options), prices(options["prices"], options["price"])
    basis = basis_of(options, command, with_findings=with_findings)
    made = _made(options, basis, pods, cost)
    if options["prices"] and made.cost.unpriced:
        warn(f"{options['prices']}: no price of {made.cost.unpriced}: the plan has no cost")
    body = plan_json(made, own_version())
    return made, {**body, "findings": _findings(basis.cluster)} if with_findings and basis.cluster else body


def _findings(cluster: SeenCluster) -> list[dict[str, str]]:
    from balloons.cli.doctor_command import diagnosis_document
    from balloons.doctor.diagnose import diagnose

    kept = ("code", "severity", "object", "message", "fix")
    return [
        {name: getattr(finding, name) for name in kept} for finding in diagnosis_document(diagnose(cluster)).findings
    ]


def _kinds(*, with_findings: bool) -> tuple[Kind, ...]:
    if not with_findings:
        return KINDS
    from balloons.doctor.diagnose import ALL_CHECKS, kinds_of

    return tuple({kind.name: kind for kind in (*KINDS, *kinds_of(ALL_CHECKS))}.values())


def compare(options: Mapping[str, Any]) -> int:
    """Hold a saved plan against the nodes that have come since."""
    try:
        saved = saved_plan(only_document(options["compare"]))
    except SavedPlanError as error:
        raise CommandError(f"{options['compare']}: {error}", ExitCode.BAD_INPUT) from error
    if options["offline"]:
        raise CommandError("--compare needs a cluster, or --from FILE: --offline has none", ExitCode.BAD_INPUT)
    cluster = see(dict(options), "plan", KINDS)
    if cluster.listed(NODES).unread is not None:
        raise CommandError("a plan is compared with the nodes that came, and no nodes could be read")
    if cluster.taken_at < saved.at:
        taken, made = (f"{time:%Y-%m-%d %H:%M:%S} UTC" for time in (cluster.taken_at, saved.at))
        raise CommandError(
            f"{options['compare']}: it was made at {made}, after this look at the cluster ({taken}); "
            "accepted: a plan that is older",
            ExitCode.BAD_INPUT,
        )
    comparison = compared(saved, births_in(cluster, saved.at.timestamp()))
    if options["output"] in ("json", "yaml"):
        click.echo(printed(comparison_json(comparison, cluster.taken_at), options["output"]), nl=False)
    else:
        look = Look.of_terminal("", has_headers=not options["no_headers"])
        click.echo("".join(f"{line}\n" for line in comparison_lines(comparison, look)), nl=False)
    return ExitCode.DONE


def basis_of(options: Mapping[str, Any], command: str, *, with_findings: bool = False) -> Basis:
    """What is known of the cluster, under what is stated."""
    stated = stated_of(options)
    if options["offline"]:
        return Basis(with_stated(assumed_inputs(), stated), None, datetime.now(UTC))
    cluster = see(dict(options), command, _kinds(with_findings=with_findings))
    return Basis(with_stated(plan_inputs(cluster), stated), cluster, cluster.taken_at)


def _pods(options: Mapping[str, Any]) -> tuple[AskedPod, ...]:
    """Those of --pods or --job; none where a number of nodes is asked for."""
    path = options["pods"] or options["job"]
    try:
        return asked_pods(documents(path), is_gang=options["job"] is not None) if path else ()
    except PodsError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error


def _made(options: Mapping[str, Any], basis: Basis, pods: Sequence[AskedPod], cost: Mapping[str, float]) -> ScaleUpPlan:
    fitting = _fitting(options, basis, pods) if pods else None
    asked = _asked_by_pods(options, fitting) if fitting else _asked(options, basis.inputs)
    try:
        with working(f"running {count(asked.add, 'node')} through possible worlds", asked.add):
            return make_plan(basis.inputs, asked, basis.at, prices=cost, fitting=fitting)
    except PlanError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _fitting(options: Mapping[str, Any], basis: Basis, pods: Sequence[AskedPod]) -> Fitting:
    if basis.cluster is None:
        raise CommandError("where pods go depends on nodes: give a cluster, or --from FILE", ExitCode.BAD_INPUT)
    loads = loads_of(seen_cluster.pods(basis.cluster))
    return fit_pods(pods, seen_cluster.nodes(basis.cluster), loads, basis.inputs, options["pool"])


def _asked_by_pods(options: Mapping[str, Any], fitting: Fitting) -> Asked:
    """New nodes of several pools boot side by side: the plan is for all of them, at the pace of the largest part."""
    pool = max(fitting.new_nodes, key=lambda name: (fitting.new_nodes[name], name), default=options["pool"])
    words = f"--pods {options['pods']}" if options["pods"] else f"--job {options['job']}"
    return Asked(add=sum(fitting.new_nodes.values()), pool=pool, within_s=options["within"], in_words=words)


def _asked(options: Mapping[str, Any], inputs: PlanInputs) -> Asked:
    pool, add = inputs.pool(options["pool"]), options["add"]
    is_total = add is None
    words = f"--to {options['to']}" if is_total else f"--add {add}"
    if is_total:
        add = max(0, options["to"] - (pool.nodes if pool else 0))
    return Asked(add=add, is_total=is_total, pool=options["pool"], within_s=options["within"], in_words=words)


def _print(body: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    look = Look.of_terminal(options["output"] or "", has_headers=not options["no_headers"])
    if look.output in ("json", "yaml"):
        click.echo(printed(body, options["output"]), nl=False)
        return
    plan = read_document(body)
    drawn = chart(series_of(plan), look, rows=PLAN_ROWS) if look.is_terminal else []
    click.echo("".join(f"{line}\n" for line in plan_lines(plan, look, drawn)), nl=False)


def show_simulation(options: Mapping[str, Any]) -> int:
    """Run and print."""
    options = {**options, **_from_file(options)}
    try:
        sweep = _sweep(options["sweep"]) if options["sweep"] else None
        policies = options["policies"] or DEFAULT_POLICIES
        for name in policies:
            # A large cluster is not read for what is refused afterwards.
            policy_maker(name, None)
        inputs = _inputs(options)
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
    ceilings = dict.fromkeys(room_of(cell.ceiling) for cell in cells if cell.ceiling)
    passed_over = [f"{shown(room)}. A simulation passes over limits on nodes, a plan does not." for room in ceilings]
    endless = filter(None, map(_endless, cells))
    notes = [line for note in (*endless, *passed_over) for line in wrapped(note, look)]
    kept = 2 if sweep else 1
    drawn = table_as_asked(look, headers, rows, kept=kept, first_to_go=FIRST_TO_GO)
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
    faults = tuple(map(fault_of, options["faults"]))
    inputs = replace(basis_of(options, "simulate").inputs, faults=faults)
    throttle = inputs.throttle
    if options["gate"] is None:
        return inputs
    facts = throttle or ThrottleFacts(name="simulated", settings=LawSettings())
    gated = replace(facts, settings=replace(facts.settings, has_gate=options["gate"]))
    return replace(inputs, throttle=gated, throttles=())


def _sweep(text: str) -> Sweep:
    name, _, values = text.partition("=")
    try:
        # Without `=` there is one value, which is empty, and no number.
        return Sweep(name, tuple(_value(name, value) for value in values.split(",")))
    except click.BadParameter as error:
        raise StatedError(
            f"sweep {text[:80]!r} is not accepted; accepted: NAME=A,B,C, such as servers=1,2,4"
        ) from error


def _value(name: str, text: str) -> float:
    kind = Seconds() if name in DURATIONS else Number()
    return kind.convert(text, None, None)


def _from_file(options: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a file, under those of the command line."""
    path = options["file"]
    body = only_document(path) if path else {}
    if not isinstance(body, dict):
        raise CommandError(f"{path}: accepted: a mapping of {', '.join(FIGURES)}", ExitCode.BAD_INPUT)
    stated: dict[str, Any] = {}
    for name, value in body.items():
        if name not in FIGURES:
            text = f"{path}: {str(name)[:60]!r} is not known; accepted: {', '.join(FIGURES)}"
            raise CommandError(text, ExitCode.BAD_INPUT)
        try:
            stated[name.replace("-", "_")] = _value(name, str(value))
        except click.BadParameter as error:
            text = f"{path}: {name} {str(value)[:60]!r}: accepted: {accepted(name.replace('-', '_'))}"
            raise CommandError(text, ExitCode.BAD_INPUT) from error
    try:
        check(Stated(**stated))
    except StatedError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error
    return {name: number for name, number in stated.items() if options[name] is None}
