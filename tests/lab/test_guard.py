"""The guard as a process of its own, as its own ServiceAccount, beside a service that lives or has died."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.binaries import find_karpenter_crds
from lab.cloud.machines import PaperMachines, PaperNode
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.demo.service import install_base, manifests_in
from tests.lab.lever_view import View, eventually, gated_deployment, view
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.lease import LEASE_NAME, Elector, ElectorSettings, open_lease_client
from throttler.levers.lever_and_reasons import FIELD_MANAGER, HOLDER_ANNOTATION, THROTTLE_LABEL
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, SavedLimits
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.guard import AGAIN_PERIODS

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS, QUOTA_CRD = ROOT / "manifests", ROOT / "lab" / "cloud" / "nodegroups" / "capacityquotas.yaml"
SYSTEM = "kube-balloons"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:kube-balloons-guard"
TAINT, LABEL = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons", "example.com/daemons"
AFTER_S, PERIOD_S = 8.0, 0.5
"""Longer than a living service on a loaded machine may be late with its Lease."""
READS_ALIVE = round(2 * AFTER_S / PERIOD_S)
"""For twice as long as it waits, at the least: the guard reads at most once in a period."""
GUARD_END_S = 120.0
EVERYTHING = {"taint", "label", "gate", "ceiling", "quota"}
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Scene:
    """Nodes, pods and a NodePool as a service leaves them that was killed in the middle of a ramp."""

    def __init__(self, plane: ControlPlane, seen: View, logs: Path) -> None:
        self.plane, self.seen, self._logs = plane, seen, logs
        self.guards = 0

    def guard(self, *options: str) -> Any:
        """Start the guard."""
        kubeconfig = self.plane.service_account_kubeconfig(SYSTEM, "kube-balloons-guard")
        command = [sys.executable, "-m", "balloons", "guard", "--kubeconfig", str(kubeconfig)]
        command += ["--after", str(AFTER_S), "--period", str(PERIOD_S), *options]
        self.guards += 1
        return self.plane.processes.spawn(command, log=self.log)

    @property
    def log(self) -> Path:
        return self._logs / f"guard-{self.guards}.log"

    async def metrics(self) -> dict[str, float]:
        """What the guard shows, by name without its front; of reads, the good ones. Empty while it does not serve."""
        if '"serving"' not in self.log.read_text():
            return {}
        page = (await self._pages("/metrics"))[0]
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return {
            sample.name.removeprefix("kube_balloons_guard_"): sample.value
            for sample in samples
            if sample.labels.get("outcome", "read") == "read"
        }

    async def _pages(self, *paths: str) -> list[str]:
        """Raises ClientResponseError where it is not well."""
        (line,) = [line for line in self.log.read_text().splitlines() if '"serving"' in line]
        address = json.loads(line)["address"]
        async with aiohttp.ClientSession(f"http://{address}", raise_for_status=True) as session:
            return [await (await session.get(path)).text() for path in paths]

    async def until_read(self, more: int) -> None:
        """Wait until the guard has read the Lease so many times more; it is alive and ready."""
        before = (await self.metrics()).get("lease_reads_total", 0.0)

        async def has_read() -> bool:
            return (await self.metrics()).get("lease_reads_total", 0.0) >= before + more

        await eventually(has_read)
        await self._pages("/healthz", "/readyz")

    async def has_given_back(self, objects: int) -> bool:
        """Whether the guard says so, and that nothing is left; it counts a round when it is over."""
        metrics = await self.metrics()
        return (metrics["left_objects"], metrics["given_back_objects_total"]) == (0, objects)

    async def leave_behind(self, name: str) -> None:
        """One of everything."""
        taints = [{"key": "team", "effect": "NoSchedule"}, _taint()]
        await self.plane.patch_async(
            "node", "held", {"metadata": {"labels": {LABEL: None}}, "spec": {"taints": taints}}
        )
        await self.seen.apply(gated_deployment("default", name, 2, [PACED_GATE, "example.com/theirs"]))
        await self.plane.apply_async(_pool({"cpu": "100", "memory": "1Ti"}))
        mark = SavedLimits(original={"cpu": "100"}, ceiling={"cpu": "8"}, owners={"cpu": (("kubectl", "Apply"),)})
        ceiling = _pool({"cpu": "8"})
        ceiling["metadata"] |= {"labels": {THROTTLE_LABEL: "default"}, "annotations": _annotations(mark)}
        ceiling["spec"] = {"limits": {"cpu": "8"}}
        quotas = (_quota("made", f"{SYSTEM}/{LEASE_NAME}"), _quota("elsewhere", "other/lease"))
        await self.plane.apply_async(ceiling, *quotas, manager=FIELD_MANAGER)

    async def held(self) -> set[str]:
        """What still holds something back."""
        node = (await self.seen.get("node", "held"))["spec"].get("taints", [])
        pods = (await self.seen.get("pods"))["items"]
        pool = await self.seen.get("nodepool", "user")
        quotas = {each["metadata"]["name"] for each in (await self.seen.get("capacityquotas"))["items"]}
        found = {
            "taint": any(each["key"] == TAINT for each in node),
            "label": LABEL not in (await self.seen.get("node", "held"))["metadata"]["labels"],
            "gate": any(_is_gated(pod) for pod in pods) or not pods,
            "ceiling": pool["spec"]["limits"] != {"cpu": "100", "memory": "1Ti"} or _is_marked(pool),
            "quota": "made" in quotas,
        }
        return {name for name, is_held in found.items() if is_held}

    async def is_free(self) -> bool:
        return not await self.held()

    def writes(self) -> list[dict[str, Any]]:
        """What the guard wrote, from the audit log."""
        events = self.plane.audit_events(ACCOUNT)
        return [each for each in events if each["user"]["username"] == ACCOUNT and each["verb"] in WRITES]

    @asynccontextmanager
    async def living_service(self) -> AsyncIterator[Elector]:
        """Somebody who renews as the service does, as the service's ServiceAccount."""
        kubeconfig = self.plane.service_account_kubeconfig(SYSTEM, "kube-balloons")
        connection = await load_connection(ConnectionOptions(kubeconfig=str(kubeconfig)))
        settings = ElectorSettings(namespace=SYSTEM, identity="test", is_alone=True)
        async with open_lease_client(connection) as client:
            elector = Elector(client, settings)
            running = asyncio.create_task(elector.run(lambda: True, lambda: None))
            try:
                yield elector
            finally:
                running.cancel()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A plane of its own: the guard looks after the whole cluster."""
    async with start_control_plane(ControlPlaneSettings(audit=True)) as plane:
        await install_base(plane)
        guard = [MANIFESTS / "components" / "guard" / f"{name}.yaml" for name in ("serviceaccount", "rbac")]
        crds = (*find_karpenter_crds().glob("*.yaml"), QUOTA_CRD)
        await plane.install(*manifests_in(*guard, *MANIFESTS.glob("levers/*/guard.yaml"), *crds))
        async with view(plane) as seen, PaperMachines(plane.access()) as machines:
            allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
            await machines.add([PaperNode(name="held", labels={"test": "default"}, allocatable=allocatable)])
            await seen.apply(_throttle())
            yield Scene(plane, seen, tmp_path)


async def test_everything_is_given_back_after_the_service_has_died(scene: Scene) -> None:
    async with scene.living_service():
        await eventually(lambda: _has_lease(scene))
        await scene.leave_behind("before")
        assert await scene.held() == EVERYTHING
        guard = scene.guard("--metrics-address", "127.0.0.1:0", "--log-format", "json")
        await scene.until_read(READS_ALIVE)
        assert scene.writes() == []
        assert await scene.held() == EVERYTHING
        assert await scene.has_given_back(0)
    await eventually(scene.is_free)
    await _nothing_else_changed(scene)
    # A taint, a label, two gates, a ceiling, a quota.
    await eventually(lambda: scene.has_given_back(6))
    # The guard goes on: nodes go on registering, and pods go on being made, after the service has died.
    await scene.seen.apply(gated_deployment("default", "after", 1, [PACED_GATE, "example.com/theirs"]))
    await asyncio.sleep(AGAIN_PERIODS * PERIOD_S)
    await eventually(scene.is_free)
    # And what a service holds that comes back is left to it.
    async with scene.living_service() as elector:
        await eventually(lambda: _leads(elector))
        await scene.until_read(2)
        done = len(scene.writes())
        await scene.leave_behind("again")
        await scene.until_read(READS_ALIVE)
        assert len(scene.writes()) == done
    guard.terminate()
    assert await asyncio.to_thread(guard.wait, GUARD_END_S) == 0


async def test_once_says_by_its_exit_code_how_it_ended(scene: Scene) -> None:
    async with scene.living_service():
        await eventually(lambda: _has_lease(scene))
        await scene.leave_behind("before")
        guard = scene.guard("--once")
        assert await asyncio.to_thread(guard.wait, GUARD_END_S) == 0
        assert scene.writes() == []
    dry = scene.guard("--once", "--dry-run")
    assert await asyncio.to_thread(dry.wait, GUARD_END_S) == 0
    assert "would give back" in scene.log.read_text()
    assert scene.writes() == []
    guard = scene.guard("--once")
    assert await asyncio.to_thread(guard.wait, GUARD_END_S) == 0, scene.log.read_text()
    assert await scene.is_free()
    await scene.plane.delete_async("clusterrolebinding", "kube-balloons-guard")
    await scene.leave_behind("again")
    guard = scene.guard("--once")
    assert await asyncio.to_thread(guard.wait, GUARD_END_S) == 1
    await scene.plane.delete_async("rolebinding", "kube-balloons-guard", namespace=SYSTEM)
    guard = scene.guard("--once")
    assert await asyncio.to_thread(guard.wait, GUARD_END_S) == 1
    assert "could not be watched" in scene.log.read_text()


async def _nothing_else_changed(scene: Scene) -> None:
    taints = (await scene.seen.get("node", "held"))["spec"]["taints"]
    assert [each["key"] for each in taints] == ["team"]
    for pod in (await scene.seen.get("pods"))["items"]:
        assert pod["spec"]["schedulingGates"] == [{"name": "example.com/theirs"}]
    pool = await scene.seen.get("nodepool", "user")
    owners = {each["manager"]: each for each in pool["metadata"]["managedFields"]}
    assert owners.keys() == {"kubectl"}, owners
    assert [each["metadata"]["name"] for each in (await scene.seen.get("capacityquotas"))["items"]] == ["elsewhere"]


async def _has_lease(scene: Scene) -> bool:
    return bool((await scene.seen.get("leases", namespace=SYSTEM))["items"])


async def _leads(elector: Elector) -> bool:
    return elector.may_write()


def _taint() -> dict[str, str]:
    return {"key": TAINT, "effect": "NoSchedule"}


def _is_gated(pod: dict[str, Any]) -> bool:
    return any(each["name"] == PACED_GATE for each in pod["spec"].get("schedulingGates", []))


def _is_marked(pool: dict[str, Any]) -> bool:
    metadata = pool["metadata"]
    return THROTTLE_LABEL in metadata.get("labels", {}) or ORIGINAL_ANNOTATION in metadata.get("annotations", {})


def _annotations(mark: SavedLimits, lease: str = f"{SYSTEM}/{LEASE_NAME}") -> dict[str, str]:
    return {ORIGINAL_ANNOTATION: msgspec.json.encode(mark).decode(), HOLDER_ANNOTATION: lease}


def _quota(name: str, lease: str) -> dict[str, Any]:
    annotations = _annotations(SavedLimits(original={"nodes": None}, ceiling={"nodes": 3}, is_made=True), lease)
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "CapacityQuota",
        "metadata": {"name": name, "labels": {THROTTLE_LABEL: "default"}, "annotations": annotations},
        "spec": {"limits": {"resources": {"nodes": 3}}},
    }


def _throttle() -> dict[str, Any]:
    levers = {"startupTaint": {"key": TAINT}, "daemonSetLabel": {"key": LABEL}}
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "JoinThrottle",
        "metadata": {"name": "default"},
        "spec": {"nodes": {"matchLabels": {"test": "default"}}, "maxWait": "3m", "levers": levers},
    }


def _pool(limits: dict[str, str]) -> dict[str, Any]:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "user"},
        "spec": {"limits": limits, "template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }
