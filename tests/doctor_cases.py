"""For every check of the doctor a cluster that fails it and one that passes, as plain objects.

The same objects are applied to a real API server (tests/contract), so that none of them is of a form that cannot exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind

Thing = dict[str, Any]
Cluster = Mapping[Kind, list[Thing]]
OLD = "2026-11-21T11:00:00Z"
"""An hour before the clusters are seen (tests.seen_clusters.TAKEN_AT)."""


@dataclass(frozen=True)
class Case:
    """`failing` and `passing` differ in what the check looks at; `words` stand in the finding."""

    code: str
    failing: Cluster
    passing: Cluster
    words: str
    is_stored: bool = field(default=True)
    """Whether a user can store the failing objects: what controllers write, or what is refused, cannot be applied."""


def meta(name: str, namespace: str = "", **more: Any) -> Thing:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


def priority(value: int, name: str = "low", policy: str = "Never", **more: Any) -> Thing:
    return {"metadata": meta(name), "value": value, "preemptionPolicy": policy, **more}


def workload(
    name: str = "room",
    namespace: str = "default",
    image: str = "registry.k8s.io/pause:3.10",
    labels: Any = None,
    **spec: Any,
) -> Thing:
    labels = labels or {"app": name}
    pod = {
        "priorityClassName": "low",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}],
        **spec,
    }
    template = {"metadata": {"labels": labels}, "spec": {key: value for key, value in pod.items() if value is not None}}
    return {"metadata": meta(name, namespace), "spec": {"selector": {"matchLabels": labels}, "template": template}}


def pod(name: str, node: str = "", namespace: str = "default", labels: Any = None, **more: Any) -> Thing:
    requests = more.pop("requests", {"cpu": "1"})
    spec = {
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}]
    }
    spec |= {"nodeName": node} if node else {}
    return {"metadata": meta(name, namespace, labels=labels or {"app": "room"}), "spec": spec | more}


def node(name: str, cpu: str = "8", ready: str = "True", created: str = OLD, **more: Any) -> Thing:
    size = {"cpu": cpu, "memory": "32Gi", **more.pop("sizes", {})}
    status = {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": ready}]}
    metadata = meta(name, creationTimestamp=created, **more.pop("metadata", {}))
    return {"metadata": metadata, "spec": more, "status": status}


def autoscaler(*arguments: str) -> Thing:
    found = workload("ca", "kube-system", priorityClassName=None)
    container = {
        "name": "ca",
        "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
        "args": list(arguments),
    }
    found["spec"]["template"]["spec"]["containers"] = [container]
    return found


def autoscaler_status(lost: int = 0, at: str = "12:00:00") -> Thing:
    text = (
        f"time: 2026-11-21 {at}.33 +0000 UTC\nnodeGroups:\n- health:\n    cloudProviderTarget: 5\n"
        f"    nodeCounts:\n      longUnregistered: {lost}\n      registered:\n        total: 3\n  name: g\n"
    )
    return {"metadata": meta("cluster-autoscaler-status", "kube-system"), "data": {"status": text}}


def quota(valid: str = "True", limit: int = 10, used: int = 5, **metadata: Any) -> Thing:
    conditions = [{"type": "Valid", "status": valid, "message": "selector is invalid"}]
    return {
        "metadata": meta("cap", **metadata),
        "spec": {"limits": {"resources": {"nodes": limit}}},
        "status": {"used": {"resources": {"nodes": used}}, "conditions": conditions},
    }


def node_pool(limits: Any = None, used: Any = None, **metadata: Any) -> Thing:
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    spec: Thing = {"nodeClassRef": node_class, "requirements": [{"key": "kubernetes.io/os", "operator": "Exists"}]}
    return {
        "metadata": meta(**{"name": "general", **metadata}),
        "spec": {"template": {"spec": spec}, **({"limits": limits} if limits else {})},
        "status": {"resources": used or {}},
    }


def ready(status: str, message: str = "") -> Thing:
    condition = {
        "type": "Ready",
        "status": status,
        "message": message,
        "reason": "NodeClassReady",
        "lastTransitionTime": OLD,
    }
    return {**node_pool(), "status": {"conditions": [condition]}}


def with_taints(taints: list[str], startup: list[str]) -> Thing:
    found = node_pool()
    spec = found["spec"]["template"]["spec"]
    spec["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    spec["startupTaints"] = [{"key": key, "effect": "NoSchedule"} for key in startup]
    return found


def claim(launched: str, registered: str, created: str = OLD) -> Thing:
    conditions = [{"type": "Launched", "status": launched}, {"type": "Registered", "status": registered}]
    return {"metadata": meta("general-x", creationTimestamp=created), "status": {"conditions": conditions}}


def pool(name: str = "warm", generation: int = 1, seen: int = 1, labels: Any = None, mode: str = "Hold") -> Thing:
    selector = {"matchLabels": labels or {"pool": "gpu"}}
    return {
        "metadata": meta(name, "default", generation=generation, creationTimestamp=OLD),
        "spec": {"nodes": {"selector": selector}, "mode": mode, "size": 2, "maxSize": 4},
        "status": {"observedGeneration": seen},
    }


def throttle(name: str = "joins", seen: int = 1, **levers: Any) -> Thing:
    metadata = meta(name, generation=1, creationTimestamp=OLD)
    return {"metadata": metadata, "spec": {"levers": levers}, "status": {"observedGeneration": seen}}


def in_group(name: str, group: str, **spec: Any) -> Thing:
    labels = {"cloud.google.com/gke-nodepool": group, "pool": group}
    found = node(name, metadata={"labels": labels})
    return {**found, "spec": {**found.get("spec", {}), **spec}}


FOREIGN = {"key": "x", "effect": "NoSchedule"}
GPU_QUOTA = throttle(capacityQuota={"name": "cap"})
GPU_QUOTA["spec"]["nodes"] = {"matchLabels": {"pool": "gpu"}}


def owned(*managers: str) -> list[Thing]:
    fields = {"f:spec": {"f:limits": {"f:cpu": {}}}}
    return [{"manager": each, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields} for each in managers]


def daemon_set(name: str, image: str = "agent:1", desired: int = 0, ready: int = 0, **spec: Any) -> Thing:
    found = workload(name, image=image, **({"priorityClassName": None} | spec))
    return {**found, "status": {"desiredNumberScheduled": desired, "numberReady": ready}}


def monitor(labels: Any) -> Thing:
    return {"metadata": meta("kube-balloons", "kube-balloons", labels=labels), "spec": {"selector": {}}}


def prometheus(labels: Any) -> Thing:
    spec = {"serviceMonitorSelector": {"matchLabels": labels}, "serviceMonitorNamespaceSelector": {}}
    return {"metadata": meta("main", "monitoring"), "spec": spec}


def lease(renewed: str) -> Thing:
    spec = {"holderIdentity": "a", "renewTime": renewed}
    return {"metadata": meta("kube-balloons-throttle", "kube-balloons"), "spec": spec}


def flow_schema(namespace: str) -> Thing:
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": "kube-balloons", "namespace": namespace}}
    rule = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    spec = {
        "matchingPrecedence": 500,
        "priorityLevelConfiguration": {"name": "workload-high"},
        "rules": [{"subjects": [subject], "nonResourceRules": [rule]}],
    }
    return {"metadata": meta("balloons-test"), "spec": spec}


def placed(spec: Cluster) -> Cluster:
    """With a placeholder, and its class at -10."""
    base: dict[Kind, list[Thing]] = {
        kinds.DEPLOYMENTS: [workload()],
        kinds.PRIORITY_CLASSES: [priority(-10)],
    }
    for kind, things in spec.items():
        base[kind] = [*base.get(kind, []), *things]
    return base


def room(value: int = -10, policy: str = "Never", **deployment: Any) -> Cluster:
    return {kinds.PRIORITY_CLASSES: [priority(value, policy=policy)], kinds.DEPLOYMENTS: [workload(**deployment)]}


OURS = {"app.kubernetes.io/part-of": "kube-balloons"}
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/joining"
SERVICE = {**workload("kube-balloons", "kube-balloons", image="balloons:1", priorityClassName=None)}
SERVICE["metadata"] = {**SERVICE["metadata"], "labels": OURS}
BUDGET = {
    "metadata": meta("keep", "default"),
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "room"}}},
}
OTHER_BUDGET = {
    "metadata": meta("keep", "default"),
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
GPU = {"nvidia.com/gpu": "8"}
SOFT = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}}
        ]
    }
}
HARD = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
        }
    }
}
QUOTA_FLAG = "--capacity-quotas-enabled=true"
GATED = [{"name": "kube-balloons.github.io/paced"}]
LEFT = {"labels": {"kube-balloons.github.io/throttle": "joins"}}

CASES = (
    Case("KB001", room(-11), room(-10), "below cluster-autoscaler's cutoff -10"),
    Case(
        "KB002",
        placed({kinds.PRIORITY_CLASSES: [priority(-20, "everyone", globalDefault=True)]}),
        placed({kinds.PRIORITY_CLASSES: [priority(5, "everyone", globalDefault=True)]}),
        "default of all pods with -20",
    ),
    Case("KB003", room(policy="PreemptLowerPriority"), room(), "lets them preempt"),
    Case(
        "KB004",
        placed({kinds.PODS: [pod("batch", labels={"app": "b"}, priority=-10)]}),
        placed({kinds.PODS: [pod("batch", labels={"app": "b"}, priority=0)]}),
        "1 waiting pod with a priority not above",
        is_stored=False,
    ),
    Case(
        "KB005",
        {kinds.BALLOON_POOLS: [pool()], kinds.PRIORITY_CLASSES: []},
        {kinds.BALLOON_POOLS: [pool()], kinds.PRIORITY_CLASSES: [priority(-10, "kube-balloons")]},
        "no balloon is made for warm",
    ),
    Case(
        "KB006",
        {**room(-(2**25)), kinds.NODE_POOLS: [node_pool()]},
        {**room(-10), kinds.NODE_POOLS: [node_pool()]},
        "their nodes count as empty",
    ),
    Case("KB010", room(terminationGracePeriodSeconds=30), room(), "up to 30 s to leave"),
    Case(
        "KB011",
        placed({kinds.DISRUPTION_BUDGETS: [BUDGET]}),
        placed({kinds.DISRUPTION_BUDGETS: [OTHER_BUDGET]}),
        "it guards the balloons",
    ),
    Case(
        "KB012",
        placed({kinds.NODES: [node("g1", sizes=GPU)], kinds.PODS: [pod("room-1", "g1")]}),
        placed({kinds.NODES: [node("g1", sizes=GPU)], kinds.PODS: [pod("room-1", "g1", requests=GPU)]}),
        "1 balloon on GPU nodes without a GPU request",
        is_stored=False,
    ),
    Case(
        "KB013",
        placed({kinds.NODES: [node("n1")], kinds.PODS: [pod("room-1", "n1", requests={"cpu": "3"})]}),
        placed({kinds.NODES: [node("n1")], kinds.PODS: [pod("room-1", "n1", requests={"cpu": "5"})]}),
        "used below 50%",
    ),
    Case("KB014", room(namespace="kube-system"), room(), "in kube-system"),
    Case("KB015", room(volumes=[{"name": "v", "emptyDir": {}}]), room(), "emptyDir volumes"),
    Case(
        "KB016",
        {
            kinds.PRIORITY_CLASSES: [priority(-10)],
            kinds.DAEMON_SETS: [daemon_set("room", image="registry.k8s.io/pause:3.10", priorityClassName="low")],
        },
        {kinds.PRIORITY_CLASSES: [priority(-10)], kinds.DAEMON_SETS: [daemon_set("agent")]},
        "a DaemonSet of placeholders holds nothing",
    ),
    Case(
        "KB017",
        placed({kinds.DEPLOYMENTS: [workload("web", image="web:1", priorityClassName=None, affinity=SOFT)]}),
        placed({kinds.DEPLOYMENTS: [workload("web", image="web:1", priorityClassName=None, affinity=HARD)]}),
        "1 Deployment with preferences only",
    ),
    Case(
        "KB020",
        {kinds.DEPLOYMENTS: [autoscaler("--v=1")], kinds.QUOTAS: [quota()]},
        {kinds.DEPLOYMENTS: [autoscaler(QUOTA_FLAG)], kinds.QUOTAS: [quota()]},
        "it runs without --capacity-quotas-enabled",
    ),
    Case("KB021", {kinds.QUOTAS: [quota("False")]}, {kinds.QUOTAS: [quota()]}, "growth is unlimited"),
    Case(
        "KB022",
        {kinds.QUOTAS: [quota(limit=5)], kinds.PODS: []},
        {kinds.QUOTAS: [quota(limit=6)], kinds.PODS: []},
        "no broken node can be replaced",
    ),
    Case(
        "KB023",
        {kinds.DEPLOYMENTS: [autoscaler("--max-nodes-per-scaleup=20")], kinds.AUTOSCALER_STATUS: []},
        {kinds.DEPLOYMENTS: [autoscaler("--max-nodes-per-scaleup=1000")], kinds.AUTOSCALER_STATUS: []},
        "not the pace",
    ),
    Case(
        "KB024",
        {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(lost=2)]},
        {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(lost=0)]},
        "2 machines not registered",
    ),
    Case(
        "KB025",
        {
            kinds.DEPLOYMENTS: [autoscaler()],
            kinds.AUTOSCALER_STATUS: [],
            kinds.NODES: [*(node(f"bad{i}", ready="False") for i in range(5)), *(node(f"good{i}") for i in range(5))],
        },
        {
            kinds.DEPLOYMENTS: [autoscaler()],
            kinds.AUTOSCALER_STATUS: [],
            kinds.NODES: [*(node(f"bad{i}", ready="False") for i in range(4)), *(node(f"good{i}") for i in range(6))],
        },
        "5 of 10 nodes are not ready",
    ),
    Case(
        "KB026",
        {kinds.DEPLOYMENTS: [autoscaler()], kinds.AUTOSCALER_STATUS: [], kinds.NODE_POOLS: [node_pool()]},
        {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [], kinds.NODE_POOLS: [node_pool()]},
        "both run",
    ),
    Case(
        "KB027",
        {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(at="11:50:00")]},
        {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(at="11:59:00")]},
        "last wrote its status 10 min ago",
    ),
    Case(
        "KB028",
        {kinds.NODES: [in_group("n1", "gpu"), in_group("n2", "general")], kinds.THROTTLES: [GPU_QUOTA]},
        {
            kinds.NODES: [
                in_group("n1", "gpu"),
                in_group("n2", "general", taints=[{"key": "x", "effect": "NoSchedule"}]),
            ],
            kinds.THROTTLES: [GPU_QUOTA],
        },
        "does not count the nodes of general",
    ),
    Case(
        "KB030",
        {kinds.NODE_POOLS: [node_pool({"nodes": "4"})]},
        {kinds.NODE_POOLS: [node_pool({"cpu": "64"})]},
        "limits.nodes 4",
    ),
    Case(
        "KB031",
        {kinds.NODE_POOLS: [node_pool({"cpu": "64"}, {"cpu": "65"})], kinds.PODS: []},
        {kinds.NODE_POOLS: [node_pool({"cpu": "64"}, {"cpu": "64"})], kinds.PODS: []},
        "it has more than its limits of cpu",
    ),
    Case(
        "KB032",
        {kinds.NODE_CLAIMS: [claim("True", "False")]},
        {kinds.NODE_CLAIMS: [claim("True", "True")]},
        "it has not registered after 3600 s",
        is_stored=False,
    ),
    Case(
        "KB033",
        {kinds.NODE_POOLS: [with_taints([TAINT], [])], kinds.THROTTLES: [throttle(startupTaint={"key": TAINT})]},
        {kinds.NODE_POOLS: [with_taints([], [TAINT])], kinds.THROTTLES: [throttle(startupTaint={"key": TAINT})]},
        "is among its taints and not its startupTaints",
    ),
    Case(
        "KB034",
        {kinds.NODES: [node("n1", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})]},
        {kinds.NODES: [node("n1", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "1h"}})]},
        "1 node with karpenter.sh/do-not-disrupt=true",
    ),
    Case(
        "KB035",
        {
            kinds.NODE_POOLS: [node_pool(name="spot"), node_pool(name="general")],
            kinds.THROTTLES: [throttle(nodePoolLimits={"names": ["spot"]})],
        },
        {
            kinds.NODE_POOLS: [node_pool(name="spot"), {**with_taints(["gpu"], []), "metadata": meta("gpu")}],
            kinds.THROTTLES: [throttle(nodePoolLimits={"names": ["spot"]})],
        },
        "its lever leaves out NodePool general",
    ),
    Case(
        "KB036",
        {kinds.NODE_POOLS: [ready("False", "NodeClass not found on cluster")]},
        {kinds.NODE_POOLS: [ready("True")]},
        "Karpenter orders no machines from it: NodeClass not found on cluster",
    ),
    Case(
        "KB040",
        {kinds.DAEMON_SETS: [daemon_set(f"d{i}", desired=1, ready=1) for i in range(8)], kinds.PODS: []},
        {
            kinds.DAEMON_SETS: [*(daemon_set(f"d{i}", desired=1, ready=1) for i in range(6)), daemon_set("windows")],
            kinds.PODS: [],
        },
        "with 8 DaemonSets on a node at most 2.5 nodes/s",
    ),
    Case(
        "KB041",
        {kinds.DEPLOYMENTS: [SERVICE], kinds.FLOW_SCHEMAS: [flow_schema("else")]},
        {kinds.DEPLOYMENTS: [SERVICE], kinds.FLOW_SCHEMAS: [flow_schema("kube-balloons")]},
        "starves in the overload",
    ),
    Case(
        "KB042",
        {
            kinds.SERVICE_MONITORS: [monitor(OURS)],
            kinds.POD_MONITORS: [],
            kinds.PROMETHEUSES: [prometheus({"release": "kps"})],
        },
        {
            kinds.SERVICE_MONITORS: [monitor({**OURS, "release": "kps"})],
            kinds.POD_MONITORS: [],
            kinds.PROMETHEUSES: [prometheus({"release": "kps"})],
        },
        "wants release=kps",
        is_stored=False,
    ),
    Case(
        "KB043",
        {kinds.NODES: [node("n1", taints=[{"key": TAINT, "effect": "NoSchedule"}])]},
        {kinds.NODES: [node("n1", taints=[{"key": "mine", "effect": "NoSchedule"}])]},
        "after 60 min",
        is_stored=False,
    ),
    Case(
        "KB044",
        {kinds.DAEMON_SETS: [daemon_set("agent", desired=10, ready=7)]},
        {kinds.DAEMON_SETS: [daemon_set("agent", desired=10, ready=8)]},
        "7 of 10 of its pods are ready",
    ),
    Case(
        "KB050",
        {kinds.BALLOON_POOLS: [pool(mode="Sideways")], kinds.THROTTLES: []},
        {kinds.BALLOON_POOLS: [pool()], kinds.THROTTLES: [throttle()]},
        "Sideways",
        is_stored=False,
    ),
    Case(
        "KB051",
        {kinds.BALLOON_POOLS: [pool(seen=0)], kinds.THROTTLES: []},
        {kinds.BALLOON_POOLS: [pool()], kinds.THROTTLES: [throttle()]},
        "no service has acted for a minute on warm",
        is_stored=False,
    ),
    Case(
        "KB052",
        {kinds.LEASES: [lease("2026-11-21T11:50:00.000000Z")]},
        {kinds.LEASES: [lease("2026-11-21T11:59:50.000000Z")]},
        "renewed 600 s ago",
        is_stored=False,
    ),
    Case(
        "KB053",
        {kinds.NODE_POOLS: [node_pool({"cpu": "8"}, **LEFT)], kinds.QUOTAS: [], kinds.THROTTLES: [throttle("other")]},
        {kinds.NODE_POOLS: [node_pool({"cpu": "8"}, **LEFT)], kinds.QUOTAS: [], kinds.THROTTLES: [throttle()]},
        "a ceiling of throttle joins, which does not exist",
    ),
    Case(
        "KB054",
        {kinds.PODS: [pod("job", schedulingGates=GATED)], kinds.THROTTLES: []},
        {kinds.PODS: [pod("job", schedulingGates=GATED)], kinds.THROTTLES: [throttle(schedulingGates={})]},
        "1 pod behind kube-balloons.github.io/paced",
    ),
    Case(
        "KB055",
        {
            kinds.NODE_POOLS: [node_pool({"cpu": "8"}, managedFields=owned("argocd", "kube-balloons-throttle"))],
            kinds.QUOTAS: [],
        },
        {kinds.NODE_POOLS: [node_pool({"cpu": "8"}, managedFields=owned("kube-balloons-throttle"))], kinds.QUOTAS: []},
        "kube-balloons-throttle and argocd",
        is_stored=False,
    ),
    Case(
        "KB056",
        {kinds.BALLOON_POOLS: [pool("a"), pool("b")], kinds.NODES: [node("n1", metadata={"labels": {"pool": "gpu"}})]},
        {
            kinds.BALLOON_POOLS: [pool("a"), pool("b", labels={"pool": "cpu"})],
            kinds.NODES: [node("n1", metadata={"labels": {"pool": "gpu"}})],
        },
        "1 node selected by default/a, default/b",
    ),
    Case(
        "KB058",
        {kinds.BALLOON_POOLS: [{**pool(), "status": {"because": "NotServed", "message": "namespace a is not served"}}]},
        {kinds.BALLOON_POOLS: [pool()]},
        "1 pool not served: namespace a is not served",
    ),
)
