"""`python -m lab record FILE`: a real run of both halves of the service and of the guard, as scraped; seven minutes.

A pool keeps nodes warm and grows by Headroom. A job takes them all and asks for many more: the JoinThrottle paces the
machines that a real Karpenter orders, and cuts when the API server hangs again and again in the middle. Then the job
ends, and a second one finds everything warm.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import click

from lab.binaries import find_binaries
from lab.binaries.catalogue import ALL_BINARIES
from lab.demo.rush_scene import POOL_LABELS, Pacing, RushScene, open_rush, training, wait_for_throttle
from lab.demo.scene import JOBS
from lab.demo.service import run_guard, service_log
from lab.errors import LabError
from lab.monitoring.prometheus import Scrapes
from lab.processes import log_tail, logged

INTERVAL_S = 15.0
"""Between two scrapes; half of Prometheus' usual interval, so that a short run has enough of them."""
WARM, RUSH, SECOND = 10, 80, 8
"""Nodes kept warm, pods of the job that is too large for them, and of the one that is not."""
HANGS, HANG_S, BREATH_S = 3, 8.0, 6.0
"""Each far longer than an answer may take, and several: one high sample is no trend and cuts nothing."""
SETTLE_S = 60.0
PATIENCE_S, START_S = 600.0, 60.0
OPEN_METRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
NAMESPACE, POOL = "kube-balloons", "workers"
_POOL_PATH = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{NAMESPACE}/balloonpools/{POOL}"
_JOBS_PATH = f"/apis/apps/v1/namespaces/{JOBS}/deployments"
_JOB_PATH = f"{_JOBS_PATH}/training"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def record(file: Path) -> None:
    """Record a real run of the service as an OpenMetrics file, gzipped: what dashboards and alerts are tried on."""
    find_binaries(binary.name for binary in ALL_BINARIES)
    text = asyncio.run(_record())
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without name and time in the header, so that equal runs are equal bytes.
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    click.echo(f"{file}: {len(text) / 1e6:.1f} MB, {file.stat().st_size / 1e3:.0f} kB compressed")


async def _record() -> str:
    async with open_rush(Pacing()) as scene, run_guard(scene.plane):
        async with scraping(await _address(scene, "run"), await _address(scene, "guard")) as scrapes:
            await wait_for_throttle(scene)
            await _play(scene)
        return scrapes.text()


async def _play(scene: RushScene) -> None:
    _say("a pool of warm nodes is made")
    await scene.plane.kubectl_async("apply", "-f", "-", input=json.dumps(_pool()))
    await _until(scene, _POOL_PATH, "warm", WARM)
    await asyncio.sleep(SETTLE_S)
    _say("a job asks for more than is warm")
    await scene.api.create(_JOBS_PATH, training(RUSH))
    await _until(scene, _JOB_PATH, "readyReplicas", RUSH // 4)
    for _ in range(HANGS):
        _say("the API server hangs")
        scene.plane.pause("kube-apiserver-0")
        await asyncio.sleep(HANG_S)
        scene.plane.resume("kube-apiserver-0")
        await asyncio.sleep(BREATH_S)
    await _until(scene, _JOB_PATH, "readyReplicas", RUSH)
    await asyncio.sleep(SETTLE_S)
    _say("it ends, and its nodes are held")
    await scene.api.delete(_JOB_PATH)
    await _until(scene, _POOL_PATH, "warm", WARM)
    await asyncio.sleep(SETTLE_S)
    _say("a smaller job finds all it needs")
    await scene.api.create(_JOBS_PATH, training(SECOND))
    await _until(scene, _JOB_PATH, "readyReplicas", SECOND)
    await asyncio.sleep(SETTLE_S)


async def _until(scene: RushScene, path: str, field: str, count: int) -> None:
    """Wait until an object's status counts at least this many."""
    deadline = time.monotonic() + PATIENCE_S
    while ((await scene.api.get(path) or {}).get("status", {}).get(field) or 0) < count:
        if time.monotonic() > deadline:
            raise LabError(f"{path}: {field} did not reach {count} within {PATIENCE_S:.0f} s")
        await asyncio.sleep(1.0)


@contextlib.asynccontextmanager
async def scraping(*addresses: str) -> AsyncIterator[Scrapes]:
    """Scrape as Prometheus would, until left."""
    scrapes = Scrapes()
    async with aiohttp.ClientSession(headers=OPEN_METRICS) as session:
        task = asyncio.create_task(_keep_scraping(session, addresses, scrapes))
        try:
            yield scrapes
            if task.done():
                task.result()  # it never ends but by an error: a recording with a gap is none
        finally:
            task.cancel()


async def _keep_scraping(session: aiohttp.ClientSession, addresses: Sequence[str], scrapes: Scrapes) -> None:
    while True:
        due_at = time.monotonic() + INTERVAL_S
        at_s = time.time()
        for address in addresses:
            async with session.get(f"http://{address}/metrics") as answer:
                scrapes.add(await answer.text(), at_s)
        await asyncio.sleep(due_at - time.monotonic())


async def _address(scene: RushScene, command: str) -> str:
    """Where the service or its guard serves, as it logs when it has started."""
    log = service_log(scene.plane, command)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        for event in logged(log) if log.exists() else ():
            if event["event"] == "serving":
                return str(event["address"])
        await asyncio.sleep(0.2)
    raise LabError(
        f"balloons {command} did not say within {START_S:.0f} s where it serves; its log ends:\n{log_tail(log)}"
    )


def _pool() -> dict[str, object]:
    """Grows a cluster to be warm; the size of its balloons is given, because no node exists yet."""
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": POOL, "namespace": NAMESPACE},
        "spec": {
            "nodes": {"selector": {"matchLabels": POOL_LABELS}},
            "mode": "Headroom",
            "size": WARM,
            "maxSize": WARM + RUSH,
            "shape": {"type": "Explicit", "resources": {"cpu": "6", "memory": "16Gi"}},
        },
    }


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)
