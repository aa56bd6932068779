"""What is kept of each kind of object: all that some command reads, and nothing that could be a secret."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind, is_component, is_kept_annotation, kept

METADATA = {
    "name": "a",
    "namespace": "ml",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-11-21T11:00:00Z",
    "deletionTimestamp": "2026-11-21T12:00:00Z",
    "labels": {"team": "research"},
    "annotations": {"karpenter.sh/do-not-disrupt": "true", "kube-balloons.github.io/pause-reason": "INC-1"},
    "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "v", "controller": True}],
}
CONDITION = {
    "type": "Ready",
    "status": "False",
    "reason": "Why",
    "message": "words",
    "lastTransitionTime": "2026-11-21T11:00:00Z",
    "observedGeneration": 3,
}
AMOUNTS = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
CONTAINER = {
    "name": "main",
    "image": "registry.example.com/train:1",
    "resources": AMOUNTS,
    "restartPolicy": "Always",
    "ports": [{"hostPort": 80, "containerPort": 8080}],
}
POD_SPEC = {
    "nodeName": "n1",
    "priority": 0,
    "priorityClassName": "high",
    "preemptionPolicy": "Never",
    "schedulerName": "volcano",
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "overhead": {"cpu": "10m"},
    "resources": AMOUNTS,
    "nodeSelector": {"pool": "gpu"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "schedulingGates": [{"name": "g"}],
    "schedulingGroup": {"podGroupName": "g"},
    "resourceClaims": [{"name": "c"}],
    "hostNetwork": False,
    "terminationGracePeriodSeconds": 0,
    "serviceAccountName": "sa",
    "volumes": [{"emptyDir": {}}],
}
WORKLOAD = {
    "metadata": METADATA,
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "Recreate"},
        "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": METADATA, "spec": POD_SPEC},
    },
    "status": {"replicas": 1},
}
OWNED = {
    "metadata": {**METADATA, "managedFields": [{"manager": "kubectl"}]},
    "spec": {"limits": {"cpu": "8"}},
    "status": {"resources": {"cpu": "4"}},
}
EVENT = {
    "metadata": METADATA,
    "eventTime": "2026-11-21T11:00:00Z",
    "series": {"count": 2},
    "reportingController": "karpenter",
    "deprecatedSource": {"component": "kubelet"},
    "deprecatedFirstTimestamp": "2026-11-21T11:00:00Z",
    "deprecatedLastTimestamp": "2026-11-21T11:00:01Z",
    "deprecatedCount": 2,
    "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "p", "uid": "w"},
    "reason": "Why",
    "type": "Warning",
    "note": "words",
}
NODE = {
    "metadata": METADATA,
    "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "aws:///a/i-1"},
    "status": {
        "allocatable": {"cpu": "8"},
        "capacity": {"cpu": "9"},
        "conditions": [CONDITION],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "architecture": "arm64"},
    },
}
POD = {
    "metadata": METADATA,
    "spec": POD_SPEC,
    "status": {
        "phase": "Running",
        "reason": "Evicted",
        "startTime": "2026-11-21T11:00:00Z",
        "nominatedNodeName": "n2",
        "extendedResourceClaimStatus": {},
        "conditions": [CONDITION],
    },
}
MONITORS = (
    *("serviceMonitorSelector", "serviceMonitorNamespaceSelector"),
    *("podMonitorSelector", "podMonitorNamespaceSelector"),
)
SELECTORS = {"selector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {"any": True}}
WHOLE: list[tuple[Kind, dict[str, Any]]] = [
    (kinds.PODS, POD),
    (kinds.NODES, NODE),
    (kinds.NAMESPACES, {"metadata": METADATA}),
    (kinds.EVENTS, EVENT),
    (kinds.AUTOSCALER_STATUS, {"metadata": METADATA, "data": {"status": "autoscalerStatus: Running"}}),
    (kinds.API_SERVERS, {"metadata": METADATA, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}]}),
    (
        kinds.PRIORITY_CLASSES,
        {"metadata": METADATA, "value": -10, "globalDefault": False, "preemptionPolicy": "Never"},
    ),
    (kinds.DEPLOYMENTS, WORKLOAD),
    (kinds.DAEMON_SETS, WORKLOAD),
    (kinds.NODE_POOLS, OWNED),
    (kinds.QUOTAS, OWNED),
    (
        kinds.MACHINE_DEPLOYMENTS,
        {"metadata": OWNED["metadata"], "spec": {"replicas": 3}, "status": {"readyReplicas": 2}},
    ),
    (kinds.SERVICE_MONITORS, {"metadata": METADATA, "spec": SELECTORS}),
    (kinds.POD_MONITORS, {"metadata": METADATA, "spec": SELECTORS}),
    (kinds.PROMETHEUSES, {"metadata": METADATA, "spec": {name: {} for name in MONITORS}}),
    (kinds.BALLOON_POOLS, {"metadata": METADATA, "spec": {"size": 0}, "status": {"warm": 0}}),
]
"""Of each kind an object with all that is kept of it."""
SECRET = {"hunter2": {"hunter2": "hunter2"}}
FREE = frozenset({"labels", "annotations", "allocatable", "capacity", "requests", "limits", "nodeSelector", "overhead"})
"""Mappings whose keys are the users' own."""
WHOLE_PARTS = frozenset(
    {"affinity", "tolerations", "topologySpreadConstraints", "schedulingGates", "resourceClaims", "taints"}
)
"""Of which everything is kept."""


