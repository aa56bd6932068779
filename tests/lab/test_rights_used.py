"""The audit replay of rights: our accounts do all of their work with the shipped roles, and use every right of them."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.cloud.machines import PaperMachines
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from lab.demo.service import manifests_in
from lab.rights import Grant, grants_of, replay
from tests.lab.lever_view import PATIENCE_S, View, eventually, gated_deployment
from tests.lab.rights_scene import (
    HELD,
    LABEL,
    LEVERS,
    SYSTEM,
    TAINT,
    USERS_LIMITS,
    USERS_NODES,
    USERS_SIZE,
    VIEWER,
    installed,
    installed_with,
)
from tests.lab.service_scene import MANIFESTS
from throttler.api.throttle import Levers
from throttler.kube.cluster_autoscaler import MAX_SIZE
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service import all_levers

pytestmark = pytest.mark.lab

COMMANDS = (
    ("status", "-A"),
    ("doctor",),
    ("top",),
    ("explain", "node", "large-0"),
    ("explain", "pod", "waits", "-n", "default"),
    ("explain", "throttle", "first"),
    ("dump", "-"),
    ("plan", "--add", "10"),
    ("version", "--server"),
)
"""Every command that reads a cluster, but for `simulate`, which reads what `plan` does."""
RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
BURSTS = 5
GATED = 2


class Work:
    """The service, the guard and the commands, each as a process with its own ServiceAccount's token."""

    def __init__(self, plane: ControlPlane, seen: View, logs: Path) -> None:
        self.plane, self.seen, self._logs = plane, seen, logs
        self._gated, self._is_label_due = 0, False

    def run(self, account: str, *command: str) -> "subprocess.Popen[bytes]":
        """Start a command of ours."""
        kubeconfig = self.plane.service_account_kubeconfig(SYSTEM, account)
        own = [sys.executable, "-m", "balloons", *command, "--kubeconfig", str(kubeconfig)]
        return self.plane.processes.spawn(own, log=self._logs / f"{account}-{command[0]}.log")

    # --- pools ---

    async def pools_work(self, machines: PaperMachines) -> None:
        """Each strategy makes, changes and removes what is its own, and real work is given way to."""
        await eventually(partial(self._holds, HELD + 1))
        for _ in range(BURSTS):
            await self._burst()
            # The scheduler preempts as well: it may have taken all nodes before the service has looked.
            if self._wrote("delete", "pods"):
                break
        for size in (1, 0):
            await self.plane.patch_async("balloonpool", "gpu", {"spec": {"size": size}}, namespace=SYSTEM)
            await eventually(partial(self._holds, size))
        await machines.remove("small-gpu", "small-buffered")
        for what in ("deployments", "capacitybuffers", "podtemplates"):
            await eventually(partial(self._has_one, what))
        await eventually(partial(self._is_noted, "noted-0"))

    async def _burst(self) -> None:
        # Not where the balloons are: that namespace takes none but restricted pods.
        work = gated_deployment("gpu", "burst", HELD, [])
        work["metadata"]["namespace"] = "default"
        await self.seen.apply(work)
        await eventually(partial(self._holds, 1))
        await self.plane.delete_async("deployment", "burst")
        await eventually(partial(self._holds, HELD + 1))

    async def _holds(self, count: int) -> bool:
        balloons = {"namespace": SYSTEM, "labels": "kube-balloons.github.io/pool=gpu"}
        wanted = sum(each["spec"]["replicas"] for each in (await self.seen.get("deployments", **balloons))["items"])
        pods = (await self.seen.get("pods", **balloons))["items"]
        return (wanted, len(pods)) == (count, count)

    async def _has_one(self, what: str) -> bool:
        return len((await self.seen.get(what, namespace=SYSTEM))["items"]) == 1

    async def _is_noted(self, node: str) -> bool:
        annotations = (await self.seen.get("node", node))["metadata"].get("annotations", {})
        return "kube-balloons.github.io/held-by" in annotations

    def _wrote(self, verb: str, resource: str) -> bool:
        user = f"system:serviceaccount:{SYSTEM}:kube-balloons"
        return any(
            event["user"]["username"] == user and event["verb"] == verb and event["objectRef"]["resource"] == resource
            for event in self.plane.audit_events(user)
            if "objectRef" in event
        )

    # --- throttles ---

    async def throttles_work(self) -> None:
        """Each lever is moved; on a pause all is handed back, and then held again."""
        await eventually(self.is_in_force)
        await eventually(self.is_let_in)
        for is_paused in (True, False):
            await self.pause(is_paused=is_paused)
            await eventually(partial(self._has_made_a_quota, is_there=not is_paused))
        await eventually(self.is_in_force)

    async def pause(self, *, is_paused: bool) -> None:
        """Hand back what the first throttle holds, or hold it again."""
        await self.plane.patch_async("jointhrottle", "first", {"spec": {"paused": is_paused}})

    async def hold_back(self, name: str, levers: Collection[str] = LEVERS) -> None:
        """Put before the levers at the join what they deal with; `name` is `before` or `after` the service's death."""
        if "startupTaint" in levers:
            taint = {"key": TAINT, "effect": "NoSchedule"}
            await self.plane.patch_async("node", "joining", {"spec": {"taints": [taint]}})
        if "daemonSetLabel" in levers:
            await self.plane.patch_async("node", "joining", {"metadata": {"labels": {LABEL: None}}})
            self._is_label_due = True
        if "schedulingGates" in levers:
            await self.seen.apply(gated_deployment("default", name, GATED, [PACED_GATE]))
            self._gated += GATED

    async def is_let_in(self) -> bool:
        """Whether nothing waits at the join."""
        joining = await self.seen.get("node", "joining")
        is_labelled = LABEL in joining["metadata"]["labels"] or not self._is_label_due
        pods = (await self.seen.get("pods", labels="app in (before,after)"))["items"]
        is_gated = len(pods) < self._gated or any(pod["spec"].get("schedulingGates") for pod in pods)
        return is_labelled and not (joining["spec"].get("taints") or is_gated)

    async def is_in_force(self) -> bool:
        """Whether all ceilings stand: one that we made, and three on objects of the user's."""
        nodes, limits, size = await self._users_ceilings()
        is_lower = nodes != USERS_NODES and limits != USERS_LIMITS and size != USERS_SIZE
        return is_lower and await self._has_made_a_quota(is_there=True)

    async def is_given_back(self) -> bool:
        """Whether all is as if we had never been there."""
        is_theirs = await self._users_ceilings() == (USERS_NODES, USERS_LIMITS, USERS_SIZE)
        return is_theirs and await self.is_let_in() and await self._has_made_a_quota(is_there=False)

    async def holds_nothing_by_the_first(self) -> bool:
        """Whether the ceilings of the first throttle are as before; the second keeps its own."""
        _, *own = await self._users_ceilings()
        return own == [USERS_LIMITS, USERS_SIZE] and await self._has_made_a_quota(is_there=False)

    async def has_moved(self, lever: str) -> bool:
        """Whether this one lever has done its work."""
        nodes, limits, size = await self._users_ceilings()
        if lever == "capacityQuota":
            return nodes != USERS_NODES and await self._has_made_a_quota(is_there=True)
        if lever == "machineDeployments":
            return bool(size != USERS_SIZE)
        return limits != USERS_LIMITS if lever == "nodePoolLimits" else await self.is_let_in()

    async def _users_ceilings(self) -> tuple[int, dict[str, str], str]:
        quota, pool = await self.seen.get("capacityquota", "users"), await self.seen.get("nodepool", "users")
        machines = await self.seen.get("machinedeployment", "users")
        size = machines["metadata"]["annotations"][MAX_SIZE]
        return quota["spec"]["limits"]["resources"]["nodes"], pool["spec"]["limits"], size

    async def _has_made_a_quota(self, *, is_there: bool) -> bool:
        names = {each["metadata"]["name"] for each in (await self.seen.get("capacityquotas"))["items"]}
        return ("made" in names) == is_there

    # --- people ---

    async def look(self) -> None:
        """All reading commands, and those that follow changes until they are interrupted."""
        following = [self.run(VIEWER, "status", "-A", "--watch"), self.run(VIEWER, "top", "--watch")]
        for command in COMMANDS:
            looking = self.run(VIEWER, *command)
            assert await asyncio.to_thread(looking.wait, PATIENCE_S) in (0, 1, 3), command
        for watching in following:
            watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, PATIENCE_S) == 130


