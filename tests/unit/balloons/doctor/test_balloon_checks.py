"""Checks of balloons and of priorities at their bounds: which pods count, where they are, and who looks at them."""

import copy
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.doctor.check import Facts
from tests.counted_work import counting
from tests.doctor_cases import (
    BUDGET,
    GPU,
    HARD,
    SOFT,
    Cluster,
    Thing,
    autoscaler,
    daemon_set,
    meta,
    node,
    node_pool,
    placed,
    pod,
    pool,
    priority,
    room,
    workload,
)
from tests.unit.balloons.doctor.findings import CHECKS, seen, sentences, troubles
from throttler.kube.pod import MANAGED_BY, POOL_LABEL

PAUSE = "registry.k8s.io/pause:3.10"
LOWER = {
    kinds.DEPLOYMENTS: [workload("lower", priorityClassName="lower")],
    kinds.PRIORITY_CLASSES: [priority(-20, "lower")],
}
"""A second placeholder, below the first."""
BY_KARPENTER = {kinds.NODE_POOLS: [node_pool()]}
KARPENTER = workload(
    "karpenter", "kube-system", image="public.ecr.aws/karpenter/controller:1.9.0", priorityClassName=None
)
BY_CLUSTER_AUTOSCALER = {kinds.DEPLOYMENTS: [autoscaler()], kinds.AUTOSCALER_STATUS: []}
OURS = workload("ours", image="web:1", labels={POOL_LABEL: "warm", **MANAGED_BY}, priorityClassName="zero")


def of_daemon_set(name: str, cpu: str) -> Thing:
    found = pod(name, "n1", labels={"app": "agent"}, requests={"cpu": cpu})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    return {**found, "metadata": {**found["metadata"], "ownerReferences": [owner]}}


def work(name: str, cpu: str = "1") -> Thing:
    return pod(name, "n1", labels={"app": "web"}, requests={"cpu": cpu})


def on_node(*pods: Thing, **sizes: str) -> Cluster:
    """A balloon of 3 of its node's 8 cores, and these."""
    balloon = pod("room-1", "n1", requests={"cpu": "3"})
    return placed({kinds.NODES: [node("n1", sizes=sizes)], kinds.PODS: [balloon, *pods]})


def on_gpu_node(*pods: Thing, gpus: str = "8") -> Cluster:
    machines = [node("g1", sizes={"nvidia.com/gpu": gpus}), node("n1")]
    return placed({kinds.NODES: machines, kinds.PODS: list(pods)})


def beside(**spec: Any) -> Cluster:
    """A placeholder, and work with these rules about nodes."""
    return placed({kinds.DEPLOYMENTS: [workload("web", image="web:1", priorityClassName=None, **spec)]})


def merged(*clusters: Cluster) -> Cluster:
    found: dict[kinds.Kind, list[Thing]] = {}
    for cluster in clusters:
        for kind, things in cluster.items():
            found[kind] = [*found.get(kind, []), *copy.deepcopy(things)]
    return found


def spread(when: str) -> list[Thing]:
    return [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}]


def preferred(kind: str) -> Thing:
    return {kind: SOFT["nodeAffinity"]}


def default_class(value: int | None) -> Cluster:
    found = priority(0, "everyone", globalDefault=True)
    return {kinds.PRIORITY_CLASSES: [{**found, "value": value}]}


@pytest.mark.parametrize(
    ("code", "objects", "is_found"),
    [
        ("KB011", placed({kinds.DISRUPTION_BUDGETS: [{**BUDGET, "metadata": meta("keep", "other")}]}), False),
        ("KB012", on_gpu_node(pod("room-1", "g1")), True),
        ("KB012", on_gpu_node(pod("room-1", "g1"), gpus="0"), False),
        ("KB012", on_gpu_node(pod("room-1", "n1")), False),
        ("KB012", on_gpu_node(pod("web", "g1", labels={"app": "web"})), False),
        ("KB012", merged(on_gpu_node(pod("room-1", "g1")), BY_KARPENTER), False),
        ("KB013", on_node(), True),
        ("KB013", on_node(work("web", "100m")), False),
        ("KB013", on_node({**work("done"), "status": {"phase": "Succeeded"}}), True),
        ("KB013", on_node(of_daemon_set("agent", "999m")), True),
        ("KB013", on_node(of_daemon_set("agent", "1")), False),
        ("KB013", on_node(memory="3Gi", cpu="8", **GPU), False),
        ("KB013", merged(on_node(), BY_KARPENTER), False),
        ("KB016", {kinds.DAEMON_SETS: [daemon_set("room", PAUSE)]}, False),
        ("KB016", {kinds.DAEMON_SETS: [daemon_set("room", PAUSE, priorityClassName="gone")]}, False),
        ("KB016", placed({kinds.DAEMON_SETS: [daemon_set("agent", "web:1", priorityClassName="low")]}), False),
        ("KB017", beside(affinity=preferred("podAntiAffinity")), True),
        ("KB017", beside(affinity=preferred("podAffinity")), True),
        ("KB017", beside(topologySpreadConstraints=spread("ScheduleAnyway")), True),
        ("KB017", beside(topologySpreadConstraints=spread("DoNotSchedule")), False),
        ("KB017", beside(affinity=SOFT, topologySpreadConstraints=spread("DoNotSchedule")), False),
        ("KB017", beside(affinity=HARD, topologySpreadConstraints=spread("ScheduleAnyway")), False),
        ("KB017", beside(), False),
        ("KB017", room(affinity=SOFT), False),
        ("KB017", {kinds.DEPLOYMENTS: [workload("web", image="web:1", priorityClassName=None, affinity=SOFT)]}, False),
    ],
)
def test_checks_of_balloons_at_their_bounds(code: str, objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences(code, objects)) is is_found