def of(kind: Kind, thing: Mapping[str, Any]) -> Any:
    return msgspec.json.decode(kept(kind, msgspec.json.encode(thing)))


@pytest.mark.parametrize(("kind", "whole"), WHOLE, ids=[kind.name for kind, _ in WHOLE])
def test_all_that_a_command_reads_is_kept_and_nothing_beside_it(kind: Kind, whole: dict[str, Any]) -> None:
    assert of(kind, whole) == whole
    beside = {name: {**SECRET, **part} if name == "metadata" else part for name, part in whole.items()}
    assert of(kind, {**SECRET, **beside}) == whole


def test_nothing_beside_what_is_read_of_a_pod_is_kept() -> None:
    """Wherever a pod has fields of its own: its containers, their ports, its owners, its conditions."""
    assert of(kinds.PODS, spoiled(POD)) == POD
    assert of(kinds.NODES, spoiled(NODE)) == NODE
    assert of(kinds.EVENTS, {**spoiled(EVENT), "series": EVENT["series"]}) == EVENT


def test_what_pods_have_is_kept_of_pods_that_are_resized_in_place_alone() -> None:
    """The commands took a pod whose node can never give more for as large as it asks to be."""
    given = [{"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]
    for condition, is_kept in (("PodResizePending", True), ("PodResizeInProgress", True), ("Ready", False)):
        whole = {name: value for name, value in given[0].items() if name != "name"}
        had = {"containerStatuses": given, "initContainerStatuses": given, **whole}
        told = {"conditions": [{"type": condition, "status": "True"}]}
        assert of(kinds.PODS, {"status": {**told, **had}})["status"] == {**told, **(had if is_kept else {})}


def spoiled(value: Any, name: str = "") -> Any:
    """With a secret in every mapping that is no free text of the user's and of which not everything is kept."""
    if isinstance(value, list):
        return [spoiled(item, name) for item in value]
    if not isinstance(value, dict) or name in FREE | WHOLE_PARTS:
        return value
    if name == "volumes":
        return dict.fromkeys(value, SECRET)
    return {**SECRET, **{key: spoiled(below, key) for key, below in value.items()}}


def test_fields_of_a_node_pool_have_their_owners_and_those_of_a_pod_have_none() -> None:
    """Only where a limit may be fought over it matters who wrote it."""
    managed = {"metadata": {**METADATA, "managedFields": [{"manager": "kubectl"}]}}
    for kind, has_owners in ((kinds.NODE_POOLS, True), (kinds.QUOTAS, True), (kinds.PODS, False)):
        assert ("managedFields" in of(kind, managed)["metadata"]) is has_owners


@pytest.mark.parametrize(
    ("key", "is_kept"),
    [
        ("karpenter.sh/x", True),
        ("compatibility.karpenter.sh/x", True),
        ("notkarpenter.sh/x", False),
        ("kubectl.kubernetes.io/last-applied-configuration", False),
        ("controller.kubernetes.io/pod-deletion-cost", True),
        ("scheduling.k8s.io/group-name", True),
        ("karpenter.sh", True),
        ("x", False),
    ],
)
def test_annotations_are_kept_by_their_domain(key: str, *, is_kept: bool) -> None:
    assert is_kept_annotation(key) is is_kept


@pytest.mark.parametrize(
    ("container", "is_one"),
    [
        ({"image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"}, True),
        ({"image": "registry:5000/cluster-autoscaler@sha256:0a"}, True),
        ({"image": "registry:5000/karpenter/controller:1.14.0@sha256:0a"}, True),
        ({"image": "x/y:1", "command": ["/usr/bin/kube-scheduler", "--x"]}, True),
        ({"image": "x/y:1", "command": ["/bin/sh", "kube-scheduler"]}, False),
        ({"image": "x/y:1", "name": "kube-controller-manager"}, True),
        ({"image": "x/karpenter-docs:1"}, False),
        ({}, False),
    ],
)
def test_a_component_is_told_by_its_image_its_command_or_its_name(container: dict[str, Any], *, is_one: bool) -> None:
    assert is_component(container) is is_one


def test_of_a_component_the_program_is_kept_where_it_is_one_and_only_flags_that_are_read() -> None:
    env = [{"name": "FEATURE_GATES", "value": "a=true"}, {"name": "TOKEN", "value": "hunter2"}]
    started = {"name": "kube-scheduler", "args": ["--kube-api-qps=1", "--token=hunter2"], "env": env}
    for command, program in (("/usr/bin/kube-scheduler", ["kube-scheduler"]), ("/bin/sh", None)):
        pod = {"spec": {"containers": [{**started, "command": [command, "--kube-api-burst=2"]}]}}
        (container,) = of(kinds.PODS, pod)["spec"]["containers"]
        assert container.get("command") == program
        assert set(container["args"]) == {"--kube-api-qps=1", "--kube-api-burst=2"}
        assert container["env"] == env[:1]


def test_a_kind_is_called_as_kubectl_takes_it() -> None:
    assert (kinds.PODS.name, kinds.NODE_POOLS.name) == ("pods", "nodepools.karpenter.sh")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-21T11:00:00Z", "2026-11-21T11:00:00Z"),
        ("2026-11-21T11:00:00.000000Z", "2026-11-21T11:00:00.000000Z"),
        ("2026-11-21T13:00:00+02:00", "2026-11-21T11:00:00Z"),
        ("2026-11-21T11:00:00", "2026-11-21T11:00:00Z"),
        ("9999-12-31T23:59:59-01:00", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("noon", None),
    ],
)
def test_a_time_is_kept_as_api_servers_write_it(written: str, read: str | None) -> None:
    """One without a zone, of the year 1, ended plan, top and status in a ValueError."""
    made: dict[str, Any] = {"metadata": {"name": "a", "creationTimestamp": written, "deletionTimestamp": written}}
    made["status"] = {"conditions": [{"type": "Ready", "lastTransitionTime": written}]}
    node = msgspec.json.decode(kept(kinds.NODES, msgspec.json.encode(made)))
    assert (node["metadata"]["creationTimestamp"], node["metadata"]["deletionTimestamp"]) == (read, read)
    assert node["status"]["conditions"][0]["lastTransitionTime"] == read
