"""The real Karpenter with its kwok provider as a process of the lab, and the machines behind its NodeClaims.

Real: Karpenter itself, its NodeClaims, the Nodes. Simulated: the provider's machines (`lab/cloud/fleet.py`).
A launched NodeClaim is an order. After its boot time the machine creates its own Node, called like the NodeClaim,
with the NodeClaim's labels and taints and the taint `karpenter.sh/unregistered`, as a real kubelet does. Karpenter
then registers the Node and, once the kubelet reports Ready, initialises it. A machine ends when its NodeClaim is
gone, so it still runs while Karpenter drains it.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.binaries import find_binary, find_karpenter_crds
from lab.cloud.fleet import Fleet
from lab.cloud.json_api import Json, JsonApi, until_served
from lab.cloud.karpenter.objects import (
    NODE_CLAIMS_PATH,
    NODE_CLASS_PATH,
    NODE_POOLS_PATH,
    instance_type_name,
    is_launched,
    is_leaving,
    node_class,
    node_pool,
    order_of,
)
from lab.cloud.karpenter.settings import InstanceType, KarpenterSettings, NodePoolSettings
from lab.cloud.kubelet_joiner.client import Turns
from lab.cloud.machine_kinds import machine_kinds
from lab.cloud.machines.api_client import ApiError
from lab.controlplane import ControlPlane
from lab.controlplane.component import Component, ComponentSpec
from lab.controlplane.ports import free_port
from lab.errors import LabError
from lab.processes import log_tail


class KarpenterCloud:
    """Follows the NodeClaims and keeps one machine for each of them."""

    def __init__(self, api: JsonApi, fleet: Fleet, settings: KarpenterSettings) -> None:
        self._api = api
        self._fleet = fleet
        self._types = {kind.name: kind for kind in settings.instance_types}

    @property
    def ordered(self) -> tuple[str, ...]:
        """The Node names of all machines: waiting for capacity, booting, failed for good, running or dead."""
        return self._fleet.ordered

    @property
    def running(self) -> tuple[str, ...]:
        """The Node names of the machines that have joined and run."""
        return self._fleet.running

    async def kill(self, name: str) -> None:
        """Let the machine of Node `name` die: its kubelet falls silent, its Node and NodeClaim stay."""
        await self._fleet.kill(name)

    async def run(self) -> None:
        """Follow the NodeClaims until cancelled, then switch every machine off."""
        try:
            async with asyncio.TaskGroup() as tellings:
                async for name, claim in self._api.follow(NODE_CLAIMS_PATH):
                    await self._heed(name, claim, tellings)
        finally:
            await self._fleet.close()

    async def _heed(self, name: str, claim: Mapping[str, Any] | None, tellings: asyncio.TaskGroup) -> None:
        if claim is not None and is_launched(claim) and name not in self._fleet:
            instance_type = self._types[instance_type_name(claim)]
            self._fleet.order(order_of(claim, instance_type), instance_type.sort)
            tellings.create_task(self._tell_size(name, instance_type), name=f"size of {name}")
        elif claim is None or (is_leaving(claim) and name not in self.running):
            # A machine whose Node exists is drained first, and its kubelet has to take part in that.
            await self._fleet.end(name)

    async def _tell_size(self, name: str, instance_type: InstanceType) -> None:
        # The kwok provider tells what the claim's pods ask for; a cloud's tells the machine's size, and does so when it
        # launches. Karpenter counts it as the NodePool's usage until the Node tells its own.
        told = {"capacity": instance_type.capacity, "allocatable": instance_type.allocatable}
        await until_served(lambda: self._api.merge(f"{NODE_CLAIMS_PATH}/{name}/status", {"status": told}))


ADMIN_GROUPS = ("system:masters",)
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLL_EVERY_S = 0.1


class Karpenter:
    """A running Karpenter; made by `start_karpenter`.

    Its requests carry the user name `lab:karpenter`, those of the machines' cloud `lab:cloud` (audit log).
    Its ports for metrics and probes have no bind address and therefore listen on every interface.
    """

    def __init__(self, plane: ControlPlane, settings: KarpenterSettings, api: JsonApi, cloud: KarpenterCloud) -> None:
        self.settings = settings
        self.cloud = cloud
        self.log: Path = plane.directory / "logs" / "karpenter.log"
        self._api = api
        self._metrics_port = free_port()
        self._types_file = plane.directory / "karpenter-instance-types.json"
        self._component = Component(self._spec(plane, free_port()), plane.processes)

    @property
    def metrics_url(self) -> str:
        """Where Karpenter serves /metrics."""
        return f"http://127.0.0.1:{self._metrics_port}/metrics"

    @property
    def pid(self) -> int:
        """The process id; raises LabError when it does not run."""
        return self._component.pid

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self._component.is_running

    async def start(self) -> None:
        """Install the CRDs and objects, start the process, return when every NodePool is Ready."""
        await self._install_crds()
        self._types_file.write_text(json.dumps([kind.entry() for kind in self.settings.instance_types]))
        await self._api.apply(NODE_CLASS_PATH, node_class())
        for pool in self.settings.node_pools:
            await self.apply_node_pool(pool)
        await self.restart()

    async def apply_node_pool(self, pool: NodePoolSettings) -> None:
        """Create or change a NodePool while Karpenter runs."""
        await self._api.apply(f"{NODE_POOLS_PATH}/{pool.name}", node_pool(pool))

    async def offer(self, types: Iterable[InstanceType]) -> None:
        """Change what the provider has in stock, and restart: it reads its instance types when it starts."""
        self._types_file.write_text(json.dumps([kind.entry() for kind in types]))
        await self.restart()

    def kill(self) -> None:
        """End the process as a crash would; its NodeClaims, Nodes and machines stay."""
        self._component.kill()

    async def restart(self) -> None:
        """Start the process (killing it first if it runs) and return when every NodePool is Ready."""
        if self.is_running:
            self.kill()
        self._component.start()
        await self._component.wait_until_ready(self.settings.start_deadline_s)
        await self._wait_until("its NodePools are Ready", self._has_ready_pools)

    async def _has_ready_pools(self) -> bool:
        pools = {pool["metadata"]["name"]: pool for pool in await self._api.items(NODE_POOLS_PATH)}
        return all(has_condition(pools.get(pool.name, {}), "Ready") for pool in self.settings.node_pools)

    async def _install_crds(self) -> None:
        documents = [yaml.safe_load(file.read_text()) for file in find_karpenter_crds().glob("*.yaml")]
        names = [document["metadata"]["name"] for document in documents]
        for name, document in zip(names, documents, strict=True):
            await self._api.apply(f"{CRD_PATH}/{name}", document)
        await self._wait_until("its CRDs are served", lambda: self._has_established(names))

    async def _has_established(self, names: list[str]) -> bool:
        crds = [await self._api.get(f"{CRD_PATH}/{name}") or {} for name in names]
        # Established, a kind may still be unknown for a moment.
        return all(has_condition(crd, "Established") for crd in crds) and await self._are_served()

    async def _are_served(self) -> bool:
        try:
            folders = (NODE_CLASS_PATH.rpartition("/")[0], NODE_POOLS_PATH, NODE_CLAIMS_PATH)
            return None not in [await self._api.get(path) for path in folders]
        except ApiError as error:
            # The server makes its store for a new kind, and says when to come back.
            if error.status != http.HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False

    async def _wait_until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        end = time.monotonic() + self.settings.start_deadline_s
        while not await holds():
            if time.monotonic() > end:
                raise LabError(f"Karpenter was not ready in time: until {what}. Its log:\n{log_tail(self.log)}")
            await asyncio.sleep(POLL_EVERY_S)

    def _spec(self, plane: ControlPlane, probe_port: int) -> ComponentSpec:
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in self.settings.feature_gates.items())
        flags = {
            "metrics-port": self._metrics_port,
            "health-probe-port": probe_port,
            "instance-types-file-path": self._types_file,
            "log-level": self.settings.log_level,
            **({"feature-gates": gates} if gates else {}),
        }
        environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig_for("lab:karpenter", ADMIN_GROUPS)),
            "DISABLE_LEADER_ELECTION": "true",
            "SYSTEM_NAMESPACE": "kube-system",
        }
        return ComponentSpec(
            name="karpenter",
            command=[str(find_binary("karpenter")), *(f"--{flag}={value}" for flag, value in flags.items())],
            ready_urls=(f"http://127.0.0.1:{probe_port}/readyz",),
            tls=None,
            log=self.log,
            environment=environment,
        )


@contextlib.asynccontextmanager
async def start_karpenter(plane: ControlPlane, settings: KarpenterSettings | None = None) -> AsyncIterator[Karpenter]:
    """Start Karpenter and the machines of its cloud on `plane`; end both when left, however that happens.

    NodeClaims and Nodes stay behind as objects that nobody serves any more: give each run a plane of its own.
    """
    settings = settings or KarpenterSettings()
    async with JsonApi(plane.access("lab:cloud", ADMIN_GROUPS)) as api, machine_kinds(plane) as kinds:
        fleet = Fleet(api, kinds, settings.boot_time, room=settings.capacity, starts=_starts(settings))
        karpenter = Karpenter(plane, settings, api, KarpenterCloud(api, fleet, settings))
        machines = asyncio.create_task(karpenter.cloud.run(), name="karpenter cloud")
        try:
            await karpenter.start()
            yield karpenter
        finally:
            if karpenter.is_running:
                karpenter.kill()
            machines.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await machines


def _starts(settings: KarpenterSettings) -> Turns | None:
    """The cloud's own limit; within the event loop that the machines live in."""
    if settings.starts_per_s is None:
        return None
    return Turns(settings.starts_per_s, settings.starts_burst, asyncio.get_running_loop().time())


def has_condition(thing: Json, wanted: str) -> bool:
    """Whether the object says that the condition is True."""
    # A CRD that was created a moment ago says `conditions: null`.
    conditions = thing.get("status", {}).get("conditions") or ()
    return any(c["type"] == wanted and c["status"] == "True" for c in conditions)
