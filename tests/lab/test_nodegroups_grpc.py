"""The gRPC side of the node groups, asked over a real socket as cluster-autoscaler asks; machines are fakes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from lab.cloud import BootTime
from lab.cloud.nodegroups import NodeGroup, NodeGroupCloud, NodeGroupsSettings, serve
from lab.cloud.nodegroups import externalgrpc_pb2 as wire
from lab.cloud.nodegroups import node_template_pb2 as template_wire
from lab.cloud.nodegroups.service import SERVICE
from tests.unit.lab.cloud_fakes import FakeApi, FakeKind, fleet

GPU = NodeGroup(
    name="gpu",
    max_size=4,
    cpu_millis=8000,
    memory_mib=32768,
    extended={"nvidia.com/gpu": "8"},
    labels={"team": "a"},
    taints=({"key": "nvidia.com/gpu", "effect": "NoSchedule"},),
    stock=3,
)
CPU = NodeGroup(name="cpu", min_size=1, max_size=2)
RUNNING, CREATING = wire.InstanceStatus.instanceRunning, wire.InstanceStatus.instanceCreating


class Caller:
    """Calls a method by name with the message `NAMERequest` and returns its `NAMEResponse`."""

    def __init__(self, channel: grpc.aio.Channel, cloud: NodeGroupCloud) -> None:
        self.channel = channel
        self.cloud = cloud

    async def __call__(self, method: str, **fields: Any) -> Any:
        request, response = getattr(wire, f"{method}Request"), getattr(wire, f"{method}Response")
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return await call(request(**fields), timeout=60)

    async def states(self, group: str) -> dict[str, int]:
        answer = await self("NodeGroupNodes", id=group)
        return {instance.id: instance.status.instanceState for instance in answer.instances}

    async def wait_running(self, group: str, count: int) -> None:
        async with asyncio.timeout(120):
            while list((await self.states(group)).values()).count(RUNNING) != count:
                await asyncio.sleep(0.02)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def boot_s() -> float:
    return 0.1


@pytest.fixture
async def call(api: FakeApi, boot_s: float) -> AsyncIterator[Caller]:
    boot_time = BootTime(median_s=boot_s, jitter=0)
    cloud = NodeGroupCloud(NodeGroupsSettings(groups=(GPU, CPU)), fleet(api, FakeKind(), boot_time))
    cloud.start_minimum()
    async with serve(cloud) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield Caller(channel, cloud)
    await cloud.close()


async def test_groups_are_listed_with_their_bounds(call: Caller) -> None:
    groups = (await call("NodeGroups")).nodeGroups
    assert [(group.id, group.minSize, group.maxSize) for group in groups] == [("gpu", 0, 4), ("cpu", 1, 2)]
    assert "nvidia.com/gpu=8" in groups[0].debug
    assert (await call("GPULabel")).label == "lab/gpu"
    await call("GetAvailableGPUTypes")
    await call("Refresh")
    await call("Cleanup")


@pytest.mark.parametrize("boot_s", [5.0], ids=["long enough to be asked meanwhile"])
async def test_increase_creates_machines_that_run_after_their_boot_time(call: Caller, api: FakeApi) -> None:
    await call("NodeGroupIncreaseSize", id="gpu", delta=2)
    assert (await call("NodeGroupTargetSize", id="gpu")).targetSize == 2
    assert await call.states("gpu") == {"labgroups://gpu-1": CREATING, "labgroups://gpu-2": CREATING}
    await call.wait_running("gpu", 2)
    node = api.nodes["gpu-1"]
    assert node["spec"] == {"providerID": "labgroups://gpu-1", "taints": [dict(GPU.taints[0])]}
    assert node["metadata"]["labels"]["team"] == "a"
    owner = await call("NodeGroupForNode", node=wire.ExternalGrpcNode(providerID="labgroups://gpu-1", name="gpu-1"))
    assert owner.nodeGroup.id == "gpu"


async def test_the_minimum_boots_without_being_asked(call: Caller, api: FakeApi) -> None:
    await call.wait_running("cpu", 1)
    assert set(api.nodes) == {"cpu-1"}


async def test_an_autoscalers_rounds_are_counted(call: Caller) -> None:
    before = call.cloud.rounds
    await call("Refresh")
    await call("Refresh")
    assert call.cloud.rounds == before + 2


async def test_a_stranger_has_no_group(call: Caller) -> None:
    for provider_id in ("kwok://gpu-1", "labgroups://gpu-77", ""):
        answer = await call("NodeGroupForNode", node=wire.ExternalGrpcNode(providerID=provider_id))
        assert answer.nodeGroup.id == ""


async def test_deleted_machines_go_with_their_nodes(call: Caller, api: FakeApi) -> None:
    await call("NodeGroupIncreaseSize", id="gpu", delta=2)
    await call.wait_running("gpu", 2)
    await call("NodeGroupDeleteNodes", id="gpu", nodes=[wire.ExternalGrpcNode(providerID="labgroups://gpu-1")])
    assert (await call("NodeGroupTargetSize", id="gpu")).targetSize == 1
    async with asyncio.timeout(120):
        while len(await call.states("gpu")) != 1:
            await asyncio.sleep(0.02)
    assert "gpu-1" not in api.nodes
    assert "gpu-2" in api.nodes


async def test_a_machine_beyond_the_stock_is_an_error_of_resources(call: Caller) -> None:
    await call("NodeGroupIncreaseSize", id="gpu", delta=4)
    await call.wait_running("gpu", 3)
    (missing,) = [
        instance
        for instance in (await call("NodeGroupNodes", id="gpu")).instances
        if instance.status.errorInfo.errorCode
    ]
    assert (missing.id, missing.status.instanceState) == ("labgroups://gpu-4", CREATING)
    assert missing.status.errorInfo.instanceErrorClass == 1
    await call("NodeGroupDecreaseTargetSize", id="gpu", delta=-1)
    assert (await call("NodeGroupTargetSize", id="gpu")).targetSize == 3


async def test_the_template_of_an_empty_group_tells_its_shape(call: Caller) -> None:
    answer = await call("NodeGroupTemplateNodeInfo", id="gpu")
    template = template_wire.NodeTemplate.FromString(answer.nodeBytes)
    assert template.status.allocatable["nvidia.com/gpu"].text == "8"
    assert template.status.allocatable["cpu"].text == "8000m"
    assert template.metadata.labels["team"] == "a"
    assert [taint.key for taint in template.spec.taints] == ["nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("method", "fields", "reason"),
    [
        ("NodeGroupTargetSize", {"id": "tpu"}, "there is no node group 'tpu'; there are gpu, cpu"),
        ("NodeGroupIncreaseSize", {"id": "cpu", "delta": 2}, "its maximum is 2"),
        ("NodeGroupDecreaseTargetSize", {"id": "gpu", "delta": -1}, "has 0 open orders"),
        (
            "NodeGroupDeleteNodes",
            {"id": "cpu", "nodes": [wire.ExternalGrpcNode(providerID="labgroups://cpu-1")]},
            "below its minimum of 1",
        ),
    ],
)
async def test_what_cannot_be_is_refused_with_its_reason(
    call: Caller, method: str, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call(method, **fields)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert reason in (refusal.value.details() or "")


async def test_methods_that_are_not_offered_answer_unimplemented(call: Caller) -> None:
    options = call.channel.unary_unary(f"/{SERVICE}/NodeGroupGetOptions")
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await options(b"", timeout=60)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
