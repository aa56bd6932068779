"""`balloons version`."""

from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options_and_values import cluster_options, output_option

if TYPE_CHECKING:
    from balloons.cluster.kinds import Kind
    from balloons.cluster.seen_cluster import SeenCluster


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
@output_option("json", "yaml")
def version(**options: Any) -> None:
    """Print the version of this program, and of what the cluster runs.

    \b
    Examples:
      balloons version
      balloons version --server -o json
    """
    versions: dict[str, Any] = {"version": own_version()}
    if options["server"] or options["from_file"]:
        from balloons.doctor.diagnose import DETECTION

        versions |= _of_cluster(see(options, "version", _kinds(DETECTION)))
    if options["output"]:
        import msgspec

        from balloons.cli.json_and_yaml_output import VersionDocument, printed

        click.echo(printed(msgspec.convert(versions, VersionDocument), options["output"]), nl=False)
        return
    click.echo("".join(f"{line}\n" for line in _lines(versions)), nl=False)


def _kinds(detection: tuple[Any, ...]) -> tuple[Any, ...]:
    from balloons.cluster import kinds

    return (*detection, kinds.BALLOON_POOLS, kinds.THROTTLES)


def _of_cluster(cluster: "SeenCluster") -> dict[str, Any]:
    from balloons.cluster import kinds
    from balloons.cluster.seen_cluster import detect

    detected = detect(cluster)
    components = (detected.cluster_autoscaler, detected.karpenter, detected.controller_manager, detected.scheduler)
    return {
        "kubernetes": detected.version,
        "provider": detected.provider,
        "apiServers": detected.api_servers,
        "crds": {kind.plural: _served(cluster, kind) for kind in (kinds.BALLOON_POOLS, kinds.THROTTLES)},
        "autoscalers": [autoscaler.value for autoscaler in detected.autoscalers],
        "components": {
            component.name: {"version": component.version, "where": component.where, "gates": dict(component.gates)}
            for component in components
            if component is not None
        },
    }


def _served(cluster: "SeenCluster", kind: "Kind") -> str:
    """Its version; of a list that was refused nobody knows whether it is there."""
    from balloons.cluster.seen_cluster import Unread

    unread = cluster.listed(kind).unread
    if unread is None:
        return kind.versions[0]
    return unread.value if unread is Unread.NOT_SERVED else "not seen"


def _lines(versions: dict[str, Any]) -> list[str]:
    """Each program and each CRD on a line of its own."""
    from balloons.text_and_colours import printable

    told = {
        "kubernetes": versions.get("kubernetes"),
        "provider": versions.get("provider"),
        "API servers": versions.get("apiServers"),
        **versions.get("crds", {}),
        "autoscalers": ", ".join(versions.get("autoscalers", ())),
    }
    own, cluster = f"balloons {versions['version']}", [f"{name}: {value or 'not seen'}" for name, value in told.items()]
    running = [_running(name, component) for name, component in versions.get("components", {}).items()]
    return [own, *(printable(line) for line in (*cluster, *running))] if "kubernetes" in versions else [own]


def _running(name: str, component: dict[str, Any]) -> str:
    gates = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in component["gates"].items())
    where, flags = component["where"], f", feature gates {gates}" if gates else ""
    return f"{name}: {component['version'] or 'version not seen'} ({where}{flags})"
