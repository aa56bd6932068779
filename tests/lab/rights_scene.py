"""A cluster on which the service, the guard and the reading commands find work for every right that they have."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from lab.binaries import find_karpenter_crds
from lab.cloud.machines import PaperMachines, PaperNode
from lab.cloud.nodegroups import install_capacity_quotas, install_machine_deployments
from lab.controlplane import ControlPlane, binding
from lab.demo.service import install_base, manifests_in
from tests.lab.lever_view import View, view
from tests.lab.service_scene import MANIFESTS, pool_object, work_object
from throttler.kube.cluster_autoscaler import MAX_SIZE

SYSTEM, VIEWER = "kube-balloons", "viewer"
TAINT, LABEL = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons", "example.com/daemons"
USERS_NODES, USERS_LIMITS, USERS_SIZE = 100, {"cpu": "100000"}, "100"
LARGE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
SMALL = {"cpu": "4", "memory": "16Gi", "pods": "110"}
HELD = 8
"""Large nodes of the pool of balloons: enough for a burst that the service answers before the scheduler has."""


@dataclass(frozen=True)
class Lever:
    """What a throttle says of a lever, and the directory of manifests/levers that gives the right to it."""

    directory: str
    given: dict[str, Any]


LEVERS = {
    "capacityQuota": Lever("capacity-quota", {"name": "made"}),
    "nodePoolLimits": Lever("node-pools", {"names": ["users"]}),
    "machineDeployments": Lever("machine-deployments", {"namespace": "default", "names": ["users"]}),
    "schedulingGates": Lever("scheduling-gates", {}),
    "startupTaint": Lever("nodes", {"key": TAINT}),
    "daemonSetLabel": Lever("nodes", {"key": LABEL}),
}
"""By the name that a JoinThrottle gives them."""


@asynccontextmanager
async def installed(plane: ControlPlane) -> AsyncIterator[tuple[View, PaperMachines]]:
    """All roles bound, all kinds served, nodes of two sizes, three pools, two throttles, and pods that wait."""
    await _serve_every_kind(plane)
    await _bind_roles(plane, LEVERS)
    await _bind_the_rest(plane)
    async with view(plane) as seen, PaperMachines(plane.access()) as machines:
        await machines.add(_nodes())
        await seen.apply(*_pools(), *_users_objects(), *_throttles(LEVERS), *_waiting_pods())
        yield seen, machines


@asynccontextmanager
async def installed_with(plane: ControlPlane, lever: str) -> AsyncIterator[View]:
    """As `installed`, without pools, and with one lever: bound, and named by the throttles."""
    await _serve_every_kind(plane)
    await _bind_roles(plane, (lever,))
    async with view(plane) as seen, PaperMachines(plane.access()) as machines:
        await machines.add(_nodes())
        await seen.apply(*_users_objects(), *_throttles((lever,)), *_waiting_pods())
        yield seen


async def _serve_every_kind(plane: ControlPlane) -> None:
    await plane.install(*manifests_in(*find_karpenter_crds().glob("*.yaml")), *_monitor_kinds())
    await install_capacity_quotas(plane)
    await install_machine_deployments(plane)
    await install_base(plane)


async def _bind_roles(plane: ControlPlane, levers: Collection[str]) -> None:
    guard = [MANIFESTS / "components" / "guard" / f"{each}.yaml" for each in ("serviceaccount", "rbac")]
    directories = sorted({LEVERS[lever].directory for lever in levers})
    bound = [MANIFESTS / "levers" / name / f"{each}.yaml" for name in directories for each in ("binding", "guard")]
    await plane.apply_async(*manifests_in(*guard, *bound))


async def _bind_the_rest(plane: ControlPlane) -> None:
    viewer = {"kind": "ServiceAccount", "metadata": {"name": VIEWER, "namespace": SYSTEM}}
    annotator = manifests_in(MANIFESTS / "components" / "annotate-nodes" / "binding.yaml")
    account = {"kind": "ServiceAccount", "name": VIEWER, "namespace": SYSTEM}
    bound = binding("test-cli-viewer", "kube-balloons-cli-viewer", account)
    await plane.apply_async({"apiVersion": "v1", **viewer}, *annotator, bound)


def _nodes() -> list[PaperNode]:
    """Of each pool, and one that joins: it is the first throttle's."""
    large = {f"large-{i}": "gpu" for i in range(HELD)} | {"buffered-0": "buffered", "noted-0": "notes"}
    small = {"small-gpu": "gpu", "small-buffered": "buffered"}
    found = [PaperNode(name=name, labels={"test": pool}, allocatable=LARGE) for name, pool in large.items()]
    found += [PaperNode(name=name, labels={"test": pool}, allocatable=SMALL) for name, pool in small.items()]
    return [*found, PaperNode(name="joining", labels={"test": "default"}, allocatable=LARGE)]


def _pools() -> list[dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {
        "gpu": {"mode": "Hold"},
        "notes": {"mode": "Hold", "strategy": "Annotate"},
        "buffered": {"mode": "Headroom", "strategy": "CapacityBuffer", "size": 2, "maxSize": 4},
    }
    return [
        pool_object(SYSTEM, name, nodes={"selector": {"matchLabels": {"test": name}}}, **spec)
        for name, spec in specs.items()
    ]


def _users_objects() -> list[dict[str, Any]]:
    """Ceilings that the user had before us."""
    limits = {"resources": {"nodes": USERS_NODES}}
    quota = {"selector": {"matchLabels": {"test": "second"}}, "limits": limits}
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    pool = {"limits": USERS_LIMITS, "template": {"spec": {"nodeClassRef": reference, "requirements": []}}}
    return [
        {
            "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
            "kind": "CapacityQuota",
            "metadata": {"name": "users"},
            "spec": quota,
        },
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "users"}, "spec": pool},
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineDeployment",
            "metadata": {"name": "users", "namespace": "default", "annotations": {MAX_SIZE: USERS_SIZE}},
            "spec": {"clusterName": "c", "replicas": 1, "selector": {}, "template": {"spec": {"clusterName": "c"}}},
        },
    ]


def _throttles(levers: Collection[str]) -> list[dict[str, Any]]:
    """The first has every one of the levers, the second a ceiling on an object of the user's."""
    first = {lever: LEVERS[lever].given for lever in levers}
    second = [_throttle("second", "second", {"capacityQuota": {"name": "users"}})]
    return [_throttle("first", "default", first), *(second if "capacityQuota" in levers else ())]


def _throttle(name: str, nodes: str, levers: dict[str, Any]) -> dict[str, Any]:
    window = {"initial": 8, "min": 2, "max": 8}
    pace = {"window": window, "maxInFlight": 8, "maxWait": "3m"}
    spec = {"nodes": {"matchLabels": {"test": nodes}}, **pace, "levers": levers}
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "JoinThrottle"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def _waiting_pods() -> list[dict[str, Any]]:
    """They fit on no node there is, so that each throttle has something to hold back until the end."""
    container = {"name": "work", "image": "none", "resources": {"requests": {"cpu": "64"}}}
    return [
        {**work_object("default", name), "spec": {"nodeSelector": {"test": nodes}, "containers": [container]}}
        for name, nodes in (("waits", "default"), ("waits-too", "second"))
    ]


def _monitor_kinds() -> list[dict[str, Any]]:
    """The Prometheus operator's kinds, in name only: the commands ask for them where they are served."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    kinds = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor", "prometheuses": "Prometheus"}
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com",
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [version],
            },
        }
        for plural, kind in kinds.items()
    ]
