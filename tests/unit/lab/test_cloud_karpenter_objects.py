from typing import Any

import pytest

from lab.cloud.karpenter import HOLLOW, HOLLOW_GPU, KarpenterSettings, NodePoolSettings, paper_type
from lab.cloud.karpenter.objects import is_launched, is_leaving, node_pool, order_of
from lab.errors import LabError


def claim(**metadata: Any) -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": "hollowgpu-8", "team": "a"}
    return {
        "metadata": {"name": "default-x", "labels": labels, **metadata},
        "spec": {
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoSchedule"}],
        },
        "status": {"providerID": "kwok://long-name"},
    }


def test_hollow_types_have_the_size_that_a_hollow_kubelet_reports() -> None:
    for kind in (HOLLOW, HOLLOW_GPU):
        assert (kind.capacity["cpu"], kind.capacity["memory"]) == ("1000m", "3840Mi")
        assert (kind.allocatable["cpu"], kind.allocatable["memory"]) == ("900m", "3830Mi")
    assert HOLLOW_GPU.allocatable["nvidia.com/gpu"] == "8"


def test_a_type_is_offered_in_each_zone_and_smaller_is_cheaper() -> None:
    small, large = paper_type("small", 2, 8), paper_type("large", 8, 32, gpus=1)
    assert small.price_per_hour < large.price_per_hour
    assert large.entry()["resources"]["nvidia.com/gpu"] == "1"
    terms = small.entry()["offerings"][0]["Requirements"]
    assert {term["key"]: term["values"] for term in terms} == {
        "karpenter.sh/capacity-type": ["on-demand"],
        "topology.kubernetes.io/zone": ["lab-a"],
    }


def test_a_node_pool_carries_what_was_set() -> None:
    pool = NodePoolSettings(consolidate_after_s=None, limits={"cpu": "4"}, labels={"team": "a"}, instance_types=("x",))
    spec = node_pool(pool)["spec"]
    assert spec["disruption"]["consolidateAfter"] == "Never"
    assert spec["limits"] == {"cpu": "4"}
    assert spec["template"]["metadata"]["labels"] == {"team": "a"}
    assert spec["template"]["spec"]["requirements"][1]["values"] == ["x"]
    assert "limits" not in node_pool(NodePoolSettings())["spec"]


def test_a_machine_registers_with_the_claims_labels_and_taints() -> None:
    order = order_of(claim(), HOLLOW_GPU)
    assert (order.name, order.provider_id) == ("default-x", "kwok://long-name")
    assert order.labels["team"] == "a"
    assert [taint["key"] for taint in order.taints] == ["karpenter.sh/unregistered", "gpu", "s"]


def test_a_claim_is_launched_once_it_has_an_id_and_until_it_leaves() -> None:
    assert is_launched(claim())
    assert not is_launched({**claim(), "status": {}})
    leaving = claim(deletionTimestamp="2026-01-01T00:00:00Z")
    assert is_leaving(leaving)
    assert not is_launched(leaving)


def test_settings_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(LabError, match="names paper-8; instance_types has hollow-1"):
        KarpenterSettings(node_pools=(NodePoolSettings(instance_types=("paper-8",)),))
    with pytest.raises(LabError, match="must be WhenEmpty or WhenEmptyOrUnderutilized"):
        NodePoolSettings(consolidation_policy="Sometimes")
