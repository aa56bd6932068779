"""Uninstalled in the middle of a ramp: nothing of a user's is different afterwards.

One removal by the chart's hook; `python -m benchmarks.removal` does twenty, every documented way.
"""

import random
from pathlib import Path

import pytest

from benchmarks.removal.scene import open_hosts, open_scene
from benchmarks.removal.trial import run_trial
from benchmarks.removal.ways import LEVERS, Way
from lab.controlplane import ControlPlaneSettings, start_control_plane
from lab.rights import grants_of, replay
from tests.contract.rendered import helm

HOOK = "kube-balloons:kube-balloons-give-back"
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
