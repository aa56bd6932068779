"""`balloons doctor` and `explain`: traps of autoscaling, and one object's timeline."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options import Subject, cluster_options, color_option, named, option, output_option
from balloons.cli.terminal import CommandError, ExitCode
from balloons.cli.values import FILE, Choice, File, codes, namespaces, subjects

if TYPE_CHECKING:
    from balloons.cluster.kinds import Kind
    from balloons.cluster.seen_cluster import SeenCluster
    from balloons.explain import Timeline


SUBJECTS = ("pod", "node", "pool", "throttle")


@click.command(short_help="Find what makes autoscaling or warm capacity fail silently.")
@cluster_options
@option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar=FILE,
    type=File("files of manifests, folders with -R, or -", is_or_folder=True),
    help="Check manifests instead of a cluster. - for stdin. Repeatable.",
)
@option("-R", "--recursive", is_flag=True, help="Look into the folders of --filename, too.")
@option("--in-cluster", is_flag=True, help="Use the account of the pod that this runs in, not a kubeconfig.")
@option("--only", metavar="CODES", shell_complete=codes, help="Run only these checks, such as KB001,KB020.")
@option("--skip", metavar="CODES", shell_complete=codes, help="Leave out these checks.")
@option(
    "--fail-on",
    type=Choice(["info", "warning", "error"]),
    help="Exit with 3 on a finding of this severity or above, or if such a check cannot look.",
)
@output_option("wide", "json", "yaml", says="wide: also what was not found. json, yaml: for programs.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def doctor(**options: Any) -> int:
    """Find what makes warm capacity, autoscaling or pacing fail silently.

    \b
    Examples:
      balloons doctor
      balloons doctor -f manifests/ -R --fail-on error

    It only reads. docs/doctor.md explains every code. Findings go to stdout, everything else to stderr.
    """
    from balloons.doctor.check import Severity
    from balloons.doctor.diagnose import diagnose, kinds_of

    checks = _checks(options)
    is_live = not options["files"]
    cluster = see(_where(options), "doctor", kinds_of(checks)) if is_live else _manifests(options)
    diagnosis = diagnose(cluster, checks, is_live=is_live)
    _print_diagnosis(diagnosis, options)
    least = options["fail_on"]
    if least is None:
        return ExitCode.DONE
    if unable := diagnosis.unable(Severity[least.upper()]):
        from balloons.cli.terminal import warn
        from throttler.kube.quantities_and_durations import count

        codes = ",".join(unable)
        warn(
            f"--fail-on {least} fails: {count(len(unable), 'check')} could not look; give the rights, or --skip {codes}"
        )
        return ExitCode.FINDINGS
    is_bad = any(finding.check.severity >= Severity[least.upper()] for finding in diagnosis.findings)
    return ExitCode.FINDINGS if is_bad else ExitCode.DONE


def _checks(options: dict[str, Any]) -> Any:
    from balloons.doctor.diagnose import ALL_CHECKS, chosen_checks

    only, skip = (_codes(options[name]) for name in ("only", "skip"))
    try:
        return chosen_checks(only, skip)
    except KeyError as error:
        codes = f"{ALL_CHECKS[0].code} to {ALL_CHECKS[-1].code} as listed in docs/doctor.md"
        raise CommandError(f"no check {error.args[0]!r}; accepted: {codes}", ExitCode.BAD_INPUT) from error


def _codes(text: str | None) -> set[str]:
    return {code.strip().upper() for code in (text or "").split(",") if code.strip()}


def _where(options: dict[str, Any]) -> dict[str, Any]:
    """With --in-cluster the pod's own account, or a sentence."""
    if not options["in_cluster"]:
        return options
    from throttler.kube.connection import ConnectionOptions, is_in_cluster

    if not is_in_cluster(ConnectionOptions()):
        raise CommandError("--in-cluster: this process runs in no pod with a ServiceAccount token", ExitCode.BAD_INPUT)
    os.environ.pop("KUBECONFIG", None)
    return {**options, "kubeconfig": None, "context": None}


def _manifests(options: dict[str, Any]) -> Any:
    from datetime import UTC, datetime

    from balloons.reading.read_cluster import ManifestError, read_manifests

    if options["from_file"] or options["in_cluster"]:
        raise click.UsageError("--filename looks at manifests: not together with --from or --in-cluster")
    try:
        return read_manifests(options["files"], datetime.now(UTC), is_recursive=options["recursive"])
    except ManifestError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _print_diagnosis(diagnosis: Any, options: dict[str, Any]) -> None:
    from balloons.cli.doctor_text import diagnosis_document, diagnosis_text, summary
    from balloons.cli.documents import printed
    from balloons.cli.terminal import Look, warn

    if options["output"] in ("json", "yaml"):
        click.echo(printed(diagnosis_document(diagnosis), options["output"]), nl=False)
        return
    look = Look.of_terminal(options["output"] or "", has_headers=not options["no_headers"])
    click.echo("".join(f"{line}\n" for line in diagnosis_text(diagnosis, look)), nl=False)
    for line in summary(diagnosis, look):
        warn(line)


