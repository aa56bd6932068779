"""`python -m lab up`: a control plane left running to play with."""

from __future__ import annotations

import asyncio
import contextlib

import click

from lab.binaries import CONTROL_PLANE_BINARIES, find_binaries
from lab.cloud.machines import HollowNodes, HollowNodeSettings
from lab.controlplane.plane import ControlPlane, start_control_plane
from lab.controlplane.settings import ApiServerSettings, ControlPlaneSettings


@click.command()
@click.option("--servers", default=1, show_default=True, type=click.IntRange(1, 9), help="API servers.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(0, 100), help="Hollow nodes.")
@click.option("--audit", is_flag=True, help="Write every request to an audit log.")
def up(servers: int, nodes: int, audit: bool) -> None:
    """Start a control plane with a few hollow nodes and leave it running until Ctrl-C."""
    # Before the event loop starts, so that Ctrl-C ends a long build at once.
    find_binaries([*CONTROL_PLANE_BINARIES, "kubemark"])
    settings = ControlPlaneSettings(api_servers=(ApiServerSettings(),) * servers, audit=audit)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run_until_interrupted(settings, nodes))
    click.echo("Everything of it is ended and removed.")


async def _run_until_interrupted(settings: ControlPlaneSettings, nodes: int) -> None:
    click.echo("Starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler ...", err=True)
    async with start_control_plane(settings) as plane, HollowNodes(plane) as machines:
        click.echo(f"Starting {nodes} hollow nodes (real kubelets without containers) ...", err=True)
        await machines.start(*(HollowNodeSettings(name=f"hollow-{number}") for number in range(nodes)))
        _introduce(plane)
        await asyncio.Event().wait()


def _introduce(plane: ControlPlane) -> None:
    click.echo(f"export KUBECONFIG={plane.kubeconfig()}")
    click.echo(f"export PATH={plane.binaries['kubectl'].parent}:$PATH   # its kubectl", err=True)
    click.echo(f"API servers: {', '.join(plane.server_urls)}; logs: {plane.directory / 'logs'}", err=True)
    for log in plane.audit_logs:
        click.echo(f"Audit log: {log}", err=True)
    click.echo("It runs until Ctrl-C here; then everything of it is ended and removed.", err=True)
