"""Uninstalled in the middle of a ramp: nothing of a user's is different afterwards. Upgraded: the ceiling never goes.

One removal by the chart's hook; `python -m benchmarks.removal` does twenty, every documented way.
"""

import asyncio
import math
import random
from pathlib import Path

import pytest

from benchmarks.removal.judge import differences
from benchmarks.removal.scene import POOLS, THROTTLES, Ramp, Scene, open_hosts, open_scene
from benchmarks.removal.trial import run_trial
from benchmarks.removal.ways import LEVERS, ROLLED_OUT, Way
from lab.controlplane import ControlPlaneSettings, start_control_plane
from lab.manifests import CHART
from lab.rights import grants_of, replay
from tests.contract.rendered import helm
from throttler.kube.quantities_and_durations import exact_value
from throttler.levers.lever_and_reasons import THROTTLE_LABEL

HOOK = "kube-balloons:kube-balloons-give-back"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-balloons/leases/kube-balloons-throttle"
USERS_CORES = 2000
"""The limit of the user's NodePool, which no ramp of this scene may come near."""
RAMP = Ramp(pods=12, boot_s=20.0, register_every_s=2.0)
"""It lasts longer than the benchmark's, 160 s at three machines at a time, with half of the machines."""
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
        open_scene(plane, tmp_path, RAMP) as scene,
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


async def test_upgraded_in_mid_ramp_the_ceiling_is_handed_over_and_given_back_in_the_end(tmp_path: Path) -> None:
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        open_hosts(plane),
        open_scene(plane, tmp_path, RAMP) as scene,
    ):
        before = await scene.traces()
        await scene.shell.install(Way.HELM)
        try:
            await scene.begin_ramp()
            first = await leader(scene)
            # A leader that finds no throttle, as at its first start, looks whether one left something behind.
            swept = gave_back(scene)
            limits, watching = watch_ceilings(scene)
            await scene.shell.run(f"{UPGRADE}\n{ROLLED_OUT}")

            async def another_leads() -> bool:
                return await leader(scene) not in ("", first)

            async def paces_again() -> bool:
                # Whoever stops writes no status once another leads.
                throttle = await scene.api.get(f"{THROTTLES}/default") or {}
                reasons = {lever["because"] for lever in throttle.get("status", {}).get("levers", ())}
                return throttle["metadata"]["resourceVersion"] != taken_over and "Holding" in reasons

            async def is_told() -> bool:
                # It sees the Lease of another, and then says so.
                return "handed over" in logged(scene)

            await scene.until("another replica leads", another_leads)
            taken_over = ((await scene.api.get(f"{THROTTLES}/default")) or {})["metadata"]["resourceVersion"]
            await scene.until("it holds nodes back", paces_again)
            await scene.until("the leader that stopped says that it handed over", is_told)
            watching.cancel()
            assert limits
            assert [each for each in limits if not each < USERS_CORES] == [], "an autoscaler may look at any moment"
            assert gave_back(scene) == swept
            await scene.end_ramp()
            await scene.shell.remove(Way.HELM)
            await asyncio.sleep(1.0)
            assert [*differences(before, await scene.traces()), *(await scene.marks()).words()] == []
        except BaseException as error:
            error.add_note(await scene.state())
            raise
        finally:
            await scene.clear()


def watch_ceilings(scene: Scene) -> tuple[list[float], asyncio.Task[None]]:
    """The cores that the user's NodePool may have, in every version of it from now on; infinite without our mark."""
    limits: list[float] = []

    async def follow() -> None:
        async for _, pool in scene.api.follow(POOLS):
            is_ours = pool is not None and THROTTLE_LABEL in pool["metadata"].get("labels", {})
            cores = pool["spec"].get("limits", {}).get("cpu") if pool is not None and is_ours else None
            limits.append(math.inf if cores is None else exact_value(str(cores)))

    return limits, asyncio.create_task(follow(), name="ceilings")


def gave_back(scene: Scene) -> int:
    """How many requests were made to give back what is held, by whomever."""
    return sum("give-back" in event.get("userAgent", "") for event in scene.plane.audit_events("give-back"))


def logged(scene: Scene) -> str:
    """What every replica has logged."""
    logs = (scene.plane.directory / "logs").glob("pod-kube-balloons-*.log")
    return "\n".join(path.read_text() for path in logs)


async def leader(scene: Scene) -> str:
    """Who holds the Lease; empty for nobody."""
    return str(((await scene.api.get(LEASE)) or {}).get("spec", {}).get("holderIdentity") or "")