@pytest.mark.parametrize(
    ("code", "objects", "is_found"),
    [
        ("KB001", room(-11, priorityClassName="gone"), False),
        ("KB001", merged({kinds.DEPLOYMENTS: [OURS]}, BY_CLUSTER_AUTOSCALER), False),
        ("KB002", merged(room(), default_class(-10)), True),
        ("KB002", merged(room(), default_class(-9)), False),
        ("KB002", merged(room(), LOWER, default_class(-15)), True),
        ("KB002", placed({kinds.PRIORITY_CLASSES: [priority(-20, "everyone")]}), False),
        ("KB002", default_class(-20), False),
        ("KB002", merged({kinds.DEPLOYMENTS: [OURS]}, default_class(None)), False),
        (
            "KB002",
            merged(
                {kinds.DEPLOYMENTS: [OURS], kinds.PRIORITY_CLASSES: [priority(0, "zero")]},
                default_class(None),
            ),
            True,
        ),
        ("KB003", placed({kinds.PRIORITY_CLASSES: [priority(-10, "other", policy="PreemptLowerPriority")]}), False),
        ("KB004", merged(room(), LOWER, {kinds.PODS: [pod("batch", labels={"app": "b"}, priority=-19)]}), False),
        ("KB004", merged(room(), LOWER, {kinds.PODS: [pod("batch", labels={"app": "b"}, priority=-20)]}), True),
        ("KB004", {kinds.PODS: [pod("batch", labels={"app": "b"}, priority=-20)]}, False),
        ("KB005", {kinds.BALLOON_POOLS: [], kinds.PRIORITY_CLASSES: []}, False),
        ("KB005", {kinds.BALLOON_POOLS: [pool()], kinds.PRIORITY_CLASSES: [priority(-10, "other")]}, True),
        ("KB006", room(-(2**25)), False),
        ("KB006", merged(room(-(2**25)), BY_CLUSTER_AUTOSCALER), False),
        ("KB006", merged(room(-(2**25)), BY_CLUSTER_AUTOSCALER, {kinds.DEPLOYMENTS: [KARPENTER]}), True),
        ("KB006", merged(room(1 - 2**25), BY_KARPENTER), False),
        ("KB006", merged(room(-(2**25), priorityClassName="gone"), BY_KARPENTER), False),
        ("KB006", merged({kinds.DEPLOYMENTS: [OURS]}, BY_KARPENTER), False),
    ],
)
def test_checks_of_priorities_at_their_bounds(code: str, objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences(code, objects)) is is_found


@pytest.mark.parametrize(("grace_s", "told_s"), [(None, 30), (5, 5), (60, 60)])
def test_a_grace_period_that_is_not_set_is_half_a_minute(grace_s: int | None, told_s: int) -> None:
    (sentence,) = sentences("KB010", room(terminationGracePeriodSeconds=grace_s))
    assert f"up to {told_s} s to leave" in sentence


def test_an_odd_share_is_no_threshold_and_a_node_of_no_size_is_used_up() -> None:
    unknown = node("n1")
    unknown["status"]["allocatable"] = {}
    balloon = pod("room-1", "n1", requests={"cpu": "3"})
    assert sentences("KB013", placed({kinds.NODES: [unknown], kinds.PODS: [balloon]})) == []


@pytest.mark.parametrize(
    ("classes", "makes", "name"),
    [
        ([], "kube-balloons", "kube-balloons"),
        ([priority(-10, "mine")], "", "mine"),
        ([priority(-10, "preempts", policy="PreemptLowerPriority")], "kube-balloons", "kube-balloons"),
        ([priority(-5, "kube-balloons")], "kube-balloons-10", "kube-balloons-10"),
    ],
)
def test_a_priority_that_is_too_low_is_put_right_by_one_command(classes: list[Thing], makes: str, name: str) -> None:
    """A class that nobody uses changes nothing, and one that is there cannot be made again."""
    (trouble,) = troubles("KB001", merged(room(-11), {kinds.PRIORITY_CLASSES: classes}))
    made, _, patch = trouble.fix.rpartition(" && ")
    assert made == (f"kubectl create priorityclass {makes} --value=-10 --preemption-policy=Never" if makes else "")
    body = f'{{"spec":{{"template":{{"spec":{{"priorityClassName":"{name}"}}}}}}}}'
    assert patch == f"kubectl patch deployment/room -n default --type=merge -p '{body}'"


def test_a_daemon_set_that_pulls_images_is_no_placeholder() -> None:
    """JupyterHub's chart runs one, at -5, so that work may take its place."""
    pull = [{"name": "pull", "image": "notebook:1"}]
    puller = daemon_set("puller", image=PAUSE, priorityClassName="low", initContainers=pull)
    objects = {kinds.PRIORITY_CLASSES: [priority(-5)], kinds.DAEMON_SETS: [puller]}
    assert not sentences("KB016", objects)


def test_budgets_of_many_teams_are_not_compared_with_everybodys_balloons() -> None:
    """A thousand teams, each with a pool and a few budgets, took seconds."""
    steps: dict[str, int] = {}
    for teams in (10, 40):
        names = [f"team-{number}" for number in range(teams)]
        objects = {
            **room(),
            kinds.DEPLOYMENTS: [workload(namespace=name) for name in names],
            kinds.DISRUPTION_BUDGETS: [{**BUDGET, "metadata": meta("keep", name)} for name in names],
        }
        facts = Facts(seen(objects))
        assert len(facts.placeholders) == teams
        with counting(steps, str(teams)):
            assert len(list(CHECKS["KB011"].find(facts))) == teams
    assert steps["40"] < 5 * steps["10"]
