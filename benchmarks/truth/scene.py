"""The cluster of one case: a real control plane, a real Karpenter, joiners as machines, `balloons run` where paced."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from benchmarks.truth.case import HISTORY, MANAGER_BURST_S, Case
from benchmarks.truth.node_lives import Life, lives
from lab.cloud import BootTime, MachineSort
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import Karpenter, KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.cloud.karpenter.objects import NODE_CLAIMS_PATH
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.controlplane.settings import ApiServerSettings, ControllerManagerSettings, SchedulerSettings
from lab.demo.service import bind_to_service, install, run_service
from lab.processes.cpu_share import served_first
from lab.scaleup.cluster import NEVER_S, SCHEDULER_QPS, daemon_set

NODE_POOL = "default"
SERVER = "kube-apiserver-0"
CORES = 8
WORKER = paper_type("worker-8", cores=CORES, memory_gib=32, sort=MachineSort.JOINER)
WHOLE_NODE = {name: WORKER.allocatable[name] for name in ("cpu", "memory")}
"""What a pod asks for: all that a machine has for pods, and all that its Node will say that it has.

The kwok provider writes into a NodeClaim what its pods ask for, where real ones write what the machine has, and
Karpenter counts that against the NodePool's limits until the node is initialised. Where pods asked for less it went
beyond its limit, round after round; where they asked for no memory the throttle, which writes ceilings of memory too,
saw new nodes take it only when Karpenter counted them, up to five seconds later, and its leave was of no use till then.
"""
PODS = "/api/v1/namespaces/default/pods"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
THROTTLE = "truth"
LEVER_ROLE = "kube-balloons-node-pools"
"""The right to move a NodePool's ceiling, which manifests/base grants to nobody."""
READ_DEADLINE_S, BASELINE_S = 60, 15
"""For the service's first scrapes, and a few more of the idle server; in a real cluster there have been thousands."""
POLL_S, FIRST_POLL_S = 1.0, 0.25


@dataclass(frozen=True)
class Scene:
    """What a trial acts on."""

    case: Case
    plane: ControlPlane
    karpenter: Karpenter
    api: JsonApi
    is_served_first: bool = False
    """The API server has the one core that plans are told of, whatever else runs; no cgroup, no such right."""

    async def ask_for(self, pods: list[Json]) -> None:
        """Create the pods, all at once."""
        await asyncio.gather(*(self.api.create(PODS, pod) for pod in pods))

    async def wait_for(self, nodes: int, deadline_s: float, pods: int = 0) -> bool:
        """Until so many nodes are there and have all their DaemonSet pods, as far as the DaemonSets know.

        With `pods`, until so many work pods run as well: seconds later, and costly to look at often.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while not await self._has(nodes) or (pods and await self._running() < pods):
                    await asyncio.sleep(POLL_S)
                return True
        return False

    async def wait_for_first(self, deadline_s: float) -> bool:
        """Until a node has registered."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while not await self.api.items("/api/v1/nodes"):
                    await asyncio.sleep(FIRST_POLL_S)
                return True
        return False

    async def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in await self.api.items(PODS))

    async def _has(self, nodes: int) -> bool:
        # A few objects: to list pods again and again would be a load of its own.
        sets = await self.api.items(DAEMON_SETS)
        return all(daemon_set.get("status", {}).get("numberReady", 0) >= nodes for daemon_set in sets)

    async def lives(self, since_s: float) -> list[Life]:
        """What became of the nodes that were asked for since then."""
        nodes, pods, claims = [
            await self.api.items(path) for path in ("/api/v1/nodes", "/api/v1/pods", NODE_CLAIMS_PATH)
        ]
        return lives(nodes, pods, claims, self.case.daemon_sets, since_s)


def pods(prefix: str, count: int) -> list[Json]:
    """Pods that take a whole machine each."""
    return [_pod(f"{prefix}-{number}") for number in range(count)]


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "work", "image": "registry.example/work:1", "resources": {"requests": WHOLE_NODE}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@contextlib.asynccontextmanager
async def open_scene(case: Case) -> AsyncIterator[Scene]:
    """Start everything and end all of it."""
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(start_control_plane(_plane(case)))
        api = await stack.enter_async_context(JsonApi(plane.access("lab:truth", ("system:masters",))))
        await plane.apply_async(*(daemon_set(number) for number in range(case.daemon_sets)))
        karpenter = await stack.enter_async_context(start_karpenter(plane, _karpenter(case)))
        # Of two cores nobody has both on a machine of two: the plan is told what part it has.
        is_served_first = case.cores == 1 and stack.enter_context(served_first(plane.pid(SERVER)))
        if case.window is not None:
            await _install(plane, case.window)
            await stack.enter_async_context(run_service(plane))
            await _wait_for_throttle(plane)
        yield Scene(case, plane, karpenter, api, is_served_first)


def _plane(case: Case) -> ControlPlaneSettings:
    reads, writes = case.seats
    server = ApiServerSettings(
        max_requests_inflight=reads, max_mutating_requests_inflight=writes, gomaxprocs=case.cores
    )
    return ControlPlaneSettings(
        api_servers=(server,),
        controller_manager=ControllerManagerSettings(
            kube_api_qps=case.manager_qps,
            kube_api_burst=int(MANAGER_BURST_S * case.manager_qps),
            node_monitor_grace_period_s=NEVER_S,
        ),
        scheduler=SchedulerSettings(kube_api_qps=SCHEDULER_QPS, kube_api_burst=int(2 * SCHEDULER_QPS)),
    )


def _karpenter(case: Case) -> KarpenterSettings:
    limits = {} if case.pool_limit is None else {"cpu": str(CORES * case.pool_limit)}
    return KarpenterSettings(
        node_pools=(NodePoolSettings(name=NODE_POOL, consolidate_after_s=None, limits=limits),),
        instance_types=(WORKER,),
        boot_time=BootTime(median_s=case.boot_s, jitter=case.boot_jitter, seed=case.number),
        capacity=case.machines,
        starts_per_s=case.starts_per_s,
        starts_burst=case.starts_burst,
    )


async def _install(plane: ControlPlane, window: int) -> None:
    """What a user applies: the manifests, the right to move the ceiling, and the throttle."""
    await install(plane)
    spec = {
        "window": {"initial": window, "min": 2, "max": window},
        "signals": {"scrape": {"servers": list(plane.server_urls)}},
        "levers": {"nodePoolLimits": {"names": [NODE_POOL]}},
    }
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "JoinThrottle", "metadata": {"name": THROTTLE}}
    await plane.apply_async(bind_to_service(LEVER_ROLE), {**kind, "spec": spec})


async def _wait_for_throttle(plane: ControlPlane) -> None:
    deadline = f"--timeout={READ_DEADLINE_S}s"
    await plane.kubectl_async("wait", "--for=condition=SignalsFresh", f"jointhrottle/{THROTTLE}", deadline)
    await asyncio.sleep(BASELINE_S)


async def order_history(scene: Scene, deadline_s: float) -> bool:
    """Ask for a first, small scale-up, and wait for its first node: what is spent until then is no part of a join."""
    await scene.ask_for(pods("history", HISTORY))
    return await scene.wait_for_first(deadline_s)


async def end_history(scene: Scene, deadline_s: float) -> bool:
    """Until the pods of that scale-up run: what plans can learn from."""
    return await scene.wait_for(HISTORY, deadline_s, pods=HISTORY)
