"""The real cluster-autoscaler on the simulated node groups; skipped without a binary of it."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.nodegroups import (
    NOT_GIVEN,
    AutoscalerSettings,
    NodeGroup,
    NodeGroupsSettings,
    autoscaler_binary,
    start_cluster_autoscaler,
    start_node_groups,
)
from lab.controlplane import ControlPlane, start_control_plane
from lab.errors import LabError
from tests.lab.cluster_view import ClusterView, deployment, throughout, until

needs_autoscaler = pytest.mark.skipif("CLUSTER_AUTOSCALER" not in os.environ, reason=NOT_GIVEN)

UNNEEDED_S = 15
FAST = AutoscalerSettings(unneeded_s=UNNEEDED_S)
WHOLE_NODE = "7500m"
DELAY = {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "87600h"}


def settings(stock: int | None = None) -> NodeGroupsSettings:
    group = NodeGroup(name="workers", max_size=8, cpu_millis=8000, memory_mib=32768, stock=stock)
    return NodeGroupsSettings(groups=(group,), boot_time=BootTime(median_s=2))


def balloons(replicas: int, annotations: dict[str, str]) -> Json:
    apart = [{"labelSelector": {"matchLabels": {"app": "balloon"}}, "topologyKey": "kubernetes.io/hostname"}]
    affinity: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    body = deployment("balloon", replicas, WHOLE_NODE, priorityClassName="balloon", affinity=affinity)
    body["spec"]["template"]["metadata"]["annotations"] = annotations
    return body


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Nodes are left behind."""
    async with start_control_plane() as plane:
        yield plane


@pytest.fixture
async def view(plane: ControlPlane) -> AsyncIterator[ClusterView]:
    async with JsonApi(plane.access()) as api:
        view = ClusterView(api)
        await view.allow_balloons()
        yield view


@pytest.mark.lab
@needs_autoscaler
async def test_held_nodes_stay_and_empty_ones_go(plane: ControlPlane, view: ClusterView) -> None:
    async with start_node_groups(plane, settings()) as server, start_cluster_autoscaler(plane, server, FAST):
        await view.deploy(deployment("work", 5, WHOLE_NODE))
        await view.wait_running("work", 5)
        await view.scale("work", 0)
        await view.deploy(balloons(3, DELAY))
        await view.wait_running("balloon", 3)
        held = await view.node_of("balloon")
        await view.wait_nodes(3)
        assert set(await view.nodes()) == set(held.values()), "the empty nodes went, not the held ones"

        async def are_held() -> bool:
            return await view.node_of("balloon") == held and set(await view.nodes()) == set(held.values())

        await throughout("the same balloons hold the same nodes", are_held, 10 * UNNEEDED_S)
        await view.scale("balloon", 0)
        await view.wait_nodes(0)


@pytest.mark.lab
@needs_autoscaler
async def test_pending_balloons_with_the_delay_never_grow_it(plane: ControlPlane, view: ClusterView) -> None:
    async with start_node_groups(plane, settings()) as server, start_cluster_autoscaler(plane, server, FAST):
        await view.deploy(balloons(4, DELAY))

        async def has_no_order() -> bool:
            return server.cloud.ledger("workers").target_size == 0

        await throughout("nothing is ordered", has_no_order, 45)
        await view.deploy(deployment("work", 2, WHOLE_NODE))
        await view.wait_running("work", 2)
        assert server.cloud.ledger("workers").target_size == 2, "two for the work and none for the balloons"


@pytest.mark.lab
@needs_autoscaler
async def test_pending_balloons_without_the_delay_do_grow_it(plane: ControlPlane, view: ClusterView) -> None:
    async with start_node_groups(plane, settings()) as server, start_cluster_autoscaler(plane, server, FAST):
        await view.deploy(balloons(2, {}))
        await view.wait_running("balloon", 2)


@pytest.mark.lab
@needs_autoscaler
async def test_machines_out_of_stock_are_taken_back(plane: ControlPlane, view: ClusterView) -> None:
    async with start_node_groups(plane, settings(stock=2)) as server, start_cluster_autoscaler(plane, server, FAST):
        await view.deploy(deployment("work", 4, WHOLE_NODE))
        await view.wait_running("work", 2)

        async def has_only_what_exists() -> bool:
            return server.cloud.ledger("workers").target_size == 2

        await until("it gives up the orders that cannot be fulfilled", has_only_what_exists)


def test_without_a_binary_the_reason_is_given_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTER_AUTOSCALER", raising=False)
    with pytest.raises(LabError, match="set CLUSTER_AUTOSCALER to the path of a binary"):
        autoscaler_binary()
    monkeypatch.setenv("CLUSTER_AUTOSCALER", "nowhere/cluster-autoscaler")
    with pytest.raises(LabError, match="nowhere/cluster-autoscaler, which is not a program"):
        autoscaler_binary()
