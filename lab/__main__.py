"""`python -m lab`: get the binaries, start a control plane to play with, run the demo."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import click

from lab.binaries.building import find_go, say, trim_build_cache
from lab.binaries.catalogue import ALL_BINARIES, CHART_BINARIES, CONTROL_PLANE_BINARIES, KUBERNETES, MONITORING_BINARIES
from lab.binaries.finding import find_binaries, find_karpenter_crds
from lab.cloud.machines import HollowNodes, HollowNodeSettings
from lab.controlplane.plane import ControlPlane, start_control_plane
from lab.controlplane.settings import ApiServerSettings, ControlPlaneSettings
from lab.demo.narration import Findings, Narrator
from lab.demo.rush_story import tell_rush
from lab.demo.scene import open_scene
from lab.demo.story import tell
from lab.demo.summary import summarise
from lab.errors import LabError
from lab.image.command import audit, image
from lab.monitoring.proof import proof
from lab.monitoring.recording import record
from lab.monitoring.write_dashboards import dashboards


@click.command()
@click.option("--trim", is_flag=True, help="Empty Go's build cache afterwards (frees several GB).")
@click.option("--tests", is_flag=True, help="Also what only tests need: Prometheus, promtool and Helm.")
def binaries(trim: bool, tests: bool) -> None:
    """Find or build all binaries and print where they are."""
    wanted = (*ALL_BINARIES, *MONITORING_BINARIES, *CHART_BINARIES) if tests else ALL_BINARIES
    paths = find_binaries(binary.name for binary in wanted)
    for name, path in paths.items():
        click.echo(f"{name}\t{path}")
    click.echo(f"karpenter CRDs\t{find_karpenter_crds()}")
    if trim:
        trim_build_cache(find_go(KUBERNETES.minimum_go))
        say("Go's build cache is empty now; the binaries stay.")


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


@click.command()
def demo() -> None:
    """Show the main job on a real control plane; exit status 1 if a promise did not hold."""
    # Before the event loop starts, so that Ctrl-C ends a long build at once.
    find_binaries(binary.name for binary in ALL_BINARIES)
    if asyncio.run(_run_demo()):
        sys.exit(1)


async def _run_demo() -> list[str]:
    narrator, findings = Narrator(), Findings()
    narrator.plain(
        "kube-balloons: warm GPU nodes that no autoscaler removes, and growth that the API servers keep up with"
    )
    narrator.plain("Starting a control plane and its autoscaler on loopback (about 15 s) ...")
    async with open_scene() as scene:
        narrator.say(f"running: etcd, kube-apiserver, controller manager, scheduler and {scene.autoscaler}")
        await tell(scene, narrator, findings)
    rushes = await tell_rush(narrator, findings)
    summarise(narrator, findings, rushes, scene.autoscaler)
    narrator.plain("  Everything that was started is ended.")
    return findings.broken


@click.group()
def lab() -> None:
    """A real Kubernetes control plane on loopback, with simulated machines."""


lab.add_command(audit)
lab.add_command(binaries)
lab.add_command(dashboards)
lab.add_command(demo)
lab.add_command(image)
lab.add_command(proof)
lab.add_command(record)
lab.add_command(up)


def main() -> None:
    """Run the command; a LabError is shown as one message, without a traceback."""
    try:
        lab(prog_name="python -m lab")
    except LabError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
