"""Karpenter's objects as they are read, and which labels a pod may not ask it for."""

from typing import Any

import msgspec
import pytest

from throttler.kube.karpenter import NodeClaim, NodePool, compact_claim, is_refused_in_pods
from throttler.kube.node import Shared


@pytest.mark.parametrize(
    ("label", "is_refused"),
    [
        ("karpenter.sh/nodepool", False),
        ("karpenter.sh/capacity-type", False),
        ("karpenter.sh/registered", True),
        ("testing.karpenter.sh/x", True),
        ("notkarpenter.sh/x", False),
        ("karpenter.sh.example.com/x", False),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", False),
        ("team", False),
    ],
)
def test_no_node_is_made_for_a_pod_that_asks_for_labels_of_its_own(label: str, *, is_refused: bool) -> None:
    assert is_refused_in_pods(label) is is_refused


def claim(*conditions: tuple[str, str], **metadata: Any) -> NodeClaim:
    status = {
        "nodeName": "n1",
        "providerID": "aws:///a/i-1",
        "capacity": {"cpu": "8"},
        "allocatable": {"cpu": "7500m"},
        "conditions": [{"type": name, "status": status} for name, status in conditions],
    }
    return msgspec.convert({"metadata": {"name": "general-x", **metadata}, "status": status}, NodeClaim)


STAGES = ("Launched", "Registered", "Initialized", "Drifted")


@pytest.mark.parametrize("true", STAGES)
def test_a_claim_is_where_its_conditions_that_are_true_say(true: str) -> None:
    others = [(name, "False") for name in STAGES if name != true]
    seen = claim(*others, (true, "True"))
    found = (seen.is_launched, seen.is_registered, seen.is_initialized, seen.is_drifted)
    assert found == tuple(name == true for name in STAGES)


def test_what_a_claim_says_of_its_machine() -> None:
    labels = {"karpenter.sh/nodepool": "gpu", "node.kubernetes.io/instance-type": "p5"}
    seen = claim(labels=labels)
    assert (seen.pool, seen.node_name, seen.provider_id) == ("gpu", "n1", "aws:///a/i-1")
    assert seen.capacity == {"cpu": 8_000}
    assert [claim(deletionTimestamp=stamp).is_deleting for stamp in (None, "2026-11-21T11:00:00Z")] == [False, True]
    bare = msgspec.convert({"metadata": {"name": "general-y"}}, NodeClaim)
    assert (bare.pool, bare.node_name, bare.provider_id, bare.capacity) == ("", "", "", {})
    kept = [compact_claim(claim((stage, "True")), Shared()).provider_id for stage in STAGES[:2]]
    assert kept == ["aws:///a/i-1", ""], "the caches need it until the Node is matched"


@pytest.mark.parametrize(
    ("key", "operator", "values", "is_one"),
    [
        ("node.kubernetes.io/instance-type", "In", ["p5"], True),
        ("node.kubernetes.io/instance-type", "In", ["p5", "p4"], False),
        ("node.kubernetes.io/instance-type", "NotIn", ["p5"], False),
        ("node.kubernetes.io/instance-type", "Exists", [], False),
        ("karpenter.sh/capacity-type", "In", ["reserved"], False),
    ],
)
def test_of_which_instance_types_a_machine_may_be(key: str, operator: str, values: list[str], *, is_one: bool) -> None:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    spec = {"requirements": [zone, {"key": key, "operator": operator, "values": values}]}
    seen = msgspec.convert({"metadata": {"name": "gpu-x"}, "spec": spec}, NodeClaim)
    assert [seen.is_of_one_type, compact_claim(seen, Shared()).is_of_one_type] == [is_one] * 2
    pool = msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"template": {"spec": spec}}}, NodePool)
    assert pool.one_type == ("p5" if is_one else "")
    assert not claim().is_of_one_type


@pytest.mark.parametrize(
    ("conditions", "is_usable"),
    [
        (None, True),
        ([], True),
        ([("Ready", "True")], True),
        ([("Ready", "Unknown")], True),
        ([("Ready", "False")], False),
        ([("ValidationSucceeded", "False")], True),
        ([("ValidationSucceeded", "False"), ("Ready", "True")], True),
    ],
)
def test_a_pool_is_usable_until_karpenter_says_that_it_is_not_ready(conditions: Any, *, is_usable: bool) -> None:
    said = conditions and [{"type": name, "status": status} for name, status in conditions]
    pool = msgspec.convert({"metadata": {"name": "gpu"}, "status": {"conditions": said}}, NodePool)
    assert pool.is_usable is is_usable
