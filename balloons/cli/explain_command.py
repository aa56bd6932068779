"""`balloons explain`: one object's timeline."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_options import cluster_options, see
from balloons.cli.complete import namespaces, subjects
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.named import Subject, named
from balloons.cli.options import color_option, option

if TYPE_CHECKING:
    from balloons.cluster.kinds import Kind
    from balloons.cluster.seen_cluster import SeenCluster
    from balloons.explain import Timeline

SUBJECTS = ("pod", "node", "pool", "throttle")


@click.command(short_help="Show what happened to one object, step by step, and why.")
@click.argument("subject", type=Subject(SUBJECTS))
@click.argument("name", required=False, shell_complete=subjects)
@cluster_options
@option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=namespaces,
    help="Namespace of a pod or pool, where the name alone is not enough.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def explain(subject: str, name: str | None, **given: Any) -> None:
    """Show what happened to one object, step by step: how long each step took, and why.

    \b
    Examples:
      balloons explain pod train-0 -n ml       (or: pod ml/train-0)
      balloons explain node/ip-10-0-3-7

    The reasons are the same words as in status, Events, log and metrics. A pool is a BalloonPool, else a Karpenter
    NodePool.
    """
    subject, name, namespace = named(subject, name, given["namespace"])
    seen = see(given, "explain", _kinds(subject, name))
    found = _timeline(seen, subject, name, namespace or _only_namespace(seen, subject, name))
    if found is None:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandError(f"there is no {subject} {name!r}{where}{_unsure(seen, subject)}", ExitCode.BAD_INPUT)
    _print(found, given)


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


def _timeline(seen: "SeenCluster", subject: str, name: str, namespace: str) -> "Timeline | None":
    from balloons.explain import explain_node, explain_pod, explain_pool, explain_throttle

    match subject:
        case "pod":
            return explain_pod(seen, namespace, name)
        case "node":
            return explain_node(seen, name)
        case "pool":
            return explain_pool(seen, namespace, name)
    return explain_throttle(seen, name)


def _only_namespace(seen: "SeenCluster", subject: str, name: str) -> str:
    """Where the object of this name is; raises CommandError when it is in several namespaces."""
    from balloons.cluster import kinds
    from balloons.cluster.plain_data import name_of, namespace_of

    kind = {"pod": kinds.PODS, "pool": kinds.BALLOON_POOLS}.get(subject)
    found = {namespace_of(each) for each in seen.plain(kind) if name_of(each) == name} if kind else set()
    if len(found) > 1:
        raise CommandError(f"{subject} {name!r} is in {', '.join(sorted(found))}; add -n", ExitCode.BAD_INPUT)
    return "".join(found)


def _unsure(seen: "SeenCluster", subject: str) -> str:
    """What was not seen may be why."""
    from balloons.cluster import kinds
    from balloons.cluster.seen_cluster import Unread

    kind = {"pool": kinds.BALLOON_POOLS, "throttle": kinds.THROTTLES}.get(subject)
    if kind is not None and seen.listed(kind).unread is Unread.NOT_SERVED:
        return f" (this cluster does not serve {kind.plural}: kubectl apply -k manifests/crds)"
    return f" ({', '.join(seen.not_seen)} not seen)" if seen.not_seen else ""


def _print(found: "Timeline", given: dict[str, Any]) -> None:
    from balloons.cli.documents import printed
    from balloons.cli.explain_text import document, text
    from balloons.cli.look import Look

    if given["output"] == "json":
        click.echo(printed(document(found)))
        return
    look = Look.of_terminal("", has_headers=not given["no_headers"])
    click.echo("".join(f"{line}\n" for line in text(found, look)), nl=False)
