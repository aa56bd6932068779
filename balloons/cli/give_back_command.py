"""`balloons give-back`: stops the service and gives everything back, before it is uninstalled."""

from typing import TYPE_CHECKING, Any

import click

from balloons.cli.complete import namespaces
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.guard_command import BURST, NAMESPACE, Bounded, stop_on_signals
from balloons.cli.options import connection_options, log_options, option

if TYPE_CHECKING:
    from throttler.kube.kube_client import KubeClient
    from throttler.service.guard import GuardSettings

DEPLOYMENT = "kube-balloons"
"""As the manifests name it; the chart's `fullnameOverride` names it otherwise."""
PERIOD_S = 1.0
CALLS_PER_S = 50.0
"""As the service gives back on a stop: thousands of nodes may be held."""


@click.command("give-back", short_help="Stop the service and give back all it holds.")
@connection_options
@option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=namespaces,
    default=NAMESPACE,
    show_default=True,
    help="Where the service runs.",
)
@option("--deployment", metavar="NAME", default=DEPLOYMENT, show_default=True, help="The service's Deployment.")
@option(
    "--timeout",
    type=Bounded(30, 3600),
    default=180.0,
    show_default=True,
    help="Seconds after which it gives up.",
)
@option("--dry-run", is_flag=True, help="Say what would be given back now; stop nothing, write nothing.")
@log_options
def give_back(**given: Any) -> int:
    """Stop the service and give back all that it holds; run it before you uninstall.

    Scales the Deployment to zero, waits until nobody renews its Lease, and gives back what is left of ceilings, gates,
    taints and labels; nodes that pools of strategy Annotate keep are let go. `helm uninstall` does this by itself.

    \b
    Exit codes: 0 nothing of ours holds anything back; 1 something could not be given back, or somebody still renews;
    2 bad input.

    \b
    Examples:
      balloons give-back --dry-run
      balloons give-back && kubectl delete --ignore-not-found -k .
    """
    import asyncio

    from balloons.service.logs import set_up_logs

    set_up_logs(given["log_format"], is_debug=given["debug"])
    return ExitCode.DONE if asyncio.run(_run(given)) else ExitCode.FAILED


async def _run(given: dict[str, Any]) -> bool:
    from throttler.kube.caller import CeilingGate
    from throttler.kube.connection import ConnectionOptions, load_connection
    from throttler.kube.kube_client import open_client
    from throttler.kube.lease import open_lease_client

    connection = await load_connection(ConnectionOptions(kubeconfig=given["kubeconfig"], context=given["context"]))
    settings = _settings(given)
    gate = CeilingGate(CALLS_PER_S, burst=BURST)
    async with open_client(connection, "give-back", gate=gate) as client:
        if given["dry_run"]:
            return await _show(client, settings)
        await _stop_service(client, given["namespace"], given["deployment"])
        async with open_lease_client(connection) as lease_client:
            return await _await_silence(lease_client, client, settings)


def _settings(given: dict[str, Any]) -> "GuardSettings":
    """A guard that goes on until nobody renews: then no replica may write any more."""
    from throttler.kube.election import LeadTiming
    from throttler.service.guard import GuardSettings

    silence_s = LeadTiming().lease_s + LeadTiming().retry_s
    return GuardSettings(
        namespace=given["namespace"],
        after_s=silence_s,
        period_s=PERIOD_S,
        is_once=True,
        waits_for_silence=True,
        lets_nodes_go=True,
        give_up_s=given["timeout"],
    )


async def _show(client: "KubeClient", settings: "GuardSettings") -> bool:
    from throttler.service.restore_all import give_back_all

    found = await give_back_all(client, lease=settings.lease, lets_nodes_go=True, is_dry_run=True)
    for problem in found.problems:
        click.echo(problem, err=True)
    return found.is_all


async def _stop_service(client: "KubeClient", namespace: str, deployment: str) -> None:
    from balloons.service.watched_objects import DEPLOYMENTS
    from throttler.kube.errors import NotFoundError

    try:
        body = {"spec": {"replicas": 0}}
        await client.patch(DEPLOYMENTS, body, deployment, namespace, subresource="scale")
    except NotFoundError:
        click.echo(f"no Deployment {namespace}/{deployment}: whoever else runs the service must stop it", err=True)


async def _await_silence(lease_client: "KubeClient", client: "KubeClient", settings: "GuardSettings") -> bool:
    import asyncio

    from throttler.service.guard import Guard

    stop = stop_on_signals()
    is_well = await Guard(lease_client, client, settings, asyncio.get_running_loop().time).run(stop)
    if stop.is_set():
        raise CommandError("stopped before everything was given back; the service stays at zero replicas")
    return is_well