@click.command(short_help="Show what happened to one object, step by step, and why.")
@click.argument("subject", type=Subject(SUBJECTS))
@click.argument("name", required=False, shell_complete=subjects)
@cluster_options
@option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=namespaces,
    help="Namespace of the pod or pool. Needed if two have this name.",
)
@output_option("json", "yaml")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def explain(subject: str, name: str | None, **options: Any) -> None:
    """Show what happened to one object, step by step: how long each step took and why.

    \b
    Examples:
      balloons explain pod train-0 -n ml       (or: pod ml/train-0)
      balloons explain node/ip-10-0-3-7

    The reasons are the same words as in status, Events, log and metrics. `pool` finds a BalloonPool, or else a NodePool
    of Karpenter.
    """
    subject, name, namespace = named(subject, name, options["namespace"])
    cluster = see(options, "explain", _kinds(subject, name))
    timeline = _timeline(cluster, subject, name, namespace or _only_namespace(cluster, subject, name))
    if timeline is None:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandError(f"there is no {subject} {name!r}{where}{_unsure(cluster, subject)}", ExitCode.BAD_INPUT)
    _print_timeline(timeline, options)


def _kinds(subject: str, name: str) -> "tuple[Kind, ...]":
    """What a story is told from; of pods and Events only those that are in it."""
    from balloons.cluster import kinds

    told = replace(kinds.EVENTS, fields=f"regarding.name={name}")
    match subject:
        case "pod":
            one = replace(kinds.PODS, fields=f"metadata.name={name}")
            ceilings = (kinds.THROTTLES, kinds.QUOTAS, kinds.NODE_POOLS)
            return (one, told, kinds.NODES, kinds.NODE_CLAIMS, *ceilings)
        case "node":
            on_it = replace(kinds.PODS, fields=f"spec.nodeName={name}")
            # Its NodeClaim has another name; most Events are about pods.
            told = replace(kinds.EVENTS, fields="regarding.kind!=Pod")
            return (on_it, told, kinds.NODES, kinds.NODE_CLAIMS)
        case "pool":
            return (kinds.BALLOON_POOLS, kinds.NODE_POOLS, told)
    return (kinds.THROTTLES, told)


def _timeline(cluster: "SeenCluster", subject: str, name: str, namespace: str) -> "Timeline | None":
    from balloons.explain import explain_node, explain_pod, explain_pool, explain_throttle

    match subject:
        case "pod":
            return explain_pod(cluster, namespace, name)
        case "node":
            return explain_node(cluster, name)
        case "pool":
            return explain_pool(cluster, namespace, name)
    return explain_throttle(cluster, name)


def _only_namespace(cluster: "SeenCluster", subject: str, name: str) -> str:
    """Where the object of this name is; raises CommandError when it is in several namespaces."""
    from balloons.cluster import kinds
    from balloons.cluster.plain_data import name_of, namespace_of

    kind = {"pod": kinds.PODS, "pool": kinds.BALLOON_POOLS}.get(subject)
    namespaces = {namespace_of(thing) for thing in cluster.plain(kind) if name_of(thing) == name} if kind else set()
    if len(namespaces) > 1:
        raise CommandError(f"{subject} {name!r} is in {', '.join(sorted(namespaces))}; add -n", ExitCode.BAD_INPUT)
    return "".join(namespaces)


def _unsure(cluster: "SeenCluster", subject: str) -> str:
    """What was not seen may be why."""
    from balloons.cluster import kinds
    from balloons.cluster.seen_cluster import Unread

    kind = {"pool": kinds.BALLOON_POOLS, "throttle": kinds.THROTTLES}.get(subject)
    if kind is not None and cluster.listed(kind).unread is Unread.NOT_SERVED:
        return f" (this cluster does not serve {kind.plural}: kubectl apply -k manifests/crds)"
    return f" ({', '.join(cluster.not_seen)} not seen)" if cluster.not_seen else ""


def _print_timeline(timeline: "Timeline", options: dict[str, Any]) -> None:
    from balloons.cli.doctor_text import timeline_document, timeline_text
    from balloons.cli.documents import printed
    from balloons.cli.terminal import Look

    if options["output"]:
        click.echo(printed(timeline_document(timeline), options["output"]), nl=False)
        return
    look = Look.of_terminal("", has_headers=not options["no_headers"])
    click.echo("".join(f"{line}\n" for line in timeline_text(timeline, look)), nl=False)
