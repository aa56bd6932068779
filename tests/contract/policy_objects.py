"""What stands on the server when our accounts try to write: the objects of users, and our own."""

import json
from typing import Any

from balloons.balloon_manifest import BalloonSpec, deployment, template_object
from balloons.view.shape_and_balloon_size import Shape
from lab.cloud.karpenter.objects import node_pool
from lab.cloud.karpenter.settings import NodePoolSettings
from tests.world import a_pool
from throttler.kube.quantities_and_durations import parse_resources

Object = dict[str, Any]

NAMESPACE = "policed"
"""Where the accounts are; a namespace of its own, so that no other test on this server is held to the policies."""
OUR = "kube-balloons.github.io"
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
KEEPING = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
    f"{OUR}/held-by": "ns/gpu",
}
"""The annotations of a node that a pool of strategy Annotate keeps."""
LABELS = {f"{OUR}/pool": "gpu", "app.kubernetes.io/managed-by": "kube-balloons"}
CONTAINER = {"name": "main", "image": "registry.example/work:1"}
POOL = a_pool(pre_pull=("registry.example/model:1",))
SHAPE = Shape("p5", "p5.48xlarge", {})
REQUESTS = parse_resources({"cpu": "190"})


def node() -> Object:
    taints = [("dedicated", "NoSchedule"), (STARTUP_TAINT, "NoExecute"), ("karpenter.sh/x", "NoSchedule")]
    metadata = {
        "name": "policed",
        "labels": {"example.com/zone": "a"},
        "annotations": {"example.com/owner": "team", "karpenter.sh/do-not-disrupt": "true"},
    }
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


def kept_node() -> Object:
    """One that a pool of strategy Annotate keeps."""
    metadata = {"name": "policed-kept", "annotations": dict(KEEPING)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def free_node() -> Object:
    """One that nobody keeps."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "policed-free"}}


def mark(original: Object, ceiling: Object, *, is_made: bool = False) -> str:
    """The annotation as `throttler.levers.ceiling` writes it."""
    made = {"isMade": True} if is_made else {}
    return json.dumps({"ceiling": ceiling, **made, "original": original}, separators=(",", ":"), sort_keys=True)


def held(body: Object, original: Object, ceiling: Object, *, is_made: bool = False) -> Object:
    """The object as a throttle holds it."""
    annotations = {
        f"{OUR}/original": mark(original, ceiling, is_made=is_made),
        f"{OUR}/holder": f"{NAMESPACE}/kube-balloons-throttle",
        f"{OUR}/epoch": "1",
    }
    metadata = {**body["metadata"], "labels": {f"{OUR}/throttle": "default"}, "annotations": annotations}
    return {**body, "metadata": metadata}


def free_pool() -> Object:
    """A NodePool of 100 cores, 40 of them in use."""
    body: Object = node_pool(NodePoolSettings(name="policed-free"))
    return {**body, "spec": {**body["spec"], "limits": {"cpu": "100"}}}


def held_pool() -> Object:
    """One that stands at 50 of the user's 100 cores, and at 200Gi where the user had no limit."""
    body: Object = node_pool(NodePoolSettings(name="policed-held"))
    ceiling = {"cpu": "50", "memory": "200Gi"}
    body = {**body, "spec": {**body["spec"], "limits": ceiling}}
    return held(body, {"cpu": "100", "memory": None}, ceiling)


def unmarked_pool() -> Object:
    """The same after somebody took the annotation off."""
    body = held_pool()
    notes = {key: text for key, text in body["metadata"]["annotations"].items() if key != f"{OUR}/original"}
    metadata = {**body["metadata"], "name": "policed-unmarked", "annotations": notes}
    return {**body, "metadata": metadata, "spec": {**body["spec"], "limits": {"cpu": "50"}}}


IN_USE = {"cpu": "40", "memory": "80Gi"}


def quota(name: str, nodes: int) -> Object:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "CapacityQuota",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"pool": "a"}}, "limits": {"resources": {"nodes": nodes}}},
    }


def made_quota(name: str = "policed-made") -> Object:
    return held(quota(name, 30), {"nodes": None}, {"nodes": 30}, is_made=True)


MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


def machine_deployment(name: str, size: int, version: str = "v1beta2") -> Object:
    """One of four machines, as Cluster API's own CRD takes it too."""
    group = "infrastructure.cluster.x-k8s.io"
    kind = {"apiGroup": group} if version == "v1beta2" else {"apiVersion": f"{group}/{version}"}
    reference = {**kind, "kind": "PaperMachineTemplate", "name": "t"}
    template = {"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference}}
    labels = {"md": name}
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "MachineDeployment",
        "metadata": {"name": name, "annotations": {MAX_SIZE: str(size), "example.com/owner": "team"}},
        "spec": {
            "clusterName": "c",
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **template},
        },
    }


def held_machine_deployment() -> Object:
    """One that stands at 6 of the user's 10."""
    body = machine_deployment("policed-held", 6)
    marked = held(body, {MAX_SIZE: "10"}, {MAX_SIZE: "6"})
    marked["metadata"]["annotations"] |= body["metadata"]["annotations"]
    return marked


def work_pod(name: str, **metadata: Any) -> Object:
    """A pod of a user that waits behind our gate and one of his own."""
    gates = [{"name": "example.com/other"}, {"name": f"{OUR}/paced"}]
    spec = {"containers": [CONTAINER], "schedulingGates": gates}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def foreign_deployment(name: str = "foreign") -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def our_deployment(name: str = "") -> Object:
    """What the service really applies, pre-pulled image included; its pod waits for ever."""
    body = deployment(POOL, SHAPE, BalloonSpec(REQUESTS, 1, "registry.k8s.io/pause:3.10.1"))
    return {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE, "name": name or body["metadata"]["name"]}}


def our_template() -> Object:
    body = template_object(POOL, SHAPE, BalloonSpec(REQUESTS, 1, "registry.k8s.io/pause:3.10.1"))
    return {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}


def lease(name: str) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "somebody"},
    }


STORED: tuple[tuple[Object, tuple[str, ...]], ...] = (
    (node(), ()),
    (kept_node(), ()),
    (free_node(), ()),
    (free_pool(), ()),
    (held_pool(), ()),
    (unmarked_pool(), ()),
    (quota("policed-users", 50), ()),
    (made_quota(), ()),
    (machine_deployment("policed-free", 10), ()),
    (held_machine_deployment(), ()),
    (work_pod("job"), ()),
    (work_pod("disguised", labels=LABELS), ()),
    (foreign_deployment(), ()),
    (our_deployment(), ()),
    (lease("foreign"), ()),
)
"""What is there before our accounts try anything, and who made it."""
STATUS: dict[str, Object] = {
    "nodepool/policed-free": {"resources": IN_USE},
    "nodepool/policed-held": {"resources": IN_USE},
    "nodepool/policed-unmarked": {"resources": IN_USE},
    "capacityquota/policed-users": {"used": {"resources": {"nodes": 20}}},
    "capacityquota/policed-made": {"used": {"resources": {"nodes": 20}}},
}
