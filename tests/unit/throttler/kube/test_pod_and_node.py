"""Pods and nodes cut down to what decisions read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from throttler.joins.demand import nodes_of
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import GROUP_LABELS, Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import Pod, PodKind, PodWire, pod_from_wire
from throttler.kube.quantities_and_durations import QuantityError, parse_resources
from throttler.kube.selectors import Requirement
from throttler.kube.taints import (
    JOINING_TAINTS,
    LEAVING_TAINTS,
    OLD_STARTUP_TAINT_PREFIX,
    STARTUP_TAINT_PREFIX,
    STATUS_TAINT_PREFIX,
    Taint,
    Toleration,
)

ROOT = Path(__file__).parents[4]
REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def pod(metadata: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A pod as the API server sends it, through the real decoder."""
    named = {"name": "p", "namespace": "team-a", **(metadata or {})}
    text = json.dumps({"kind": "Pod", "metadata": named, "spec": {"containers": [], **spec}, "status": status or {}})
    return pod_from_wire(msgspec.json.decode(text.encode(), type=PodWire), Shared())


def node(metadata: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Node:
    named = {"name": "n", "uid": "u", "resourceVersion": "7", **(metadata or {})}
    text = json.dumps({"kind": "Node", "metadata": named, "spec": spec, "status": status or {}})
    return node_from_wire(msgspec.json.decode(text.encode(), type=NodeWire), Shared())


def as_a_whole(allocated: str, in_force: str) -> dict[str, Any]:
    return {"allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": in_force}}}


OF_A_POOL = {
    "labels": {"kube-balloons.github.io/pool": "gpu", "app.kubernetes.io/managed-by": "kube-balloons"},
    "ownerReferences": [{"kind": "ReplicaSet", "name": "gpu-1", "uid": "r", "controller": True}],
}


def waits_for(reason: str) -> dict[str, Any]:
    return {"name": "balloon", "state": {"waiting": {"reason": reason}}}


def asks(restart_policy: str = "", **requests: str) -> dict[str, Any]:
    policy = {"restartPolicy": restart_policy} if restart_policy else {}
    return {"name": "c", "resources": {"requests": requests}, **policy}


def cpu_of(**spec: Any) -> int:
    return pod(**spec).requests.get("cpu", 0)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"phase": "Pending", "containerStatuses": [waits_for("ImagePullBackOff")]}, "ImagePullBackOff"),
        ({"phase": "Pending", "containerStatuses": [waits_for("ContainerCreating")]}, ""),
        ({"phase": "Pending"}, ""),
        ({"phase": "Running", "containerStatuses": [waits_for("CrashLoopBackOff")]}, ""),
    ],
)
def test_why_a_balloon_does_not_start(status: dict[str, Any], problem: str) -> None:
    assert pod(OF_A_POOL, status, nodeName="n", priority=-1).start_problem == problem
    assert pod({}, status, nodeName="n").start_problem == "", "work says it by itself"


def test_containers_add_up_and_every_pod_takes_a_slot() -> None:
    requests = pod(containers=[asks(cpu="250m", memory="1Gi"), asks(cpu="1"), {"name": "c"}]).requests
    assert requests == {"cpu": 1250, "memory": 2**30 * 1000, "pods": 1000}


def test_init_containers_run_one_after_another() -> None:
    assert cpu_of(containers=[asks(cpu="1")], initContainers=[asks(cpu="3"), asks(cpu="2")]) == 3000
    assert cpu_of(containers=[asks(cpu="4")], initContainers=[asks(cpu="3"), asks(cpu="2")]) == 4000


def test_sidecars_run_beside_all_that_follows() -> None:
    sidecar = asks("Always", cpu="1")
    assert cpu_of(containers=[asks(cpu="2")], initContainers=[sidecar]) == 3000
    assert cpu_of(containers=[asks(cpu="2")], initContainers=[sidecar, asks(cpu="4")]) == 5000
    assert cpu_of(containers=[asks(cpu="2")], initContainers=[asks(cpu="4"), sidecar]) == 4000
    assert cpu_of(initContainers=[asks("Always", cpu="1"), asks("Always", cpu="2")]) == 3000


def test_overhead_comes_on_top_of_everything() -> None:
    spec = {"containers": [asks(cpu="1")], "initContainers": [asks(cpu="3")], "overhead": {"cpu": "250m"}}
    assert cpu_of(**spec) == 3250


