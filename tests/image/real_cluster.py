"""A cluster whose hosts are real nodes: what the test of our own image asks of it, and a Prometheus that scrapes it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.removal.scene import Scene, open_scene
from benchmarks.removal.ways import Shell
from lab.binaries import find_binaries
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.machines import PaperMachines
from lab.cloud.machines.real import RealNodes
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.errors import LabError
from lab.image.command import ROOT
from tests.lab.cluster_view import until
from tests.lab.doc_commands import idle_nodes

HOSTS = ("real-a", "real-b")
PODS = "/api/v1/namespaces/kube-balloons/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-balloons/leases/kube-balloons-throttle"
POOL = "/apis/kube-balloons.github.io/v1alpha1/namespaces/kube-balloons/balloonpools/gpu"
RULES = ROOT / "manifests" / "components" / "monitoring" / "prometheusrule.yaml"
PROMETHEUS = "http://127.0.0.1:9090"
SCRAPE_EVERY_S = 2


@dataclass(frozen=True)
class Cluster:
    """Two real nodes for our own pods, two nodes on paper that are to be kept warm, and a Karpenter for the ramp."""

    scene: Scene
    nodes: RealNodes
    folder: Path

    @property
    def plane(self) -> ControlPlane:
        return self.scene.plane

    @property
    def api(self) -> JsonApi:
        return self.scene.api

    @property
    def shell(self) -> Shell:
        return self.scene.shell

    async def replicas(self) -> list[Json]:
        """The service's pods that are not on their way out."""
        found = await self.api.items(f"{PODS}?labelSelector=app.kubernetes.io%2Fname%3Dkube-balloons")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    async def images(self) -> set[str]:
        """Of the service's containers."""
        return {each["spec"]["containers"][0]["image"] for each in await self.replicas()}

    async def leader(self) -> str:
        """The name of the pod that holds the Lease, empty if none does."""
        holder = str(((await self.api.get(LEASE)) or {}).get("spec", {}).get("holderIdentity") or "")
        names = [each["metadata"]["name"] for each in await self.api.items(PODS)]
        return next((name for name in names if name in holder), "")

    async def until_rolled_out(self) -> None:
        for name in ("kube-balloons", "kube-balloons-guard"):
            await self.shell.run(f"kubectl -n kube-balloons rollout status deployment/{name} --timeout=150s")

    async def until_warm(self, count: int) -> None:
        async def is_warm() -> bool:
            return bool(((await self.api.get(POOL)) or {}).get("status", {}).get("warm") == count)

        await until(f"{count} nodes are warm", is_warm)

    async def until_scraped(self, expression: str, value: float) -> None:
        """A real Prometheus, which scrapes every replica over the pods' network, answers so."""

        async def is_so() -> bool:
            return await self.ask_prometheus(expression) == [value]

        await until(f"Prometheus says that {expression} is {value}", is_so)

    async def ask_prometheus(self, expression: str) -> list[float]:
        """The values of an instant query; empty while it does not answer."""
        promtool = str(find_binaries(["promtool"])["promtool"])
        with contextlib.suppress(LabError):
            told = await self.nodes.ask(HOSTS[0], promtool, "query", "instant", "--format=json", PROMETHEUS, expression)
            return [float(each["value"][1]) for each in json.loads(told)]
        return []

    async def state(self) -> str:
        """What a person would look at, for the message of a test that failed."""
        shown = await self.shell.run(
            "kubectl get nodes; kubectl -n kube-balloons get pods,events; kubectl -n kube-balloons describe pods"
        )
        return f"{shown}\n{self.nodes.logs()}"

    async def scrape(self) -> None:
        """Let a Prometheus with our rules run in the first node's network, and follow the pods, until cancelled."""
        groups = yaml.safe_load(RULES.read_text())["spec"]
        (self.folder / "rules.yaml").write_text(yaml.safe_dump(groups))
        targets = self.folder / "targets.json"
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(_prometheus_config(targets)))
        program = str(find_binaries(["prometheus"])["prometheus"])
        files = (f"--config.file={self.folder}/prometheus.yaml", f"--storage.tsdb.path={self.folder}/metrics")
        self.nodes.spawn(HOSTS[0], "prometheus", program, *files, f"--web.listen-address={PROMETHEUS[7:]}")
        while True:
            part = targets.with_suffix(".part")
            part.write_text(json.dumps([_target(pod) for pod in await self.replicas() if "podIP" in pod["status"]]))
            part.rename(targets)
            await asyncio.sleep(1.0)


def _prometheus_config(targets: Path) -> Json:
    job = {"job_name": "kube-balloons", "honor_labels": True, "file_sd_configs": [{"files": [str(targets)]}]}
    every = {"scrape_interval": f"{SCRAPE_EVERY_S}s", "evaluation_interval": f"{SCRAPE_EVERY_S}s"}
    return {"global": every, "rule_files": [str(targets.with_name("rules.yaml"))], "scrape_configs": [job]}


def _target(pod: Json) -> Json:
    """What the ServiceMonitor makes of a pod."""
    labels = {"pod": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    return {"targets": [f"{pod['status']['podIP']}:8080"], "labels": labels}


@asynccontextmanager
async def real_cluster(folder: Path, *archives: Path) -> AsyncIterator[Cluster]:
    """It says what kubelets, containerd and containers said when a test in it fails."""
    (folder / "manifests").symlink_to(ROOT / "manifests")
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        PaperMachines(plane.access()) as paper,
        RealNodes(plane, *archives) as nodes,
        open_scene(plane, folder) as scene,
    ):
        for name in HOSTS:
            await nodes.start(name)
        await paper.add(idle_nodes())
        cluster = Cluster(scene, nodes, folder)
        following = asyncio.create_task(cluster.scrape(), name="Prometheus follows the pods")
        try:
            yield cluster
        except BaseException:
            print(await cluster.state())
            raise
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
