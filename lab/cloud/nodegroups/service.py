"""The gRPC side of the node groups: what cluster-autoscaler calls, served on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message

from lab.cloud.fleet import Fleet
from lab.cloud.json_api import JsonApi
from lab.cloud.machine_kinds import machine_kinds
from lab.cloud.nodegroups import externalgrpc_pb2 as wire
from lab.cloud.nodegroups import node_template_pb2 as template_wire
from lab.cloud.nodegroups.cloud import PROVIDER_PREFIX, Instance, InstanceState, NodeGroupCloud, RefusalError
from lab.cloud.nodegroups.settings import NodeGroup, NodeGroupsSettings
from lab.controlplane import ControlPlane


def node_template(group: NodeGroup) -> bytes:
    """Return the serialised template: needed for a group without nodes, whose shape nobody has seen yet."""
    name = f"template-of-{group.name}"
    resources = {resource: template_wire.Quantity(text=amount) for resource, amount in group.allocatable.items()}
    taints = [
        template_wire.Taint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
        for taint in group.taints
    ]
    template = template_wire.NodeTemplate(
        metadata=template_wire.Metadata(name=name, labels={"kubernetes.io/hostname": name, **group.node_labels}),
        spec=template_wire.Spec(providerID=f"template://{name}", taints=taints),
        status=template_wire.Status(
            capacity=resources,
            allocatable=resources,
            conditions=[template_wire.Condition(type="Ready", status="True")],
        ),
    )
    return template.SerializeToString()


SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
OUT_OF_RESOURCES_CLASS = 1

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Answer: TypeAlias = Callable[[Any], Message]

STATES = {
    InstanceState.CREATING: wire.InstanceStatus.instanceCreating,
    InstanceState.OUT_OF_STOCK: wire.InstanceStatus.instanceCreating,
    InstanceState.RUNNING: wire.InstanceStatus.instanceRunning,
    InstanceState.DELETING: wire.InstanceStatus.instanceDeleting,
}


class NodeGroupService:
    """Answers each method from the cloud's books. A refusal becomes FAILED_PRECONDITION with its reason."""

    def __init__(self, cloud: NodeGroupCloud) -> None:
        self._cloud = cloud

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """Return the table of methods for a gRPC server; methods that are not in it answer UNIMPLEMENTED."""
        answers: dict[str, tuple[type[Message], Answer]] = {
            "NodeGroups": (wire.NodeGroupsRequest, self._node_groups),
            "NodeGroupForNode": (wire.NodeGroupForNodeRequest, self._group_for_node),
            "GPULabel": (wire.GPULabelRequest, self._gpu_label),
            "GetAvailableGPUTypes": (wire.GetAvailableGPUTypesRequest, self._gpu_types),
            "Cleanup": (wire.CleanupRequest, lambda _: wire.CleanupResponse()),
            "Refresh": (wire.RefreshRequest, self._refresh),
            "NodeGroupTargetSize": (wire.NodeGroupTargetSizeRequest, self._target_size),
            "NodeGroupIncreaseSize": (wire.NodeGroupIncreaseSizeRequest, self._increase),
            "NodeGroupDeleteNodes": (wire.NodeGroupDeleteNodesRequest, self._delete),
            "NodeGroupDecreaseTargetSize": (wire.NodeGroupDecreaseTargetSizeRequest, self._decrease_target),
            "NodeGroupNodes": (wire.NodeGroupNodesRequest, self._nodes),
            "NodeGroupTemplateNodeInfo": (wire.NodeGroupTemplateNodeInfoRequest, self._template),
        }
        methods = {name: _method(request, answer) for name, (request, answer) in answers.items()}
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _node_groups(self, _: wire.NodeGroupsRequest) -> Message:
        return wire.NodeGroupsResponse(nodeGroups=[_group(group) for group in self._cloud.groups])

    def _group_for_node(self, request: wire.NodeGroupForNodeRequest) -> Message:
        group = self._cloud.group_of(request.node.providerID)
        return wire.NodeGroupForNodeResponse(nodeGroup=_group(group) if group else wire.NodeGroup())

    def _refresh(self, _: wire.RefreshRequest) -> Message:
        self._cloud.rounds += 1
        return wire.RefreshResponse()

    def _gpu_label(self, _: wire.GPULabelRequest) -> Message:
        return wire.GPULabelResponse(label=self._cloud.settings.gpu_label)

    def _gpu_types(self, _: wire.GetAvailableGPUTypesRequest) -> Message:
        return wire.GetAvailableGPUTypesResponse()

    def _target_size(self, request: wire.NodeGroupTargetSizeRequest) -> Message:
        return wire.NodeGroupTargetSizeResponse(targetSize=self._cloud.ledger(request.id).target_size)

    def _increase(self, request: wire.NodeGroupIncreaseSizeRequest) -> Message:
        self._cloud.increase(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    def _delete(self, request: wire.NodeGroupDeleteNodesRequest) -> Message:
        # Machines without a Node are named by their provider id only.
        names = [node.providerID.removeprefix(PROVIDER_PREFIX) for node in request.nodes]
        self._cloud.delete(request.id, names)
        return wire.NodeGroupDeleteNodesResponse()

    def _decrease_target(self, request: wire.NodeGroupDecreaseTargetSizeRequest) -> Message:
        self._cloud.decrease_target(request.id, request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    def _nodes(self, request: wire.NodeGroupNodesRequest) -> Message:
        instances = self._cloud.ledger(request.id).instances
        return wire.NodeGroupNodesResponse(instances=[_instance(instance) for instance in instances])

    def _template(self, request: wire.NodeGroupTemplateNodeInfoRequest) -> Message:
        group = next(g for g in self._cloud.groups if g.name == self._cloud.ledger(request.id).group)
        return wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=node_template(group))


def _method(request: type[Message], answer: Answer) -> grpc.RpcMethodHandler[Any, Any]:
    async def call(message: Message, context: Context) -> Message:
        try:
            return answer(message)
        except RefusalError as refusal:
            await _refuse(context, str(refusal))

    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=request.FromString, response_serializer=_serialize
    )


