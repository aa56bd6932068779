"""The product's own commands, as processes, as a user would run them; what they cannot see is stated."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.truth.case import Case
from benchmarks.truth.happened import Usual
from benchmarks.truth.scene import NODE_POOL, pods
from lab.errors import LabError
from lab.scaleup.cluster import SCHEDULER_QPS

CLUSTER, AFTERWARDS, PLAN, PODS = "cluster.tar.gz", "afterwards.tar.gz", "plan.json", "pods.json"
BREAKS_A_PROMISE = 3
"""Not all nodes can come: what the plan says, and no failure."""


async def dump_cluster(kubeconfig: Path, into: Path) -> None:
    """Keep what a plan sees; a plan of it is the same, byte for byte, as one of the cluster (docs/dump.md)."""
    await _balloons("dump", str(into), "--kubeconfig", str(kubeconfig))


async def make_plan(case: Case, usual: Usual, folder: Path) -> Any:
    """Plan the scale-up of the cluster as it was seen, and save the plan; returns it."""
    asked = ["--add", str(case.nodes)]
    if case.is_planned_by_pods:
        (folder / PODS).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods("work", case.nodes)}))
        asked = ["--pods", str(folder / PODS)]
    where = ("--from", str(folder / CLUSTER), "--pool", NODE_POOL, "--save", str(folder / PLAN))
    await _balloons("plan", *asked, *where, *_stated(case, usual))
    return saved_plan(folder)


def saved_plan(folder: Path) -> Any:
    """The plan that was made before."""
    return json.loads((folder / PLAN).read_text())


async def compare_plan(kubeconfig: Path, folder: Path) -> Any:
    """What `plan --compare` says of it afterwards."""
    where = ("--kubeconfig", str(kubeconfig), "-o", "json")
    return json.loads(await _balloons("plan", "--compare", str(folder / PLAN), *where))


def _stated(case: Case, usual: Usual) -> Iterator[str]:
    """What runs as bare processes here, so that no pod shows its flags, and what only the cloud knows.

    What a join costs is learned where there is a JoinThrottle.
    """
    cores = usual.cores or case.cores
    yield from ("--servers", "1", "--server-cores", f"{cores:.2f}", "--background", f"{usual.background:.3f}")
    if case.window is None:
        yield from ("--join-cost", f"{usual.join_cpu_s:.3f}")
    yield from ("--controller-qps", f"{case.manager_qps:g}", "--scheduler-qps", f"{SCHEDULER_QPS:g}")
    if case.machines is not None:
        yield from ("--max-nodes", str(case.machines))
    if case.starts_per_s is not None:
        yield from ("--launch-rate", f"{case.starts_per_s:g}", "--launch-burst", str(case.starts_burst))


async def _balloons(*arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "balloons", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode not in (0, BREAKS_A_PROMISE):
        raise LabError(f"balloons {' '.join(arguments)}: {process.returncode}: {err.decode()[-500:]}")
    return out
