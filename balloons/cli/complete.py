"""Values that a shell completes: names of the cluster or the dump that the line names, codes, policies.

Whatever goes wrong meanwhile gives no values: a shell that waits for a name has no place for an error.
"""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from balloons.cluster.kinds import Kind

TIMEOUT = "2s"
"""For one request: somebody waits at a prompt."""
MOST = 200


def codes(_context: click.Context, _param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Codes of checks with their titles; after a comma the next one."""
    from click.shell_completion import CompletionItem

    from balloons.doctor.diagnose import ALL_CHECKS

    before, comma, last = begun.rpartition(",")
    found = (each for each in ALL_CHECKS if each.code.startswith(last.upper()))
    return [CompletionItem(f"{before}{comma}{each.code}", help=each.title) for each in found]


def policies(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of policies, and the beginnings of those with a number."""
    from balloons.preview.forecast import NAMES

    return [name for name in NAMES if name.startswith(begun)]


def pools(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Pools that can grow."""
    from balloons.cluster import kinds, seen_cluster
    from balloons.preview.from_cluster import group_of

    seen = _seen(context, (kinds.NODES, kinds.NODE_POOLS))
    if seen is None:
        return []
    names = {group_of(node) for node in seen_cluster.nodes(seen)} | {
        each.metadata.name for each in seen_cluster.node_pools(seen)
    }
    return _some(names, begun)


def subjects(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of what is asked about: pods, nodes, pools or throttles."""
    return names_of(context, str(context.params.get("subject")), begun)


def names_of(context: click.Context, subject: str, begun: str) -> list[str]:
    """Names of objects of this kind; none of a kind that we do not know."""
    from balloons.cluster import kinds
    from balloons.cluster.plain_data import name_of

    wanted: dict[str, tuple[Kind, ...]] = {
        "pod": (kinds.PODS,),
        "node": (kinds.NODES,),
        "pool": (kinds.BALLOON_POOLS, kinds.NODE_POOLS),
        "throttle": (kinds.THROTTLES,),
    }
    return _of_objects(context, wanted.get(subject, ()), name_of, begun)


def pools_and_throttles(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Our own objects, but for those that the line names already."""
    from balloons.cluster import kinds
    from balloons.cluster.plain_data import name_of

    names = _of_objects(context, (kinds.BALLOON_POOLS, kinds.THROTTLES), name_of, begun)
    return [name for name in names if name not in (context.params.get("names") or ())]


def namespaces(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Those of pools, and of pods where these can be asked about.

    Which it is cannot be told: click drops the arguments of a line that ends in an option without its value.
    """
    from balloons.cluster import kinds
    from balloons.cluster.plain_data import namespace_of

    return _of_objects(
        context, (kinds.BALLOON_POOLS, *([kinds.PODS] if context.info_name == "explain" else [])), namespace_of, begun
    )


def contexts(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Those of the kubeconfig that the line names, or the usual one."""
    from throttler.kube.connection import context_names
    from throttler.kube.errors import ConfigError

    try:
        return _some(set(context_names(context.params.get("kubeconfig"))), begun)
    except ConfigError:
        return []


def swept(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Figures that can be swept; their values are the user's."""
    from balloons.preview.what_if import NAMES, NODES_ADDED

    return [f"{name}=" for name in (NODES_ADDED, *NAMES) if name.startswith(begun)]


def faults(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Kinds of faults; when and for how long is the user's."""
    from balloons.preview.what_if import KINDS

    return [f"{kind}@" for kind in KINDS if kind.startswith(begun)]


def waits(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """What `status --wait` can wait for."""
    from balloons.cli.status_text import OF_ALL, OF_THROTTLES, PHASES

    named = [f"condition={name}" for name in (*OF_ALL, *OF_THROTTLES)] + [f"phase={name}" for name in PHASES]
    return [each for each in (*named, "idle", "warm=") if each.startswith(begun)]


def _of_objects(
    context: click.Context, read: "tuple[Kind, ...]", word: "Callable[[Any], str]", begun: str
) -> list[str]:
    cluster = _seen(context, read)
    return _some({word(item) for kind in read for item in cluster.plain(kind)} if cluster else set(), begun)


def _some(names: set[str], begun: str) -> list[str]:
    return sorted(name for name in names if name and name.startswith(begun))[:MOST]


def _seen(context: click.Context, wanted: "tuple[Kind, ...]") -> Any:
    import asyncio

    from balloons.cli.cluster_source import read_live
    from balloons.reading.read_cluster import read_archive

    asked = {"as_user": None, "as_group": (), **context.params, "request_timeout": TIMEOUT, "verbose": False}
    try:
        if asked.get("from_file"):
            return read_archive(asked["from_file"]).only(wanted)
        return asyncio.run(read_live(asked, "completion", wanted)) if wanted else None
    except Exception:  # noqa: BLE001  whatever it is, the prompt has no place for it
        return None
