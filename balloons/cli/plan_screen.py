"""Makes plans, compares them with what came, and prints them: for a terminal, a pipe, or machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.documents import printed
from balloons.cli.plan_command import stated_of
from balloons.cli.plan_files import documents, prices, write
from balloons.cli.plan_text import PLAN_ROWS, chart, comparison_lines, plan_lines
from balloons.cli.terminal import CommandError, ExitCode, Look, working
from balloons.cli.version_command import own_version
from balloons.cluster import seen_cluster
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import SeenCluster
from balloons.preview.fitting import Fitting, PodsError, asked_pods, fit_pods
from balloons.preview.from_cluster import KINDS, births_in, loads_of, plan_inputs
from balloons.preview.inputs import PlanInputs, assumed_inputs, with_stated
from balloons.preview.plan_json import SavedPlanError, compared, comparison_json, plan_json, saved_plan
from balloons.preview.scale_up_plan import Asked, PlanError, ScaleUpPlan, make_plan
from balloons.report.document import read_document, series_of
from throttler.kube.quantities_and_durations import count


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
    basis = basis_of(options, command, with_findings=with_findings)
    made = _made(options, basis)
    body = plan_json(made, own_version())
    return made, {**body, "findings": _findings(basis.cluster)} if with_findings and basis.cluster else body


def _findings(cluster: SeenCluster) -> list[dict[str, str]]:
    from balloons.cli.doctor_text import diagnosis_document
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
        saved = saved_plan(documents(options["compare"])[0])
    except SavedPlanError as error:
        raise CommandError(f"{options['compare']}: {error}", ExitCode.BAD_INPUT) from error
    if options["offline"]:
        raise CommandError("--compare needs a cluster, or --from FILE: --offline has none", ExitCode.BAD_INPUT)
    cluster = see(dict(options), "plan", KINDS)
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


def _made(options: Mapping[str, Any], basis: Basis) -> ScaleUpPlan:
    fitting = _fitting(options, basis) if options["pods"] or options["job"] else None
    asked = _asked_by_pods(options, fitting) if fitting else _asked(options, basis.inputs)
    try:
        cost = prices(options["prices"], options["price"])
        with working(f"running {count(asked.add, 'node')} through possible worlds", asked.add):
            return make_plan(basis.inputs, asked, basis.at, prices=cost, fitting=fitting)
    except PlanError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _fitting(options: Mapping[str, Any], basis: Basis) -> Fitting:
    path = options["pods"] or options["job"]
    try:
        pods = asked_pods(documents(path), is_gang=options["job"] is not None)
    except PodsError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error
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
    pool = inputs.pool(options["pool"])
    nodes = pool.nodes if pool else 0
    if options["add"] is not None:
        return Asked(
            add=options["add"], pool=options["pool"], within_s=options["within"], in_words=f"--add {options['add']}"
        )
    words = f"--to {options['to']}"
    return Asked(add=max(0, options["to"] - nodes), pool=options["pool"], within_s=options["within"], in_words=words)


def _print(body: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    look = Look.of_terminal(options["output"] or "", has_headers=not options["no_headers"])
    if look.output in ("json", "yaml"):
        click.echo(printed(body, options["output"]), nl=False)
        return
    plan = read_document(body)
    drawn = chart(series_of(plan), look, rows=PLAN_ROWS) if look.is_terminal else []
    click.echo("".join(f"{line}\n" for line in plan_lines(plan, look, drawn)), nl=False)
