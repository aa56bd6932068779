"""The index: what snapshots say after any history of events, and what they cost."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloons.view.index_and_snapshot import (
    Circumstances,
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    FailedBalloon,
    Index,
    PriorityClass,
    RefusedPool,
    Snapshot,
    StoredObject,
)
from balloons.view.node_load_and_devices import USUAL_PRIORITY, load_of
from balloons.view.tenancy_and_claim import Tenancy
from tests.examples import examples
from tests.world import a_node, a_pool
from throttler.kube.metadata import Metadata, ObjectKey, OwnerReference
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind

CLASS = "kube-balloons"


def pod(name: str, node: str = "", kind: PodKind = PodKind.WORK, **more: object) -> Pod:
    facts: dict[str, object] = {"uid": f"uid-{name}", "resource_version": "1", "priority": 0, **more}
    return Pod(key=ObjectKey("ns", name), node=node, kind=kind, requests={"cpu": 1000, "pods": 1000}, **facts)  # type: ignore[arg-type]


def balloon(name: str, node: str = "", **more: object) -> Pod:
    owner = OwnerReference("ReplicaSet", f"{more.get('pool', 'gpu')}-a-5f7d", controller=True)
    own = {"kind": PodKind.BALLOON, "pool": "gpu", "shape": "a", "priority": -10, "owner": owner}
    return pod(name, node, **{**own, **more})  # type: ignore[arg-type]


def node(name: str) -> Node:
    return Node(name=name, uid=name, resource_version="1", labels={}, allocatable={"cpu": 8000})


def view(index: Index, **more: object) -> Snapshot:
    return index.snapshot(Circumstances(**more))  # type: ignore[arg-type]


def test_pod_that_gets_a_node_leaves_the_waiting_ones() -> None:
    index = Index()
    waiting, bound = pod("a"), pod("a", "n1")
    index.change_pod(None, waiting)
    assert view(index).waiting == (waiting,)
    index.change_pod(waiting, bound)
    assert view(index).waiting == ()
    assert view(index).loads["n1"].work == 1


def test_snapshot_does_not_change_with_the_index() -> None:
    index = Index()
    index.change_node(None, node("n1"))
    before = view(index)
    index.change_node(node("n1"), None)
    index.change_pod(None, pod("a", "n1"))
    assert set(before.nodes) == {"n1"}
    assert before.loads == {}
    assert view(index).nodes == {}


def test_balloons_without_a_node_are_filed_under_their_pool() -> None:
    index = Index()
    first, second, third = balloon("b1"), balloon("b2", is_terminating=True), balloon("b3", is_finished=True)
    for pod in (first, second, third):
        index.change_pod(None, pod)
    assert view(index).unbound == {ObjectKey("ns", "gpu"): (first,)}
    for pod in (first, second, third):
        index.change_pod(pod, None)
    assert view(index).unbound == {}


def test_a_balloon_without_a_node_is_seen_beside_those_that_were_seen_before() -> None:
    index, pool = Index(), ObjectKey("ns", "gpu")
    first, second, third = (balloon(name) for name in ("b1", "b2", "b3"))
    index.change_pod(None, first)
    before = view(index)
    index.change_pod(None, second)
    assert view(index).unbound[pool] == (first, second)
    index.change_pod(first, balloon("b1", "n1"))
    assert view(index).unbound[pool] == (second,)
    index.change_pod(second, balloon("b2", is_terminating=True))
    assert view(index).unbound[pool] == ()
    index.change_pod(None, third)
    assert view(index).unbound[pool] == (third,)
    assert before.unbound == {pool: (first,)}, "what was taken does not change"


def test_pods_of_a_copy_of_a_balloon_deployment_are_work() -> None:
    """They wear the same labels, and hold nothing for the pool; the ReplicaSet says whose they are."""
    index = Index()
    copied = OwnerReference("ReplicaSet", "gpu-a-copy-5f7d", controller=True)
    held, waiting = balloon("c1", "n1", owner=copied), balloon("c2", owner=copied)
    index.change_pod(None, held)
    index.change_pod(None, waiting)
    found = view(index)
    assert (found.loads["n1"].balloons, found.loads["n1"].scavengers) == ((), 1)
    assert found.unbound == {}
    assert [pod.key.name for pod in found.waiting] == ["c2"]
    index.change_pod(held, None)
    index.change_pod(waiting, None)
    assert (view(index).loads, view(index).waiting) == ({}, ())


def test_failed_balloons_are_filed_under_their_pool_where_it_is_served() -> None:
    index = Index(Tenancy(namespaces=frozenset({"ns"})))
    ours = FailedBalloon(ObjectKey("ns", "b1"), "u1", "n1", "gpu")
    index.change_failed_balloon(None, ours)
    index.change_failed_balloon(None, FailedBalloon(ObjectKey("theirs", "b1"), "u2", "n1", "gpu"))
    before = view(index)
    assert before.failed == {ObjectKey("ns", "gpu"): (ours,)}
    assert index.failed_balloon("u1") == ours
    index.change_failed_balloon(ours, None)
    assert view(index).failed == {}
    assert before.failed == {ObjectKey("ns", "gpu"): (ours,)}, "what was taken does not change"


def test_finished_pod_no_longer_waits() -> None:
    index = Index()
    index.change_pod(None, pod("a"))
    index.change_pod(pod("a"), pod("a", is_finished=True))
    assert view(index).waiting == ()


def test_daemon_pods_without_a_node_are_no_waiting_work() -> None:
    index = Index()
    index.change_pod(None, pod("d", kind=PodKind.DAEMON))
    assert view(index).waiting == ()


def test_priority_of_the_class_decides_what_is_work() -> None:
    index = Index()
    index.change_pod(None, pod("low", "n1", priority=-7))
    assert view(index).loads["n1"].work == 1
    ours = PriorityClass(Metadata(CLASS), value=-5)
    index.change_priority_class(None, ours)
    assert view(index).loads["n1"].work == 0
    assert view(index).loads["n1"].scavengers == 1
    index.change_priority_class(ours, None)
    assert view(index).loads["n1"].work == 1


def test_refused_and_unreadable_pools_are_named_apart_from_good_ones() -> None:
    index = Index()
    refused = RefusedPool(Metadata("bad", "ns"), "size -1; accepted: 0 or more")
    index.change_pool(None, refused)
    seen = view(index, unreadable={ObjectKey("ns", "worse"): "no JSON"})
    assert seen.pools == {}
    assert seen.invalid == {
        ObjectKey("ns", "bad"): "size -1; accepted: 0 or more",
        ObjectKey("ns", "worse"): "no JSON",
    }
    assert index.pool(ObjectKey("ns", "bad")) is refused


def by_key(found: tuple[Pod, ...]) -> dict[ObjectKey, Pod]:
    return {each.key: each for each in found}


pods = st.builds(
    lambda name, where, kind, priority, finished, leaving: balloon(
        f"p{name}", where, kind=kind, priority=priority, is_finished=finished, is_terminating=leaving
    ),
    st.integers(0, 5),
    st.sampled_from(["", "n1", "n2"]),
    st.sampled_from(list(PodKind)),
    st.sampled_from([-10, 0]),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=examples(2))
@given(st.lists(st.tuples(pods, st.booleans(), st.booleans())))
def test_any_history_gives_what_its_end_would_give_at_once(history: list[tuple[Pod, bool, bool]]) -> None:
    """What was seen on the way leaves no trace."""
    index, known = Index(), dict[ObjectKey, Pod]()
    for changed, is_gone, is_looked_at in history:
        before, after = known.get(changed.key), None if is_gone else changed
        index.change_pod(before, after)
        known.pop(changed.key, None)
        if after is not None:
            known[after.key] = after
        if is_looked_at:
            view(index)
    fresh = Index()
    for found in known.values():
        fresh.change_pod(None, found)
    old, new = view(index), view(fresh)
    assert old.loads == new.loads
    assert old.loads == {
        name: load_of([p for p in known.values() if p.node == name], -10)
        for name in {p.node for p in known.values() if p.node}
    }
    assert by_key(old.waiting) == by_key(new.waiting)
    assert {k: by_key(v) for k, v in old.unbound.items()} == {k: by_key(v) for k, v in new.unbound.items()}
    assert {k: by_key(v) for k, v in old.outranking.items()} == {k: by_key(v) for k, v in new.outranking.items()}


def large_index(nodes: int) -> Index:
    index = Index()
    for i in range(nodes):
        index.change_node(None, node(f"n{i}"))
        index.change_pod(None, pod(f"d{i}", f"n{i}", PodKind.DAEMON))
        index.change_pod(None, balloon(f"b{i}", f"n{i}"))
    view(index)
    return index


def test_snapshot_costs_what_has_changed() -> None:
    """Counts calls, not time: one node in a hundred changed, so one load in a hundred is summed up anew."""
    index = large_index(1000)
    before = view(index)
    for i in range(0, 1000, 100):
        index.change_pod(balloon(f"b{i}", f"n{i}"), None)
    after = view(index)
    renewed = [name for name, load in after.loads.items() if load is not before.loads[name]]
    assert sorted(renewed) == sorted(f"n{i}" for i in range(0, 1000, 100))


def test_a_class_that_says_the_same_again_costs_nothing() -> None:
    """A watch that begins anew tells everything once more."""
    index = large_index(3)
    before = view(index)
    index.change_priority_class(None, PriorityClass(Metadata(CLASS), value=USUAL_PRIORITY))
    assert view(index).loads is before.loads


def test_node_update_replaces_the_node() -> None:
    index = Index()
    old = node("n1")
    new = msgspec.structs.replace(old, is_cordoned=True)
    index.change_node(None, old)
    index.change_node(old, new)
    assert view(index).nodes == {"n1": new}


def test_a_deployment_that_says_no_number_wants_one_pod() -> None:
    metadata = Metadata(name="gpu", namespace="ns")
    assert [Deployment(metadata, spec).replicas for spec in ({}, {"replicas": 0}, {"replicas": 3})] == [1, 0, 3]


def deployed(name: str = "gpu-a", namespace: str = "ns", **status: object) -> Deployment:
    return Deployment(Metadata(name, namespace), status=DeploymentStatus(**status))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("replicas", "updated", "is_rolling"), [(None, 0, False), (3, 2, True), (3, 3, False), (2, 3, False), (0, 0, False)]
)
def test_a_deployment_is_rolling_until_all_of_its_pods_are_of_the_newest_template(
    replicas: int | None, updated: int, *, is_rolling: bool
) -> None:
    assert deployed(replicas=replicas, updated_replicas=updated).is_rolling is is_rolling


@pytest.mark.parametrize(("type_", "status"), [("ReplicaFailure", "False"), ("Progressing", "True")])
def test_what_refuses_a_deployments_pods_is_told_without_their_names(type_: str, status: str) -> None:
    """Each attempt is for a pod of another name, and a status that names it would be written every time."""
    condition = DeploymentCondition(
        "ReplicaFailure", "True", 'pods "gpu-a-x7" is forbidden: exceeded quota' + "!" * 999
    )
    refusal = deployed(conditions=(DeploymentCondition(type_, status, "other"), condition)).refusal
    assert refusal.startswith("pods is forbidden: exceeded quota!")
    assert len(refusal) == 400
    assert deployed(conditions=(DeploymentCondition(type_, status, "other"),)).refusal == ""


def test_only_what_is_in_a_served_namespace_is_ours() -> None:
    index = Index(Tenancy(namespaces=frozenset({"ns"})))
    for space in ("ns", "theirs"):
        stored = StoredObject(Metadata("a", space))
        index.change_deployment(None, deployed(namespace=space))
        index.change_buffer(None, stored)
        index.change_template(None, stored)
        index.change_pod(None, msgspec.structs.replace(balloon("b"), key=ObjectKey(space, "b")))
    seen = view(index)
    assert [key.namespace for filed in (seen.deployments, seen.buffers, seen.templates) for key in filed] == ["ns"] * 3
    assert ([*seen.unbound], [each.key.namespace for each in seen.waiting]) == ([ObjectKey("ns", "gpu")], ["theirs"])
    index.change_deployment(deployed(), None)
    index.change_buffer(StoredObject(Metadata("a", "ns")), None)
    index.change_template(StoredObject(Metadata("a", "ns")), None)
    gone = view(index)
    assert (gone.deployments, gone.buffers, gone.templates) == ({}, {}, {})
    assert len(seen.deployments) == len(seen.buffers) == len(seen.templates) == 1, "what was taken does not change"


def test_a_pod_is_found_by_its_uid_where_it_is() -> None:
    index = Index()
    there = pod("a", "n1")
    index.change_pod(None, there)
    index.change_pod(None, pod("b", "n1"))
    assert index.pod_on("n1", "uid-a") == there
    assert (index.pod_on("n2", "uid-a"), index.pod_on("n1", "uid-c")) == (None, None)
    assert index.failed_balloon("uid-a") is None
    assert (index.node("n1"), index.pool_of_node("n1")) == (None, None)


def test_a_node_is_of_the_pool_that_selects_it() -> None:
    index, pool = Index(), a_pool()
    index.change_pool(None, pool)
    index.change_node(None, ours := a_node("ours"))
    index.change_node(None, node("free"))
    view(index)
    assert index.node("ours") is ours
    assert [index.pool_of_node(name) for name in ("ours", "free", "gone")] == [pool.key, None, None]


def test_a_class_of_another_name_says_nothing_of_balloons() -> None:
    index = Index()
    index.change_pod(None, pod("low", "n1", priority=-7))
    index.change_priority_class(None, PriorityClass(Metadata("other"), value=-5))
    assert view(index).loads["n1"].work == 1


@pytest.mark.parametrize(
    ("change", "thing"),
    [
        (Index.change_node, node("n1")),
        (Index.change_pod, pod("waiting")),
        (Index.change_pod, pod("bound", "n1")),
        (Index.change_pod, balloon("unbound")),
        (Index.change_failed_balloon, FailedBalloon(ObjectKey("ns", "b"), "u", "n1", "gpu")),
        (Index.change_pool, RefusedPool(Metadata("bad", "ns"), "size -1; accepted: 0 or more")),
        (Index.change_pool, a_pool()),
        (Index.change_deployment, Deployment(Metadata("a", "ns"))),
        (Index.change_priority_class, PriorityClass(Metadata("other"), value=-5)),
        (Index.change_buffer, StoredObject(Metadata("a", "ns"))),
        (Index.change_template, StoredObject(Metadata("a", "ns"))),
    ],
)
def test_what_went_is_in_no_view(change: Callable[[Index, Any, Any], None], thing: object) -> None:
    index = Index()
    empty = view(index)
    change(index, None, thing)
    assert view(index) != empty
    change(index, thing, None)
    assert view(index) == empty
