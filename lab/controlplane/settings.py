"""What a control plane should look like. Defaults are those of the binaries unless a field says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class ApiServerSettings:
    """One API server.

    `max_requests_inflight` + `max_mutating_requests_inflight` are its seats (600 by default); priority levels
    share them out. `gomaxprocs` makes it as slow as a small machine; None leaves it all cores.
    """

    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    gomaxprocs: int | None = None
    extra_flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_requests_inflight + self.max_mutating_requests_inflight <= 0:
            raise LabError("an API server needs at least one seat: raise max_requests_inflight")
        if self.gomaxprocs is not None and self.gomaxprocs < 1:
            raise LabError(f"gomaxprocs is {self.gomaxprocs}; it must be at least 1, or None for all cores")


@dataclass(frozen=True, kw_only=True)
class ControllerManagerSettings:
    """The controller manager.

    `kube_api_qps` and `kube_api_burst` are the limit of each controller's client.
    A node whose lease is older than `node_monitor_grace_period_s` becomes NotReady.
    """

    kube_api_qps: float = 20
    kube_api_burst: int = 30
    node_monitor_grace_period_s: int = 50
    extra_flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """The scheduler; `kube_api_qps` and `kube_api_burst` limit how fast it binds and preempts."""

    kube_api_qps: float = 50
    kube_api_burst: int = 100
    extra_flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ControlPlaneSettings:
    """A whole control plane; `None` for the controller manager or the scheduler leaves it out.

    Without a controller manager nobody makes ServiceAccounts, so the ServiceAccount admission is then off.
    `audit` writes every request to `ControlPlane.audit_logs`. `etcd_is_durable` lets etcd sync to disk.
    `directory` keeps files and logs there; None uses a temporary folder that is removed at the end.
    """

    api_servers: tuple[ApiServerSettings, ...] = (ApiServerSettings(),)
    controller_manager: ControllerManagerSettings | None = ControllerManagerSettings()
    scheduler: SchedulerSettings | None = SchedulerSettings()
    audit: bool = False
    etcd_is_durable: bool = False
    directory: Path | None = None
    start_deadline_s: float = 180.0

    def __post_init__(self) -> None:
        if not self.api_servers:
            raise LabError("a control plane needs at least one API server")
