"""`balloons guard`: gives everything back when the service has died."""

import math
import signal
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.complete import namespaces
from balloons.cli.failing import ExitCode
from balloons.cli.options import (
    connection_options,
    is_in_pod,
    log_options,
    metrics_tls,
    metrics_tls_options,
    option,
)

if TYPE_CHECKING:
    import asyncio

NAMESPACE = "kube-balloons"
"""Where the manifests put the service, and so its Lease."""
BURST = 10
IN_CLUSTER_ADDRESS = "0.0.0.0:8081"
"""Not the service's port: on the node's network both may share a host."""


class Bounded(click.FloatRange):
    """A number between two others; NaN, which every comparison lets pass, is not one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails with what is accepted."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number", param, ctx) if math.isnan(number) else number


@click.command(short_help="Give back what a dead service holds.")
@connection_options
@option(
    "--lease-namespace",
    metavar="NAME",
    shell_complete=namespaces,
    default=NAMESPACE,
    show_default=True,
    help="Namespace of the Lease.",
)
@option("--lease", metavar="NAME", help="The Lease that the service renews; default kube-balloons-throttle.")
@option(
    "--after",
    type=Bounded(1, 3600),
    default=100.0,
    show_default=True,
    help="Seconds without a renewal after which everything is given back.",
)
@option(
    "--period",
    type=Bounded(0.1, 600),
    default=5.0,
    show_default=True,
    help="Seconds between two reads of the Lease; at most a quarter of --after.",
)
@option("--once", is_flag=True, help="End when the Lease has moved, or everything was given back (for a CronJob).")
@option("--dry-run", is_flag=True, help="Say what would be given back; write nothing.")
@option(
    "--max-calls-per-second", type=Bounded(0.1, 1000), default=20.0, show_default=True, help="Most requests per second."
)
@option(
    "--metrics-address",
    metavar="HOST:PORT",
    help=f"For /metrics and probes. Default off, in a pod {IN_CLUSTER_ADDRESS}.",
)
@metrics_tls_options
@log_options
def guard(**given: Any) -> int:
    """Give back all ceilings, gates, taints and labels when nobody renews.

    \b
    Runs beside the service, as a process of its own. It watches the Lease that `balloons run` renews while it makes
    decisions. When the Lease has not moved for --after seconds by the guard's own clock, it gives everything back.

    \b
    Exit codes: 0 the Lease moves, or everything was given back; 1 something could not be given back, or the Lease could
    not be read; 2 bad input.

    \b
    Examples:
      balloons guard
      balloons guard --once --after 60 --period 10
    """
    if given["period"] * 4 > given["after"]:
        raise click.BadParameter(f"{given['period']:g} is more than a quarter of --after", param_hint="--period")
    import asyncio

    from balloons.service.logs import set_up_logs

    set_up_logs(given["log_format"], is_debug=given["debug"])
    is_well = asyncio.run(_watch(given))
    return ExitCode.DONE if is_well else ExitCode.FAILED


async def _watch(given: dict[str, Any]) -> bool:
    import asyncio
    from contextlib import AsyncExitStack, suppress

    from balloons.service.metrics import serve_health
    from balloons.service.settings import OFF, parse_address
    from throttler.kube.caller import CeilingGate
    from throttler.kube.connection import ConnectionOptions, load_connection
    from throttler.kube.errors import ForbiddenError
    from throttler.kube.kube_client import open_client
    from throttler.kube.lease import LEASE_NAME, open_lease_client
    from throttler.service.guard import Guard, GuardSettings

    settings = GuardSettings(
        namespace=given["lease_namespace"],
        name=given["lease"] or LEASE_NAME,
        after_s=given["after"],
        period_s=given["period"],
        is_once=given["once"],
        is_dry_run=given["dry_run"],
    )
    address = parse_address(given["metrics_address"] or (IN_CLUSTER_ADDRESS if is_in_pod() else OFF))
    tls = metrics_tls(given)
    stop = stop_on_signals()
    connection = await load_connection(ConnectionOptions(kubeconfig=given["kubeconfig"], context=given["context"]))
    gate = CeilingGate(given["max_calls_per_second"], burst=BURST)
    async with AsyncExitStack() as stack:
        lease_client = await stack.enter_async_context(open_lease_client(connection))
        client = await stack.enter_async_context(open_client(connection, "guard", gate=gate))
        watcher = Guard(lease_client, client, settings, asyncio.get_running_loop().time)
        if address is not None:
            checks = watcher.metrics.registry, watcher.not_alive, watcher.not_ready
            await stack.enter_async_context(serve_health(address, *checks, tls=tls))
        if settings.is_once:
            # As `run --once`: who looks once does not wait for a server that is not there.
            with suppress(ForbiddenError):
                await client.get_raw("/version")
        return await watcher.run(stop)


def stop_on_signals() -> "asyncio.Event":
    """Set by SIGTERM or SIGINT from now on; inside a running loop."""
    import asyncio

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
