"""A cluster in the middle of a ramp: machines are ordered, pods wait behind our gate, nodes come with our taint."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.removal.judge import GATE, KEPT, Json, Marks, marks, trace
from benchmarks.removal.ways import Shell
from lab.cloud import BootTime
from lab.cloud.json_api import JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.cloud.machines import PaperMachines, PaperNode, ProcessPods
from lab.cloud.nodegroups import install_capacity_quotas
from lab.controlplane import ControlPlane
from lab.processes import log_tail

TAINT, LABEL = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons", "example.com/daemons"
POOLS, QUOTAS = "/apis/karpenter.sh/v1/nodepools", "/apis/autoscaling.x-k8s.io/v1alpha1/capacityquotas"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
THROTTLES = "/apis/kube-balloons.github.io/v1alpha1/jointhrottles"
DEPLOYMENTS, WORK = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods"
QUOTA = "shared"
WINDOW = 3
HOSTS = tuple(f"host-{number}" for number in range(3))
HOST_TAINT = {"key": "CriticalAddonsOnly", "effect": "NoSchedule"}
"""Which our pods tolerate and the work does not."""
OTHERS = {"team": "others"}
"""Nodes of a pool that no autoscaler of the lab knows; they register with our startup taint."""
NODES = "/api/v1/nodes"
_MACHINES = f"{NODES}?labelSelector=karpenter.sh%2Fnodepool"
_OTHERS = f"{NODES}?labelSelector=team%3D{OTHERS['team']}"
PATIENCE_S = 120.0
_LOOK = """
kubectl get jointhrottles --output=yaml || true
kubectl --namespace=kube-balloons get lease,pods,events --output=wide || true
"""


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """How much there is to pace: pods of each of two Deployments, how long their machines boot, others' nodes."""

    pods: int = 24
    boot_s: float = 6.0
    register_every_s: float = 0.7
    """Between two nodes of the pool that no autoscaler of the lab knows."""