def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    spec: dict[str, Any] = {"containers": [asks(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "5"}}}
    requests = pod(**spec, overhead={"cpu": "1"}).requests
    assert (requests["cpu"], requests["memory"]) == (6000, 2**30 * 1000)


def resized(reason: str, kind: str = "PodResizePending", **status: Any) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason}], **status}


def in_status(allocated: str, in_force: str) -> dict[str, Any]:
    actual = {"requests": {"cpu": in_force}}
    return {"name": "c", "allocatedResources": {"cpu": allocated}, "resources": actual}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        (resized("Deferred", containerStatuses=[in_status("8", "8")]), 8000),
        (resized("", "PodResizeInProgress", containerStatuses=[in_status("2", "5")]), 5000),
        (resized("Deferred", containerStatuses=[in_status("1", "1")]), 2000),
        (resized("Infeasible", containerStatuses=[in_status("1", "500m")]), 1000),
        (resized("Infeasible", containerStatuses=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}]), 1000),
        (resized("Infeasible"), 2000),
        ({"containerStatuses": [in_status("8", "8")]}, 2000),
    ],
    ids=["shrinks", "in progress", "grows", "refused", "nothing allocated", "nothing said", "no resize"],
)
def test_a_pod_that_is_resized_in_place_takes_what_the_scheduler_counts(status: dict[str, Any], cpu: int) -> None:
    """By k8s.io/component-helpers/resource PodRequests with UseStatusResources."""
    container = asks(**{"cpu": "2", "nvidia.com/gpu": "4"})
    requests = pod(status=status, containers=[container]).requests
    assert (requests["cpu"], requests["nvidia.com/gpu"]) == (cpu, 4000)


def test_a_sidecar_that_is_resized_in_place_takes_the_larger_amount_too() -> None:
    status = resized("", "PodResizeInProgress", initContainerStatuses=[in_status("3", "3")])
    spec = {"containers": [{"name": "main"}], "initContainers": [asks("Always", cpu="1")]}
    assert pod(status=status, **spec).requests["cpu"] == 3000


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        (resized("", "PodResizeInProgress", **as_a_whole("5", "3")), 5000),
        (resized("", "PodResizeInProgress", **as_a_whole("3", "5")), 5000),
        (resized("Deferred", **as_a_whole("1", "1")), 2250),
        (resized("Infeasible", **as_a_whole("1", "1")), 1000),
        (resized("Infeasible"), 2250),
        (as_a_whole("8", "8"), 2250),
    ],
    ids=["shrinks", "grows", "waits", "refused", "nothing said", "no resize"],
)
def test_a_pod_that_is_resized_as_a_whole_takes_what_the_scheduler_counts(status: dict[str, Any], cpu: int) -> None:
    """By the same function with InPlacePodLevelResourcesVerticalScaling, which is on since 1.36; with an overhead."""
    whole = {"requests": {"cpu": "2"}}
    requests = pod(status=status, containers=[asks(cpu="1")], resources=whole, overhead={"cpu": "250m"}).requests
    assert requests == {"cpu": cpu, "pods": 1000}


def test_a_pod_with_an_unreadable_quantity_is_an_error_of_its_own() -> None:
    with pytest.raises(QuantityError, match="'1 Gi'"):
        pod(containers=[asks(memory="1 Gi")])


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({}, PodKind.WORK),
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}, PodKind.DAEMON),
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}, PodKind.WORK),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, PodKind.MIRROR),
        ({"labels": {"kube-balloons.github.io/pool": "gpu"}}, PodKind.WORK),
        (
            {
                "labels": {"kube-balloons.github.io/pool": "gpu", "app.kubernetes.io/managed-by": "kube-balloons"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
            },
            # Its priority is not a balloon's: tests/unit/balloons/view/test_tenancy_and_claim.py.
            PodKind.WORK,
        ),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}]}, PodKind.WORK),
    ],
)
def test_kind(metadata: dict[str, Any], kind: PodKind) -> None:
    assert pod(metadata).kind is kind


@pytest.mark.parametrize(
    ("text", "cost"), [("-100", -100), ("7", 7), ("", 0), ("1e3", 0), ("--5", 0), ("٣", 0), ("9" * 12, 0), (" 1", 0)]
)
def test_deletion_cost(text: str, cost: int) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert pod({"annotations": annotations}).deletion_cost == cost


