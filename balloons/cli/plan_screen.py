"""Reads what a plan is made from, and prints it: for a terminal, for a pipe, or for machines."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import yaml

from balloons.cli.cluster_options import see
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.look import Look
from balloons.cli.plan_chart import PLAN_ROWS, chart
from balloons.cli.plan_files import documents, prices, write
from balloons.cli.plan_options import stated_of
from balloons.cli.plan_text import comparison_lines, plan_lines
from balloons.cli.version_command import own_version
from balloons.cli.working import working
from balloons.cluster import seen_cluster
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import SeenCluster
from balloons.preview.fitting import Fitting, PodsError, asked_pods, fit_pods
from balloons.preview.from_cluster import KINDS, births_in, loads_of, plan_inputs
from balloons.preview.inputs import PlanInputs, assumed_inputs
from balloons.preview.plan_json import SavedPlanError, compared, comparison_json, plan_json, saved_plan
from balloons.preview.scale_up_plan import Asked, PlanError, ScaleUpPlan, make_plan
from balloons.preview.what_if import with_stated
from balloons.report.document import read_document, series_of


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known when a plan is made; `seen` is None with --offline."""

    inputs: PlanInputs
    seen: SeenCluster | None
    at: datetime


def show_plan(given: Mapping[str, Any]) -> int:
    """Make and print the plan; the exit code says whether it keeps its promises."""
    made, body = planned(given, "plan", with_findings=bool(given["save"]))
    if given["save"]:
        write(given["save"], json.dumps(body, indent=2) + "\n")
    _print(body, given)
    return ExitCode.FINDINGS if made.broken else ExitCode.DONE


def planned(given: Mapping[str, Any], command: str, *, with_findings: bool) -> tuple[ScaleUpPlan, dict[str, Any]]:
    """The plan that the options ask for, and the form in which it is kept; raises CommandError, ConfigError, ApiError.

    What is kept is looked at when something went wrong: it says what `doctor` found then, which takes a few more reads.
    """
    basis = basis_of(given, command, with_findings=with_findings)
    made = _made(given, basis)
    body = plan_json(made, own_version())
    return made, {**body, "findings": _findings(basis.seen)} if with_findings and basis.seen else body


def _findings(seen: SeenCluster) -> list[dict[str, str]]:
    from balloons.cli.doctor_text import document
    from balloons.doctor.diagnose import diagnose

    kept = ("code", "severity", "object", "message", "fix")
    return [{name: getattr(each, name) for name in kept} for each in document(diagnose(seen)).findings]


def _kinds(*, with_findings: bool) -> tuple[Kind, ...]:
    if not with_findings:
        return KINDS
    from balloons.doctor.diagnose import ALL_CHECKS, kinds_of

    return tuple({kind.name: kind for kind in (*KINDS, *kinds_of(ALL_CHECKS))}.values())


def compare(given: Mapping[str, Any]) -> int:
    """Hold a saved plan against the nodes that have come since."""
    try:
        saved = saved_plan(documents(given["compare"])[0])
    except SavedPlanError as error:
        raise CommandError(f"{given['compare']}: {error}", ExitCode.BAD_INPUT) from error
    if given["offline"]:
        raise CommandError("--compare needs a cluster, or --from FILE: --offline has none", ExitCode.BAD_INPUT)
    seen = see(dict(given), "plan", KINDS)
    found = compared(saved, births_in(seen, saved.at.timestamp()))
    if given["output"]:
        click.echo(document(comparison_json(found, seen.taken_at), given["output"]), nl=False)
    else:
        look = Look.of_terminal("", has_headers=not given["no_headers"])
        click.echo("".join(f"{line}\n" for line in comparison_lines(found, look)), nl=False)
    return ExitCode.DONE


def basis_of(given: Mapping[str, Any], command: str, *, with_findings: bool = False) -> Basis:
    """What is known of the cluster, under what is stated."""
    stated = stated_of(given)
    if given["offline"]:
        return Basis(with_stated(assumed_inputs(), stated), None, datetime.now(UTC))
    seen = see(dict(given), command, _kinds(with_findings=with_findings))
    return Basis(with_stated(plan_inputs(seen), stated), seen, seen.taken_at)


def _made(given: Mapping[str, Any], basis: Basis) -> ScaleUpPlan:
    fitting = _fitting(given, basis) if given["pods"] or given["job"] else None
    asked = _asked_by_pods(given, fitting) if fitting else _asked(given, basis.inputs)
    try:
        cost = prices(given["prices"], given["price"])
        with working(f"running {asked.add:,} nodes through possible worlds", asked.add):
            return make_plan(basis.inputs, asked, basis.at, prices=cost, fitting=fitting)
    except PlanError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _fitting(given: Mapping[str, Any], basis: Basis) -> Fitting:
    path = given["pods"] or given["job"]
    try:
        pods = asked_pods(documents(path), is_gang=given["job"] is not None)
    except PodsError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error
    if basis.seen is None:
        raise CommandError("where pods go depends on nodes: give a cluster, or --from FILE", ExitCode.BAD_INPUT)
    loads = loads_of(seen_cluster.pods(basis.seen))
    return fit_pods(pods, seen_cluster.nodes(basis.seen), loads, basis.inputs, given["pool"])


def _asked_by_pods(given: Mapping[str, Any], fitting: Fitting) -> Asked:
    """New nodes of several pools boot side by side: the plan is for all of them, at the pace of the largest part."""
    pool = max(fitting.new_nodes, key=lambda name: (fitting.new_nodes[name], name), default=given["pool"])
    words = f"--pods {given['pods']}" if given["pods"] else f"--job {given['job']}"
    return Asked(add=sum(fitting.new_nodes.values()), pool=pool, within_s=given["within"], in_words=words)


def _asked(given: Mapping[str, Any], inputs: PlanInputs) -> Asked:
    pool = inputs.pool(given["pool"])
    nodes = pool.nodes if pool else 0
    if given["add"] is not None:
        return Asked(add=given["add"], pool=given["pool"], within_s=given["within"], in_words=f"--add {given['add']}")
    words = f"--to {given['to']}"
    return Asked(add=max(0, given["to"] - nodes), pool=given["pool"], within_s=given["within"], in_words=words)


def _print(body: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    look = Look.of_terminal(given["output"] or "", has_headers=not given["no_headers"])
    if look.output in ("json", "yaml"):
        click.echo(document(body, given["output"]), nl=False)
        return
    plan = read_document(body)
    drawn = chart(series_of(plan), look, rows=PLAN_ROWS) if look.is_terminal else []
    click.echo("".join(f"{line}\n" for line in plan_lines(plan, look, drawn)), nl=False)


def document(body: Mapping[str, Any], output: str) -> str:
    """JSON or YAML text."""
    if output == "yaml":
        return yaml.safe_dump(dict(body), sort_keys=False)
    return json.dumps(body, indent=2) + "\n"
