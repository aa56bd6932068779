"""`balloons version`."""

from typing import TYPE_CHECKING, Any

import click

from balloons.cli.options import cluster_options, see

if TYPE_CHECKING:
    from balloons.cluster.seen_cluster import Component, SeenCluster


def own_version() -> str:
    """The installed version, or `source` when run from a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("kube-balloons")
    except PackageNotFoundError:
        return "source"


@click.command(short_help="Print this program's version, and what the cluster runs.")
@cluster_options
@click.option("--server", is_flag=True, help="Show what the cluster runs, too: Kubernetes, our CRDs, its autoscaler.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
def version(**given: Any) -> None:
    """Print the version of this program, and of what the cluster runs.

    \b
    Examples:
      balloons version
      balloons version --server -o json
    """
    import json

    found: dict[str, Any] = {"version": own_version()}
    if given["server"] or given["from_file"]:
        from balloons.doctor.diagnose import DETECTION

        found |= _of_cluster(see(given, "version", _kinds(DETECTION)))
    if given["output"] == "json":
        head = {"apiVersion": "balloons.kube-balloons.github.io/v1", "kind": "Version"}
        click.echo(json.dumps({**head, **found}))
        return
    click.echo(f"balloons {found.pop('version')}")
    for name, value in found.items():
        click.echo(f"{name}: {_in_words(value)}")


def _kinds(detection: tuple[Any, ...]) -> tuple[Any, ...]:
    from balloons.cluster import kinds

    return (*detection, kinds.BALLOON_POOLS, kinds.THROTTLES)


def _of_cluster(seen: "SeenCluster") -> dict[str, Any]:
    from balloons.cluster import kinds
    from balloons.cluster.seen_cluster import Unread, detect

    found = detect(seen)
    components = (found.cluster_autoscaler, found.karpenter, found.controller_manager, found.scheduler)
    return {
        "kubernetes": found.version,
        "provider": found.provider,
        "apiServers": found.api_servers,
        "crds": {
            kind.plural: "not served" if seen.listed(kind).unread is Unread.NOT_SERVED else kind.versions[0]
            for kind in (kinds.BALLOON_POOLS, kinds.THROTTLES)
        },
        "autoscalers": [each.value for each in found.autoscalers],
        "components": {each.name: _component(each) for each in components if each is not None},
    }


def _component(found: "Component") -> dict[str, Any]:
    return {"version": found.version, "where": found.where, "gates": dict(found.gates)}


def _in_words(value: Any) -> str:
    from balloons.display_text import printable

    if isinstance(value, dict):
        text = "; ".join(f"{name} {_in_words(each)}" for name, each in value.items() if each not in ("", {}))
    elif isinstance(value, list):
        text = ", ".join(map(_in_words, value))
    else:
        text = "" if value is None else str(value)
    return printable(text) or "not seen"
