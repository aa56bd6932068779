"""`balloons run` and `balloons guard` as processes of their own, each with the rights of its own ServiceAccount."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import yaml

from lab.controlplane import ControlPlane, binding
from lab.errors import LabError
from lab.processes import log_tail

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
FLOW_CONTROL = MANIFESTS / "components" / "flow-control" / "flow-control.yaml"
GUARD = MANIFESTS / "components" / "guard"
ACCOUNT_NAMESPACE, ACCOUNT = "kube-balloons", "kube-balloons"
GUARD_ACCOUNT = "kube-balloons-guard"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
STOP_DEADLINE_S = 60.0
"""The service promises 25 s; where other work loads the machine it gets less of it."""


async def install(plane: ControlPlane) -> None:
    """What a user applies once: the CRDs, the PriorityClass, the rights, and our place in the API servers' queues.

    Without that place a rush on a small server costs the service its lead: renewals of the Lease wait with the herd.
    """
    await install_base(plane)
    await plane.apply_async(*manifests_in(FLOW_CONTROL))


async def install_base(plane: ControlPlane) -> None:
    """What `kubectl apply -k manifests/base` applies; returns when our kinds can be asked for."""
    await plane.install(*manifests_in(*_files_of(MANIFESTS / "base")))


def bind_to_service(cluster_role: str, namespace: str = "") -> dict[str, Any]:
    """A binding of this name that gives a ClusterRole to the service, in one namespace or in the whole cluster."""
    account = {"kind": "ServiceAccount", "namespace": ACCOUNT_NAMESPACE, "name": ACCOUNT}
    return binding(cluster_role, cluster_role, account, namespace=namespace)


def manifests_in(*files: Path) -> Iterator[dict[str, Any]]:
    """The objects in YAML files."""
    for file in files:
        yield from filter(None, yaml.load_all(file.read_text(encoding="utf-8"), Loader=_LOADER))


def _files_of(directory: Path) -> Iterator[Path]:
    """What a kustomization lists that changes nothing; raises LabError for one that does."""
    (kustomization,) = manifests_in(directory / "kustomization.yaml")
    if more := kustomization.keys() - {"apiVersion", "kind", "resources"}:
        raise LabError(f"{directory} is no plain list of files any more, it has {', '.join(sorted(more))}")
    for name in kustomization["resources"]:
        path = directory / name
        yield from _files_of(path) if path.is_dir() else (path,)


def service_log(plane: ControlPlane, command: str = "run") -> Path:
    """What the service of this plane logs, or its guard; there is no file before it runs."""
    return plane.directory / "logs" / ("balloons.log" if command == "run" else f"balloons-{command}.log")


@contextlib.asynccontextmanager
async def run_service(
    plane: ControlPlane, *options: str, kubeconfig: Path | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run the service until left; it is asked to stop by SIGTERM and must do so.

    Without a `kubeconfig` it goes straight to the API server, as its own ServiceAccount.
    """
    if kubeconfig is None:
        kubeconfig = await asyncio.to_thread(plane.service_account_kubeconfig, ACCOUNT_NAMESPACE, ACCOUNT)
    async with _run(plane, "run", "--kubeconfig", str(kubeconfig), *options) as process:
        yield process


@contextlib.asynccontextmanager
async def run_guard(plane: ControlPlane) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Install the guard's account and rights, and run it beside the service until left."""
    await plane.apply_async(*manifests_in(GUARD / "serviceaccount.yaml", GUARD / "rbac.yaml"))
    kubeconfig = await asyncio.to_thread(plane.service_account_kubeconfig, ACCOUNT_NAMESPACE, GUARD_ACCOUNT)
    async with _run(plane, "guard", "--kubeconfig", str(kubeconfig)) as process:
        yield process


@contextlib.asynccontextmanager
async def _run(plane: ControlPlane, command: str, *options: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    log = service_log(plane, command)
    words = [sys.executable, "-m", "balloons", command, *options, "--metrics-address", "127.0.0.1:0"]
    # What a user has exported for commands on a cluster of theirs is not meant for this one.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("BALLOONS_", "KUBE"))}
    process = plane.processes.spawn(words, log=log, env=own)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"balloons {command} did not stop on SIGTERM; its log ends:\n{log_tail(log)}") from error
