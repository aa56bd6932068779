"""`balloons run` as its own process, with the rights of its own ServiceAccount."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.processes import log_tail

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
FLOW_CONTROL = MANIFESTS / "components" / "flow-control" / "flow-control.yaml"
ACCOUNT_NAMESPACE, ACCOUNT = "kube-balloons", "kube-balloons"
STOP_DEADLINE_S = 15.0


async def install(plane: ControlPlane) -> None:
    """What a user applies once: the CRDs, the PriorityClass, the rights, and our place in the API servers' queues.

    Without that place a rush on a small server costs the service its lead: renewals of the Lease wait with the herd.
    """
    await plane.kubectl_async("apply", "-k", str(MANIFESTS / "base"))
    await plane.kubectl_async("apply", "-f", str(FLOW_CONTROL))
    await plane.kubectl_async("wait", "--for=condition=Established", "crd/balloonpools.kube-balloons.github.io")


def service_log(plane: ControlPlane) -> Path:
    """What the service of this plane logs; there is no file before it runs."""
    return plane.directory / "logs" / "balloons.log"


@contextlib.asynccontextmanager
async def run_service(
    plane: ControlPlane, *options: str, kubeconfig: Path | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run the service until left; it is asked to stop by SIGTERM and must do so.

    Without a `kubeconfig` it goes straight to the API server, as its own ServiceAccount.
    """
    if kubeconfig is None:
        kubeconfig = await asyncio.to_thread(plane.service_account_kubeconfig, ACCOUNT_NAMESPACE, ACCOUNT)
    log = service_log(plane)
    command = [sys.executable, "-m", "balloons", "run", "--kubeconfig", str(kubeconfig), *options]
    process = plane.processes.spawn([*command, "--metrics-address", "127.0.0.1:0"], log=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"balloons run did not stop on SIGTERM; its log ends:\n{log_tail(log)}") from error
