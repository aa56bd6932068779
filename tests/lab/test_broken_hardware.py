"""What breaks every day on nodes that a real Karpenter made costs no other node its balloon, and buys nothing."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from balloons.decide.refusing import FEW
from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import Karpenter, KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.cloud.machines import PaperMachines, PaperNode
from lab.controlplane import ControlPlane
from tests.lab.cluster_view import ClusterView, deployment, throughout, until, until_it_stays
from tests.lab.pool_view import BALLOONS, POOL_PATH, PoolView, pool_object
from tests.lab.service_scene import Service

pytestmark = pytest.mark.lab

GPU = "nvidia.com/gpu"
KIND = paper_type("paper-8", 8, 32, gpus=8)
NODES = 6
TICKS = 25
"""As many decisions as four quiet minutes have."""
VALIDATION_S = 15
"""Karpenter looks at a consolidation that it has found again after so long, and only then for the next one."""
LAG_S = 5
"""On a loaded machine, Karpenter sees a change or writes one by so much later than a test."""
KARPENTER_LOOKS_AGAIN_S = 300
"""Where Karpenter found nothing to consolidate and nothing changes, it looks again after so long (ConsolidationState in
state/cluster.go, v1.15.0)."""
WORK = {
    "containers": [{"name": "work", "image": "none", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "8"}}}]
}


@dataclass(frozen=True)
class Held:
    """Nodes of a real Karpenter, each held by a balloon of our own service."""

    plane: ControlPlane
    karpenter: Karpenter
    api: JsonApi
    service: Service

    async def claims(self) -> set[str]:
        return set(await ClusterView(self.api).claims())

    async def balloons(self) -> dict[str, str]:
        """The uid of the balloon that runs on each node."""
        pods = [pod for pod in await self.api.items(BALLOONS) if pod["status"]["phase"] == "Running"]
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods}

    async def failed(self) -> int:
        return len([pod for pod in await self.api.items(BALLOONS) if pod["status"]["phase"] == "Failed"])

    async def status(self) -> Json:
        found: Json = (await self.api.get(f"{POOL_PATH}/gpu") or {})["status"]
        return found

    async def lose_a_gpu(self, node: str) -> None:
        """As a device plugin reports a card that fell off the bus; what runs there goes on."""
        await self.api.merge(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {GPU: "7"}}})

    async def refuse(self, node: str, kubelet: PaperMachines) -> None:
        """Another kubelet takes the node over and admits no pod; the balloon there is deleted by a person.

        A pool that has just become steady may still replace its balloons one by one: it is waited for this one.
        """

        async def has_balloon() -> bool:
            return node in await self.balloons()

        await until(f"a balloon runs on {node}", has_balloon)
        await self.karpenter.cloud.kill(node)
        kubelet.refuse_pods(node)
        await kubelet.add([PaperNode(name=node, capacity=KIND.capacity, allocatable=KIND.allocatable)])
        (balloon,) = [
            pod["metadata"]["name"] for pod in await self.api.items(BALLOONS) if pod["spec"].get("nodeName") == node
        ]
        await self.plane.kubectl_async("delete", "pod", balloon, "--namespace=kube-balloons", "--wait=false")

    async def until_kept_off(self, node: str) -> None:
        """Wait until every balloon has the template that leaves the node's name out.

        It gets that once Karpenter has marked a held node.
        """

        async def are_all() -> bool:
            live = [pod for pod in await self.api.items(BALLOONS) if pod["status"]["phase"] in ("Pending", "Running")]
            return bool(live) and all(node in json.dumps(pod["spec"]["affinity"]) for pod in live)

        await until(f"no balloon may go to {node}", are_all, KARPENTER_LOOKS_AGAIN_S + 100)

    async def keep(self, node: str) -> None:
        """As somebody does who wants to look at a node: else Karpenter removes it once nothing runs there."""
        annotations = {"karpenter.sh/do-not-disrupt": "true"}
        await self.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})


@asynccontextmanager
async def held_nodes(plane: ControlPlane, log: Path, policy: str, **spec: Any) -> AsyncIterator[Held]:
    pool = NodePoolSettings(consolidation_policy=policy, consolidate_after_s=5, labels={"team": "a"})
    settings = KarpenterSettings(node_pools=(pool,), instance_types=(KIND,), boot_time=BootTime(median_s=1))
    async with start_karpenter(plane, settings) as karpenter, JsonApi(plane.access()) as api:
        service, view = Service(plane, "kube-balloons", log), ClusterView(api)
        try:
            await until("the service is ready", service.is_ready)
            await api.create(POOL_PATH, pool_object(**spec))
            await view.deploy(deployment("work", NODES, "1", **WORK))
            await view.wait_running("work", NODES)
            await view.scale("work", 0)
            await PoolView(api).wait(warm=spec.get("size", NODES), because="Steady")
            await PoolView(api).settle()

            async def is_without_surplus() -> bool:
                return len(await view.claims()) == NODES

            # Headroom keeps as many nodes free beside the work, which then leaves its own.
            await until("Karpenter has removed what is beyond the size", is_without_surplus, KARPENTER_LOOKS_AGAIN_S)
            yield Held(plane, karpenter, api, service)
        finally:
            await service.end()


async def test_a_lost_gpu_a_debug_pod_and_a_node_that_refuses_cost_no_other_balloon(
    installed_plane: ControlPlane, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Watched for 25 s and at least as many decisions as four quiet minutes have; by `make soak` for ten minutes."""
    async with (
        held_nodes(installed_plane, tmp_path / "service.log", "WhenEmpty") as held,
        PaperMachines(installed_plane.access()) as broken,
    ):
        claims, before = await held.claims(), await held.balloons()
        short, debugged, refusing, *_ = sorted(before)
        await held.keep(refusing)
        await held.lose_a_gpu(short)
        await installed_plane.kubectl_async("debug", f"node/{debugged}", "--image=none", "--profile=general")
        await held.refuse(refusing, broken)
        await PoolView(held.api).wait(sick=1, warm=NODES - 2, because="Steady")

        others = {node: uid for node, uid in before.items() if node != refusing}
        end, decided = time.monotonic() + pytestconfig.getoption("watch_seconds"), 0
        while time.monotonic() < end or decided < TICKS:
            await held.service.ticks(1)
            decided += 1
            assert await held.balloons() == others
            assert await held.claims() == claims
        # After ten minutes the node that refuses is tried again, and found to refuse.
        await PoolView(held.api).wait(sick=1, warm=NODES - 2, because="Steady")
        await _is_told(held, short, debugged, refusing)

        async def are_few() -> bool:
            return await held.failed() <= FEW

        await until("no more pods have failed than are kept as a record", are_few)


