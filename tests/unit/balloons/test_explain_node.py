"""How a node stands, and who holds it."""

from typing import Any

import pytest

from balloons.cluster import seen_cluster
from balloons.cluster.seen_cluster import SeenCluster
from balloons.explain import explain_node, explain_pod
from tests.unit.balloons.things_to_explain import agent, at, balloon, claim, node, pod, seen, static_pod
from throttler.kube.pod import POOL_LABEL


def steps_of(whole: SeenCluster) -> list[str]:
    found = explain_node(whole, "n1")
    assert found is not None
    return [step.what for step in found.steps]


def leaving(thing: dict[str, Any]) -> dict[str, Any]:
    return {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": at(5)}}


def labelled(thing: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """Work may wear a pool's label, to say whose nodes it is meant for."""
    return {**thing, "metadata": {**thing["metadata"], "labels": labels}}


@pytest.mark.parametrize(
    ("objects", "now"),
    [
        ({"nodes": [node()], "pods": [balloon("n1"), agent("n1")]}, "warm: held for pool gpu"),
        (
            {"nodes": [node()], "pods": [balloon("n1"), pod("n1"), agent("n1")]},
            "held for pool gpu, beside pods of work: 1",
        ),
        ({"nodes": [node()], "pods": [agent("n1"), static_pod("n1")]}, "ready and idle"),
        ({"nodes": [node()], "pods": [pod("n1"), agent("n1")]}, "ready, pods of work on it: 1"),
        ({"nodes": [node()], "pods": [{**pod("n1"), "status": {"phase": "Succeeded"}}]}, "ready and idle"),
        ({"nodes": [node()], "pods": [{**balloon("n1"), "status": {"phase": "Failed"}}]}, "ready and idle"),
        ({"nodes": [node()], "pods": [labelled(pod("n1"), {POOL_LABEL: "gpu"})]}, "ready, pods of work on it: 1"),
        ({"nodes": [node("False")]}, "joined and not ready: container runtime network not ready"),
        ({"nodes": [node(taints=[{"key": "karpenter.sh/unregistered"}])]}, "ready, and held back by the taint karp"),
        (
            {"nodes": [node(taints=[{"key": "node.kubernetes.io/network-unavailable"}])]},
            "ready, and held back by the taint node.kubernetes.io/network-unavailable",
        ),
        ({"nodes": [node(unschedulable=True)]}, "ready and cordoned"),
        (
            {"nodes": [node(taints=[{"key": "karpenter.sh/disrupted"}])], "pods": [balloon("n1")]},
            "ready, and about to be removed: it has the taint karpenter.sh/disrupted",
        ),
        ({"nodes": [leaving(node())]}, "ready, and being removed"),
        ({"claims": [claim()]}, "it has not joined: its NodeClaim is not launched yet"),
        ({"claims": [claim("Launched")]}, "it has not joined: its NodeClaim is not registered yet"),
        ({"claims": [claim("Launched", "Registered")]}, "it has not joined: its NodeClaim is not initialized yet"),
    ],
)
def test_how_a_node_stands(objects: dict[str, Any], now: str) -> None:
    found = explain_node(seen(**objects), "n1")
    assert found is not None
    assert found.now.startswith(now)


def test_a_nodes_way_ends_with_who_holds_it() -> None:
    whole = seen(
        nodes=[node()], claims=[claim("Launched", "Registered", "Initialized")], pods=[balloon("n1"), agent("n1")]
    )
    names = steps_of(whole)
    assert names[0] == "asked for"
    assert names[-1] == "warm: held for pool gpu"
    assert "bound: kube-system/agent-1" not in names
    refused = {**balloon("n1"), "status": {**balloon("n1")["status"], "phase": "Failed"}}
    assert steps_of(seen(nodes=[node()], pods=[refused]))[-1] == "bound: ml/warm-1", "refused, it held nothing"


def test_a_pod_that_leaves_its_node_says_so() -> None:
    there, leaves = (
        explain_pod(seen(nodes=[node()], pods=[each]), "ml", "train-0") for each in (pod("n1"), leaving(pod("n1")))
    )
    assert there is not None
    assert leaves is not None
    assert (there.now, leaves.now) == ("running on n1", "running on n1, and leaving")


def test_of_a_large_cluster_only_what_speaks_of_the_object_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """150,000 pods as plain data take a gigabyte."""
    others = [agent(f"n{number}") for number in range(2, 50)]
    whole = seen(nodes=[node()], pods=[balloon("n1"), agent("n1"), pod("n1"), *others])
    decoded: list[bytes] = []
    plain = seen_cluster._object

    def counted(raw: bytes) -> dict[str, Any]:
        decoded.append(raw)
        return plain(raw)

    monkeypatch.setattr(seen_cluster, "_object", counted)
    assert "warm: held for pool gpu" in steps_of(whole)
    assert len(decoded) == 4
    decoded.clear()
    assert explain_pod(whole, "ml", "train-0") is not None
    assert len(decoded) == 2
