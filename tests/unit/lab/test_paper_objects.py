"""What a paper kubelet writes, from the little that it reads."""

import msgspec

from lab.cloud.machines.paper_objects import (
    PaperNode,
    Pod,
    PodList,
    final_delete,
    node_conditions,
    node_object,
    running_status,
)

NOW = "2026-11-21T04:00:00.000000Z"
POD = b"""{"metadata": {"name": "a", "namespace": "ns", "uid": "u-1", "labels": {"x": "y"}},
"spec": {"nodeName": "n-1", "containers": [{"name": "main", "image": "i"}, {"name": "side"}]},
"status": {"phase": "Pending", "qosClass": "BestEffort"}}"""


def test_node_is_ready_and_as_large_as_asked() -> None:
    node = node_object(PaperNode(name="n-1", allocatable={"nvidia.com/gpu": "8"}, labels={"a": "b"}), NOW)
    assert node["status"]["allocatable"] == node["status"]["capacity"] == {"nvidia.com/gpu": "8"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n-1"
    assert node["metadata"]["labels"]["a"] == "b"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }


def test_node_can_be_reported_not_ready() -> None:
    ready = [c["status"] for c in node_conditions(is_ready=False, timestamp=NOW) if c["type"] == "Ready"]
    assert ready == ["False"]


def test_pod_becomes_running_with_every_container_ready() -> None:
    pod = msgspec.json.decode(POD, type=Pod)
    patch = running_status(pod, NOW)
    assert patch["metadata"] == {"uid": "u-1"}
    assert patch["status"]["phase"] == "Running"
    assert [(c["name"], c["ready"]) for c in patch["status"]["containerStatuses"]] == [
        ("main", True),
        ("side", True),
    ]


def test_last_deletion_names_the_very_pod() -> None:
    pod = msgspec.json.decode(POD, type=Pod)
    assert final_delete(pod) == {"gracePeriodSeconds": 0, "preconditions": {"uid": "u-1"}}
    assert pod.path == "/api/v1/namespaces/ns/pods/a"


def test_list_is_read_with_its_version() -> None:
    listed = msgspec.json.decode(b'{"metadata": {"resourceVersion": "7"}, "items": [' + POD + b"]}", type=PodList)
    assert listed.metadata.resource_version == "7"
    assert [pod.spec.node_name for pod in listed.items] == ["n-1"]
