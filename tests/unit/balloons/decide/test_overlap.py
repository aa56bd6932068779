"""Two pools that select the same nodes: the younger one's balloons keep off what the older one has."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes, ShapeSpec, ShapeType, Strategy
from balloons.balloon_manifest import ImageSettings, stored_terms
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory
from balloons.decide.deleted_pools import SWEEP_AFTER_S
from balloons.view.tenancy_and_claim import MOST_TERMS, Term, away_from
from tests.world import NOW, World, a_node, a_pool, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector, Requirement, matches, meets, requirements

SETTINGS = ImageSettings()
OLDER, YOUNGER = ObjectKey("team-a", "older"), ObjectKey("team-a", "younger")
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
OWN = ["b000", "b001", "b002"]


def selecting(*rules: Requirement, **labels: str) -> PoolNodes:
    return PoolNodes(LabelSelector(labels, rules))


IN_A = selecting(Requirement(ZONE, "In", ("a",)), pool="gpu")


def two_pools(**younger: Any) -> World:
    """The older pool has zone a, where all is idle and one node is to be held; the younger has all other zones.

    The scheduler of this world goes by name where nodes are alike, so it prefers those of zone a."""
    there = {**nodes(4, "a", labels={ZONE: "a"}), **nodes(3, "b", labels={ZONE: "b"})}
    return World.of(a_pool("older", nodes=IN_A, size=1), a_pool("younger", created_s=10.0, **younger), nodes=there)


class Run:
    """A decision each second, carried out at once."""

    def __init__(self, world: World) -> None:
        self.world, self._memory, self._second = world, Memory(), 0

    def seconds(self, count: int) -> list[Decision]:
        decisions = []
        for _ in range(count):
            decided, self._memory = decide(self.world.snapshot(), self._memory, SETTINGS, later(NOW, self._second))
            self.world.apply(decided)
            self.world.settle()
            self._second += 1
            decisions.append(decided)
        return decisions

    def held_by(self, pool: ObjectKey) -> list[str]:
        return sorted(balloon.node for balloon in self.world.balloons(pool.name))

    def template(self) -> Mapping[str, Any]:
        """Of the younger pool's balloons."""
        (stored,) = (each for key, each in self.world.deployments.items() if key.name.startswith("younger"))
        template: Mapping[str, Any] = stored.spec["template"]
        return template

    def avoided(self) -> set[Requirement]:
        """What every alternative of the younger pool's affinity says beyond its own selector and the lock."""
        own = set(requirements(self.world.pools[YOUNGER].spec.nodes.selector))
        terms = stored_terms({"template": self.template()})
        return set.intersection(*(set(term) for term in terms)) - own


def actions(decisions: list[Decision]) -> list[object]:
    return [action for decided in decisions for each in decided.pools for action in each.actions]


def test_balloons_of_the_younger_pool_never_go_to_idle_nodes_of_the_older() -> None:
    run = Run(two_pools())
    decisions = run.seconds(60)
    assert (len(run.held_by(OLDER)), run.held_by(YOUNGER)) == (1, OWN)
    assert len(actions(decisions)) == 2, "each Deployment is made, and that is all"


def test_what_an_older_pool_comes_to_select_is_kept_off_once_a_balloon_strays() -> None:
    """A change of the template costs every balloon its pod: not before it is needed."""
    world = two_pools()
    world.change_pool(OLDER, nodes=selecting(pool="none"))
    run = Run(world)
    run.seconds(5)
    assert len(run.held_by(YOUNGER)) == 7
    world.change_pool(OLDER, nodes=IN_A)
    run.seconds(60)
    assert (len(run.held_by(OLDER)), run.held_by(YOUNGER)) == (1, OWN)
    assert run.avoided() == {Requirement(ZONE, "NotIn", ("a",))}
    assert not actions(run.seconds(30))


def test_a_small_balloon_of_another_pool_is_none_of_the_older_pools_own() -> None:
    """It leaves that one its room, and is not to go for a balloon that is one too many there."""
    small = ShapeSpec(ShapeType.EXPLICIT, {"cpu": "100m", "memory": "64Mi"})
    run = Run(World.of(a_pool("younger", shape=small), nodes=nodes(2)))
    run.seconds(3)
    strays = {balloon.key for balloon in run.world.balloons("younger")}
    run.world.pools[OLDER] = a_pool("older", created_s=-1.0, size=1)
    touched = {getattr(action, "key", None) for decided in run.seconds(5) for action in decided.pools[0].actions}
    assert (len(strays), len(run.held_by(OLDER)), touched & strays) == (2, 1, set())


