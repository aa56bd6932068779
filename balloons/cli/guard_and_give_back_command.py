"""`balloons guard` and `give-back`: give everything back, when the service has died or before it is uninstalled."""

from typing import TYPE_CHECKING, Any

import click

from balloons.cli.options_and_values import (
    OFF,
    Number,
    connection_options,
    log_options,
    metrics_options,
    metrics_tls,
    namespace_option,
    option,
)
from balloons.cli.terminal import CommandError, ExitCode

if TYPE_CHECKING:
    from throttler.kube.kube_client import KubeClient
    from throttler.service.guard import GuardSettings


NAMESPACE = "kube-balloons"
"""Where the manifests put the service, and so its Lease."""
BURST = 10
IN_CLUSTER_ADDRESS = "0.0.0.0:8081"
"""Not the service's port: on the node's network both may share a host."""
DEPLOYMENT = "kube-balloons"
"""As the manifests name it; the chart's `fullnameOverride` names it otherwise."""
PERIOD_S = 1.0
CALLS_PER_S = 50.0
"""As the service gives back on a stop: thousands of nodes may be held."""


@click.command(short_help="Give back what a dead service holds.")
@connection_options
@namespace_option("--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the Lease.")
@option("--lease", metavar="NAME", help="Lease that the service renews. Default: kube-balloons-throttle.")
@option(
    "--after",
    type=Number(1, 3600),
    metavar="SECONDS",
    default=100.0,
    show_default=True,
    help="Give everything back after so many seconds without a renewal.",
)
@option(
    "--period",
    type=Number(0.1, 600),
    metavar="SECONDS",
    default=5.0,
    show_default=True,
    help="Seconds between two reads of the Lease. At most a quarter of --after.",
)
@option("--once", is_flag=True, help="Exit once the Lease has moved or everything was given back (for a CronJob).")
@option("--dry-run", is_flag=True, help="Say what would be given back, and write nothing.")
@option(
    "--max-calls-per-second",
    type=Number(0.1, 1000),
    metavar="N",
    default=20.0,
    show_default=True,
    help="Send at most so many requests per second.",
)
@metrics_options(OFF, IN_CLUSTER_ADDRESS)
@log_options
def guard(**options: Any) -> int:
    """Give back all ceilings, gates, taints and labels when the service is dead.

    The guard runs beside the service, as a process of its own. It watches the Lease that `balloons run` renews while it
    makes decisions. When the Lease has not moved for --after seconds by the guard's own clock, it gives everything
    back.

    Exit codes: 0 the Lease moves, or everything was given back; 1 something could not be given back, or the Lease could
    not be read; 2 bad input.

    \b
    Examples:
      balloons guard
      balloons guard --once --after 60 --period 10
    """
    if options["period"] * 4 > options["after"]:
        text = f"{options['period']:g}; accepted: at most a quarter of --after, which is {options['after'] / 4:g}"
        raise click.BadParameter(text, param_hint="--period")
    import asyncio

    from balloons.service.logs import set_up_logs

    set_up_logs(options["log_format"], is_debug=options["debug"])
    is_well = asyncio.run(_watch(options))
    return ExitCode.DONE if is_well else ExitCode.FAILED


async def _watch(options: dict[str, Any]) -> bool:
    import asyncio
    from contextlib import AsyncExitStack, suppress

    from balloons.service.metrics import serve_health
    from balloons.service.run import stop_on_signals
    from throttler.kube.connection import ConnectionOptions, load_connection
    from throttler.kube.errors import ForbiddenError
    from throttler.kube.kube_client import CeilingGate, open_client
    from throttler.kube.lease import LEASE_NAME, open_lease_client
    from throttler.service.guard import Guard, GuardSettings

    settings = GuardSettings(
        namespace=options["lease_namespace"],
        name=options["lease"] or LEASE_NAME,
        after_s=options["after"],
        period_s=options["period"],
        is_once=options["once"],
        is_dry_run=options["dry_run"],
    )
    address = options["metrics_address"]
    tls = metrics_tls(options)
    stop = stop_on_signals()
    connection = await load_connection(ConnectionOptions(kubeconfig=options["kubeconfig"], context=options["context"]))
    gate = CeilingGate(options["max_calls_per_second"], burst=BURST)
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


