"""`python -m lab demo` (= `make demo`)."""

from __future__ import annotations

import asyncio
import sys

import click

from lab.binaries import find_binaries
from lab.binaries.catalogue import ALL_BINARIES
from lab.demo.findings import Findings
from lab.demo.narration import Narrator
from lab.demo.rush_story import tell_rush
from lab.demo.scene import open_scene
from lab.demo.story import tell
from lab.demo.summary import summarise


@click.command()
def demo() -> None:
    """Show the main job on a real control plane; exit status 1 if a promise did not hold."""
    # Before the event loop starts, so that Ctrl-C ends a long build at once.
    find_binaries(binary.name for binary in ALL_BINARIES)
    if asyncio.run(_run()):
        sys.exit(1)


async def _run() -> list[str]:
    narrator, findings = Narrator(), Findings()
    narrator.plain("kube-balloons: warm GPU nodes that no autoscaler removes, and growth that the API servers can bear")
    narrator.plain("Starting a control plane and its autoscaler on loopback (about 15 s) ...")
    async with open_scene() as scene:
        narrator.say(f"running: etcd, kube-apiserver, controller manager, scheduler and {scene.autoscaler}")
        await tell(scene, narrator, findings)
    rushes = await tell_rush(narrator, findings)
    summarise(narrator, findings, rushes, scene.autoscaler)
    narrator.plain("  Everything that was started is ended.")
    return findings.broken