class Scene:
    """The cluster around a removal; one for all trials."""

    def __init__(self, plane: ControlPlane, api: JsonApi, others: PaperMachines, shell: Shell, ramp: Ramp) -> None:
        self.plane = plane
        self._ramp = ramp
        self.api = api
        self.shell = shell
        self._others = others
        self._numbers = itertools.count()
        self._registering: asyncio.Task[None] | None = None
        self._left: list[str] = []

    async def traces(self) -> dict[str, Json]:
        """What of the user's objects must not have changed in the end."""
        things = [*await self.api.items(POOLS), *await self.api.items(QUOTAS)]
        return {f"{thing['metadata']['name']}": trace(thing) for thing in things}

    async def marks(self) -> Marks:
        """What holds anything back now."""
        ceilings = [*await self.api.items(POOLS), *await self.api.items(QUOTAS)]
        nodes = await self.api.items(_OTHERS)
        pods = await self.api.items(WORK)
        return marks(ceilings, pods, nodes, taint=TAINT, label=LABEL)

    async def put_quota(self) -> None:
        """A quota of the user's own."""
        await self.api.apply(f"{QUOTAS}/{QUOTA}", _quota())

    async def begin_ramp(self) -> None:
        """Ask for machines, and let nodes register, until `end_ramp`; returns once the ceiling is in force."""
        await self.api.create(THROTTLES, _throttle())
        await self.until("the throttle is seen", self._is_idle)
        await self.api.create(DEPLOYMENTS, _work("gated", self._ramp.pods, gates=[{"name": GATE}]))
        await self.api.create(DEPLOYMENTS, _work("plain", self._ramp.pods))
        self._registering = asyncio.create_task(self._register(), name="nodes that register")
        await self.until("a ceiling, gates and taints are in force", self._is_held)
        # As a pool leaves it that was deleted a moment ago.
        (kept, *_) = await self.api.items(_OTHERS)
        await self.api.merge(f"{NODES}/{kept['metadata']['name']}", {"metadata": {"annotations": KEPT}})

    async def end_ramp(self) -> None:
        """No machine registers any more: what comes after a removal is not ours to see."""
        if self._registering is not None:
            self._registering.cancel()
            await asyncio.gather(self._registering, return_exceptions=True)

    async def clear(self) -> None:
        """Everything that a trial made is gone; the NodePool stays as the trial left it."""
        await self.end_ramp()
        for name in ("gated", "plain"):
            await self.api.delete(f"{DEPLOYMENTS}/{name}")
        await self.api.delete(f"{THROTTLES}/default")
        await self.api.delete(f"{QUOTAS}/{QUOTA}")
        names = [node["metadata"]["name"] for node in await self.api.items(NODES)]
        await self._others.remove(*(name for name in names if name.startswith("other-")))
        try:
            await self.until("no pod and no machine is left", self._has_emptied)
        except TimeoutError as error:
            error.add_note("\n".join([*self._left, log_tail(self.plane.directory / "logs" / "karpenter.log")]))
            raise

    async def state(self) -> str:
        """What a person would look at when a trial fails: the throttle, our pods, and what they logged last."""
        shown = await self.shell.run(_LOOK)
        logs = (self.plane.directory / "logs").glob("pod-kube-balloons-*.log")
        return "\n".join([shown, *(f"== {path.name}\n{log_tail(path)}" for path in sorted(logs))])

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait; raises TimeoutError naming what for."""
        end = time.monotonic() + PATIENCE_S
        while not await holds():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain until {what}")
            await asyncio.sleep(0.2)

    async def _register(self) -> None:
        allocatable = {"cpu": "1", "memory": "4Gi", "pods": "110"}
        while True:
            name = f"other-{next(self._numbers)}"
            taints = ({"key": TAINT, "effect": "NoSchedule"},)
            await self._others.add([PaperNode(name=name, labels=OTHERS, taints=taints, allocatable=allocatable)])
            await asyncio.sleep(self._ramp.register_every_s)

    async def _is_idle(self) -> bool:
        throttle = await self.api.get(f"{THROTTLES}/default") or {}
        return bool(throttle.get("status", {}).get("phase") == "Idle")

    async def _is_held(self) -> bool:
        held = await self.marks()
        return bool("default" in held.ceilings and held.gates and held.taints)

    async def _has_emptied(self) -> bool:
        """Delete what is left, and say whether nothing was: Karpenter may still order for pods that are about to go."""
        pods = await self.api.items(WORK)
        claims = await self.api.items(CLAIMS)
        machines = await self.api.items(_MACHINES)
        for claim in claims:
            if "deletionTimestamp" not in claim["metadata"]:
                await self.api.delete(f"{CLAIMS}/{_name(claim)}")
        # A machine is called like its claim; of one without a claim nobody else takes care.
        for machine in machines:
            if _name(machine) not in {_name(claim) for claim in claims}:
                await self.api.merge(f"{NODES}/{_name(machine)}", {"metadata": {"finalizers": None}})
                await self.api.delete(f"{NODES}/{_name(machine)}")
        self._left = [_described(thing) for thing in (*pods, *claims, *machines)]
        return not self._left


def _name(thing: Json) -> str:
    return str(thing["metadata"]["name"])


def _described(thing: Json) -> str:
    """What keeps an object from going."""
    metadata, conditions = thing["metadata"], thing.get("status", {}).get("conditions") or ()
    true = [condition["type"] for condition in conditions if condition["status"] == "True"]
    going = "leaves" if "deletionTimestamp" in metadata else "stays"
    return f"{_name(thing)} {going}, finalizers {metadata.get('finalizers', [])}, {true}"


@asynccontextmanager
async def open_hosts(plane: ControlPlane) -> AsyncIterator[ProcessPods]:
    """Hosts on which our own pods run as processes, and nothing else."""
    async with ProcessPods(plane) as hosts:
        await hosts.add([PaperNode(name=name, taints=(HOST_TAINT,)) for name in HOSTS])
        yield hosts


@asynccontextmanager
async def open_scene(plane: ControlPlane, folder: Path, ramp: Ramp | None = None) -> AsyncIterator[Scene]:
    """Karpenter, and a CRD of cluster-autoscaler, on a plane of their own; not the hosts of our own pods."""
    ramp = ramp or Ramp()
    await install_capacity_quotas(plane)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(start_karpenter(plane, _karpenter(ramp.boot_s)))
        api = await stack.enter_async_context(JsonApi(plane.access()))
        others = await stack.enter_async_context(PaperMachines(plane.access()))
        scene = Scene(plane, api, others, Shell(plane, folder), ramp)
        try:
            yield scene
        finally:
            await scene.end_ramp()


def _karpenter(boot_s: float) -> KarpenterSettings:
    limits = {"cpu": "2000", "memory": "10Ti"}
    pool = NodePoolSettings(consolidate_after_s=None, limits=limits, labels={"team": "work"})
    boot_time = BootTime(median_s=boot_s, jitter=0.3)
    return KarpenterSettings(node_pools=(pool,), instance_types=(paper_type("paper-8", 8, 32),), boot_time=boot_time)


def _throttle() -> Json:
    levers = {
        "nodePoolLimits": {},
        "capacityQuota": {"name": QUOTA},
        "schedulingGates": {"enabled": True},
        "startupTaint": {"key": TAINT},
        "daemonSetLabel": {"key": LABEL},
    }
    window = {"initial": WINDOW, "min": 2, "max": WINDOW}
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "JoinThrottle",
        "metadata": {"name": "default"},
        "spec": {"window": window, "maxInFlight": WINDOW, "levers": levers},
    }


def _quota() -> Json:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "CapacityQuota",
        "metadata": {"name": QUOTA, "labels": {"team": "platform"}},
        "spec": {"limits": {"resources": {"nodes": 400}}},
    }


_WORK = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {team: work}
      containers: [{name: work, image: registry.invalid/work, resources: {requests: {cpu: "7"}}}]
"""


def _work(name: str, replicas: int, **spec: object) -> Json:
    work: Json = yaml.safe_load(_WORK.replace("NAME", name))
    work["spec"]["replicas"] = replicas
    if gates := spec.get("gates"):
        work["spec"]["template"]["spec"]["schedulingGates"] = gates
    return work
