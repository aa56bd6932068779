"""Whose pools are served, and which nodes each claims.

Whose pools are served, within which bounds, and that nobody else's pool touches anything. The claims of a snapshot
are what asking all nodes anew would give, however much of it was kept from the last.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolStatus, Schedule
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory, Reason
from balloons.view.index_and_snapshot import Circumstances, Deployment, Index, RefusedPool, Snapshot
from balloons.view.node_load_and_devices import load_of
from balloons.view.tenancy_and_claim import Bound, Claim, Selectors, Tenancy, deployment_name, is_of_its_pool
from tests.world import NOW, World, a_node, a_pool, claim_nodes, later, nodes, work
from throttler.kube.metadata import Metadata, ObjectKey, OwnerReference
from throttler.kube.node import Shared
from throttler.kube.pod import MANAGED_BY, POOL_LABEL, SHAPE_LABEL, Pod, PodKind, PodWire, pod_from_wire
from throttler.kube.selectors import LabelSelector, Requirement, matches
from throttler.kube.taints import Toleration

PLATFORM = a_pool("gpu", created_s=100.0, namespace="platform")
EVERY_NODE = PoolNodes(
    LabelSelector({}, (Requirement("kubernetes.io/hostname", "Exists"),)), (Toleration("", "Exists"),)
)
SERVED = Tenancy(namespaces=frozenset({"platform", "team-a"}))
LABELS = Tenancy(node_labels={"team-a": frozenset({("pool", "a"), ("pool", "b")}), "*": frozenset()})
SCHEDULE = Schedule("0 8 * * *", "1h", size=1)
POOLS = [
    a_pool("old", created_s=1.0),
    a_pool("young", created_s=2.0),
    a_pool("any", created_s=3.0, nodes=PoolNodes(LabelSelector({}, (Requirement("pool", "Exists"),)))),
    a_pool("cpu", created_s=4.0, nodes=PoolNodes(LabelSelector({"pool": "cpu"}))),
]


def tenant(name: str = "grab", namespace: str = "tenant-x", **spec: Any) -> BalloonPool:
    """An older pool that would like every node there is."""
    return a_pool(name, created_s=1.0, namespace=namespace, **{"nodes": EVERY_NODE, **spec})


def settled(*pools: BalloonPool, ticks: int = 4) -> World:
    world = World.of(*pools, nodes=nodes(6))
    memory = Memory()
    for tick in range(ticks):
        decided, memory = decide(world.snapshot(), memory, ImageSettings(), later(NOW, 20 * tick))
        world.apply(decided)
        world.settle()
    return world


def seen_by(tenancy: Tenancy, world: World) -> Snapshot:
    """The world through an index that serves so."""
    return world.index(tenancy).snapshot(Circumstances(server_minor=36))


def decided_for(tenancy: Tenancy, world: World) -> Decision:
    return decide(seen_by(tenancy, world), Memory(), ImageSettings(), later(NOW, 1_000))[0]


@pytest.mark.parametrize("change", [{}, {"paused": True}, {"dry_run": True}, {"size": 6, "max_size": 6}])
def test_an_older_pool_of_a_namespace_that_is_not_served_takes_nothing(change: dict[str, Any]) -> None:
    world = settled(PLATFORM)
    world.pools[ObjectKey("tenant-x", "grab")] = tenant(**change)
    found = {decision.pool.namespace: decision for decision in decided_for(SERVED, world).pools}
    assert found["platform"].because.reason is Reason.STEADY
    assert (found["platform"].actions, found["platform"].status.warm) == ((), 6)
    assert found["tenant-x"].because.reason is Reason.NOT_SERVED
    assert found["tenant-x"].because.sentence.endswith("not served; served: platform, team-a")
    assert (found["tenant-x"].actions, found["tenant-x"].status.nodes, found["tenant-x"].status.zones) == ((), 0, ())


@pytest.mark.parametrize("change", [{"paused": True}, {"dry_run": True}])
def test_a_pool_that_only_looks_takes_nothing_from_one_that_acts(change: dict[str, Any]) -> None:
    world = settled(PLATFORM)
    world.pools[ObjectKey("team-a", "grab")] = tenant(namespace="team-a", **change)
    found = {decision.pool.namespace: decision for decision in decided_for(SERVED, world).pools}
    assert (found["platform"].actions, found["platform"].status.warm) == ((), 6)
    assert found["team-a"].status.nodes == 0
    assert "platform" not in " ".join(note.sentence for note in found["team-a"].notes)


def test_a_pool_that_only_looks_still_sees_what_nobody_else_wants() -> None:
    world = World.of(tenant(dry_run=True), nodes=nodes(3))
    assert decided_for(Tenancy(), world).pools[0].status.nodes == 3


def selecting(key: str, *values: str) -> PoolNodes:
    return PoolNodes(LabelSelector({}, (Requirement(key, "In", values),)))


@pytest.mark.parametrize(
    ("tenancy", "change", "bound"),
    [
        (LABELS, {"nodes": PoolNodes(LabelSelector({"pool": "gpu"}))}, Bound.NODE_LABELS),
        (LABELS, {"nodes": selecting("pool", "a", "gpu")}, Bound.NODE_LABELS),
        (LABELS, {"nodes": EVERY_NODE}, Bound.NODE_LABELS),
        (LABELS, {"nodes": selecting("zone", "a")}, Bound.NODE_LABELS),
        (Tenancy(max_size=10), {"max_size": 11}, Bound.MAX_SIZE),
        (Tenancy(max_size=10), {}, Bound.MAX_SIZE),
        (Tenancy(pools_per_namespace=0), {}, Bound.POOLS),
        (Tenancy(schedules_per_namespace=1), {"schedules": (SCHEDULE, SCHEDULE)}, Bound.SCHEDULES),
        (Tenancy(selector_values=2), {"nodes": selecting("pool", "a", "b", "c")}, Bound.SELECTOR_VALUES),
    ],
)
def test_what_breaks_a_bound_is_refused_by_its_name(tenancy: Tenancy, change: dict[str, Any], bound: Bound) -> None:
    world = World.of(tenant(namespace="team-a", **change), nodes=nodes(2))
    (decision,) = decided_for(tenancy, world).pools
    assert decision.because.reason is Reason.BOUND
    assert bound.value in decision.because.sentence
    assert "accepted" in decision.because.sentence
    assert (decision.actions, decision.status.nodes) == ((), 0)


@pytest.mark.parametrize(
    ("tenancy", "change"),
    [
        (LABELS, {"nodes": PoolNodes(LabelSelector({"pool": "a", "zone": "x"}))}),
        (LABELS, {"nodes": selecting("pool", "a", "b")}),
        (Tenancy(max_size=10), {"max_size": 10}),
        (Tenancy(schedules_per_namespace=1), {"schedules": (SCHEDULE,)}),
        (Tenancy(selector_values=2), {"nodes": selecting("pool", "a", "b")}),
    ],
)
def test_what_keeps_to_the_bounds_is_served(tenancy: Tenancy, change: dict[str, Any]) -> None:
    assert tenancy.refused([tenant(namespace="team-a", **change)]) == {}


@pytest.mark.parametrize(
    ("tenancy", "change"),
    [
        (Tenancy(max_size=0), {"max_size": 0}),
        (Tenancy(schedules_per_namespace=0), {}),
        (Tenancy(selector_values=0), {}),
        (Tenancy(pools_per_namespace=1), {}),
    ],
)
def test_a_bound_of_none_is_kept_by_a_pool_that_asks_for_none(tenancy: Tenancy, change: dict[str, Any]) -> None:
    pool = a_pool(**change)
    assert tenancy.refused([pool]) == {}


@pytest.mark.parametrize("bound", ["max_size", "pools_per_namespace", "schedules_per_namespace", "selector_values"])
def test_a_bound_below_zero_is_no_bound(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} -1: accepted are 0 and more"):
        Tenancy(**{bound: -1})


def test_schedules_of_older_pools_count_and_those_of_refused_ones_do_not() -> None:
    """The third pool breaks the bound, the fourth has room again."""
    sizes = {"first": 1, "second": 1, "third": 2, "fourth": 1, "fifth": 1}
    pools = [
        a_pool(name, created_s=float(age), schedules=(SCHEDULE,) * size)
        for age, (name, size) in enumerate(sizes.items())
    ]
    refused = Tenancy(schedules_per_namespace=3).refused(pools)
    assert {key.name for key in refused} == {"third", "fifth"}
    assert "has 4 schedules" in refused[ObjectKey("team-a", "third")].message


def test_a_namespace_of_its_own_entry_is_not_bounded_by_that_of_all_others() -> None:
    assert LABELS.refused([a_pool(nodes=PoolNodes(LabelSelector({"pool": "a"})))]) == {}
    message = LABELS.refused([a_pool(namespace="other")])[ObjectKey("other", "gpu")].message
    assert message == "the selector reaches beyond the nodes of other; accepted: one of none"


def test_the_oldest_pools_of_a_namespace_are_those_that_are_served() -> None:
    pools = [a_pool(f"p{i}", created_s=float(i), namespace=space) for space in ("a", "b") for i in range(3)]
    refused = Tenancy(pools_per_namespace=2).refused(reversed(pools))
    assert set(refused) == {ObjectKey("a", "p2"), ObjectKey("b", "p2")}


def broken(name: str, namespace: str, created_s: float = 1.0) -> RefusedPool:
    """A pool that this API server let in and that breaks a rule: a name of more than 63 characters, say."""
    return RefusedPool(a_pool(name, created_s=created_s, namespace=namespace).metadata, "no such zone", PoolStatus())


def test_a_broken_pool_of_a_namespace_that_is_not_served_is_not_served_like_any_other() -> None:
    index = Index(SERVED)
    for namespace in ("team-a", "tenant-x"):
        index.change_pool(None, broken("bad", namespace))
    lost = {ObjectKey(namespace, "lost"): "no object" for namespace in ("team-a", "tenant-x")}
    snapshot = index.snapshot(Circumstances(unreadable=lost))
    assert set(snapshot.invalid) == {ObjectKey("team-a", "bad"), ObjectKey("team-a", "lost")}
    assert {key: refusal.bound for key, refusal in snapshot.refused.items()} == {
        ObjectKey("tenant-x", "bad"): Bound.NAMESPACES,
        ObjectKey("tenant-x", "lost"): Bound.NAMESPACES,
    }


def test_broken_pools_count_among_those_of_their_namespace() -> None:
    index = Index(Tenancy(pools_per_namespace=2))
    for name, created_s in (("first", 1.0), ("third", 3.0)):
        index.change_pool(None, broken(name, "team-a", created_s))
    for name, created_s in (("second", 2.0), ("fourth", 4.0)):
        index.change_pool(None, a_pool(name, created_s=created_s, namespace="team-a"))
    snapshot = index.snapshot(Circumstances())
    assert ({key.name for key in snapshot.pools}, {key.name for key in snapshot.invalid}) == ({"second"}, {"first"})
    assert {(key.name, refusal.bound) for key, refusal in snapshot.refused.items()} == {
        ("third", Bound.POOLS),
        ("fourth", Bound.POOLS),
    }


def test_pods_and_deployments_that_look_like_ours_elsewhere_are_somebodys_work() -> None:
    world = settled(a_pool("gpu", namespace="tenant-x"))
    assert len(world.balloons()) == 6
    snapshot = seen_by(SERVED, world)
    assert snapshot.deployments == {}
    assert all(load.balloons == () and load.scavengers == 1 for load in snapshot.loads.values())
    world.pools.clear()
    assert decided_for(SERVED, world).sweeps == ()


def test_a_pool_that_breaks_a_bound_keeps_what_it_has() -> None:
    world = settled(PLATFORM)
    decided = decide(seen_by(Tenancy(max_size=1), world), Memory(gone_since_s={PLATFORM.key: 0.0}), ImageSettings(),
                  later(NOW, 10_000))[0]  # fmt: skip
    assert decided.sweeps == ()


def labelled(priority: int, owner: str = "ReplicaSet", mark: Mapping[str, str] = MANAGED_BY) -> Pod:
    metadata = {
        "name": "work",
        "namespace": "team-a",
        "labels": {POOL_LABEL: "gpu", SHAPE_LABEL: "a", **mark},
        "ownerReferences": [{"kind": owner, "name": "gpu-a-5f7d", "controller": True}],
    }
    wire = {"metadata": metadata, "spec": {"nodeName": "n", "priority": priority}, "status": {"phase": "Running"}}
    return pod_from_wire(msgspec.convert(wire, PodWire), Shared())


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        (labelled(-10), PodKind.BALLOON),
        (labelled(0), PodKind.WORK),
        (labelled(1000), PodKind.WORK),
        (labelled(-10, "Job"), PodKind.WORK),
        # Training below every other pod, which says by the label whose nodes it is meant for.
        (labelled(-10, mark={}), PodKind.WORK),
        (labelled(-10, mark={"app.kubernetes.io/managed-by": "Helm"}), PodKind.WORK),
    ],
)
def test_work_that_wears_our_label_stays_work(pod: Pod, kind: PodKind) -> None:
    assert pod.kind is kind


def test_nothing_of_this_reads_a_deployment_without_labels() -> None:
    index = Index(SERVED)
    there = Deployment(Metadata("x", "platform"), {})
    index.change_deployment(None, there)
    index.change_deployment(there, None)
    assert index.snapshot(Circumstances()).deployments == {}


def test_headroom_of_a_namespace_that_is_not_served_asks_for_no_node() -> None:
    world = World.of(tenant(mode=Mode.HEADROOM, size=50, max_size=100), nodes=nodes(1))
    (decision,) = decided_for(SERVED, world).pools
    assert (decision.lacking, decision.actions) == (0, ())


NAMES = [f"n{i}" for i in range(4)]


def balloon(name: str, node: str, pool: str) -> Pod:
    key = ObjectKey("team-a", name)
    owner = OwnerReference("ReplicaSet", f"{pool}-a-5f7d", controller=True)
    return Pod(key, f"uid-{name}", "1", node, -10, {}, kind=PodKind.BALLOON, owner=owner, pool=pool, shape="a")


EVENT = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from(["gpu", "gpu sick", "cpu", "none", "gone"])),
    st.tuples(st.just("pod"), st.sampled_from(NAMES), st.sampled_from(["old", "young", "cpu", "gone"])),
    st.tuples(st.just("pool"), st.sampled_from(range(len(POOLS))), st.sampled_from(["there", "resized", "gone"])),
)


def seen_by_name(claim: Claim) -> dict[str, Any]:
    return {node.name: (node, load) for node, load in claim.nodes}


@given(st.lists(st.lists(EVENT, min_size=1, max_size=6), max_size=8))
@example([[("node", "n0", "gpu"), ("pod", "n0", "old"), ("pool", 1, "there")], [("node", "n0", "gone")]])
def test_claims_of_a_snapshot_are_those_worked_out_anew(rounds: list[list[tuple[str, Any, str]]]) -> None:
    index = Index()
    nodes: dict[str, Any] = {}
    pods: dict[str, Any] = {}
    pools: dict[int, Any] = {}
    before, as_it_was = index.snapshot(Circumstances()).claims, repr({})
    for events in rounds:
        for kind, which, how in events:
            if kind == "node":
                after = (
                    None
                    if how == "gone"
                    else a_node(
                        which,
                        labels={"pool": how.split()[0]},
                        conditions=frozenset({("Ready", str("sick" not in how))}),
                    )
                )
                index.change_node(nodes.get(which), after)
                nodes[which] = after
            elif kind == "pod":
                after_pod = None if how == "gone" else balloon(f"b-{which}", which, how)
                index.change_pod(pods.get(which), after_pod)
                pods[which] = after_pod
            else:
                pool = None if how == "gone" else _sized(which, how)
                index.change_pool(pools.get(which), pool)
                pools[which] = pool
        snapshot = index.snapshot(Circumstances())
        anew = claim_nodes(snapshot.pools.values(), snapshot.nodes, snapshot.loads)
        assert repr(before) == as_it_was, "an earlier snapshot keeps its claims"
        before, as_it_was = snapshot.claims, repr(snapshot.claims)
        assert snapshot.claims is not None
        assert snapshot.claims.keys() == anew.keys()
        for key, claim in anew.items():
            kept = snapshot.claims[key]
            assert seen_by_name(kept) == seen_by_name(claim)
            assert (kept.lost, kept.strays, kept.own_loads) == (claim.lost, claim.strays, claim.own_loads)


def _sized(which: int, how: str) -> Any:
    spec = POOLS[which].spec
    changed = msgspec.structs.replace(spec, size=7, mode=Mode.HOLD) if how == "resized" else spec
    return msgspec.structs.replace(POOLS[which], spec=changed)


some_labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"))
some_parts = st.builds(
    Requirement,
    st.sampled_from("ab"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from("xyz"), min_size=1).map(tuple),
)


@given(st.lists(st.builds(LabelSelector, some_labels, st.lists(some_parts, max_size=2).map(tuple))), some_labels)
def test_all_pools_that_select_a_node_are_found_the_first_of_them_first(
    selectors: list[LabelSelector], labels: dict[str, str]
) -> None:
    pools = [a_pool(f"p{at}", created_s=at, nodes=PoolNodes(selector)) for at, selector in enumerate(selectors)]
    found = Selectors(reversed(pools)).of(labels)
    assert found == tuple(pool.key for pool in pools if matches(pool.spec.nodes.selector, labels))


def test_nodes_that_come_and_go_for_months_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a selector reads host names no two nodes are alike."""
    monkeypatch.setattr("balloons.view.tenancy_and_claim.MOST_KNOWN", 10)
    pool = a_pool(nodes=EVERY_NODE)
    selectors = Selectors([pool])
    assert {selectors.of(a_node(f"n{number}").labels) for number in range(100)} == {(pool.key,)}
    assert len(selectors._known) <= 10


