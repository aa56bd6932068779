"""Ceilings on the real API server: what the user had is back in the end, value, form and owner."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lab.binaries import find_karpenter_crds
from lab.cloud.karpenter.objects import node_pool
from lab.cloud.karpenter.settings import NodePoolSettings
from lab.cloud.nodegroups import install_capacity_quotas, install_machine_deployments
from lab.controlplane import ControlPlane
from tests.contract.policy_objects import MAX_SIZE, machine_deployment
from tests.contract.waiting import serve
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.joins.demand import Crowd
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.cluster_autoscaler import (
    CAPACITY_QUOTA_VERSIONS,
    MACHINE_DEPLOYMENT_VERSIONS,
    CapacityQuota,
    MachineDeployment,
)
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.errors import NotFoundError
from throttler.kube.karpenter import NodePool
from throttler.kube.kube_client import KubeClient, decode, open_client
from throttler.kube.metadata import owners_of
from throttler.kube.pod import Scheduling
from throttler.kube.requests import Resource
from throttler.kube.selectors import LabelSelector
from throttler.levers.capacity_quota import QuotaMemory, QuotaView, decide_capacity_quota
from throttler.levers.lever_and_reasons import Clocks, Holder, LeverBudget, LeverContext, LeverScene, LeverWrite
from throttler.levers.machine_deployments import MACHINE_DEPLOYMENTS
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.levers.saved_limits import restore
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter

pytestmark = pytest.mark.lab

POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", False)
HOLDER = Holder(throttle="default", lease="kube-balloons/kube-balloons", epoch=1)
WAITING = WaitingWork(crowds=(Crowd(Scheduling(), {"cpu": 7000}, 9),))
SELECTOR = LabelSelector(match_labels={"pool": "a"})
USERS = [
    pytest.param(None, "", id="no limits"),
    pytest.param({"cpu": "400"}, "", id="kubectl apply"),
    pytest.param({"cpu": "400"}, "argocd-controller", id="server-side apply"),
    pytest.param({"cpu": 400, "memory": "2.5Ti"}, "argocd-controller", id="a number"),
    pytest.param({"nodes": "50"}, "argocd-controller", id="another resource"),
    pytest.param(None, "argocd-controller", id="no limits, server-side apply"),
]


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    serve(control_plane, find_karpenter_crds())
    asyncio.run(install_capacity_quotas(control_plane))
    asyncio.run(install_machine_deployments(control_plane))
    return control_plane


@pytest.fixture
async def client(served: ControlPlane) -> AsyncIterator[KubeClient]:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(served.kubeconfig())))
    async with open_client(connection, "test") as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest, served: ControlPlane) -> Any:
    name = f"pool-{abs(hash(request.node.name)):x}"
    yield name
    for kind in ("nodepool", "capacityquota", "machinedeployment"):
        served.requests.delete(kind, name, "default")


def manifest(name: str, limits: dict[str, Any] | None) -> dict[str, Any]:
    body = node_pool(NodePoolSettings(name=name))
    return body if limits is None else {**body, "spec": {**body["spec"], "limits": limits}}


def apply_as(plane: ControlPlane, body: dict[str, Any], manager: str) -> None:
    how = ["--server-side", f"--field-manager={manager}"] if manager else []
    plane.kubectl("apply", *how, "-f", "-", input=json.dumps(body))


async def essence(client: KubeClient, name: str, resource: Resource = POOLS) -> Any:
    """All that must be the same before and after."""
    body = json.loads(await client.get(resource, name, "default" if resource.is_namespaced else None))
    metadata = body["metadata"]
    for entry in metadata["managedFields"]:
        del entry["time"]
    for counted in ("resourceVersion", "generation"):
        del metadata[counted]
    metadata["managedFields"].sort(key=lambda entry: (entry["manager"], entry["operation"]))
    return body


async def pool_writes(client: KubeClient, name: str, **room: Any) -> tuple[LeverWrite, ...]:
    pool = decode(await client.get(POOLS, name), NodePool)
    outcomes, _ = decide_node_pools([NodePoolView(pool=pool)], budget(**room), WAITING, HOLDER, NodePoolMemory(), 0.0)
    return outcomes[0].writes


def budget(allowance: int = 3, **more: Any) -> LeverBudget:
    """For nine pods that wait."""
    known = {"existing": 0, "booting": 0, "admit": 0, "waiting": 9, "may_move": True}
    return LeverBudget(**{**known, "allowance": allowance, **more})


@pytest.mark.parametrize(("limits", "manager"), USERS)
@pytest.mark.parametrize("killed_after", [1, 2])
async def test_pool_is_as_before_wherever_the_hand_back_was_killed(
    served: ControlPlane, client: KubeClient, name: str, limits: Any, manager: str, killed_after: int
) -> None:
    apply_as(served, manifest(name, limits), manager)
    before = await essence(client, name)
    writer = LeverWriter(client)
    (paced,) = await writer.carry_out(await pool_writes(client, name))
    assert paced.outcome is LeverWriteOutcome.DONE, paced.message
    assert json.loads(await client.get(POOLS, name))["spec"]["limits"]["cpu"] == "24"
    for wanted in (killed_after, 9):
        pool = decode(await client.get(POOLS, name), NodePool)
        results = await writer.carry_out(restore(pool)[:wanted])
        assert {result.outcome for result in results} <= {LeverWriteOutcome.DONE}, results
    assert await essence(client, name) == before
    apply_as(served, manifest(name, {**(limits or {}), "cpu": "500"}), manager)
    assert json.loads(await client.get(POOLS, name))["spec"]["limits"]["cpu"] == "500", "no conflict with us"


async def test_user_may_take_the_limit_by_force_and_keeps_it(
    served: ControlPlane, client: KubeClient, name: str
) -> None:
    apply_as(served, manifest(name, {"cpu": "400"}), "argocd-controller")
    writer = LeverWriter(client)
    await writer.carry_out(await pool_writes(client, name))
    body = json.dumps(manifest(name, {"cpu": "40"}))
    served.kubectl(
        "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", "-", input=body
    )
    await writer.carry_out(await pool_writes(client, name))
    assert json.loads(await client.get(POOLS, name))["spec"]["limits"]["cpu"] == "24"
    await writer.carry_out(await pool_writes(client, name, is_stopping=True))
    assert json.loads(await client.get(POOLS, name))["spec"]["limits"] == {"cpu": "40"}


async def test_limit_that_a_ramp_reached_outlives_the_next_ramp(
    served: ControlPlane, client: KubeClient, name: str
) -> None:
    """Giving it back changes no value, and a patch that changes nothing leaves the field to us alone."""
    apply_as(served, manifest(name, {"cpu": "20"}), "")
    before = limits_and_owners(pool := decode(await client.get(POOLS, name), NodePool))
    writer = LeverWriter(client)
    for _ in range(2):
        memory = NodePoolMemory()
        for allowance, cpu in ((1, "8"), (3, "20")):
            (decision,), memory = decide_node_pools(
                [NodePoolView(pool=pool)], budget(allowance), WAITING, HOLDER, memory, 10.0 * allowance
            )
            await writer.carry_out(decision.writes)
            pool = decode(await client.get(POOLS, name), NodePool)
            assert (pool.spec.limits or {}).get("cpu") == cpu
        await writer.carry_out(restore(pool))
        pool = decode(await client.get(POOLS, name), NodePool)
        assert limits_and_owners(pool) == before


async def test_a_ceiling_that_lost_its_mark_counts_as_the_users_and_outlives_the_next_ramp(
    served: ControlPlane, client: KubeClient, name: str
) -> None:
    apply_as(served, manifest(name, {"cpu": "400"}), "")
    writer = LeverWriter(client)
    await writer.carry_out(await pool_writes(client, name, allowance=1))
    served.kubectl("annotate", "nodepool", name, "kube-balloons.github.io/original-")
    await writer.carry_out(await pool_writes(client, name, allowance=3))
    pool = decode(await client.get(POOLS, name), NodePool)
    assert (pool.spec.limits or {})["cpu"] == "8"
    (result,) = await writer.carry_out(restore(pool))
    assert result.outcome is LeverWriteOutcome.DONE, result.message
    assert limits_and_owners(decode(await client.get(POOLS, name), NodePool)) == ({"cpu": "8"}, ())


def limits_and_owners(pool: NodePool) -> tuple[Any, ...]:
    return pool.spec.limits, owners_of(pool.metadata.managed_fields, ("spec", "limits", "cpu"))


async def test_write_on_an_older_version_is_a_conflict_and_changes_nothing(
    served: ControlPlane, client: KubeClient, name: str
) -> None:
    apply_as(served, manifest(name, {"cpu": "400"}), "")
    writes = await pool_writes(client, name)
    served.kubectl("label", "nodepool", name, "touched=yes")
    (result,) = await LeverWriter(client).carry_out(writes)
    assert result.outcome is LeverWriteOutcome.CONFLICT
    assert json.loads(await client.get(POOLS, name))["spec"]["limits"] == {"cpu": "400"}


async def test_static_pool_refuses_what_we_would_never_write(
    served: ControlPlane, client: KubeClient, name: str
) -> None:
    body = manifest(name, {"nodes": "3"})
    apply_as(served, {**body, "spec": {**body["spec"], "replicas": 1}}, "")
    assert await pool_writes(client, name) == ()
    served.kubectl("patch", "nodepool", name, "--type=merge", "-p", '{"metadata": {"labels": {"a": "b"}}}')


@pytest.mark.parametrize("version", CAPACITY_QUOTA_VERSIONS)
async def test_quota_is_made_moved_and_deleted(client: KubeClient, name: str, version: str) -> None:
    resource = Resource("autoscaling.x-k8s.io", version, "capacityquotas", "CapacityQuota", False)
    writer, memory = LeverWriter(client), QuotaMemory()
    # Two seconds apart, because more room is given at most so often.
    for now_s, allowance in ((0.0, 8), (2.0, 0), (4.0, 3)):
        quota = await found(client, resource, name)
        seen = QuotaView(name=name, selector=SELECTOR, api_version=resource.api_version, quota=quota)
        room = LeverBudget(existing=10, booting=2, allowance=allowance, admit=0, waiting=5, may_move=True)
        outcome, memory = decide_capacity_quota(seen, room, HOLDER, memory, now_s)
        (result,) = await writer.carry_out(outcome.writes)
        assert result.outcome is LeverWriteOutcome.DONE, result.message
        now = await found(client, resource, name)
        assert now is not None
        assert now.spec.limits.resources == {"nodes": str(12 + allowance)}
        assert now.spec.selector == SELECTOR
        assert (
            decide_capacity_quota(
                QuotaView(name=name, selector=SELECTOR, api_version=resource.api_version, quota=now),
                room,
                HOLDER,
                memory,
                now_s + 1.0,
            )[0].writes
            == ()
        ), "the second look finds nothing to do"
    assert now is not None
    (result,) = await writer.carry_out(restore(now))
    assert result.outcome is LeverWriteOutcome.DONE
    assert await found(client, resource, name) is None


async def test_quota_of_the_user_is_as_before(served: ControlPlane, client: KubeClient, name: str) -> None:
    resource = Resource("autoscaling.x-k8s.io", "v1beta1", "capacityquotas", "CapacityQuota", False)
    spec = {"limits": {"resources": {"nodes": 50, "cpu": "1000"}}, "selector": {"matchLabels": {"pool": "a"}}}
    body = {"apiVersion": resource.api_version, "kind": "CapacityQuota", "metadata": {"name": name}, "spec": spec}
    apply_as(served, body, "flux")
    seen = QuotaView(
        name=name, selector=SELECTOR, api_version=resource.api_version, quota=await found(client, resource, name)
    )
    room = LeverBudget(existing=10, booting=2, allowance=8, admit=0, waiting=5, may_move=True)
    outcome, _ = decide_capacity_quota(seen, room, HOLDER, QuotaMemory(), 0.0)
    await LeverWriter(client).carry_out(outcome.writes)
    now = await found(client, resource, name)
    assert now is not None
    assert now.spec.limits.resources == {"nodes": "20", "cpu": "1000"}
    await LeverWriter(client).carry_out(restore(now))
    after = json.loads(await client.get(resource, name))
    assert after["spec"] == spec
    assert [entry["manager"] for entry in after["metadata"]["managedFields"]] == ["flux"]
    assert not after["metadata"].get("annotations")


async def test_write_that_the_schema_refuses_is_an_outcome(client: KubeClient, name: str) -> None:
    seen = QuotaView(name=name, selector=SELECTOR, api_version="autoscaling.x-k8s.io/v1beta1", quota=None)
    room = LeverBudget(existing=1, booting=0, allowance=1, admit=0, waiting=5, may_move=True)
    outcome, _ = decide_capacity_quota(seen, room, HOLDER, QuotaMemory(), 0.0)
    body = {**outcome.writes[0].body, "spec": {"limits": {"resources": {"nodes": "-1"}}}}  # type: ignore[dict-item]
    (result,) = await LeverWriter(client).carry_out([replace(outcome.writes[0], body=body)])
    assert result.outcome is LeverWriteOutcome.INVALID
    assert "whole number" in result.message


@pytest.mark.parametrize("version", MACHINE_DEPLOYMENT_VERSIONS)
@pytest.mark.parametrize("manager", ["", "argocd-controller"])
@pytest.mark.parametrize("killed_after", [1, 2])
async def test_machine_deployment_is_as_before_wherever_the_hand_back_was_killed(
    served: ControlPlane, client: KubeClient, name: str, version: str, manager: str, killed_after: int
) -> None:
    resource = Resource("cluster.x-k8s.io", version, "machinedeployments", "MachineDeployment")
    apply_as(served, machine_deployment(name, 50, version), manager)
    before = await essence(client, name, resource)
    writer = LeverWriter(client)
    (paced,) = await writer.carry_out(await size_writes(client, resource, name))
    assert paced.outcome is LeverWriteOutcome.DONE, paced.message
    assert json.loads(await client.get(resource, name, "default"))["metadata"]["annotations"][MAX_SIZE] == "7"
    assert await size_writes(client, resource, name) == (), "the second look finds nothing to do"
    for wanted in (killed_after, 9):
        thing = decode(await client.get(resource, name, "default"), MachineDeployment)
        results = await writer.carry_out(restore(thing)[:wanted])
        assert {result.outcome for result in results} <= {LeverWriteOutcome.DONE}, results
    assert await essence(client, name, resource) == before
    apply_as(served, machine_deployment(name, 60, version), manager)
    found = json.loads(await client.get(resource, name, "default"))
    assert found["metadata"]["annotations"][MAX_SIZE] == "60", "no conflict with us"


async def size_writes(client: KubeClient, resource: Resource, name: str) -> tuple[LeverWrite, ...]:
    thing = decode(await client.get(resource, name, "default"), MachineDeployment)
    throttle = a_throttle(levers={"machineDeployments": {"namespace": "default", "names": [name]}})
    scene = LeverScene(moment=Clocks(0.0, 0.0), lease=HOLDER.lease, epoch=HOLDER.epoch, limited=(thing,))
    context = LeverContext(
        throttle=throttle,
        rules=JoinRules.of(throttle, ""),
        scene=scene,
        room=LeverBudget(existing=0, booting=0, allowance=7, admit=0, waiting=9, may_move=True),
        joins=Joins(),
        machines=(),
    )
    outcomes, _ = MACHINE_DEPLOYMENTS.decide(context, MACHINE_DEPLOYMENTS.fresh())
    return outcomes[0].writes


async def found(client: KubeClient, resource: Resource, name: str) -> CapacityQuota | None:
    try:
        return decode(await client.get(resource, name), CapacityQuota)
    except NotFoundError:
        return None
