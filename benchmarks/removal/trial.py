"""One removal: install, ramp, remove at a random moment, compare."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.removal.judge import ACCOUNTS, Json, differences, touched
from benchmarks.removal.scene import Scene
from benchmarks.removal.ways import Way
from lab.cloud.machines import ProcessPods

RAMP_S = (0.0, 12.0)
"""How long after the first ceiling, gate and taint are in force it is removed."""
QUIET_S = 2.0
"""What was given back must still be so a moment later: nobody is left who would take it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was in force when the removal began, what our accounts had written, and what was different in the end."""

    way: Way
    ramp_s: float
    ceilings: int
    gates: int
    taints: int
    unlabelled: int
    kept: int
    objects: int
    removal_s: float
    wrong: tuple[str, ...]

    @property
    def is_restored(self) -> bool:
        """Whether every object of the user's is as it was."""
        return not self.wrong


async def run_trial(scene: Scene, hosts: ProcessPods, way: Way, chance: random.Random, *, has_quota: bool) -> Trial:
    """One trial; `has_quota`: the user has a CapacityQuota of the throttle's name already. Leaves the cluster empty."""
    if has_quota:
        await scene.put_quota()
    before, log = await scene.traces(), scene.plane.audit_logs[0]
    read_to = log.stat().st_size
    await scene.shell.install(way)
    try:
        await scene.begin_ramp()
        ramp_s = chance.uniform(*RAMP_S)
        await asyncio.sleep(ramp_s)
        await scene.end_ramp()
        held = await scene.marks()
        if way.is_killed and hosts.crash("kube-balloons-") < 2:
            raise AssertionError("there were no replicas to kill")
        begun_s = time.monotonic()
        await scene.shell.remove(way)
        removal_s = time.monotonic() - begun_s
        wrong = [*await _wrong(scene, before), *await _later(scene, before)]
        objects = touched(_events(log, read_to))
    except Exception as error:
        error.add_note(await scene.state())
        raise
    finally:
        await scene.clear()
    return Trial(
        way=way,
        ramp_s=ramp_s,
        ceilings=len(held.ceilings),
        gates=len(held.gates),
        taints=len(held.taints),
        unlabelled=len(held.unlabelled),
        kept=len(held.kept),
        objects=len(objects),
        removal_s=removal_s,
        wrong=tuple(dict.fromkeys(wrong)),
    )


def _events(log: Path, read_to: int) -> Iterator[Json]:
    """What our accounts asked for since then, by the audit log."""
    with log.open("rb") as file:
        file.seek(read_to)
        for line in file:
            if ACCOUNTS.encode() in line and line.endswith(b"\n"):
                yield json.loads(line)


async def _later(scene: Scene, before: dict[str, Json]) -> list[str]:
    async def has_left() -> bool:
        return not await _left(scene)

    # The garbage collector deletes pods after their Deployment, in its own time.
    with contextlib.suppress(TimeoutError):
        await scene.until("no pod of ours stays", has_left)
    await asyncio.sleep(QUIET_S)
    return [*await _wrong(scene, before), *(f"pod {name} is still there" for name in await _left(scene))]


async def _left(scene: Scene) -> list[str]:
    pods = await scene.api.items("/api/v1/namespaces/kube-balloons/pods")
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def _wrong(scene: Scene, before: dict[str, Json]) -> list[str]:
    """What is different, and what of ours is still on users' objects."""
    return [*differences(before, await scene.traces()), *(await scene.marks()).words()]