@pytest.mark.parametrize(
    ("priority", "status", "ready_s"), [(-10, "True", 1_795_230_000.0), (-10, "False", 0.0), (0, "True", 0.0)]
)
def test_since_when_a_balloon_is_ready(priority: int, status: str, ready_s: float) -> None:
    metadata = {
        "labels": {"kube-balloons.github.io/pool": "gpu", "app.kubernetes.io/managed-by": "kube-balloons"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
    }
    said = {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T03:00:00Z"}
    seen = pod(metadata, {"conditions": [said]}, nodeName="n1", priority=priority)
    assert (seen.ready_s, seen.is_ready) == (ready_s, status == "True")


def test_what_has_happened_to_a_pod() -> None:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    seen = pod(
        {"deletionTimestamp": "2026-11-21T04:00:00Z", "creationTimestamp": "2026-11-21T03:00:00Z"},
        {"phase": "Running", "conditions": conditions},
        nodeName="n1",
        priority=-10,
    )
    assert (seen.key, seen.node, seen.priority) == (ObjectKey("team-a", "p"), "n1", -10)
    assert (seen.is_running, seen.is_ready, seen.is_preempted, seen.is_terminating) == (True, False, True, True)
    assert seen.created_s == 1_795_230_000.0
    assert seen.scheduling is None
    assert [pod(status={"phase": phase}).is_finished for phase in ("Pending", "Running", "Succeeded", "Failed")] == [
        False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "label",
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name"],
)
def test_a_gang_is_named_by_each_schedulers_label(label: str) -> None:
    scheduling = pod({"labels": {label: "job-1"}}).scheduling
    assert scheduling is not None
    assert scheduling.gang == "job-1"


def test_a_gang_of_kubernetes_own_is_named_in_the_spec() -> None:
    scheduling = pod(schedulingGroup={"podGroupName": "job-1-workers"}).scheduling
    assert scheduling is not None
    assert scheduling.gang == "job-1-workers"


def test_what_the_scheduler_would_ask_for_an_unbound_pod() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, {}]}}}
    seen = pod(
        {"labels": {"scheduling.x-k8s.io/pod-group": "job-1"}},
        {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "nominatedNodeName": "n",
        },
        nodeSelector={"pool": "gpu"},
        tolerations=[{"key": "team", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
        affinity=affinity,
        schedulingGates=[{"name": "wait"}],
    ).scheduling
    assert seen is not None
    assert seen.node_selector == {"pool": "gpu"}
    assert seen.node_terms == ((Requirement("zone", "In", ("a",)),), ())
    assert seen.tolerations == (Toleration("team", "Exists", "", "NoExecute", 30),)
    assert (seen.is_gated, seen.is_tried, seen.nominated_node, seen.gang) == (True, True, "n", "job-1")
    assert not seen.is_opaque


@pytest.mark.parametrize(
    ("spec", "cannot_preempt", "bound_by"),
    [
        ({}, False, ""),
        ({"preemptionPolicy": "PreemptLowerPriority", "schedulerName": "default-scheduler"}, False, ""),
        ({"preemptionPolicy": "Never"}, True, ""),
        ({"schedulerName": "volcano"}, True, ""),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, False, "volumes"),
        ({"volumes": [{"name": "v", "ephemeral": {}}], "hostNetwork": True}, False, ""),
        ({"resourceClaims": [{"name": "c"}], "schedulerName": "volcano"}, True, "claims"),
        ({"resourceClaims": [{"name": "c"}], "volumes": [{"name": "v", "ephemeral": {}}]}, False, "claims"),
        ({"resourceClaims": [{"name": "c"}], "hostNetwork": True}, False, ""),
    ],
)
def test_for_whom_the_scheduler_makes_no_room(spec: dict[str, Any], cannot_preempt: bool, bound_by: str) -> None:
    seen = pod({}, **spec).scheduling
    assert seen is not None
    assert seen.cannot_preempt is cannot_preempt
    assert (seen.is_bound_by_volumes, seen.is_bound_by_claims) == (bound_by == "volumes", bound_by == "claims")


@pytest.mark.parametrize(
    ("spec", "status", "claims_devices"),
    [
        ({}, {}, False),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}, {}, True),
        ({"nodeName": "n"}, {"extendedResourceClaimStatus": {"resourceClaimName": "p-extended-x"}}, True),
    ],
)
def test_who_has_devices_that_no_request_counts(
    spec: dict[str, Any], status: dict[str, Any], *, claims_devices: bool
) -> None:
    assert pod(status=status, **spec).claims_devices is claims_devices


