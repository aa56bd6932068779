"""What checks go by: priorities, placeholders and their pods, and names in few words."""

import sys
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.doctor.check import Facts, Severity, called, is_pause, some
from tests.doctor_cases import Cluster, pod, priority, workload
from tests.seen_clusters import cluster
from throttler.kube.pod import MANAGED_BY, POOL_LABEL

OF_P7 = {POOL_LABEL: "p7", "shape": "s", **MANAGED_BY}


def facts(objects: Cluster) -> Facts:
    return Facts(cluster({kind: [] for kind in kinds.ALL_KINDS} | dict(objects)))


CLASSES = {
    kinds.PRIORITY_CLASSES: [
        priority(-10),
        priority(7, "usual", globalDefault=True),
        priority(5, "lower", globalDefault=True),
        priority(99, "other"),
    ]
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priorityClassName": "low"}, -10),
        ({"priorityClassName": "low", "priority": 3}, -10),
        ({"priorityClassName": "gone"}, None),
        ({"priority": 3}, 3),
        ({"priority": 0}, 0),
        ({}, 7),
    ],
)
def test_a_priority_is_that_of_the_class_else_as_given_else_the_default(
    spec: dict[str, Any], expected: int | None
) -> None:
    assert facts(CLASSES).priority_of(spec) == expected
    assert facts({}).default_priority == 0
    nothing_said = {"metadata": {"name": "default"}, "globalDefault": True}
    assert facts({kinds.PRIORITY_CLASSES: [nothing_said]}).default_priority == 0


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (["registry.k8s.io/pause:3.10"], True),
        (["pause"], True),
        (["example.com:5000/x/pause@sha256:abc"], True),
        (["pause", "web:1"], False),
        (["web:1"], False),
        ([], False),
    ],
)
def test_a_pod_that_only_waits(images: list[str], *, expected: bool) -> None:
    assert is_pause({"containers": [{"name": str(at), "image": image} for at, image in enumerate(images)]}) is expected


def test_each_pod_is_looked_at_once_however_many_placeholders_there_are() -> None:
    """Every pod's text was searched for the labels of every pool."""
    steps = []
    for count in (20, 200):
        pools = [workload(f"p{i}", labels={POOL_LABEL: f"p{i}", "shape": "s", **MANAGED_BY}) for i in range(count)]
        pods = [pod(f"w{i}", "n1", labels={"app": "web"}) for i in range(1000)] + [
            pod("b", labels={**OF_P7, "more": ""})
        ]
        known = facts({kinds.DEPLOYMENTS: pools, kinds.PODS: pods})
        assert len(known.placeholders) == count
        called = 0

        def count_call(*_: Any) -> None:
            nonlocal called
            called += 1

        sys.setprofile(count_call)
        kept = known.placeholder_pods
        sys.setprofile(None)
        assert [pod["metadata"]["name"] for pod in kept] == ["b"]
        steps.append(called)
    assert steps[1] < 2 * steps[0]


def test_placeholders_are_ours_and_anybodys_pause_below_zero() -> None:
    ours = workload("ours", image="web:1", labels={POOL_LABEL: "warm", **MANAGED_BY}, priorityClassName=None)
    found = facts(
        {
            **CLASSES,
            kinds.DEPLOYMENTS: [
                ours,
                workload("room"),
                workload("high", priorityClassName="other"),
                workload("unknown", priorityClassName="gone"),
                workload("work", image="web:1"),
                workload("ours-by-word", image="web:1", labels={POOL_LABEL: "warm"}, priorityClassName=None),
            ],
        }
    )
    assert [each["metadata"]["name"] for each in found.placeholders] == ["ours", "room"]


def test_pods_of_a_placeholder_are_those_that_it_selects_in_its_namespace() -> None:
    both = workload("room", labels={"app": "room", "tier": "x"})
    unselected = workload("bare", "other", labels={"app": "bare"})
    del unselected["spec"]["selector"]
    found = facts(
        {
            **CLASSES,
            kinds.DEPLOYMENTS: [both, unselected],
            kinds.PODS: [
                pod("own", labels={"app": "room", "tier": "x", "more": "y"}),
                pod("half", labels={"app": "room"}),
                pod("elsewhere", namespace="other", labels={"app": "room", "tier": "x"}),
                pod("bare", namespace="other", labels={"app": "bare"}),
                {"metadata": "unreadable"},
            ],
        }
    )
    assert [each["metadata"]["name"] for each in found.placeholder_pods] == ["own", "bare"]
    assert [each.key.name for each in found.pending] == ["half", "elsewhere"]


def test_of_many_names_three_and_how_many_more() -> None:
    assert some("cba") == "a, b, c"
    assert some("dcba") == "a, b, c and 1 more"


def test_an_object_is_called_as_kubectl_takes_it() -> None:
    named = {"metadata": {"name": "a", "namespace": "n"}}
    assert called(kinds.DEPLOYMENTS, named) == "deployment/a -n n"
    assert called("node", {"metadata": {"name": "a"}}) == "node/a"


def test_words_of_severities() -> None:
    assert [each.word for each in sorted(Severity)] == ["info", "warning", "error"]
