"""`plan --pods` and `--job` say where pods will go; then the very pods come, and scheduler and Karpenter decide."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane, start_control_plane
from tests.lab.cluster_view import DEPLOYMENTS, ClusterView, deployment, throughout, until

pytestmark = pytest.mark.lab

JOBS = "/apis/batch/v1/namespaces/default/jobs"
POOL_LABEL = "karpenter.sh/nodepool"
HOST = "kubernetes.io/hostname"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
ON_GPUS = {"nodeSelector": {"accelerator": "big"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
PARTS_OF_A_ROUND_S = 6.0
"""Karpenter waits a second for more pods, then decides: enough for it to have bought what it will buy."""


def settings() -> KarpenterSettings:
    """Machines of 8 cores in one pool, and with GPUs behind a taint in another; nothing is taken away again."""
    general = NodePoolSettings(name="general", consolidate_after_s=None, instance_types=("cpu-8",))
    gpu = NodePoolSettings(
        name="gpu",
        consolidate_after_s=None,
        instance_types=("gpu-8",),
        labels={"accelerator": "big"},
        taints=(GPU_TAINT,),
    )
    types = (paper_type("cpu-8", 8, 32), paper_type("gpu-8", 8, 32, gpus=8))
    return KarpenterSettings(node_pools=(general, gpu), instance_types=types, boot_time=BootTime(median_s=1, jitter=0))


def agent() -> Json:
    """Half a core of each machine, before any work."""
    containers = [{"name": "agent", "image": "registry.invalid/agent", "resources": {"requests": {"cpu": "500m"}}}]
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": containers},
    }
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}


def job(name: str, pods: int, requests: dict[str, str], **pod_spec: Any) -> Json:
    resources = {"requests": requests, "limits": {key: value for key, value in requests.items() if "/" in key}}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "work", "image": "registry.invalid/work", "resources": resources}],
        **pod_spec,
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    body = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def apart(app: str) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def evenly(app: str, **more: str) -> list[Json]:
    selector = {"matchLabels": {"app": app}}
    rule = {"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [rule | more]


@dataclass(frozen=True)
class Fate:
    """What becomes of pods: on nodes that were there, on new ones, and which new ones, by NodePool."""

    on_there: int
    on_new: int
    new_nodes: dict[str, int]


@dataclass(frozen=True)
class Cluster:
    """The plans' and the pods' one cluster."""

    plane: ControlPlane
    view: ClusterView
    folder: Path

    async def plan(self, how: str, document: Json) -> Json:
        """The plan for these pods, as JSON; promises that it cannot keep (exit code 3) are in it."""
        path = self.folder / f"{document['metadata']['name']}.json"
        path.write_text(json.dumps(document))
        kubeconfig = str(await asyncio.to_thread(self.plane.kubeconfig))
        command = [sys.executable, "-m", "balloons", "plan", how, str(path), "-o", "json", "--kubeconfig", kubeconfig]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stderr
        found: Json = json.loads(done.stdout)
        return found

    async def create(self, document: Json) -> None:
        await self.plane.apply_async(document)

    async def really(self, document: Json, count: int) -> Fate:
        """Create them, wait until all run, and see where; then they go again, and their nodes stay warm."""
        app, before = document["metadata"]["name"], set(await self.view.nodes())
        await self.create(document)
        await self.view.wait_running(app, count)
        hosts = (await self.view.node_of(app)).values()
        # A node that Karpenter bought in vain is new as well.
        new = {name: node for name, node in (await self.view.nodes()).items() if name not in before}
        pools = Counter(node["metadata"]["labels"][POOL_LABEL] for node in new.values())
        on_there = sum(host in before for host in hosts)
        path = {"Deployment": DEPLOYMENTS, "Job": JOBS}[document["kind"]] + f"/{app}"
        # In the foreground: it is gone once its pods are.
        await self.view.api.delete(f"{path}?propagationPolicy=Foreground")
        await until(f"{app} is gone", lambda: self._is_gone(path))
        await until("its nodes are warm", self._is_settled)
        return Fate(on_there, count - on_there, dict(pools))

    async def _is_gone(self, path: str) -> bool:
        return await self.view.api.get(path) is None

    async def _is_settled(self) -> bool:
        claims = (await self.view.claims()).values()
        return all(_is_initialized(claim) for claim in claims)


def _is_initialized(claim: Json) -> bool:
    found = claim.get("status", {}).get("conditions", ())
    return any(each["type"] == "Initialized" and each["status"] == "True" for each in found)


def foretold(plan: Json) -> Fate:
    pods = plan["pods"]
    return Fate(pods["onNodesThere"], pods["onNewNodes"], pods["newNodes"])


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """With two warm machines of 8 cores and a warm one with GPUs."""
    async with start_control_plane() as plane, start_karpenter(plane, settings()), JsonApi(plane.access()) as api:
        found = Cluster(plane, ClusterView(api), folder)
        await found.create(agent())
        await asyncio.gather(
            found.really(deployment("seed", 2, "6"), 2),
            found.really(job("seed-gpu", 1, {"cpu": "1", "nvidia.com/gpu": "8"}, **ON_GPUS), 1),
        )
        yield found


def placeable() -> Iterator[tuple[str, Json, int, Fate]]:
    """(how it is asked, what, pods, where they must go): each leaves its new nodes warm for the next."""
    # 7.9 cores less the agent's half: two pods of 3 cores to a machine.
    yield "--job", job("fits", 4, {"cpu": "3"}), 4, Fate(4, 0, {})
    yield "--pods", deployment("grows", 7, "3"), 7, Fate(4, 3, {"general": 2})
    yield "--job", job("gpus", 3, {"cpu": "1", "nvidia.com/gpu": "8"}, **ON_GPUS), 3, Fate(1, 2, {"gpu": 2})
    yield "--pods", deployment("apart", 5, "1", affinity=apart("apart")), 5, Fate(4, 1, {"general": 1})
    # The tainted machines with GPUs count as hosts that have none, so that nobody may have more than one.
    spread = deployment("even", 7, "1", topologySpreadConstraints=evenly("even"))
    yield "--pods", spread, 7, Fate(5, 2, {"general": 2})
    # Where taints count seven machines take two each; one that Karpenter buys gets no more than maxSkew.
    spread = deployment("honest", 16, "3", topologySpreadConstraints=evenly("honest", nodeTaintsPolicy="Honor"))
    yield "--pods", spread, 16, Fate(14, 2, {"general": 2})


async def test_pods_go_where_the_plan_said(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        for how, document, count, fate in placeable():
            name = document["metadata"]["name"]
            plan = await cluster.plan(how, document)
            assert (foretold(plan), plan["pods"]["unjudged"]) == (fate, 0), f"the plan for {name}"
            gangs = [(gang["pods"], gang["fitsNow"]) for gang in plan["pods"]["gangs"]]
            assert gangs == ([(count, fate.on_new == 0)] if how == "--job" else [])
            assert await cluster.really(document, count) == fate, f"what became of {name}"
        await _nowhere(cluster)


async def _nowhere(cluster: Cluster) -> None:
    """Pods that can never run: the plan says why, the scheduler refuses them, and Karpenter buys nothing."""
    refused = [
        (job("misspelt", 1, {"cpu": "1"}, nodeSelector={"accelerator": "bgi"}), "no pool has the labels it asks for"),
        (job("untolerated", 1, {"cpu": "1"}, nodeSelector={"accelerator": "big"}), "a taint that it does not tolerate"),
        (job("huge", 1, {"cpu": "64"}), "larger than a new node"),
    ]
    for document, why in refused:
        (found,) = (await cluster.plan("--job", document))["pods"]["unplaceable"]
        assert (found["pods"], why in found["reason"]) == (1, True), found
    claims = set(await cluster.view.claims())
    for document, _ in refused:
        await cluster.create(document)
    await until("the scheduler refuses all of them", lambda: _are_unschedulable(cluster.view, refused))

    async def buys_nothing() -> bool:
        return set(await cluster.view.claims()) == claims

    await throughout("Karpenter buys nothing for them", buys_nothing, PARTS_OF_A_ROUND_S)


async def _are_unschedulable(view: ClusterView, refused: list[tuple[Json, str]]) -> bool:
    found = [pod for document, _ in refused for pod in await view.pods(document["metadata"]["name"])]
    reasons = [each.get("reason") for pod in found for each in pod["status"].get("conditions", ())]
    return reasons.count("Unschedulable") == len(refused)
