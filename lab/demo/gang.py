"""A gang: several whole-node pods submitted at once, and how long each waited for its node."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from lab.cloud.json_api import Json, JsonApi
from lab.demo.objects import JOBS, work_pod
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
