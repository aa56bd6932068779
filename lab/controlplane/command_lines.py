"""The flags of each component: functions of the settings and of where its files and ports are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.controlplane.credentials import KeyPair
from lab.controlplane.settings import (
    ApiServerSettings,
    ControllerManagerSettings,
    SchedulerSettings,
)

SERVICE_RANGE = "10.0.0.0/24"


@dataclass(frozen=True, kw_only=True)
class PlaneFiles:
    """The files that the components share."""

    ca: KeyPair
    serving: KeyPair
    service_account_key: Path


def etcd_flags(data: Path, client_url: str, *, is_durable: bool) -> list[str]:
    """etcd with one member; its peer port is never used and therefore any."""
    flags = [
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]
    return flags if is_durable else [*flags, "--unsafe-no-fsync"]


def api_server_flags(
    settings: ApiServerSettings, files: PlaneFiles, port: int, etcd_url: str, *, has_controllers: bool
) -> list[str]:
    """An API server as kubeadm would configure it, on loopback."""
    flags = [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        # Else it looks for the default route, and ends where there is none (a laptop without a network, a sandbox).
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
        f"--client-ca-file={files.ca.certificate}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth=true",
        # Loopback addresses are refused in Endpoints, so there is nothing to reconcile.
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--allow-privileged=true",
        f"--max-requests-inflight={settings.max_requests_inflight}",
        f"--max-mutating-requests-inflight={settings.max_mutating_requests_inflight}",
    ]
    if not has_controllers:
        flags.append("--disable-admission-plugins=ServiceAccount")
    return [*flags, *settings.extra_flags]


def audit_flags(policy: Path, log: Path) -> list[str]:
    """Write every request to one file that is never rotated."""
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=0"]


def controller_manager_flags(
    settings: ControllerManagerSettings, files: PlaneFiles, port: int, kubeconfig: Path
) -> list[str]:
    """The controller manager with all controllers that kubeadm runs."""
    return [
        *_client_flags(port, kubeconfig, files),
        # Without it the controllers lack their rights: DaemonSets stay empty and nobody says why.
        "--use-service-account-credentials=true",
        "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.ca.certificate}",
        f"--cluster-signing-cert-file={files.ca.certificate}",
        f"--cluster-signing-key-file={files.ca.key}",
        f"--kube-api-qps={settings.kube_api_qps}",
        f"--kube-api-burst={settings.kube_api_burst}",
        f"--node-monitor-grace-period={settings.node_monitor_grace_period_s}s",
        *settings.extra_flags,
    ]


def scheduler_flags(settings: SchedulerSettings, files: PlaneFiles, port: int, kubeconfig: Path) -> list[str]:
    """The scheduler with its default profile."""
    return [
        *_client_flags(port, kubeconfig, files),
        f"--kube-api-qps={settings.kube_api_qps}",
        f"--kube-api-burst={settings.kube_api_burst}",
        *settings.extra_flags,
    ]


def _client_flags(port: int, kubeconfig: Path, files: PlaneFiles) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
        # Measurements read /metrics without a credential of their own; it is loopback only.
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]