async def test_every_right_is_used_and_none_is_missing(tmp_path: Path) -> None:
    manager = ControllerManagerSettings(kube_api_qps=200, kube_api_burst=300)
    settings = ControlPlaneSettings(audit=True, controller_manager=manager)
    async with start_control_plane(settings) as plane, installed(plane) as (seen, machines):
        work = Work(plane, seen, tmp_path)
        await work.hold_back("before")
        service = work.run("kube-balloons", "run", "--metrics-address", "off", "--interval", "1")
        await asyncio.gather(work.pools_work(machines), work.throttles_work())
        await work.look()
        service.kill()
        await asyncio.to_thread(service.wait)
        await work.hold_back("after")
        guard = work.run("kube-balloons-guard", "guard", "--after", "5", "--period", "0.5")
        await eventually(work.is_given_back)
        guard.terminate()
        assert await asyncio.to_thread(guard.wait, PATIENCE_S) == 0
        grants = await _granted(plane)
        found = replay(plane.audit_events(), grants)
    assert found.refused == ()
    assert found.foreign == ()
    assert {str(grant) for grant in grants - found.used} == set()


@pytest.mark.parametrize("lever", LEVERS)
async def test_one_lever_alone_needs_its_own_rights_and_uses_all_of_them(lever: str, tmp_path: Path) -> None:
    async with start_control_plane(ControlPlaneSettings(audit=True)) as plane, installed_with(plane, lever) as seen:
        work = Work(plane, seen, tmp_path)
        await work.hold_back("before", (lever,))
        service = work.run("kube-balloons", "run", "--metrics-address", "off", "--interval", "1")
        await eventually(partial(work.has_moved, lever))
        # Handed back by the service, and held again: a quota of ours is deleted and made anew.
        await work.pause(is_paused=True)
        await eventually(work.holds_nothing_by_the_first)
        await work.pause(is_paused=False)
        await eventually(partial(work.has_moved, lever))
        service.kill()
        await asyncio.to_thread(service.wait)
        await work.hold_back("after", (lever,))
        guard = work.run("kube-balloons-guard", "guard", "--after", "5", "--period", "0.5")
        await eventually(work.is_given_back)
        guard.terminate()
        assert await asyncio.to_thread(guard.wait, PATIENCE_S) == 0
        grants, own = await _granted(plane), await _granted(plane, _bindings_of(LEVERS[lever].directory))
        found = replay(plane.audit_events(), grants)
    assert found.refused == ()
    assert found.foreign == ()
    assert own
    assert {str(grant) for grant in own - found.used} == set()


