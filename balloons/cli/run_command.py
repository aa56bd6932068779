"""`balloons run`: the service."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from balloons.cli.options_and_values import (
    FILE,
    Count,
    Number,
    connection_options,
    log_options,
    metrics_options,
    metrics_tls,
    namespace_option,
    option,
)
from balloons.cli.terminal import ExitCode
from balloons.cli.version_command import own_version

if TYPE_CHECKING:
    from balloons.view.tenancy_and_claim import Tenancy
    from throttler.scraping.promql_client import PrometheusAccess

DEFAULT_ADDRESS = "127.0.0.1:8080"
"""Loopback: outside a cluster nobody else is meant to reach it."""
IN_CLUSTER_ADDRESS = "0.0.0.0:8080"
"""In a pod the kubelet's probes and Prometheus come from outside."""

F = TypeVar("F", bound=Callable[..., Any])


def _bound(name: str, default: int, text: str) -> Callable[[F], F]:
    """What pools may ask for at most."""
    count = Count(0, 1_000_000)
    return option(
        f"--bound-{name}", type=count, metavar="N", default=default, show_default=True, help=f"{text} 0: no bound."
    )


def _file(name: str, text: str) -> Callable[[F], F]:
    """A file that belongs to --prometheus-url."""
    return option(f"--prometheus-{name}-file", metavar=FILE, help=text)


@click.command(short_help="Run the service that holds nodes and paces joins.")
@connection_options
@namespace_option("-n", "--namespace", multiple=True, help="Serve only pools of this namespace. Repeatable.")
@option(
    "--bound-node-labels",
    multiple=True,
    metavar="NAMESPACE:KEY=VALUE",
    help="Nodes that pools of a namespace (*: any other) may select. Repeat for more.",
)
@_bound("max-size", 0, "Largest maxSize that a pool may have.")
@_bound("pools-per-namespace", 100, "Most pools of one namespace that are served, the oldest first.")
@_bound("schedules-per-namespace", 200, "Most schedules of all pools of one namespace.")
@_bound("selector-values", 256, "Most values in the matchExpressions of one selector.")
@option("--dry-run", is_flag=True, help="Decide and log, and write nothing.")
@option("--once", is_flag=True, help="Decide once on a complete view, then exit. 1 if that fails.")
@option(
    "--interval",
    # The alert KubeBalloonsNotDeciding asks for a decision within two minutes.
    type=Number(1, 60),
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="Seconds between decisions in quiet times.",
)
@metrics_options(DEFAULT_ADDRESS, IN_CLUSTER_ADDRESS)
@option("--image", metavar="IMAGE", help="Image of balloons whose pool names none, such as one of a mirror.")
@option(
    "--image-pull-secret",
    multiple=True,
    metavar="NAME",
    help="Pull secret of balloons whose pool names none. Repeatable.",
)
@option(
    "--no-balloon-user",
    is_flag=True,
    help="Name no user in balloons. Their namespace gives one, as on OpenShift, or their image.",
)
@option(
    "--allowed-image", multiple=True, metavar="PREFIX", help="Let pools name images that begin with this. Repeatable."
)
@option(
    "--max-calls-per-second",
    type=Number(0.1, 1000),
    metavar="N",
    default=5.0,
    show_default=True,
    help="Most writes per second, over a minute. Releases may be ten times as many.",
)
@namespace_option(
    "--lease-namespace",
    default="kube-balloons",
    show_default=True,
    help="Namespace of the Lease. Replicas elect a leader by it, and the guard watches it.",
)
@option(
    "--deployment",
    metavar="NAME",
    help="The service's own Deployment. While it wants replicas, a leader that is replaced hands over.",
)
@option(
    "--prometheus-url",
    metavar="URL",
    help="URL (https) of the Prometheus that the following files are for.",
)
@_file("ca", "CA certificates (PEM) in place of the system's.")
@_file("token", "Bearer token. Read again for each query.")
@_file("cert", "Client certificate of the service (PEM).")
@_file("key", "Its private key (PEM, no password).")
@option("--no-leader-election", is_flag=True, help="Run as the only replica. It still renews the Lease.")
@log_options
def run(**options: Any) -> int:
    """Run the service: hold nodes with balloons, give way to real work, and pace joins.

    \b
    Examples:
      balloons run --dry-run --once
      balloons run --kubeconfig ~/.kube/config --metrics-address 127.0.0.1:9090
    """
    import asyncio

    from balloons.balloon_manifest import DEFAULT_IMAGE, ImageSettings
    from balloons.service.logs import set_up_logs
    from balloons.service.run import serve
    from balloons.service.settings import ServiceSettings

    set_up_logs(options["log_format"], is_debug=options["debug"])
    settings = ServiceSettings(
        kubeconfig=options["kubeconfig"],
        context=options["context"],
        tenancy=_tenancy(options),
        interval_s=options["interval"],
        is_dry_run=options["dry_run"],
        is_once=options["once"],
        max_calls_per_s=options["max_calls_per_second"],
        metrics_address=options["metrics_address"],
        metrics_tls=metrics_tls(options),
        lease_namespace=options["lease_namespace"],
        deployment=options["deployment"] or "",
        is_alone=options["no_leader_election"],
        prometheus=_prometheus(options),
        images=ImageSettings(
            image=options["image"] or DEFAULT_IMAGE,
            image_pull_secrets=options["image_pull_secret"],
            names_user=not options["no_balloon_user"],
            allowed_images=options["allowed_image"],
        ),
    )
    is_well = asyncio.run(serve(settings, own_version()))
    return ExitCode.DONE if is_well else ExitCode.FAILED


def _prometheus(options: Mapping[str, Any]) -> "PrometheusAccess | None":
    from throttler.scraping.promql_client import prometheus_access

    files = {f"{name}_file": options[f"prometheus_{name}_file"] for name in ("ca", "token", "cert", "key")}
    return prometheus_access(options["prometheus_url"], **files)


def _tenancy(options: Mapping[str, Any]) -> "Tenancy":
    from balloons.view.tenancy_and_claim import Tenancy

    return Tenancy(
        namespaces=frozenset(options["namespace"]),
        node_labels=_node_labels(options["bound_node_labels"]),
        max_size=options["bound_max_size"] or None,
        pools_per_namespace=options["bound_pools_per_namespace"] or None,
        schedules_per_namespace=options["bound_schedules_per_namespace"] or None,
        selector_values=options["bound_selector_values"] or None,
    )


def _node_labels(texts: Sequence[str]) -> dict[str, frozenset[tuple[str, str]]]:
    """NAMESPACE:KEY=VALUE, each of them one choice."""
    from balloons.service.settings import SettingsError

    by_namespace: dict[str, frozenset[tuple[str, str]]] = {}
    for text in texts:
        namespace, _, label = text.partition(":")
        key, is_pair, value = label.partition("=")
        if not (namespace and key and is_pair):
            raise SettingsError(f"bound node labels {text!r}: accepted is NAMESPACE:KEY=VALUE")
        by_namespace[namespace] = by_namespace.get(namespace, frozenset()) | {(key, value)}
    return by_namespace
