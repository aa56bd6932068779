"""The CapacityQuota on the real cluster-autoscaler: paces a burst exactly, its loss is seen; skipped without one."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import JsonApi
from lab.cloud.nodegroups import (
    NOT_GIVEN,
    QUOTA_FLAGS,
    AutoscalerSettings,
    NodeGroup,
    NodeGroupsSettings,
    install_capacity_quotas,
    start_cluster_autoscaler,
    start_node_groups,
)
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from tests.lab.ceiling_driver import driving, in_background
from tests.lab.cluster_view import ClusterView, deployment, until
from throttler.levers.lever_and_reasons import LeverDecision, LeverState

pytestmark = [pytest.mark.lab, pytest.mark.skipif("CLUSTER_AUTOSCALER" not in os.environ, reason=NOT_GIVEN)]

QUOTA_PATH = "/apis/autoscaling.x-k8s.io/v1alpha1/capacityquotas/ours"
GROUPS = NodeGroupsSettings(
    groups=(NodeGroup(name="workers", max_size=80, cpu_millis=8000, memory_mib=32768),),
    boot_time=BootTime(median_s=5, jitter=0.2),
)
AUTOSCALER = AutoscalerSettings(unneeded_s=900, extra_flags=QUOTA_FLAGS)
WINDOW, WHOLE_NODE, WHOLE_NODE_MILLIS = 8, "7500m", 7500


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own, with the CRD that cluster-autoscaler expects."""
    manager = ControllerManagerSettings(kube_api_qps=200, kube_api_burst=300)
    async with start_control_plane(ControlPlaneSettings(controller_manager=manager)) as plane:
        await install_capacity_quotas(plane)
        yield plane


@pytest.fixture
async def view(plane: ControlPlane) -> AsyncIterator[ClusterView]:
    async with JsonApi(plane.access()) as api:
        yield ClusterView(api)


async def test_burst_is_paced_and_the_quota_is_gone_afterwards(plane: ControlPlane, view: ClusterView) -> None:
    async with (
        start_node_groups(plane, GROUPS) as server,
        start_cluster_autoscaler(plane, server, AUTOSCALER),
        driving(plane, WINDOW) as driver,
    ):

        def target() -> int:
            return server.cloud.ledger("workers").target_size

        async with in_background(driver.run_quota("ours", target)):
            await asyncio.sleep(5)
            await view.deploy(deployment("work", 60, WHOLE_NODE))
            await view.wait_running("work", 60, deadline_s=400)
            await until("the quota is gone", lambda: _is_absent(view), deadline_s=90)
        for at_s, in_flight, usable, ceiling in driver.record.looks[::4]:
            print(f"{at_s:6.1f} s  in flight {in_flight:3d}  usable {usable:3d}  {ceiling}")
        print("writes", len(driver.record.writes), "most in flight", driver.record.most_in_flight)
        assert driver.record.most_in_flight <= WINDOW, "cluster-autoscaler counts what it asked for: no overshoot"
        assert target() == 60
        assert LeverState.CONFIRMED in {decision.state for decision in driver.record.decisions}


async def test_lost_and_invalid_quota_are_reported_within_ten_seconds(plane: ControlPlane, view: ClusterView) -> None:
    async with (
        start_node_groups(plane, GROUPS) as server,
        start_cluster_autoscaler(plane, server, AUTOSCALER),
        driving(plane, 0) as driver,
    ):
        decisions = driver.record.decisions
        async with in_background(driver.run_quota("ours", lambda: server.cloud.ledger("workers").target_size)):
            await view.deploy(deployment("work", 20, WHOLE_NODE))
            await until("it is trusted", lambda: _is_now(decisions, LeverState.CONFIRMED))
            await view.api.delete(QUOTA_PATH)
            await until("its loss is reported", lambda: _was_ever(decisions, LeverState.LOST), 10)
            await until("it is there and trusted again", lambda: _is_now(decisions, LeverState.CONFIRMED))
            await view.api.merge(QUOTA_PATH, {"spec": {"selector": INVALID}})
            await until("it is not trusted", lambda: _is_now(decisions, LeverState.UNCONFIRMED), 10)
            await until("its selector is put back", lambda: _is_now(decisions, LeverState.CONTESTED), 60)


INVALID = {"matchExpressions": [{"key": "pool", "operator": "Near", "values": ["a"]}]}


async def _was_ever(decisions: list[LeverDecision], state: LeverState) -> bool:
    return any(decision.state is state for decision in decisions)


async def _is_now(decisions: list[LeverDecision], state: LeverState) -> bool:
    return bool(decisions) and decisions[-1].state is state


async def _is_there(view: ClusterView) -> bool:
    return await view.api.get(QUOTA_PATH) is not None


async def _is_absent(view: ClusterView) -> bool:
    return await view.api.get(QUOTA_PATH) is None