@click.command("give-back", short_help="Stop the service and give back all it holds.")
@connection_options
@namespace_option("-n", "--namespace", default=NAMESPACE, show_default=True, help="Namespace of the service.")
@option("--deployment", metavar="NAME", default=DEPLOYMENT, show_default=True, help="Deployment of the service.")
@option(
    "--timeout",
    type=Number(30, 3600),
    metavar="SECONDS",
    default=180.0,
    show_default=True,
    help="Give up after so many seconds.",
)
@option("--dry-run", is_flag=True, help="Say what would be given back now. Stop and write nothing.")
@log_options
def give_back(**options: Any) -> int:
    """Stop the service and give back all that it holds. Run this before you uninstall.

    It scales the Deployment to zero and waits until nothing renews its Lease. Then it gives back what is left of
    ceilings, gates, taints and labels, and removes the annotations by which pools of strategy Annotate keep nodes.
    `helm uninstall` does all this by itself.

    Exit codes: 0 nothing of ours holds anything back; 1 something could not be given back, or a replica still renews
    the Lease; 2 bad input.

    \b
    Examples:
      balloons give-back --dry-run
      balloons give-back && kubectl delete --ignore-not-found -k .
    """
    import asyncio

    from balloons.service.logs import set_up_logs

    set_up_logs(options["log_format"], is_debug=options["debug"])
    return ExitCode.DONE if asyncio.run(_run(options)) else ExitCode.FAILED


async def _run(options: dict[str, Any]) -> bool:
    from contextlib import suppress

    from throttler.kube.connection import ConnectionOptions, load_connection
    from throttler.kube.errors import ForbiddenError, NotFoundError
    from throttler.kube.kube_client import CeilingGate, open_client
    from throttler.kube.lease import open_lease_client

    connection = await load_connection(ConnectionOptions(kubeconfig=options["kubeconfig"], context=options["context"]))
    settings = _settings(options)
    gate = CeilingGate(CALLS_PER_S, burst=BURST)
    async with open_client(connection, "give-back", gate=gate) as client:
        # Where no server answers it is told once, and not for each kind of object.
        with suppress(ForbiddenError, NotFoundError):
            await client.get_raw("/version")
        if options["dry_run"]:
            return await _show(client, settings)
        is_scaled = await _stop_service(client, options["namespace"], options["deployment"])
        async with open_lease_client(connection) as lease_client:
            return await _await_silence(lease_client, client, settings, is_scaled=is_scaled)


def _settings(options: dict[str, Any]) -> "GuardSettings":
    """A guard that goes on until nobody renews: then no replica may write any more."""
    from throttler.kube.election import LEASE_S, RETRY_S
    from throttler.service.guard import GuardSettings

    return GuardSettings(
        namespace=options["namespace"],
        after_s=LEASE_S + RETRY_S,
        period_s=PERIOD_S,
        is_once=True,
        waits_for_silence=True,
        lets_nodes_go=True,
        give_up_s=options["timeout"],
    )


async def _show(client: "KubeClient", settings: "GuardSettings") -> bool:
    from throttler.kube.quantities_and_durations import count
    from throttler.service.restore_all import restore_all

    would_be = await restore_all(client, lease=settings.lease, lets_nodes_go=True, is_dry_run=True)
    for problem in would_be.problems:
        click.echo(problem, err=True)
    click.echo(f"{count(would_be.done, 'object')} would be given back (dry run: nothing was written)", err=True)
    return would_be.is_all


async def _stop_service(client: "KubeClient", namespace: str, deployment: str) -> bool:
    """Whether there is a Deployment, which now wants no replicas."""
    from throttler.kube.errors import NotFoundError
    from throttler.kube.requests import DEPLOYMENTS

    try:
        body = {"spec": {"replicas": 0}}
        await client.patch(DEPLOYMENTS, body, deployment, namespace, subresource="scale")
    except NotFoundError:
        click.echo(f"no Deployment {namespace}/{deployment}: whoever else runs the service must stop it", err=True)
        return False
    return True


async def _await_silence(
    lease_client: "KubeClient", client: "KubeClient", settings: "GuardSettings", *, is_scaled: bool
) -> bool:
    import asyncio

    from balloons.service.run import stop_on_signals
    from throttler.service.guard import Guard

    stop = stop_on_signals()
    still = "; the service stays at zero replicas" if is_scaled else ""
    unfinished = f"stopped before everything was given back{still}"
    try:
        is_well = await Guard(lease_client, client, settings, asyncio.get_running_loop().time).run(stop)
    except asyncio.CancelledError:
        click.echo(unfinished, err=True)
        raise
    if stop.is_set():
        raise CommandError(unfinished)
    return is_well
