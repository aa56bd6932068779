"""Hashed names: none of the users' own is left, the same name is the same hash, and decisions stay."""

import msgspec

from balloons.cluster import kinds, typed
from balloons.cluster.detect import detect
from balloons.cluster.hashed import hashed
from balloons.cluster.seen import SeenCluster
from tests.seen_clusters import cluster

KEY = b"sixteen bytes or more"


def a_cluster() -> SeenCluster:
    node = {
        "metadata": {
            "name": "ip-10-1-2-3.corp.example",
            "labels": {
                "kubernetes.io/hostname": "ip-10-1-2-3.corp.example",
                "topology.kubernetes.io/zone": "eu-1a",
                "team": "moonshot",
            },
        },
        "spec": {"providerID": "aws:///eu-1a/i-0abc"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}},
    }
    pod = {
        "metadata": {"name": "train-0", "namespace": "secretlab", "labels": {"job": "moonshot"}},
        "spec": {
            "nodeName": "ip-10-1-2-3.corp.example",
            "containers": [
                {"name": "c", "image": "registry.corp.example/moonshot:1", "resources": {"requests": {"cpu": "1"}}}
            ],
        },
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "True", "message": "on ip-10-1-2-3.corp.example."}]
        },
    }
    system = {"metadata": {"name": "kube-proxy-x", "namespace": "kube-system"}, "spec": {"containers": []}}
    event = {
        "metadata": {"name": "train-0.16af", "namespace": "secretlab"},
        "note": "Successfully assigned secretlab/train-0 to ip-10-1-2-3.corp.example",
        "regarding": {"kind": "Pod", "name": "train-0", "namespace": "secretlab"},
    }
    return cluster({kinds.NODES: [node], kinds.PODS: [pod, system], kinds.EVENTS: [event]})


def whole(seen: SeenCluster) -> str:
    return b"".join(text for listed in seen.lists.values() for text in listed.objects).decode()


def test_no_name_of_the_users_is_left_and_kubernetes_names_stay() -> None:
    found = whole(hashed(a_cluster(), KEY))
    for private in ("moonshot", "secretlab", "train-0", "10-1-2-3", "corp", "i-0abc"):
        assert private not in found
    for public in ("kube-system", "eu-1a", "PodScheduled", "Successfully assigned"):
        assert public in found


def test_relations_hold() -> None:
    seen = hashed(a_cluster(), KEY)
    (node,) = typed.nodes(seen)
    pod = next(pod for pod in typed.pods(seen) if pod.node)
    assert pod.node == node.name == node.labels["kubernetes.io/hostname"]
    event = msgspec.json.decode(seen.listed(kinds.EVENTS).objects[0])
    assert event["note"] == f"Successfully assigned {pod.key} to {node.name}"
    assert node.is_ready
    assert detect(seen) == detect(a_cluster())


def test_the_key_decides() -> None:
    assert hashed(a_cluster(), KEY) == hashed(a_cluster(), KEY)
    assert whole(hashed(a_cluster(), KEY)) != whole(hashed(a_cluster(), KEY + b"x"))
