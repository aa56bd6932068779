"""A control plane of real binaries on loopback: etcd, API servers, controller manager, scheduler."""

from lab.controlplane.credentials import ApiAccess, binding
from lab.controlplane.plane import ControlPlane, start_control_plane
from lab.controlplane.settings import (
    ApiServerSettings,
    ControllerManagerSettings,
    ControlPlaneSettings,
    SchedulerSettings,
)

__all__ = [
    "ApiAccess",
    "ApiServerSettings",
    "ControlPlane",
    "ControlPlaneSettings",
    "ControllerManagerSettings",
    "SchedulerSettings",
    "binding",
    "start_control_plane",
]
