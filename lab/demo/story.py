"""The four acts: what an autoscaler does to idle nodes, what balloons change about it, and how long a gang waits."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from lab.cloud.json_api import Json, JsonApi
from lab.demo.narration import Findings, Narrator
from lab.demo.scene import BOOT_S, JOBS, UNNEEDED_S, Scene, balloon_pool, work_pod
from lab.demo.service import install, run_service
from lab.errors import LabError

PODS_PATH = f"/api/v1/namespaces/{JOBS}/pods"


@dataclass(frozen=True)
class GangRecord:
    """Seconds from submission until each pod had a node, and until the last one ran."""

    bound_s: tuple[float, ...]
    all_running_s: float

    @property
    def median_bound_s(self) -> float:
        """The usual wait."""
        return statistics.median(self.bound_s)

    @property
    def last_bound_s(self) -> float:
        """What the gang feels: it starts when its last pod has a node."""
        return max(self.bound_s)


async def run_gang(api: JsonApi, name: str, size: int, deadline_s: float = 240.0) -> GangRecord:
    """Submit `size` pods and wait until all of them run; the pods stay."""
    names = [f"{name}-{number}" for number in range(size)]
    watch = asyncio.create_task(_watch(api, set(names)))
    await asyncio.sleep(0.5)  # the watch is open before the first pod exists
    started = time.monotonic()
    await asyncio.gather(*(api.create(PODS_PATH, work_pod(pod)) for pod in names))
    try:
        bound, running = await asyncio.wait_for(watch, deadline_s)
    except TimeoutError as error:
        raise LabError(f"the gang {name} of {size} pods did not run within {deadline_s:.0f} s") from error
    waits = tuple(sorted(at - started for at in bound.values()))
    return GangRecord(waits, max(running.values()) - started)


async def _watch(api: JsonApi, names: set[str]) -> tuple[dict[str, float], dict[str, float]]:
    bound: dict[str, float] = {}
    running: dict[str, float] = {}
    async for name, pod in api.follow(PODS_PATH):
        if name in names and pod is not None:
            _note(name, pod, bound, running)
        if len(running) == len(names):
            break
    return bound, running


def _note(name: str, pod: Json, bound: dict[str, float], running: dict[str, float]) -> None:
    now = time.monotonic()
    if pod["spec"].get("nodeName"):
        bound.setdefault(name, now)
    if pod.get("status", {}).get("phase") == "Running":
        running.setdefault(name, now)


async def end_gang(api: JsonApi, name: str, size: int) -> None:
    """The job is done: its pods go."""
    await asyncio.gather(*(api.delete(f"{PODS_PATH}/{name}-{number}") for number in range(size)))


GANG = 4
"""Pods of the training job; each takes a whole node."""
BUSY = 6
"""Nodes of the busy hour before: two more than the pool will keep."""
WATCH_S = 2 * UNNEEDED_S
"""How long the held nodes are watched; the lab's tests watch ten times the delay."""


