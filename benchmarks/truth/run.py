"""One trial: history, plan, scale-up, truth."""

import asyncio
import os
import shutil
import time
from pathlib import Path

from benchmarks.truth.case import HISTORY, Case
from benchmarks.truth.cpu_use import Spent, machine_share, server_share, spent, usual, wanted_share
from benchmarks.truth.happened import Happened, Usual, keep, kept
from benchmarks.truth.node_lives import Life
from benchmarks.truth.own_plan import AFTERWARDS, CLUSTER, compare_plan, dump_cluster, make_plan, saved_plan
from benchmarks.truth.scene import SERVER, Scene, end_history, open_scene, order_history, pods
from benchmarks.truth.trial import Trial, judged
from lab.errors import LabError

DEADLINE_S = 240.0
CALM_S = 4.0
"""Between the history and the plan: the server's usual load is measured meanwhile."""
NO_MORE_S = 12.0
"""How long nothing more may come before the rest counts as missing: Karpenter looks every 10 s."""
SAMPLE_S = 1.0
SETTLED, MOST_SETTLING = 0.1, 30
"""A server that uses less of a core over a sample is idle; waited for over so many samples at most."""


async def run_trial(case: Case, folder: Path) -> Trial:
    """On a control plane of its own. A scale-up that does not end in time is a trial in which fewer nodes came.

    The folder then holds what the plan saw, the plan, what happened, and for whoever asks why it did the cluster as it
    was afterwards and Karpenter's log. Raises LabError where the lab itself fails.
    """
    async with open_scene(case) as scene:
        kubeconfig = await asyncio.to_thread(scene.plane.kubeconfig)
        usual = await _history(scene)
        await dump_cluster(kubeconfig, folder / CLUSTER)
        plan = await make_plan(case, usual, folder)
        happened = await _scale_up(scene, usual, kubeconfig, folder)
        await dump_cluster(kubeconfig, folder / AFTERWARDS)
        shutil.copy(scene.karpenter.log, folder)
    keep(happened, folder)
    return judged(happened, plan)


def kept_trial(case: Case | None, folder: Path) -> Trial | None:
    """The trial of this very case, if it was run into that folder; None takes whichever was."""
    happened = kept(folder, case)
    return judged(happened, saved_plan(folder)) if happened else None


async def replan(case: Case | None, folder: Path) -> Trial | None:
    """The same with a plan made anew, of what the cluster looked like then."""
    happened = kept(folder, case)
    return judged(happened, await make_plan(happened.case, happened.usual, folder)) if happened else None


async def _scale_up(scene: Scene, usual: Usual, kubeconfig: Path, folder: Path) -> Happened:
    load = os.getloadavg()[0]
    samples = [_spent(scene)]
    watch = asyncio.create_task(_sample(scene, samples))
    demand_s = time.time()
    await scene.ask_for(pods("work", scene.case.nodes))
    await scene.wait_for(HISTORY + scene.case.can_come, DEADLINE_S)
    watch.cancel()
    if scene.case.can_come < scene.case.nodes:
        await asyncio.sleep(NO_MORE_S)
    came = await scene.lives(demand_s)
    if not came:
        raise LabError(f"no node within {DEADLINE_S:.0f} s")
    compared = await compare_plan(kubeconfig, folder)
    return Happened(
        case=scene.case,
        usual=usual,
        demand_s=demand_s,
        lives=tuple(came),
        compared_s=compared["steps"][-1]["realSeconds"],
        server_busy=_busy_while_joining(samples, came, demand_s, scene.case.cores),
        server_cpu_s=samples[-1].process_s - samples[0].process_s,
        ordering_cpu_s=_spent_before(samples, min(life.registered_s for life in came) - demand_s),
        machine_busy=machine_share(samples[0], samples[-1]),
        load=load,
        is_served_first=scene.is_served_first,
    )


async def _history(scene: Scene) -> Usual:
    """Make it, and read off the CPU times what an operator would read off Prometheus."""
    await _settled(scene)
    if not await order_history(scene, DEADLINE_S):
        raise LabError("no node came in time")
    before = _spent(scene)
    if not await end_history(scene, DEADLINE_S):
        raise LabError("the first nodes did not come in time")
    after = _spent(scene)
    await asyncio.sleep(CALM_S)
    return usual(before, after, _spent(scene), HISTORY, scene.case.cores)


async def _settled(scene: Scene) -> None:
    """Until the server has done with its own start: that is no join's cost, and delays who has started with it."""
    before = _spent(scene)
    for _ in range(MOST_SETTLING):
        await asyncio.sleep(SAMPLE_S)
        after = _spent(scene)
        if server_share(before, after, 1) < SETTLED:
            return
        before = after


def _spent(scene: Scene) -> Spent:
    return spent(scene.plane.pid(SERVER))


async def _sample(scene: Scene, samples: list[Spent]) -> None:
    while True:
        await asyncio.sleep(SAMPLE_S)
        samples.append(_spent(scene))


def _spent_before(samples: list[Spent], seconds: float) -> float:
    """Core-seconds of the first so many."""
    first = samples[0]
    return max(sample.process_s for sample in samples if sample.at_s - first.at_s <= seconds) - first.process_s


def _busy_while_joining(samples: list[Spent], came: list[Life], demand_s: float, cores: int) -> float:
    """From the first registered node to the last usable one, on the clock of the samples."""
    first_s = min(life.registered_s for life in came)
    began_s, ended_s = (samples[0].at_s + at_s - demand_s for at_s in (first_s, came[-1].usable_s))
    within = [sample for sample in samples if began_s - SAMPLE_S <= sample.at_s <= ended_s + SAMPLE_S]
    return wanted_share(within[0], within[-1], cores) if len(within) > 1 else 0.0
