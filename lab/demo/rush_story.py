"""The second half: the same rush twice, at once and paced, and what everybody else felt of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.demo.narration import Findings, Narrator
from lab.demo.rush import RushRecord, run_rush
from lab.demo.rush_scene import BOOT_S, Lever, Pacing, RushScene, open_rush, wait_for_throttle

NODES = 150
"""Whole nodes that one job asks for; enough to press a server of one core and 30 seats hard."""


@dataclass(frozen=True, slots=True)
class Rushes:
    """Both runs."""

    at_once: RushRecord
    paced: RushRecord

    @property
    def half_time_s(self) -> float:
        """When the run at once was half through."""
        return self.at_once.all_usable_s / 2


async def tell_rush(narrator: Narrator, findings: Findings, nodes: int = NODES) -> Rushes:
    """Both runs, each on a control plane and a Karpenter of its own."""
    narrator.act(f"d. A rush: one job asks for {nodes} whole nodes, and nothing paces them")
    narrator.say("a small control plane: one API server with 30 seats; machines that send all of a kubelet's")
    narrator.say(
        f"requests, boot in about {BOOT_S:.0f} s, run 8 DaemonSets, and have GPUs once the device plugin runs, one"
    )
    narrator.say("of these; an innocent client asks 10 times a second")
    async with open_rush() as scene:
        share = scene.small_share()
        with scene.server_held_to(share) as is_held:
            if is_held:
                narrator.say(f"the API server is held to {share:g} of a core, so that it is what binds")
            else:
                narrator.say("the API server has 1 core: this machine cannot hold it to less, and others may bind")
            at_once = await run_rush(scene, nodes, _teller(narrator, nodes))
    _say(narrator, at_once)
    narrator.act("e. The same rush, paced: the job's pods wait at a gate, and are released as the API server keeps up")
    async with open_rush(Pacing(levers=frozenset({Lever.GATES}))) as scene:
        with scene.server_held_to(share):
            await wait_for_throttle(scene)
            paced = await run_rush(scene, nodes, _teller(narrator, nodes))
        _say(narrator, paced)
        await _show(narrator, scene)
    rushes = Rushes(at_once, paced)
    _judge(narrator, findings, rushes)
    return rushes


def _teller(narrator: Narrator, nodes: int) -> Callable[[int], None]:
    """A line for each quarter of the nodes: a minute of silence looks like a demo that hangs."""
    quarters = {nodes * quarter // 4 for quarter in (1, 2, 3)}

    def tell(count: int) -> None:
        if count in quarters:
            narrator.say(f"{count} of {nodes} nodes are usable")

    return tell


def _say(narrator: Narrator, record: RushRecord) -> None:
    narrator.say(
        f"all usable after {record.all_usable_s:.0f} s, on average after {record.mean_usable_s:.0f} s; "
        f"the innocent client waited {record.bystander_p50_ms:.0f} ms (p50), {record.bystander_p99_ms:.0f} ms (p99)"
    )


async def _show(narrator: Narrator, scene: RushScene) -> None:
    narrator.plain()
    narrator.plain((await scene.plane.kubectl_async("get", "jointhrottles", "-o", "wide")).rstrip())
    narrator.plain()


def _judge(narrator: Narrator, findings: Findings, rushes: Rushes) -> None:
    herd, paced = rushes.at_once, rushes.paced
    usable = [record.usable_at(rushes.half_time_s) for record in (herd, paced)]
    narrator.say(
        f"when the rush at once was half through ({rushes.half_time_s:.0f} s), {usable[0]} of its nodes were usable, "
        f"and {usable[1]} of the paced ones"
    )
    findings.check(
        narrator,
        paced.errors < herd.errors,
        f"the API server refused or failed {herd.errors} requests at once, {paced.errors} paced",
    )
    findings.check(
        narrator,
        paced.bystander_p99_ms < herd.bystander_p99_ms,
        f"one request in a hundred of the innocent client took more than {herd.bystander_p99_ms:.0f} ms at once, "
        f"{paced.bystander_p99_ms:.0f} ms paced",
    )
    findings.check(
        narrator,
        paced.machines == len(paced.usable_s) <= herd.machines,
        f"for {len(paced.usable_s)} workers {herd.machines} machines were bought at once, {paced.machines} paced",
    )