async def tell(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    """All acts in order."""
    cold = await _act_without(scene, narrator, findings)
    narrator.act("b. With a BalloonPool in Hold: 4 idle nodes stay warm, the rest may go")
    narrator.say("install: all of manifests/base; then `balloons run` with the rights of its ServiceAccount")
    await install(scene.plane)
    async with run_service(scene.plane):
        await _act_hold(scene, narrator, findings)
        await _act_warm(scene, narrator, findings, cold)
        await _act_headroom(scene, narrator, findings)


async def _act_without(scene: Scene, narrator: Narrator, findings: Findings) -> GangRecord:
    narrator.act("a. Without balloons: the autoscaler removes idle nodes, and the next job waits for boots")
    narrator.say(f"a training job of {GANG} pods, one whole GPU node each, on an empty pool")
    cold = await run_gang(scene.api, "cold", GANG)
    narrator.say(f"it waited for {GANG} machines to boot: the last pod had a node after {cold.last_bound_s:.1f} s")
    await end_gang(scene.api, "cold", GANG)
    narrator.say("the job is done; its nodes are idle now")
    gone_s = await scene.wait_counts("idle nodes to be removed", lambda counts: counts.nodes == 0)
    findings.check(narrator, True, f"the autoscaler removed all {GANG} idle nodes within {gone_s:.0f} s")
    findings.figures |= {"cold_bind_last_s": cold.last_bound_s, "idle_nodes_removed_after_s": gone_s}
    return cold


async def _act_hold(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    await scene.plane.kubectl_async("apply", "-f", "-", input=_json(balloon_pool(mode="Hold", size=GANG)))
    narrator.say(f"a busy hour: {BUSY} pods on {BUSY} nodes, then they are done")
    await run_gang(scene.api, "busy", BUSY)
    await end_gang(scene.api, "busy", BUSY)
    warm_s = await scene.wait_warm(GANG)
    narrator.say(f"{GANG} of {BUSY} idle nodes are held by balloons {warm_s:.1f} s later")
    gone_s = await scene.wait_counts("the surplus to be removed", lambda counts: counts.nodes <= GANG)
    counts = await scene.counts()
    findings.check(
        narrator,
        counts.nodes == GANG,
        f"the {BUSY - GANG} nodes beyond the size went after {gone_s:.0f} s, as they should",
    )
    narrator.say(f"watching the {GANG} held nodes for {WATCH_S} s, twice the autoscaler's delay ...")
    stayed = await scene.stays(lambda now: now.ready == GANG, WATCH_S)
    findings.check(narrator, stayed, f"all {GANG} held nodes are still there, Ready, and none was added")
    findings.figures |= {"held_nodes": counts.nodes, "held_nodes_stayed": stayed, "held_for_s": WATCH_S}


async def _act_warm(scene: Scene, narrator: Narrator, findings: Findings, cold: GangRecord) -> None:
    narrator.act("c. Real work takes a warm node at once")
    narrator.say(f"the same training job of {GANG} pods, on the warm pool")
    warm = await run_gang(scene.api, "warm", GANG)
    ratio = cold.last_bound_s / warm.last_bound_s
    findings.check(
        narrator,
        warm.last_bound_s < cold.last_bound_s,
        f"every pod had a node after {1000 * warm.median_bound_s:.0f} ms (median), the last after "
        f"{1000 * warm.last_bound_s:.0f} ms: {ratio:.0f} times sooner than cold",
    )
    counts = await scene.counts()
    findings.check(narrator, counts.nodes == GANG, "the balloons gave way, and Hold asked for no new node")
    findings.figures |= {
        "warm_bind_median_ms": 1000 * warm.median_bound_s,
        "warm_bind_last_ms": 1000 * warm.last_bound_s,
        "cold_over_warm": ratio,
        "nodes_after_gang_in_hold": counts.nodes,
    }


async def _act_headroom(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    narrator.act("d. Headroom: the pool grows back on purpose, up to maxSize")
    narrator.say(f"the pool becomes mode Headroom, size {GANG}, maxSize {2 * GANG}; the job still runs")
    spec = {"mode": "Headroom", "size": GANG, "maxSize": 2 * GANG}
    await scene.plane.kubectl_async("apply", "-f", "-", input=_json(balloon_pool(**spec)))
    grown_s = await scene.wait_warm(GANG)
    counts = await scene.counts()
    findings.check(
        narrator,
        counts.nodes == 2 * GANG,
        f"{GANG} busy and {GANG} warm nodes after {grown_s:.0f} s (boots take {BOOT_S:.0f} s), {counts.nodes} in all",
    )
    narrator.plain()
    narrator.plain((await scene.plane.kubectl_async("get", "balloonpools", "-A", "-o", "wide")).rstrip())
    findings.figures |= {"headroom_warm_again_after_s": grown_s, "nodes_with_headroom": counts.nodes}


def _json(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest)