@pytest.mark.parametrize(
    ("requests", "is_one_per_node"), [({"cpu": "4"}, True), ({"cpu": "4", "nvidia.com/gpu": "1"}, False)]
)
def test_a_pod_that_asks_for_devices_by_claims_alone_is_taken_for_one_that_fills_its_node(
    requests: dict[str, str], *, is_one_per_node: bool
) -> None:
    """Its cpu says nothing of them: by that alone forty pods with eight GPUs each would share a node."""
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight-gpus"}]
    training = [
        pod({"name": name}, containers=[asks(**requests)], resourceClaims=claims, status=REFUSED) for name in "abc"
    ]
    size = parse_resources({"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"})
    machine = Node("n", "u", "1", {}, size)
    assert nodes_of(training, (machine,)) == (3 if is_one_per_node else 1)


def anti_affinity(**term: Any) -> dict[str, Any]:
    full = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}, **term}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [full]}}}


NODE_FIELDS: dict[str, Any] = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
}
MIXED_TERMS = {"nodeSelectorTerms": [*NODE_FIELDS["nodeSelectorTerms"], {"matchExpressions": []}]}
ITSELF = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]},
        {"volumes": [{"name": "c", "configMap": {"name": "c"}}, {"name": "v", "persistentVolumeClaim": {}}]},
        {"resourceClaims": [{"name": "gpu"}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": how} for how in ("ScheduleAnyway", "DoNotSchedule")]},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NODE_FIELDS}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": MIXED_TERMS}}},
        {"hostNetwork": True},
        {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        anti_affinity(topologyKey="topology.kubernetes.io/zone"),
        anti_affinity(labelSelector={"matchLabels": {"app": "another"}}),
        anti_affinity(labelSelector=None),
        anti_affinity(labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [ITSELF, {**ITSELF, "topologyKey": "zone"}]
                }
            }
        },
    ],
)
def test_rules_that_are_not_judged_here_leave_the_pod_to_the_scheduler(spec: dict[str, Any]) -> None:
    seen = pod({"labels": {"app": "x"}}, **spec).scheduling
    assert seen is not None
    assert seen.is_opaque


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
        anti_affinity(),
    ],
)
def test_other_pods_are_judged_here(spec: dict[str, Any]) -> None:
    seen = pod({"labels": {"app": "x", "job": "1"}}, **spec).scheduling
    assert seen is not None
    assert not seen.is_opaque
    assert seen.is_one_per_node is ("affinity" in spec)


def test_what_a_pod_only_prefers_binds_nobody() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = {"nodeAffinity": preferred, "podAffinity": preferred, "podAntiAffinity": preferred}
    seen = pod({"labels": {"app": "x"}}, affinity=affinity).scheduling
    assert seen is not None
    assert (seen.is_opaque, seen.is_one_per_node, seen.node_terms) == (False, False, ())


@pytest.mark.parametrize(
    ("conditions", "is_tried"),
    [
        ([("PodScheduled", "Unschedulable"), ("Ready", "")], True),
        ([("PodScheduled", "SchedulingGated")], False),
        ([("Ready", "Unschedulable")], False),
        ([], False),
    ],
)
def test_the_scheduler_has_tried_a_pod_that_it_found_unschedulable(
    conditions: list[tuple[str, str]], is_tried: bool
) -> None:
    said = [{"type": kind, "status": "False", "reason": reason} for kind, reason in conditions]
    seen = pod(status={"conditions": said}).scheduling
    assert seen is not None
    assert seen.is_tried is is_tried


def test_a_node_keeps_only_what_decisions_read() -> None:
    annotations = {"kube-balloons.github.io/held-by": "team-a/gpu", "other": "x" * 1000}
    seen = node(
        {
            "labels": {"topology.kubernetes.io/zone": "a"},
            "annotations": annotations,
            "creationTimestamp": "2026-11-21T03:00:00Z",
        },
        {
            "allocatable": {"cpu": "15890m", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "GpuSick", "status": "Unknown"}],
            "images": [{"names": ["a"], "sizeBytes": 5}],
        },
        unschedulable=True,
        taints=[{"key": "team", "value": "a", "effect": "NoSchedule", "timeAdded": "2026-11-21T03:00:00Z"}],
    )
    assert seen.allocatable == {"cpu": 15890, "memory": 2**36 * 1000, "nvidia.com/gpu": 8000, "pods": 110_000}
    assert seen.annotations == {"kube-balloons.github.io/held-by": "team-a/gpu"}
    assert seen.taints == (Taint("team", "NoSchedule", "a"),)
    assert seen.conditions == {("Ready", "True"), ("GpuSick", "Unknown")}
    assert (seen.zone, seen.is_ready, seen.is_cordoned, seen.is_deleting) == ("a", True, True, False)


