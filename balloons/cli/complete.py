"""Values that a shell completes: names of the cluster or the dump that the line names, codes, policies.

Whatever goes wrong meanwhile gives no values: a shell that waits for a name has no place for an error.
"""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
    from balloons.preview.policies import NAMES

    return [name for name in NAMES if name.startswith(begun)]


def pools(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Pools that can grow."""
    from balloons.cluster import kinds, typed
    from balloons.preview.pools import group_of

    seen = _seen(context, (kinds.NODES, kinds.NODE_POOLS))
    if seen is None:
        return []
    names = {group_of(node) for node in typed.nodes(seen)} | {each.metadata.name for each in typed.node_pools(seen)}
    return _some(names, begun)


def subjects(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of what `explain` is asked about: pods, nodes, pools or throttles."""
    from balloons.cluster import kinds
    from balloons.cluster.reach import name_of

    wanted: dict[str, tuple[Kind, ...]] = {
        "pod": (kinds.PODS,),
        "node": (kinds.NODES,),
        "pool": (kinds.BALLOON_POOLS, kinds.NODE_POOLS),
        "throttle": (kinds.THROTTLES,),
    }
    found = wanted.get(str(context.params.get("subject")), ())
    seen = _seen(context, found)
    names = {name_of(each) for kind in found for each in seen.plain(kind)} if seen else set()
    return _some(names, begun)


def _some(names: set[str], begun: str) -> list[str]:
    return sorted(name for name in names if name and name.startswith(begun))[:MOST]


def _seen(context: click.Context, wanted: "tuple[Kind, ...]") -> Any:
    import asyncio

    from balloons.cli.cluster_options import read_live
    from balloons.reading.archive import read_archive

    given = {**context.params, "request_timeout": TIMEOUT, "verbose": False}
    try:
        if given.get("from_file"):
            return read_archive(given["from_file"]).only(wanted)
        return asyncio.run(read_live(given, "completion", wanted)) if wanted else None
    except Exception:  # noqa: BLE001  whatever it is, the prompt has no place for it
        return None