def test_every_lever_is_among_them() -> None:
    """A lever that a throttle may have, or that the manifests bind, is one whose rights are held against the log."""
    assert LEVERS.keys() == set(Levers.__struct_encode_fields__) - {"headroom"}
    assert {each.FIELD for each in all_levers.LEVERS} == set(Levers.__struct_fields__) - {"headroom"}
    assert {lever.directory for lever in LEVERS.values()} == {each.name for each in (MANIFESTS / "levers").iterdir()}


def _bindings_of(directory: str) -> set[str]:
    """The names of the bindings that a directory of manifests/levers brings."""
    files = (MANIFESTS / "levers" / directory).glob("*.yaml")
    return {thing["metadata"]["name"] for thing in manifests_in(*files) if thing["kind"].endswith("Binding")}


async def _all_of(plane: ControlPlane, kind: str) -> list[dict[str, Any]]:
    """Of all namespaces, each with its kind, which the items of a list leave out."""
    listed = await plane.get_async(f"rbac.authorization.k8s.io/v1/{kind}", namespace=None)
    return [{**thing, "kind": kind} for thing in listed["items"]]


async def _granted(plane: ControlPlane, bindings: Collection[str] | None = None) -> frozenset[Grant]:
    """Everything that the server has bound to our accounts, or what these bindings give."""
    found = [thing for kind in RBAC_KINDS for thing in await _all_of(plane, kind)]
    if bindings is not None:
        found = [each for each in found if "roleRef" not in each or each["metadata"]["name"] in bindings]
    accounts = (f"{SYSTEM}:{name}" for name in ("kube-balloons", "kube-balloons-guard", VIEWER))
    return frozenset(grant for account in accounts for grant in grants_of(account, found))