def test_the_name_of_a_machine_is_kept_until_karpenter_has_initialised_its_node() -> None:
    pool, done = {"karpenter.sh/nodepool": "gpu"}, {"karpenter.sh/initialized": "true"}
    seen = [node({"labels": labels}, {}, providerID="aws:///a/i-1") for labels in ({}, pool, pool | done)]
    assert [each.provider_id for each in seen] == ["", "aws:///a/i-1", ""]


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_does_not_say_ready_is_not(status: str) -> None:
    assert not node(status={"conditions": [{"type": "Ready", "status": status}]}).is_ready
    assert not node().is_ready


def test_since_when_a_node_is_not_ready_is_what_its_condition_says() -> None:
    since = {"lastTransitionTime": "2026-11-21T03:00:00Z"}
    others = [{"type": "DiskPressure", "status": "False", "lastTransitionTime": "2026-11-20T00:00:00Z"}]
    stopped = {"conditions": [*others, {"type": "Ready", "status": "Unknown", **since}]}
    assert node(status=stopped).unready_s == datetime(2026, 11, 21, 3, tzinfo=UTC).timestamp()
    runs = {"conditions": [*others, {"type": "Ready", "status": "True", **since}]}
    undated = {"conditions": [*others, {"type": "Ready", "status": "False", "lastTransitionTime": None}]}
    assert [node(status=status).unready_s for status in (runs, undated, {"conditions": others})] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("stamp", ["0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "soon"])
def test_a_date_that_no_calendar_has_hides_no_node(stamp: str) -> None:
    said = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp}]}
    seen = node(status=said)
    assert (seen.is_ready, seen.unready_s <= 0.0) == (False, True)


@pytest.mark.parametrize(
    ("text", "module"),
    [
        *((taint, "taints.py") for taint in sorted({*JOINING_TAINTS, *LEAVING_TAINTS}) if "/oke-" not in taint),
        *((prefix, "taints.py") for prefix in (STARTUP_TAINT_PREFIX, OLD_STARTUP_TAINT_PREFIX, STATUS_TAINT_PREFIX)),
        *((label, "node.py") for label in GROUP_LABELS),
    ],
)
def test_what_marks_nodes_that_join_or_leave_and_their_groups_is_written_down_once(text: str, module: str) -> None:
    """In three places with three contents, a node was closed to balloons and on its way for the throttle."""
    files = [path for package in ("balloons", "throttler") for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in files if f'"{text}"' in path.read_text(encoding="utf-8")] == [module]


def test_nodes_of_one_kind_share_their_parts() -> None:
    shared, text = Shared(), {"cpu": "4", "memory": "8Gi"}
    times = {"a": "2026-11-21T03:00:00Z", "b": "2026-11-21T04:00:00Z"}
    objects = [
        {
            "metadata": {"name": name, "labels": {"pool": "gpu"}},
            "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": text,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": times[name]}],
            },
        }
        for name in times
    ]
    wires = [msgspec.json.decode(msgspec.json.encode(found), type=NodeWire) for found in objects]
    one, other = (node_from_wire(wire, shared) for wire in wires)
    assert one.allocatable is other.allocatable
    assert one.taints is other.taints
    assert one.conditions is other.conditions
    assert one.labels is not other.labels


@pytest.mark.parametrize("allocatable", [{"cpu": "much"}, {"cpu": 4}, ["4"], None])
def test_a_node_whose_allocatable_cannot_be_read_is_refused(allocatable: object) -> None:
    with pytest.raises((QuantityError, msgspec.ValidationError)):
        node(status={"allocatable": allocatable})


def test_what_objects_share_is_forgotten_before_it_fills_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("throttler.kube.node.MOST_SHARED", 3)

    def shown(host: int) -> tuple[object, ...]:
        name = (f"host-{host}",)
        return shared.one(name), shared.labels({"host": f"host-{host}"})["host"], shared.mapping({"host": name[0]})

    shared = Shared()
    first = shown(1)
    assert all(again is before for again, before in zip(shown(1), first, strict=True))
    for host in range(2, 9):
        shown(host)
    assert all(again is not before for again, before in zip(shown(1), first, strict=True))
