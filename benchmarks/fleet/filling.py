"""A fleet on a real control plane: nodes through the API server, the pods that fill them straight into etcd."""

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec

from benchmarks.fleet.population import FILLER, NAMESPACE, POOL_KEY, Fleet
from benchmarks.paper_cluster import JOBS, NEVER_S, PaperCluster, start_paper_cluster, work_pod
from benchmarks.report import progress
from lab.cloud.machines.paper import timestamp
from lab.controlplane.settings import ControllerManagerSettings
from lab.errors import LabError
from lab.processes.cpu_share import cpu_s

OFF = "-garbage-collector-controller,-ttl-controller"
"""Nobody has made the DaemonSets that own the pods, so that their garbage would be collected; and the time for which
kubelets may keep Secrets, which goes by the size of the cluster, would be annotated on every node for minutes."""
MANAGER = ControllerManagerSettings(node_monitor_grace_period_s=NEVER_S, extra_flags=(f"--controllers={OFF}",))
TXN_PODS = 100
"""etcd takes 128 operations in a transaction."""
WRITERS = 4
NODE_STATUS_S = 300.0
"""A kubelet reports a node that does not change so often (nodeStatusReportFrequency)."""
CANARY_S = 0.2
FILL_DEADLINE_S = 600.0
QUIET_CORES, QUIET_S, QUIET_DEADLINE_S = 0.3, 5.0, 120.0


@asynccontextmanager
async def start_fleet(fleet: Fleet) -> AsyncIterator[PaperCluster]:
    """The control plane with everything but the service, nodes reporting as kubelets do."""
    nodes = [fleet.node(number) for number in range(fleet.nodes)]
    async with start_paper_cluster(0, MANAGER, beside=nodes, pods=f"!{FILLER}") as cluster:
        progress(f"{fleet.nodes} nodes are up")
        await cluster.make_namespace(NAMESPACE)
        began_at = time.monotonic()
        await _fill(cluster, fleet)
        await _until_quiet(cluster)
        progress(f"{fleet.pods} pods fill them, after {time.monotonic() - began_at:.0f} s")
        for name, spec in fleet.balloon_pools():
            await cluster.make_pool(name, **spec)
        tasks = [asyncio.create_task(_report_status(cluster, [node.name for node in nodes]))]
        try:
            yield cluster
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def news_of_a_pod(cluster: PaperCluster, node: str) -> AsyncIterator[None]:
    """While the block lasts some pod changes five times a second, of which every watch of pods must hear."""
    body = work_pod("canary", {"cpu": "1m"}, nodeName=node)
    await cluster.client.post(f"/api/v1/namespaces/{JOBS}/pods", body)
    task = asyncio.create_task(_keep_changing(cluster))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep_changing(cluster: PaperCluster) -> None:
    path = f"/api/v1/namespaces/{JOBS}/pods/canary"
    for number in itertools.count():
        await cluster.client.patch(path, {"metadata": {"annotations": {"example.com/turn": str(number)}}})
        await asyncio.sleep(CANARY_S)


async def _report_status(cluster: PaperCluster, names: list[str]) -> None:
    """Every node's status once in five minutes, evenly spread."""
    for name in itertools.cycle(names):
        with suppress(LabError):
            await cluster.machines.set_ready(name, is_ready=True)
        await asyncio.sleep(NODE_STATUS_S / len(names))


async def _fill(cluster: PaperCluster, fleet: Fleet) -> None:
    pods = fleet.filler(timestamp())
    async with aiohttp.ClientSession(cluster.plane.etcd_url) as session, asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(_write(session, pods))
    deadline = time.monotonic() + FILL_DEADLINE_S
    while (count := await _count(cluster)) < fleet.pods:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the API server shows {count} of {fleet.pods} pods")
        await asyncio.sleep(1)


async def _until_quiet(cluster: PaperCluster) -> None:
    """Until everybody has taken in what was written, at the most two minutes: nobody starts the service in those."""
    plane = cluster.plane
    deadline = time.monotonic() + QUIET_DEADLINE_S
    share = 1.0
    while share > QUIET_CORES and time.monotonic() < deadline:
        before = sum(cpu_s(plane.pid(name)) for name in plane.component_names)
        await asyncio.sleep(QUIET_S)
        share = (sum(cpu_s(plane.pid(name)) for name in plane.component_names) - before) / QUIET_S


async def _write(session: aiohttp.ClientSession, pods: Iterable[Mapping[str, Any]]) -> None:
    """Take from the pods that are left until there are none."""
    while some := list(itertools.islice(pods, TXN_PODS)):
        puts = [{"requestPut": _put(pod)} for pod in some]
        async with session.post("/v3/kv/txn", data=msgspec.json.encode({"success": puts})) as response:
            response.raise_for_status()


def _put(pod: Mapping[str, Any]) -> dict[str, str]:
    key = f"/registry/pods/{NAMESPACE}/{pod['metadata']['name']}"
    return {"key": _text(key.encode()), "value": _text(msgspec.json.encode(pod))}


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


async def _count(cluster: PaperCluster) -> int:
    """Pods that the API server's cache shows."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    page = msgspec.json.decode(await cluster.client.get(path, limit="1"))
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def gang_spec(fleet: Fleet) -> dict[str, Any]:
    """What a gang's pods say besides what they request: they belong into the first pool."""
    return {"nodeSelector": {POOL_KEY: fleet.pool_of(0)}}
