"""What nobody looks after any more is given back, and nothing that a throttle names."""

from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import a_world, pending
from tests.unit.throttler.service.throttle_scene import QUOTAS_SERVED, a_throttle, a_view
from throttler.api.throttle import JoinThrottle
from throttler.kube.cluster_autoscaler import MAX_SIZE, CapacityQuota, MachineDeployment
from throttler.kube.karpenter import NodePool
from throttler.kube.pod import Pod
from throttler.levers.lever_and_reasons import THROTTLE_LABEL
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, SavedLimits
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.all_levers import leftover_writes
from throttler.service.decide_throttles import decide_throttles

MOVED = msgspec.json.encode(SavedLimits(original={"cpu": "100"}, ceiling={"cpu": "8"})).decode()
MADE = msgspec.json.encode(SavedLimits(original={"nodes": None}, ceiling={"nodes": "3"}, is_made=True)).decode()

SIZED = msgspec.json.encode(SavedLimits(original={MAX_SIZE: "50"}, ceiling={MAX_SIZE: "8"})).decode()


def a_pool(name: str = "pool-a") -> NodePool:
    template = {"metadata": {"labels": {"pool": "a"}}}
    return msgspec.convert(
        {"metadata": marked(name, MOVED), "spec": {"limits": {"cpu": "8"}, "template": template}}, NodePool
    )


def a_quota(name: str = "q") -> CapacityQuota:
    return msgspec.convert(
        {"metadata": marked(name, MADE), "spec": {"limits": {"resources": {"nodes": "3"}}}}, CapacityQuota
    )


def a_group(namespace: str) -> MachineDeployment:
    metadata = marked("pool-a", SIZED)
    metadata |= {"namespace": namespace, "annotations": {**metadata["annotations"], MAX_SIZE: "8"}}
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": 4}, "status": {}}, MachineDeployment)


def marked(name: str, mark: str) -> dict[str, Any]:
    labels, annotations = {THROTTLE_LABEL: "default"}, {ORIGINAL_ANNOTATION: mark}
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": labels, "annotations": annotations}


def left(*throttles: JoinThrottle, unplaced: tuple[Pod, ...] = (), limited: tuple[Any, ...] | None = None) -> list[str]:
    scene = {"limited": (a_pool(), a_quota()) if limited is None else limited, "versions": QUOTAS_SERVED}
    view = a_view(1000.0, a_world(unplaced=unplaced), scene=scene)
    turns, _ = decide_throttles(throttles, view, {})
    known = [turn.stored for turn in turns if isinstance(turn.stored, JoinThrottle)]
    return [f"{write.how.value} {write.kind} {write.key.name}" for write in leftover_writes(view.scene, known)]


def test_what_a_throttle_names_yields_no_write() -> None:
    assert left(a_throttle(levers={"nodePoolLimits": {}, "capacityQuota": {"name": "q"}})) == []


def test_what_no_throttle_names_is_given_back() -> None:
    assert left() == ["delete CapacityQuota q", "merge NodePool pool-a"]


@pytest.mark.parametrize(
    ("levers", "expected"),
    [
        ({"nodePoolLimits": {}}, ["delete CapacityQuota q"]),
        ({"nodePoolLimits": {"names": ["pool-a"]}}, ["delete CapacityQuota q"]),
        ({"capacityQuota": {"name": "q"}}, ["merge NodePool pool-a"]),
        ({"capacityQuota": {"name": "pool-a"}}, ["delete CapacityQuota q", "merge NodePool pool-a"]),
        ({"nodePoolLimits": {"names": ["q"]}}, ["delete CapacityQuota q", "merge NodePool pool-a"]),
    ],
)
def test_a_pool_and_a_quota_are_not_taken_for_each_other(levers: dict[str, Any], expected: list[str]) -> None:
    assert left(a_throttle(levers=levers)) == expected


def test_what_stands_in_the_name_of_a_throttle_that_does_not_name_it_is_left_to_whoever_does() -> None:
    """It was deleted and the other one made while no replica ran, say: that one takes it over."""
    heir = a_throttle("heir", levers={"nodePoolLimits": {}, "capacityQuota": {"name": "q"}})
    assert left(heir) == left(a_throttle(levers={"headroom": True}), heir) == []


def test_a_throttle_that_could_not_be_decided_keeps_what_it_has_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("planning failed")

    monkeypatch.setattr("throttler.service.decide_throttles.decide_levers", fail)
    assert left(a_throttle(levers={"nodePoolLimits": {}, "capacityQuota": {"name": "q"}})) == []


HELD = pending("held", is_gated=True, is_tried=False, gates=(PACED_GATE,), node_selector={"pool": "a"})


@pytest.mark.parametrize(
    ("throttle", "expected"),
    [
        pytest.param({"levers": {"schedulingGates": {}}}, [], id="of every node"),
        pytest.param(
            {"nodes": {"matchLabels": {"pool": "a"}}, "levers": {"schedulingGates": {}}}, [], id="of its nodes"
        ),
        pytest.param(
            {"nodes": {"matchLabels": {"pool": "b"}}, "levers": {"schedulingGates": {}}},
            ["json Pod held"],
            id="of other nodes",
        ),
        pytest.param({"levers": {"schedulingGates": {"enabled": False}}}, ["json Pod held"], id="switched off"),
        pytest.param({"levers": {"headroom": True}}, ["json Pod held"], id="no such lever"),
    ],
)
def test_a_pod_that_a_throttle_holds_is_left_to_it_and_others_are_let_go(
    throttle: dict[str, Any], expected: list[str]
) -> None:
    assert left(a_throttle(**throttle), unplaced=(HELD, pending("seeking")), limited=()) == expected


def test_a_group_of_machines_is_its_throttles_in_its_namespace_alone() -> None:
    groups = a_group("capi"), a_group("other")
    lever = {"machineDeployments": {"namespace": "capi", "names": ["pool-a"]}}
    assert left(a_throttle(levers=lever), limited=groups[:1]) == []
    assert left(a_throttle(levers=lever), limited=groups[1:]) == ["merge MachineDeployment pool-a"]