def test_nodes_that_come_and_go_change_no_template() -> None:
    run = Run(two_pools())
    run.seconds(10)
    before = run.template()
    shared = {name: node for name, node in run.world.nodes.items() if node.zone == "a"}
    for name in shared:
        run.world.remove_node(name)
    run.seconds(10)
    assert run.template() == before
    run.world.nodes |= shared
    run.seconds(10)
    assert (run.template(), run.held_by(YOUNGER)) == (before, OWN)


def test_older_pool_that_shares_no_node_changes_no_template() -> None:
    world = two_pools()
    other = selecting(team="other")
    world.pools[OLDER] = a_pool("older", nodes=other)
    run = Run(world)
    run.seconds(5)
    alone = run.template()
    del world.pools[OLDER]
    assert not actions(run.seconds(5))
    assert run.template() == alone


@pytest.mark.parametrize("change", ["gone", "paused", "elsewhere"])
def test_nodes_that_the_older_pool_gives_up_are_held_by_the_younger(change: str) -> None:
    run = Run(two_pools())
    run.seconds(10)
    (kept,) = run.held_by(OLDER)
    if change == "gone":
        del run.world.pools[OLDER]
    elif change == "paused":
        run.world.change_pool(OLDER, paused=True)
    else:
        run.world.change_pool(OLDER, nodes=selecting(team="other"))
    run.seconds(30)
    assert not run.avoided()
    free = {name for name in run.world.nodes if name != kept or change == "elsewhere"}
    assert set(run.held_by(YOUNGER)) == free, "none waits for the node on which a balloon stays"


def test_balloon_of_a_paused_pool_holds_its_node_for_nobody_else() -> None:
    """The younger pool's own balloon would wait there for ever, and an autoscaler would buy a node for it."""
    run = Run(two_pools(mode=Mode.HEADROOM, size=4, max_size=7))
    run.world.change_pool(OLDER, size=4)
    run.seconds(10)
    run.world.change_pool(OLDER, paused=True)
    (decided,) = run.seconds(1)
    status = {decision.pool: decision.status for decision in decided.pools}[YOUNGER]
    assert (status.nodes, status.warm, status.idle) == (7, 3, 0)
    run.seconds(10)
    assert (run.held_by(YOUNGER), len(run.held_by(OLDER))) == (OWN, 4), "seven nodes are maxSize: none may be bought"


def renamed(**changes: Any) -> Run:
    """Three warm nodes of a Headroom pool that was deleted, and one of another name that selects them."""
    headroom: dict[str, Any] = {"mode": Mode.HEADROOM, "size": 3, "max_size": 9, **changes}
    run = Run(World.of(a_pool("older", **headroom), nodes=nodes(3)))
    run.seconds(5)
    del run.world.pools[OLDER]
    run.world.pools[YOUNGER] = a_pool("younger", created_s=10.0, **headroom)
    return run


@pytest.mark.whole
def test_a_pool_that_is_renamed_buys_no_second_set_of_nodes() -> None:
    """Its balloons go after ten minutes, and until then the new pool had all of its nodes bought once more."""
    run = renamed()
    run.seconds(int(SWEEP_AFTER_S) - 10)
    assert (run.held_by(OLDER), run.held_by(YOUNGER)) == (["n000", "n001", "n002"], [])
    run.seconds(20)
    assert (run.held_by(OLDER), run.held_by(YOUNGER)) == ([], ["n000", "n001", "n002"])


@pytest.mark.parametrize("kept", [{"invalid": {OLDER: "size: not accepted"}}, {}], ids=["invalid", "gone"])
def test_only_what_a_deleted_pool_left_is_waited_for(kept: dict[str, Any]) -> None:
    """A pool that breaks a rule keeps its balloons, for as long as it does."""
    run = renamed()
    decided, _ = decide(run.world.snapshot(**kept), Memory(), SETTINGS, later(NOW, 10))
    run.world.apply(decided)
    assert run.world.replicas() == 3 + (3 if kept else 0)


def test_balloons_of_a_deleted_pool_that_lose_their_nodes_wait_for_no_other() -> None:
    """Nobody kept its maxSize any more, and each node that work took led to another one for ten minutes."""
    run = Run(World.of(a_pool("older", mode=Mode.HEADROOM, size=3, max_size=4), nodes=nodes(3)))
    run.seconds(5)
    del run.world.pools[OLDER]
    run.seconds(1)
    assert run.world.replicas() == 3
    run.world.add(work("job", cpu="12"))
    run.world.settle()
    run.world.settle()
    run.seconds(1)
    assert (run.world.replicas(), len(run.held_by(OLDER))) == (2, 2)
    assert not any(decided.sweeps for decided in run.seconds(5))


