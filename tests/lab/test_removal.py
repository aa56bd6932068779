"""Uninstalled in the middle of a ramp: nothing of a user's is different afterwards. Upgraded: another leader holds.

One removal by the chart's hook; `python -m benchmarks.removal` does twenty, every documented way.
"""

import asyncio
import random
from pathlib import Path

import pytest

from benchmarks.removal.judge import differences
from benchmarks.removal.scene import THROTTLES, Scene, open_hosts, open_scene
from benchmarks.removal.trial import run_trial
from benchmarks.removal.ways import LEVERS, ROLLED_OUT, Way
from lab.controlplane import ControlPlaneSettings, start_control_plane
from lab.manifests import CHART
from lab.rights import grants_of, replay
from tests.contract.rendered import helm

HOOK = "kube-balloons:kube-balloons-give-back"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-balloons/leases/kube-balloons-throttle"
UPGRADE = (
    f"helm upgrade kube-balloons {CHART} --namespace kube-balloons --reset-then-reuse-values"
    " --set run.podAnnotations.turn=second"
)
pytestmark = [pytest.mark.lab, pytest.mark.helm]


async def test_uninstalled_in_mid_ramp_everything_is_as_before(tmp_path: Path) -> None:
    # A plane of its own: Karpenter leaves NodeClaims behind.
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        open_hosts(plane) as hosts,
        open_scene(plane, tmp_path) as scene,
    ):
        trial = await run_trial(scene, hosts, Way.HELM, random.Random(0), has_quota=True)
        events = list(plane.audit_events())
    print(trial)
    assert trial.ceilings
    assert trial.gates
    assert trial.kept
    assert trial.objects > 1
    assert trial.wrong == ()
    objects = helm({"levers": dict.fromkeys(LEVERS, True), "annotateNodes": True}, has_hooks=True)
    rights = replay(events, grants_of(HOOK, objects))
    assert (rights.refused, rights.foreign) == ((), ())
    assert {"patch deployments/scale/kube-balloons.apps in kube-balloons", "patch nodes"} <= set(map(str, rights.used))


async def test_upgraded_in_mid_ramp_another_leader_holds_and_gives_back(tmp_path: Path) -> None:
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        open_hosts(plane),
        open_scene(plane, tmp_path) as scene,
    ):
        before = await scene.traces()
        await scene.shell.install(Way.HELM)
        try:
            await scene.begin_ramp()
            first = await leader(scene)
            await scene.shell.run(f"{UPGRADE}\n{ROLLED_OUT}")

            async def paces_again() -> bool:
                throttle = await scene.api.get(f"{THROTTLES}/default") or {}
                reasons = {lever["because"] for lever in throttle.get("status", {}).get("levers", ())}
                return await leader(scene) not in ("", first) and "Holding" in reasons

            await scene.until("another leader holds nodes back", paces_again)
            await scene.end_ramp()
            await scene.shell.remove(Way.HELM)
            await asyncio.sleep(1.0)
            assert [*differences(before, await scene.traces()), *(await scene.marks()).words()] == []
        except BaseException as error:
            error.add_note(await scene.state())
            raise
        finally:
            await scene.clear()


async def leader(scene: Scene) -> str:
    """Who holds the Lease; empty for nobody."""
    return str(((await scene.api.get(LEASE)) or {}).get("spec", {}).get("holderIdentity") or "")