async def _is_told(held: Held, short: str, debugged: str, refusing: str) -> None:
    """The three are named, and the one with the debug pod counts as warm like the others."""
    status = await held.status()
    ready: Mapping[str, str] = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert f"1 node is short of devices: fewer {GPU} than others" in ready["message"]
    assert "1 node refuses balloons (UnexpectedAdmissionError)" in ready["message"]
    assert "1 warm node runs other pods beside its balloon" in ready["message"]
    assert {short, debugged, refusing} <= set(ready["message"].replace(";", " ").replace(",", " ").split())
    assert (status["warm"], status["busy"], status["sick"], status["nodes"]) == (NODES - 2, 0, 1, NODES)


async def test_room_on_a_node_that_refuses_costs_no_held_node_once_its_name_is_left_out(
    installed_plane: ControlPlane, tmp_path: Path
) -> None:
    """What it was before: Karpenter consolidated one held node after the other, until none was left.

    It may remove a node before all balloons have the new template. It need not: they may be replaced too early for it.
    """
    async with (
        held_nodes(installed_plane, tmp_path / "service.log", "WhenEmptyOrUnderutilized") as held,
        PaperMachines(installed_plane.access()) as broken,
    ):
        claims = await held.claims()
        refusing = min(claims)
        await held.keep(refusing)
        kept = await _kept_while_a_name_is_left_out(held, refusing, broken)
        assert kept <= claims, "Hold buys nothing"

        async def are_unmoved() -> bool:
            return await held.claims() == kept

        await throughout("no other node goes or comes", are_unmoved, 3 * VALIDATION_S)
        await PoolView(held.api).wait(warm=len(kept) - 1, sick=1, because="Steady")
        assert set(await held.balloons()) == kept - {refusing}


async def _kept_while_a_name_is_left_out(held: Held, refusing: str, broken: PaperMachines) -> set[str]:
    """A node begins to refuse; the NodeClaims that are there when no balloon has the template without its name.

    Karpenter may remove one node for each time that it has looked twice by then, and none where the balloons are
    replaced sooner. A balloon of the new template fits nowhere else, so what it finds before and looks at again
    afterwards, it leaves alone.
    """
    claims, began_s = await held.claims(), time.monotonic()
    await held.refuse(refusing, broken)
    await held.until_kept_off(refusing)
    took_s = time.monotonic() - began_s

    async def have_gone() -> bool:
        """Neither a node nor the claim, which goes after it."""
        view = ClusterView(held.api)
        taints = {taint["key"] for node in (await view.nodes()).values() for taint in node["spec"].get("taints", ())}
        is_any_deleted = any("deletionTimestamp" in claim["metadata"] for claim in (await view.claims()).values())
        return "karpenter.sh/disrupted" not in taints and not is_any_deleted

    await until_it_stays("what Karpenter is removing is gone", have_gone, LAG_S)
    kept = await held.claims()
    print(f"replaced within {took_s:.0f} s; gone {sorted(claims - kept)}; new {sorted(kept - claims)}")
    assert refusing in kept
    assert len(claims - kept) <= (took_s + LAG_S) // VALIDATION_S
    return kept


async def test_headroom_beside_a_node_that_refuses_stays_and_grows_again_once_it_is_cordoned(
    installed_plane: ControlPlane, tmp_path: Path
) -> None:
    """What it was before: of six warm nodes none was left after three minutes."""
    policy, size = "WhenEmptyOrUnderutilized", {"size": NODES, "maxSize": 2 * NODES}
    async with (
        held_nodes(installed_plane, tmp_path / "service.log", policy, mode="Headroom", **size) as held,
        PaperMachines(installed_plane.access()) as broken,
    ):
        refusing = min(await held.claims())
        await held.keep(refusing)
        kept = await _kept_while_a_name_is_left_out(held, refusing, broken)
        await PoolView(held.api).wait(warm=len(kept) - 1, sick=1, because="NodesRefuse")

        async def are_unmoved() -> bool:
            return await held.claims() == kept

        await throughout("no node goes or comes", are_unmoved, 60)
        await installed_plane.kubectl_async("cordon", refusing)
        await PoolView(held.api).wait(warm=NODES, because="Steady")
        made = await held.claims()
        assert kept <= made
        assert len(made) == NODES + 1, "those that are missing are bought, and no more"