async def _refuse(context: Context, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
    raise AssertionError("abort always raises")


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _group(group: NodeGroup) -> wire.NodeGroup:
    shape = ", ".join(f"{name}={amount}" for name, amount in group.allocatable.items())
    return wire.NodeGroup(id=group.name, minSize=group.min_size, maxSize=group.max_size, debug=shape)


def _instance(instance: Instance) -> wire.Instance:
    error = wire.InstanceErrorInfo()
    if instance.state is InstanceState.OUT_OF_STOCK:
        error = wire.InstanceErrorInfo(
            errorCode="OUT_OF_STOCK",
            errorMessage="the simulated cloud has no machine of this group left",
            instanceErrorClass=OUT_OF_RESOURCES_CLASS,
        )
    status = wire.InstanceStatus(instanceState=STATES[instance.state], errorInfo=error)
    return wire.Instance(id=f"{PROVIDER_PREFIX}{instance.name}", status=status)


ADMIN_GROUPS = ("system:masters",)


@dataclass(frozen=True)
class NodeGroupServer:
    """A running cloud and the address (`127.0.0.1:port`) at which cluster-autoscaler finds it."""

    cloud: NodeGroupCloud
    address: str


@contextlib.asynccontextmanager
async def serve(cloud: NodeGroupCloud) -> AsyncIterator[NodeGroupServer]:
    """Serve a cloud over gRPC, without encryption and on loopback only."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((NodeGroupService(cloud).handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield NodeGroupServer(cloud, f"127.0.0.1:{port}")
    finally:
        await server.stop(grace=None)


@contextlib.asynccontextmanager
async def start_node_groups(plane: ControlPlane, settings: NodeGroupsSettings) -> AsyncIterator[NodeGroupServer]:
    """Start the cloud for `plane`; each group boots its minimum. When left, every machine ends.

    Nodes stay behind as objects that nobody serves any more: give each run a plane of its own.
    """
    async with JsonApi(plane.access("lab:cloud", ADMIN_GROUPS)) as api, machine_kinds(plane) as kinds:
        cloud = NodeGroupCloud(settings, Fleet(api, kinds, settings.boot_time))
        try:
            cloud.start_minimum()
            async with serve(cloud) as server:
                yield server
        finally:
            await cloud.close()