def test_no_node_is_bought_that_an_older_pool_gets() -> None:
    """The older pool did not want it, the autoscaler removed it, and the next one was bought: every ten minutes."""
    explicit = ShapeSpec(type=ShapeType.EXPLICIT, resources={"cpu": "8", "memory": "8Gi"})
    younger = a_pool("younger", created_s=10.0, mode=Mode.HEADROOM, size=2, max_size=4, shape=explicit, nodes=IN_A)
    world = World.of(a_pool("older", nodes=selecting(pool="gpu"), size=0), younger, nodes={})
    run = Run(world)
    *_, decided = run.seconds(2)
    why = {decision.pool: decision.because.sentence for decision in decided.pools}[YOUNGER]
    assert (world.replicas(), why) == (0, "all nodes also match pool older, which keeps them")
    world.change_pool(OLDER, paused=True)
    run.seconds(2)
    assert world.replicas() == 2


def test_buffers_keep_off_as_well() -> None:
    world = two_pools(strategy=Strategy.CAPACITY_BUFFER, mode=Mode.HEADROOM, size=1, max_size=4)
    decided, _ = decide(world.snapshot(buffer_version="autoscaling.x-k8s.io/v1beta1"), Memory(), SETTINGS, NOW)
    world.apply(decided)
    (stored,) = (each for key, each in world.templates.items() if key.name.startswith("younger"))
    assert Requirement(ZONE, "NotIn", ("a",)) in stored_terms({"template": stored.template})[0]


@pytest.mark.parametrize(
    ("rule", "is_avoided"),
    [
        (Requirement(HOST, "In", ("a000",)), False),
        (Requirement("karpenter.sh/registered", "Exists"), False),
        (Requirement("karpenter.sh/nodepool", "In", ("older",)), True),
        (Requirement("team", "Exists"), True),
    ],
)
def test_where_karpenter_makes_the_nodes_no_label_is_named_that_it_refuses(rule: Requirement, is_avoided: bool) -> None:
    """It would make no node at all for such a pod."""
    labels = {
        "karpenter.sh/nodepool": "older",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "team": "x",
    }
    older = a_pool("older", nodes=selecting(rule), size=0)
    younger = a_pool("younger", created_s=10.0, mode=Mode.HEADROOM, size=1, max_size=9)
    own = a_node("b", labels={"karpenter.sh/nodepool": "younger", "karpenter.sh/initialized": "true"})
    world = World.of(older, younger, nodes={"a000": a_node("a000", labels=labels), "b": own})
    run = Run(world)
    run.seconds(1)
    assert bool(run.avoided()) is is_avoided


def test_host_names_that_another_pool_selects_are_no_nodes_that_refuse() -> None:
    run = Run(two_pools())
    run.world.change_pool(OLDER, nodes=selecting(Requirement(HOST, "In", ("a000", "a001"))))
    run.seconds(10)
    assert run.avoided() == {Requirement(HOST, "NotIn", ("a000", "a001"))}
    restarted = Run(run.world)
    decisions = restarted.seconds(5)
    assert not actions(decisions)
    assert {decision.status.sick for decision in decisions[-1].pools} == {0}


KEYS, VALUES = ("x", "y", "z"), ("1", "2", "3")
some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True).map(tuple)
some_rule = st.one_of(
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), some_values),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
)
some_selector = st.builds(
    LabelSelector,
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    st.lists(some_rule, min_size=1, max_size=3).map(tuple),
)
some_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@given(some_selector, st.lists(some_selector, max_size=3), st.lists(some_labels, min_size=1))
def test_balloons_may_go_exactly_where_no_other_selects(
    own: LabelSelector, others: list[LabelSelector], nodes_labels: list[dict[str, str]]
) -> None:
    terms: list[Term] = [tuple(requirements(own))]
    for other in others:
        before, terms = terms, away_from(terms, [other])
        assert 0 < len(terms) <= MOST_TERMS
        for labels in nodes_labels:
            was, may = (any(all(meets(rule, labels) for rule in term) for term in each) for each in (before, terms))
            if terms != before:
                assert may is (was and not matches(other, labels))


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (LabelSelector({"pool": "gpu"}), 1),
        (LabelSelector({"pool": "cpu"}), 1),
        (LabelSelector({"pool": "gpu", **{f"k{i}": "v" for i in range(MOST_TERMS)}}), MOST_TERMS),
        (LabelSelector({f"k{i}": "v" for i in range(MOST_TERMS + 1)}), 1),
    ],
)
def test_what_leaves_nothing_or_takes_too_many_alternatives_is_not_said(other: LabelSelector, count: int) -> None:
    own = [(Requirement("pool", "In", ("gpu",)),)]
    found = away_from(own, [other])
    assert len(found) == count
    assert (found == own) is (count == 1)
