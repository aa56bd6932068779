"""The real Karpenter replaces held nodes that have drifted one for one: our balloons make it buy no more."""

import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane
from lab.demo.service import run_service
from tests.lab.cluster_view import ClusterView, deployment, throughout, until
from tests.lab.pool_view import BALLOONS, POOL_PATH, PoolView, pool_object

pytestmark = pytest.mark.lab

CONSOLIDATE_AFTER_S = 5
NODE_POOL = "/apis/karpenter.sh/v1/nodepools/default"


class Drift:
    """Three held nodes of one NodePool, whose template can be changed."""

    def __init__(self, api: JsonApi, service: "subprocess.Popen[bytes]") -> None:
        self.api, self.service = api, service
        self.view, self.held = ClusterView(api), PoolView(api)
        self.made: set[str] = set()
        """Every NodeClaim that was there at any time."""

    async def claims(self) -> dict[str, Json]:
        found = await self.view.claims()
        self.made |= set(found)
        return found

    async def balloons(self) -> dict[str, str]:
        """The uid of the running balloon of each node."""
        pods = [pod for pod in await self.api.items(BALLOONS) if pod["status"]["phase"] == "Running"]
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods}

    async def begin(self) -> set[str]:
        """A new release of the machines is wanted; returns once Karpenter calls each of them drifted."""
        before = set(await self.claims())
        labels = {"team": "a", "release": "two"}
        await self.api.merge(NODE_POOL, {"spec": {"template": {"metadata": {"labels": labels}}}})

        async def are_drifted() -> bool:
            claims = await self.claims()
            return all(is_drifted(claim) for name, claim in claims.items() if name in before)

        await until("every NodeClaim of before is drifted or gone", are_drifted)
        return before

    async def until_replaced(self, before: set[str]) -> None:
        async def are_gone() -> bool:
            return not before & set(await self.claims())

        await until("every node of before is gone", are_gone)


def is_drifted(claim: Mapping[str, Any]) -> bool:
    conditions = claim.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Drifted" and c["status"] == "True" for c in conditions)


@asynccontextmanager
async def held_nodes(
    plane: ControlPlane, *, budget: str = "100%", boot_s: float = 1, **spec: Any
) -> AsyncIterator[Drift]:
    pool = NodePoolSettings(consolidate_after_s=CONSOLIDATE_AFTER_S, labels={"team": "a"}, budget=budget)
    settings = KarpenterSettings(
        node_pools=(pool,), instance_types=(paper_type("paper-8", 8, 32),), boot_time=BootTime(median_s=boot_s)
    )
    async with start_karpenter(plane, settings), JsonApi(plane.access()) as api, run_service(plane) as service:
        drift = Drift(api, service)
        await api.create(POOL_PATH, pool_object(**spec))
        await drift.view.deploy(deployment("work", 3, "7"))
        await drift.view.wait_running("work", 3)
        await drift.view.scale("work", 0)
        await drift.held.wait(warm=3)
        await drift.held.settle()
        yield drift


POOLS: dict[str, dict[str, Any]] = {
    "hold every idle node": {},
    "hold three": {"size": 3},
    "headroom": {"mode": "Headroom", "size": 3, "maxSize": 6},
}


@pytest.mark.parametrize("spec", POOLS.values(), ids=POOLS)
async def test_drifted_nodes_are_replaced_one_for_one(installed_plane: ControlPlane, spec: dict[str, Any]) -> None:
    """What it was before: three held nodes became eleven, and each of them was held.

    Machines boot for longer than Karpenter takes to order three: a new node whose balloon is not there yet would
    count as the place for the next one's, and that one would get no replacement.
    """
    async with held_nodes(installed_plane, boot_s=10, **spec) as drift:
        before = await drift.begin()
        await drift.until_replaced(before)
        assert len(drift.made - before) == 3

        async def is_at_rest() -> bool:
            return len(await drift.claims()) == len(await drift.balloons()) == 3

        await until("three nodes are held", is_at_rest)
        await throughout("three new nodes are held", is_at_rest, 4 * CONSOLIDATE_AFTER_S)


async def test_one_drifted_node_leaves_the_other_balloons_alone(installed_plane: ControlPlane) -> None:
    async with held_nodes(installed_plane, budget="1") as drift:
        balloons = await drift.balloons()
        before = await drift.begin()

        async def is_one_gone() -> bool:
            return not before <= set(await drift.claims())

        await until("the first node is gone", is_one_gone)
        kept = {node: uid for node, uid in (await drift.balloons()).items() if node in balloons}
        assert kept
        assert kept.items() <= balloons.items()
        await drift.until_replaced(before)
        assert len(drift.made - before) <= 3


async def test_balloons_that_may_not_be_disrupted_keep_drifted_nodes_even_while_we_are_frozen(
    installed_plane: ControlPlane,
) -> None:
    """And a node that somebody deletes goes, without another one in its place."""
    template = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    async with held_nodes(installed_plane, template=template) as drift:
        balloons = await drift.balloons()
        drift.service.send_signal(signal.SIGSTOP)
        try:
            before = await drift.begin()

            async def is_unmoved() -> bool:
                return set(await drift.claims()) == before and await drift.balloons() == balloons

            # Karpenter looks for what to disrupt every ten seconds.
            await throughout("nothing is bought and nothing is replaced", is_unmoved, 20)
        finally:
            drift.service.send_signal(signal.SIGCONT)
        deleted = min(before)
        await installed_plane.kubectl_async("delete", "nodeclaim", deleted, "--wait=false")

        async def is_gone() -> bool:
            return deleted not in await drift.claims()

        await until("the deleted node is gone", is_gone)

        async def are_two() -> bool:
            return set(await drift.claims()) == before - {deleted}

        await throughout("none is bought for it", are_two, 2 * CONSOLIDATE_AFTER_S)
