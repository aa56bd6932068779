"""`balloons explain`: one object's timeline."""

import textwrap
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options_and_values import (
    Subject,
    cluster_options,
    color_option,
    named,
    namespace_option,
    output_option,
    subjects,
)
from balloons.cli.terminal import NARROW_GAP, CommandError, ExitCode, Look, lines
from balloons.text_and_colours import duration, printable

if TYPE_CHECKING:
    from balloons.cli.json_and_yaml_output import ExplanationDocument, StepItem
    from balloons.cluster.kinds import Kind
    from balloons.cluster.seen_cluster import SeenCluster
    from balloons.explain import Step, Timeline

SUBJECTS = ("pod", "node", "pool", "throttle")
TIMELINE_COLUMNS = ("TIME", "WAIT", "STEP", "BECAUSE", "MESSAGE")


@click.command(short_help="Show what happened to one object, step by step, and why.")
@click.argument("subject", type=Subject(SUBJECTS))
@click.argument("name", required=False, shell_complete=subjects)
@cluster_options
@namespace_option("-n", "--namespace", help="Namespace of the pod or pool. Needed if two have this name.")
@output_option("json", "yaml")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def explain(subject: str, name: str | None, **options: Any) -> None:
    """Show what happened to one object, step by step: how long each step took and why.

    \b
    Examples:
      balloons explain pod train-0 -n ml       (or: pod ml/train-0)
      balloons explain node/ip-10-0-3-7

    The reasons are the same words as in status, Events, log and metrics. `pool` finds a BalloonPool. Where there
    is none, and without -n, it finds a NodePool of Karpenter.
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
    from balloons.cluster.object_fields_and_flags import name_of, namespace_of

    kind = {"pod": kinds.PODS, "pool": kinds.BALLOON_POOLS}.get(subject)
    namespaces = (
        {namespace_of(thing) for thing in cluster.naming(kind, name) if name_of(thing) == name} if kind else set()
    )
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
    from balloons.cli.json_and_yaml_output import printed

    if options["output"]:
        click.echo(printed(timeline_document(timeline), options["output"]), nl=False)
        return
    look = Look.of_terminal("", has_headers=not options["no_headers"])
    click.echo("".join(f"{line}\n" for line in timeline_text(timeline, look)), nl=False)


def timeline_text(timeline: "Timeline", look: Look) -> list[str]:
    """The table of steps, then how it stands.

    On a terminal that is too narrow a message goes on below its step, and then a step below its time.
    """
    rows = [_step_row(step) for step in timeline.steps]
    whole = lines(TIMELINE_COLUMNS, rows, has_headers=look.has_headers)
    if look.width is not None and max(map(len, whole), default=0) > look.width:
        whole = _narrow(rows, look.width, has_headers=look.has_headers)
    return [*whole, *_wrapped_message(f"now: {timeline.now}", look.width, "  ")]


def _narrow(rows: list[dict[str, str]], width: int, *, has_headers: bool) -> list[str]:
    """Each message in lines of its own."""
    short = lines(TIMELINE_COLUMNS[:-1], rows, has_headers=has_headers, gap=NARROW_GAP)
    if max(map(len, short), default=0) > width:
        return [line for row in rows for line in _stacked(row, width)]
    heads = short[len(short) - len(rows) :]
    below = (_wrapped_message(row["MESSAGE"], width, "    ") if row["MESSAGE"] else [] for row in rows)
    pairs = zip(heads, below, strict=True)
    return [*short[: len(short) - len(rows)], *(line for head, more in pairs for line in (head, *more))]


def _stacked(row: dict[str, str], width: int) -> list[str]:
    """One step in lines of its own: when, what, and in which words."""
    when, what = " ".join((row["TIME"], row["WAIT"])).rstrip(), ": ".join(filter(None, (row["STEP"], row["BECAUSE"])))
    told = _wrapped_message(row["MESSAGE"], width, "    ") if row["MESSAGE"] else []
    return [when, *_wrapped_message(what, width, "  "), *told]


def _wrapped_message(text: str, width: int | None, indent: str) -> list[str]:
    """Words are never cut: names are there to be copied."""
    if width is None:
        return [printable(text)]
    first = "" if text.startswith("now: ") else indent
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def timeline_document(timeline: "Timeline") -> "ExplanationDocument":
    """For machines."""
    from balloons.cli.json_and_yaml_output import ExplanationDocument

    return ExplanationDocument(
        subject=timeline.subject,
        seen_at=_time(timeline.seen_at),
        now=timeline.now,
        steps=[_step_item(step) for step in timeline.steps],
    )


def _step_item(step: "Step") -> "StepItem":
    from balloons.cli.json_and_yaml_output import StepItem

    return StepItem(_time(step.at) if step.at else None, step.wait_s, step.what, step.because, step.message)


def _step_row(step: "Step") -> dict[str, str]:
    return {
        "TIME": _time(step.at) if step.at else "now",
        "WAIT": _wait(step.wait_s) if step.wait_s is not None else "",
        "STEP": step.what,
        "BECAUSE": step.because,
        "MESSAGE": " ".join(step.message.split()),
    }


def _wait(seconds: float) -> str:
    """Events know microseconds, which nobody waits for: tenths below ten seconds, then as plans have it."""
    return f"+{round(seconds, 1):g}s" if seconds < 10 else f"+{duration(seconds)}"


def _time(at: datetime) -> str:
    """To the second: that is what most objects carry."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