def test_a_node_that_work_fills_changes_its_own_pools_claim_alone() -> None:
    """The others are not even copied: there may be ten thousand nodes."""
    there = {**nodes(2), **nodes(1, "c", labels={"pool": "cpu"})}
    full = {"n001": load_of([work("job", "n001")], -10)}
    selectors = Selectors(POOLS)
    claims = selectors.claims(there.values(), {})
    renewed = selectors.renewed(claims, ["n001"], there, full)
    assert renewed == claim_nodes(POOLS, there, full) != claims
    assert renewed is not None
    assert [pool.key.name for pool in POOLS if renewed[pool.key] is not claims[pool.key]] == ["old"]


def test_a_balloon_beside_one_of_the_nodes_own_pool_is_a_stray() -> None:
    old, young, *_ = (pool.key for pool in POOLS)
    pods = (balloon("a", "n000", "old"), balloon("b", "n000", "young"))
    for both in (pods, pods[::-1]):
        claims = claim_nodes(POOLS, nodes(1), {"n000": load_of(both, -10)})
        assert {key.name: [pod.key.name for pod in claims[key].strays] for key in (old, young)} == {
            "old": [],
            "young": ["b"],
        }


def test_each_node_that_an_older_pool_has_is_counted_once() -> None:
    old, young, broad, cpu = (pool.key for pool in POOLS)
    claims = claim_nodes(POOLS, nodes(3), {})
    assert [dict(claims[key].lost) for key in (old, young, broad, cpu)] == [{}, {old: 3}, {old: 3}, {}]
    assert [len(claims[key].nodes) for key in (old, young, broad, cpu)] == [3, 0, 0, 0]


