"""The real cluster-autoscaler on the simulated node groups, if the user has a binary of it.

There is no Go module of it to build from, so the lab never builds it: the environment variable
CLUSTER_AUTOSCALER names a binary. Any official build has the provider `externalgrpc`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.cloud.nodegroups.service import NodeGroupServer
from lab.controlplane import ControlPlane
from lab.controlplane.component import Component, ComponentSpec
from lab.controlplane.ports import free_port
from lab.errors import LabError
from lab.processes import log_tail

VARIABLE = "CLUSTER_AUTOSCALER"
NOT_GIVEN = (
    "this needs a real cluster-autoscaler, which the lab cannot build: set CLUSTER_AUTOSCALER to the path of "
    "a binary (1.36 or near; any official build has the provider externalgrpc)"
)
ADMIN_GROUPS = ("system:masters",)
POLL_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class AutoscalerSettings:
    """How fast cluster-autoscaler looks and removes; its own defaults would take a quarter of an hour.

    `unneeded_s`: how long a node must be unneeded before it goes. `provision_s`: after this long without
    registering, a machine is given up. `extra_flags` come last.
    """

    scan_interval_s: int = 2
    unneeded_s: int = 15
    delay_after_add_s: int = 5
    provision_s: int = 900
    verbosity: int = 2
    extra_flags: tuple[str, ...] = ()
    start_deadline_s: float = 180.0


class ClusterAutoscaler:
    """A running cluster-autoscaler; made by `start_cluster_autoscaler`. Its user name is `lab:cluster-autoscaler`."""

    def __init__(self, plane: ControlPlane, server: NodeGroupServer, settings: AutoscalerSettings) -> None:
        self.settings = settings
        self.log: Path = plane.directory / "logs" / "cluster-autoscaler.log"
        self._cloud = server.cloud
        self._address = f"127.0.0.1:{free_port()}"
        self._component = Component(self._spec(plane, server), plane.processes)

    @property
    def metrics_url(self) -> str:
        """Where it serves /metrics."""
        return f"http://{self._address}/metrics"

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self._component.is_running

    def kill(self) -> None:
        """End the process as a crash would."""
        self._component.kill()

    async def restart(self) -> None:
        """Start the process (killing it first if it runs) and return once it has begun its first round."""
        if self.is_running:
            self.kill()
        rounds_before = self._cloud.rounds
        self._component.start()
        await self._component.wait_until_ready(self.settings.start_deadline_s)
        # It answers before it knows its cloud, and gives up if that cannot be had.
        end = time.monotonic() + self.settings.start_deadline_s
        while self._cloud.rounds == rounds_before:
            if not self.is_running or time.monotonic() > end:
                what = "has not asked its cloud in time" if self.is_running else "ended"
                raise LabError(f"cluster-autoscaler {what}. The end of its log:\n{log_tail(self.log)}")
            await asyncio.sleep(POLL_EVERY_S)

    def _spec(self, plane: ControlPlane, server: NodeGroupServer) -> ComponentSpec:
        kubeconfig = plane.kubeconfig_for("lab:cluster-autoscaler", ADMIN_GROUPS)
        cloud_config = plane.directory / "cluster-autoscaler-cloud.yaml"
        # JSON is YAML too. Without a key and certificate the provider connects in the clear: loopback only.
        cloud_config.write_text(json.dumps({"address": server.address, "grpc_timeout": "30s"}))
        return ComponentSpec(
            name="cluster-autoscaler",
            command=[str(autoscaler_binary()), *_flags(self.settings, kubeconfig, cloud_config, self._address)],
            ready_urls=(f"http://{self._address}/health-check",),
            tls=None,
            log=self.log,
            environment=dict(os.environ),
        )


def autoscaler_binary() -> Path:
    """Return the binary that CLUSTER_AUTOSCALER names; raises LabError in plain words if there is none."""
    named = os.environ.get(VARIABLE)
    if not named:
        raise LabError(NOT_GIVEN)
    path = Path(named).resolve()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise LabError(f"{VARIABLE} is {named}, which is not a program that can be run")
    return path


def _flags(settings: AutoscalerSettings, kubeconfig: Path, cloud_config: Path, address: str) -> list[str]:
    flags = {
        "cloud-provider": "externalgrpc",
        "cloud-config": cloud_config,
        "kubeconfig": kubeconfig,
        "address": address,
        "leader-elect": "false",
        "scan-interval": f"{settings.scan_interval_s}s",
        "scale-down-unneeded-time": f"{settings.unneeded_s}s",
        "scale-down-delay-after-add": f"{settings.delay_after_add_s}s",
        "max-node-provision-time": f"{settings.provision_s}s",
        "v": settings.verbosity,
    }
    return [*(f"--{flag}={value}" for flag, value in flags.items()), *settings.extra_flags]


@contextlib.asynccontextmanager
async def start_cluster_autoscaler(
    plane: ControlPlane, server: NodeGroupServer, settings: AutoscalerSettings | None = None
) -> AsyncIterator[ClusterAutoscaler]:
    """Start cluster-autoscaler on `plane` with the node groups of `server`; kill it when left."""
    autoscaler = ClusterAutoscaler(plane, server, settings or AutoscalerSettings())
    try:
        await autoscaler.restart()
        yield autoscaler
    finally:
        if autoscaler.is_running:
            autoscaler.kill()


QUOTA_FLAGS = ("--capacity-quotas-enabled=true",)
"""For `AutoscalerSettings.extra_flags`; the CRD must be served before the autoscaler starts."""
_CAPACITY_QUOTAS, _MACHINE_DEPLOYMENTS = (
    Path(__file__).with_name(f"{name}.yaml") for name in ("capacityquotas", "machinedeployments")
)


async def install_capacity_quotas(plane: ControlPlane) -> None:
    """Install our stand-in for the CRD and return when it is served."""
    await plane.install(yaml.safe_load(_CAPACITY_QUOTAS.read_text()))


async def install_machine_deployments(plane: ControlPlane) -> None:
    """The same of Cluster API's MachineDeployments."""
    await plane.install(yaml.safe_load(_MACHINE_DEPLOYMENTS.read_text()))
