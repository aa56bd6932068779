"""Which pools may serve a pod, and in which order Karpenter asks them."""

from typing import Any

import msgspec
import pytest

from tests.unit.throttler.levers.pool_scene import pool_body
from throttler.kube.karpenter import NodePool
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import Requirement, Toleration
from throttler.levers.pool_matching import in_karpenters_order, may_hold, may_make

ZONE, TYPE, SPOT = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"


def a_pool(name: str = "gpu", weight: int | None = None, **template: Any) -> NodePool:
    spec = {"requirements": template.pop("requirements", []), "taints": template.pop("taints", [])}
    body = pool_body(name=name, template={"metadata": {"labels": template.pop("labels", {})}, "spec": spec})
    body["spec"] |= {} if weight is None else {"weight": weight}
    return msgspec.convert({**body, **template}, NodePool)


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_the_heaviest_pool_comes_first_and_of_equal_ones_the_last_by_name() -> None:
    pools = [a_pool("a"), a_pool("b", 1), a_pool("c", 100), a_pool("d"), a_pool("e", 100)]
    assert [pool.metadata.name for pool in in_karpenters_order(pools)] == ["e", "c", "b", "d", "a"]


def test_a_pool_that_is_not_ready_is_not_usable() -> None:
    conditions = [{"type": "Ready", "status": "False"}]
    assert not a_pool(status={"conditions": conditions}).is_usable
    assert a_pool().is_usable


class TestTaints:
    POOL = a_pool(taints=[{"key": "gpu", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}])

    def test_a_taint_needs_a_toleration(self) -> None:
        assert not may_make(self.POOL, Scheduling())
        assert not may_make(self.POOL, Scheduling((Toleration("other", "Exists"),)))

    def test_a_toleration_of_the_key_or_of_all_will_do(self) -> None:
        assert may_make(self.POOL, Scheduling((Toleration("gpu", "Exists"),)))
        assert may_make(self.POOL, Scheduling((Toleration(operator="Exists"),)))


@pytest.mark.parametrize(
    ("selector", "is_possible"),
    [
        ({"team": "a"}, True),
        ({"team": "b"}, False),
        ({"other": "a"}, False),
        ({"example.com/other": "a"}, False),
        ({"karpenter.sh/nodepool": "gpu"}, True),
        ({"karpenter.sh/nodepool": "cpu"}, False),
        ({SPOT: "spot"}, True),
        ({SPOT: "on-demand"}, False),
        ({ZONE: "zone-1"}, True),
        ({"karpenter.k8s.aws/instance-gpu-count": "8"}, True),
        ({"node-restriction.kubernetes.io/team": "a"}, False),
        ({"kubernetes.io/hostname": "node-1"}, False),
        ({TYPE: "large"}, True),
        ({TYPE: "small"}, False),
    ],
)
def test_a_selector_is_met_by_labels_by_requirements_or_by_what_only_the_provider_knows(
    selector: dict[str, str], is_possible: bool
) -> None:
    requirements = [term(SPOT, "In", "spot"), term(TYPE, "NotIn", "small")]
    pool = a_pool(labels={"team": "a"}, requirements=requirements)
    assert may_make(pool, Scheduling(node_selector=selector)) is is_possible


@pytest.mark.parametrize(
    ("part", "is_possible"),
    [
        (("team", "NotIn", "b"), True),
        (("team", "NotIn", "a"), False),
        (("team", "DoesNotExist"), False),
        (("other", "DoesNotExist"), True),
        (("other", "NotIn", "x"), True),
        (("other", "Exists"), False),
        ((ZONE, "In", "zone-2", "zone-9"), True),
        ((ZONE, "In", "zone-9"), False),
        ((ZONE, "NotIn", "zone-1", "zone-2"), False),
        ((ZONE, "Exists"), True),
        ((ZONE, "DoesNotExist"), False),
        (("cores", "Gt", "8"), True),
        (("cores", "In", "16"), True),
        (("cores", "In", "2"), False),
    ],
)
def test_node_affinity_has_to_leave_a_value_in_common(part: tuple[str, ...], is_possible: bool) -> None:
    requirements = [term(ZONE, "In", "zone-1", "zone-2"), term("cores", "Gt", "4")]
    pool = a_pool(labels={"team": "a"}, requirements=requirements)
    how = Scheduling(node_terms=((Requirement(part[0], part[1], part[2:]),),))
    assert may_make(pool, how) is is_possible


def test_one_of_several_terms_is_enough() -> None:
    terms = ((Requirement("team", "In", ("b",)),), (Requirement("team", "In", ("a",)),))
    assert may_make(a_pool(labels={"team": "a"}), Scheduling(node_terms=terms))
    assert not may_make(a_pool(labels={"team": "c"}), Scheduling(node_terms=terms))


def test_a_pool_that_never_had_the_accelerator_is_for_others() -> None:
    gpu, plain = {"cpu": 192_000, "nvidia.com/gpu": 8000}, {"cpu": 8000}
    assert not may_hold([plain], {"cpu": 1000, "nvidia.com/gpu": 1000})
    assert may_hold([plain, gpu], {"cpu": 1000, "nvidia.com/gpu": 1000})
    assert may_hold([], {"nvidia.com/gpu": 1000}), "nothing is known of a pool without machines"
    assert may_hold([plain], {"cpu": 64_000}), "it may have larger types"
