"""`balloons status` on clusters with throttles, without their CRD, and for users who may not see them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from tests.contract.waiting import serve

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
POOL = {
    "apiVersion": "kube-balloons.github.io/v1alpha1",
    "kind": "BalloonPool",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"mode": "Hold", "nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}},
}
THROTTLE = {"apiVersion": POOL["apiVersion"], "kind": "JoinThrottle", "metadata": {"name": "paced"}}


async def apply(plane: ControlPlane, *objects: object) -> None:
    for each in objects:
        await plane.kubectl_async("apply", "--filename=-", input=json.dumps(each))


async def status(kubeconfig: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "balloons", "status", "-n", "default", "--kubeconfig", str(kubeconfig), *options]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=180, check=False)


async def test_throttles_are_shown_where_they_are_served_and_may_be_seen() -> None:
    async with start_control_plane(ControlPlaneSettings(controller_manager=None, scheduler=None)) as plane:
        await asyncio.to_thread(serve, plane, CRDS / "balloonpools.yaml")
        await apply(plane, POOL)
        without = await status(plane.kubeconfig())
        assert (without.returncode, without.stderr) == (0, "")
        assert [line.split()[0] for line in without.stdout.splitlines()] == ["NAME", "gpu"]

        await asyncio.to_thread(serve, plane, CRDS / "jointhrottles.yaml")
        await apply(plane, THROTTLE)
        both = await status(plane.kubeconfig())
        assert (both.returncode, both.stderr) == (0, "")
        assert [line.split()[:1] for line in both.stdout.splitlines()] == [["NAME"], ["paced"], [], ["NAME"], ["gpu"]]
        named = await status(plane.kubeconfig(), "-o", "name")
        assert named.stdout.splitlines() == [
            "jointhrottle.kube-balloons.github.io/paced",
            "balloonpool.kube-balloons.github.io/gpu",
        ]
        machine = json.loads((await status(plane.kubeconfig(), "-o", "json")).stdout)
        assert [len(machine[key]) for key in ("pools", "throttles")] == [1, 1]

        viewer = ("create", "role", "viewer", "--verb=list", "--resource=balloonpools.kube-balloons.github.io")
        await plane.kubectl_async(*viewer)
        await plane.kubectl_async("create", "rolebinding", "viewer", "--role=viewer", "--user=jane")
        hers = await status(plane.kubeconfig_for("jane"))
        assert [line.split()[0] for line in hers.stdout.splitlines()] == ["NAME", "gpu"]
        assert "throttles are not shown: " in hers.stderr
        assert hers.returncode == 0
