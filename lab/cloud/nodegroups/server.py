"""Start the simulated cloud with its gRPC server on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc.aio

from lab.cloud.fleet import Fleet
from lab.cloud.json_api import JsonApi
from lab.cloud.kinds import machine_kinds
from lab.cloud.nodegroups.cloud import NodeGroupCloud
from lab.cloud.nodegroups.service import NodeGroupService
from lab.cloud.nodegroups.settings import NodeGroupsSettings
from lab.controlplane import ControlPlane

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
