"""The judge of removals must itself be judged: it sees everything that may be left behind."""

from typing import Any

import pytest

from benchmarks.removal.judge import GATE, OURS, Marks, differences, marks, touched, trace
from benchmarks.removal.ways import TURNS, Way

TAINT, LABEL = "example.com/taint", "example.com/label"


def pool(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "default", **metadata}, "spec": {"limits": {"cpu": "1"}}}


def owned_by(manager: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Apply",
        "time": "now",
        "fieldsV1": {"f:spec": {"f:limits": {"f:cpu": {}}}},
    }


@pytest.mark.parametrize(
    "after",
    [
        {**pool(), "spec": {"limits": {"cpu": "2"}}},
        {**pool(), "spec": {}},
        pool(labels={f"{OURS}throttle": "default"}),
        pool(annotations={f"{OURS}original": "{}"}),
        pool(managedFields=[owned_by("kube-balloons-throttle")]),
    ],
)
def test_each_trace_of_ours_is_a_difference(after: dict[str, Any]) -> None:
    assert differences({"default": trace(pool())}, {"default": trace(after)})


def test_what_karpenter_does_meanwhile_is_none() -> None:
    status = {"manager": "karpenter", "operation": "Update", "fieldsV1": {"f:status": {"f:conditions": {}}}}
    after = pool(annotations={"karpenter.sh/nodepool-hash": "1"}, managedFields=[status], generation=7)
    assert differences({"default": trace(pool())}, {"default": trace(after)}) == []


def test_objects_that_come_or_go_are_differences() -> None:
    assert differences({"a": {}}, {"b": {}}) == ["a is gone", "b is new"]


def test_marks_are_found_one_by_one() -> None:
    marked = pool(annotations={f"{OURS}holder": "x"})
    gated = {"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": GATE}]}}
    free = {"metadata": {"name": "q"}, "spec": {"schedulingGates": [{"name": "example.com/theirs"}]}}
    tainted = {"metadata": {"name": "n", "labels": {LABEL: ""}}, "spec": {"taints": [{"key": TAINT}, {"key": "x"}]}}
    bare = {"metadata": {"name": "m"}, "spec": {"taints": [{"key": "x"}]}}
    kept = {"metadata": {"name": "k", "labels": {LABEL: ""}, "annotations": {f"{OURS}held-by": "a/b"}}, "spec": {}}
    found = marks([marked, pool()], [gated, free], [tainted, bare, kept], taint=TAINT, label=LABEL)
    assert found == Marks(ceilings=("default",), gates=("p",), taints=("n",), unlabelled=("m",), kept=("k",))
    assert len(list(found.words())) == 5
    assert list(Marks().words()) == []


def event(who: str, verb: str, resource: str, code: int = 200) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "user": {"username": who},
        "verb": verb,
        "objectRef": {"resource": resource, "name": "one"},
        "responseStatus": {"code": code},
    }


def test_only_what_our_accounts_really_wrote_was_touched() -> None:
    ours = "system:serviceaccount:kube-balloons:kube-balloons"
    events = [
        event(ours, "patch", "nodepools"),
        event(ours, "patch", "pods", 403),
        event(ours, "list", "nodes"),
        event(ours, "patch", "leases"),
        event("somebody", "patch", "capacityquotas"),
    ]
    assert touched(events) == {"nodepools/one"}


def test_every_way_has_its_turn_in_ten() -> None:
    assert set(TURNS) == set(Way)
    assert len(TURNS) == 10