@pytest.mark.parametrize(("length", "is_whole"), [(60, True), (61, False)])
def test_the_name_of_a_deployment_is_cut_where_no_label_could_hold_it(length: int, is_whole: bool) -> None:
    """With the shape `m5` and the hyphen before it, 63 characters are left whole."""
    name, other = (deployment_name("p" * (length - 1) + last, "m5") for last in "ab")
    assert (name == f"{'p' * (length - 1)}a-m5") is is_whole
    assert (len(name), name[-3:]) == (63, "-m5")
    assert name != other


def test_a_name_is_not_cut_right_behind_a_dot_or_hyphen() -> None:
    """The shape, the digest and two hyphens leave 51 of 63 characters to the pool's name."""
    for end in ("-", ".", "-."):
        name = deployment_name("p" * (51 - len(end)) + end + "q" * 20, "m5")
        assert name.startswith("p" * (51 - len(end)) + "-")
        assert name.count("-") == 2


@pytest.mark.parametrize(
    ("made_by", "is_own"),
    [("gpu-a-5f7d", True), ("copy-a-5f7d", False), ("gpu-a", False), ("", False), (None, False)],
)
def test_a_balloon_is_of_its_pool_where_that_pools_deployment_made_it(made_by: str | None, is_own: bool) -> None:
    owner = None if made_by is None else OwnerReference("ReplicaSet", made_by, controller=True)
    assert is_of_its_pool(msgspec.structs.replace(balloon("b", "n", "gpu"), owner=owner)) is is_own


@pytest.mark.parametrize("change", [{"paused": True}, {"dry_run": True}])
def test_the_younger_of_two_that_act_comes_before_an_older_one_that_looks(change: dict[str, Any]) -> None:
    pools = [a_pool("old", created_s=1.0, **change), a_pool("young", created_s=2.0)]
    claims = claim_nodes(pools, nodes(2), {})
    assert {key.name: len(claim.nodes) for key, claim in claims.items()} == {"old": 0, "young": 2}
