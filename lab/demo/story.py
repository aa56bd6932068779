"""The first half: two pools side by side, one with balloons. Whose idle nodes stay, and how long the next job waits."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from lab.cloud.json_api import Json, JsonApi
from lab.demo.narration import Findings, Narrator
from lab.demo.scene import BARE, BOOT_S, JOBS, POOL, UNNEEDED_S, Scene, balloon_pool, work_pod
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


async def run_gang(api: JsonApi, pool: str, name: str, size: int, deadline_s: float = 240.0) -> GangRecord:
    """Submit `size` pods for whole nodes of a pool and wait until all of them run; the pods stay."""
    names = _members(pool, name, size)
    watch = asyncio.create_task(_watch(api, set(names)))
    await asyncio.sleep(0.5)  # the watch is open before the first pod exists
    started = time.monotonic()
    await asyncio.gather(*(api.create(PODS_PATH, work_pod(pod, pool)) for pod in names))
    try:
        bound, running = await asyncio.wait_for(watch, deadline_s)
    except TimeoutError as error:
        raise LabError(f"the gang {name} of {size} pods did not run within {deadline_s:.0f} s") from error
    waits = tuple(sorted(at - started for at in bound.values()))
    return GangRecord(waits, max(running.values()) - started)


def _members(pool: str, name: str, size: int) -> list[str]:
    return [f"{pool}-{name}-{number}" for number in range(size)]


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


async def end_gang(api: JsonApi, pool: str, name: str, size: int) -> None:
    """The job is done: its pods go."""
    await asyncio.gather(*(api.delete(f"{PODS_PATH}/{pod}") for pod in _members(pool, name, size)))


GANG = 4
"""Pods of the training job; each takes a whole node."""
BUSY = 6
"""Nodes of each pool in the busy hour before: two more than the BalloonPool will keep."""


async def tell(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    """All acts in order."""
    narrator.act("a. After a busy hour: the autoscaler removes idle nodes, and a BalloonPool in Hold keeps 4 of them")
    narrator.say("install: all of manifests/base; then `balloons run` with the rights of its ServiceAccount")
    await install(scene.plane)
    async with run_service(scene.plane):
        await _act_idle(scene, narrator, findings)
        await _act_next_job(scene, narrator, findings)
        await _act_headroom(scene, narrator, findings)


async def _act_idle(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    await scene.plane.kubectl_async("apply", "-f", "-", input=_json(balloon_pool(mode="Hold", size=GANG)))
    narrator.say(f"two pools of GPU nodes, a BalloonPool over one of them; {BUSY} pods on each, a whole node per pod")
    await asyncio.gather(*(run_gang(scene.api, pool, "busy", BUSY) for pool in (POOL, BARE)))
    await asyncio.gather(*(end_gang(scene.api, pool, "busy", BUSY) for pool in (POOL, BARE)))
    narrator.say(f"the pods are done, and all {2 * BUSY} nodes idle")
    warm_s = await scene.wait_warm(GANG)
    narrator.say(f"with balloons: {GANG} of {BUSY} idle nodes are held {warm_s:.1f} s later")
    narrator.say(f"waiting until the autoscaler has removed what was idle for {UNNEEDED_S} s ...")
    removal = await _watch_removal(scene)
    findings.check(
        narrator, True, f"without balloons: all {BUSY} idle nodes were removed within {removal.bare_gone_s:.0f} s"
    )
    findings.check(
        narrator,
        removal.held_stayed,
        f"with balloons: the {BUSY - GANG} nodes beyond the size went within {removal.surplus_gone_s:.0f} s, as they "
        f"should, and the other {GANG} stayed Ready",
    )
    findings.figures |= {
        "idle_nodes_removed_after_s": removal.bare_gone_s,
        "held_nodes": removal.held,
        "held_nodes_stayed": removal.held_stayed,
    }


@dataclass(frozen=True, kw_only=True)
class RemovalRecord:
    """Seconds until each pool's nodes were gone that nothing holds, and what was left of the held ones."""

    bare_gone_s: float
    surplus_gone_s: float
    held: int
    held_stayed: bool
    """Whether all of them were Ready whenever somebody looked, and none was removed."""


async def _watch_removal(scene: Scene, deadline_s: float = 240.0) -> RemovalRecord:
    kept = {BARE: 0, POOL: GANG}
    gone: dict[str, float] = {}
    started, stayed = time.monotonic(), True
    while len(gone) < len(kept):
        await asyncio.sleep(0.5)
        counts = {pool: await scene.counts(pool) for pool in kept}
        now_s = time.monotonic() - started
        stayed = stayed and counts[POOL].ready >= GANG
        gone = {pool: now_s for pool in kept if counts[pool].nodes <= kept[pool]} | gone
        if now_s > deadline_s:
            raise LabError(f"waited {deadline_s:.0f} s for idle nodes to be removed; there are {counts}")
    return RemovalRecord(bare_gone_s=gone[BARE], surplus_gone_s=gone[POOL], held=counts[POOL].nodes, held_stayed=stayed)


async def _act_next_job(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    narrator.act("b. The next job takes warm nodes at once, or waits for machines")
    narrator.say(f"a training job of {GANG} pods, one whole GPU node each, on each pool")
    # One after the other: booting machines take the CPU of this one.
    warm = await run_gang(scene.api, POOL, "train", GANG)
    narrator.say(
        f"with balloons: every pod had a node after {1000 * warm.median_bound_s:.0f} ms (median), the last after "
        f"{1000 * warm.last_bound_s:.0f} ms"
    )
    cold = await run_gang(scene.api, BARE, "train", GANG)
    ratio = cold.last_bound_s / warm.last_bound_s
    findings.check(
        narrator,
        ratio > 1,
        f"without balloons: {GANG} machines had to boot, and the last pod had a node after {cold.last_bound_s:.1f} s, "
        f"{ratio:.0f} times as late",
    )
    counts = await scene.counts()
    findings.check(narrator, counts.nodes == GANG, "the balloons gave way, and Hold asked for no new node")
    findings.figures |= {
        "cold_bind_last_s": cold.last_bound_s,
        "warm_bind_median_ms": 1000 * warm.median_bound_s,
        "warm_bind_last_ms": 1000 * warm.last_bound_s,
        "cold_over_warm": ratio,
        "nodes_after_gang_in_hold": counts.nodes,
    }


async def _act_headroom(scene: Scene, narrator: Narrator, findings: Findings) -> None:
    narrator.act("c. Headroom: the pool grows back on purpose, up to maxSize")
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
