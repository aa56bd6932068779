"""Balloons on nodes that an autoscaler is about to remove go at once, so that no node is bought for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import LeaveNode, Memory, PoolDecision, Reason, ReleaseBalloon
from balloons.service.pool_status_and_events import Standing, standing
from tests.examples import examples
from tests.world import NOW, World, a_node, a_pool, later, nodes, work
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import LEAVING_TAINTS, Taint, Toleration

KARPENTER = {KARPENTER_POOL_LABEL: "default", KARPENTER_INITIALIZED_LABEL: "true"}
DISRUPTED = (Taint("karpenter.sh/disrupted", effect="NoSchedule"),)


class Fleet:
    """A pool whose nodes Karpenter replaces."""

    def __init__(self, count: int, **spec: object) -> None:
        self.world = World.of(a_pool(**spec), nodes=nodes(count, labels=KARPENTER))
        self.memory, self.now = Memory(), NOW
        self.run(3)

    def step(self) -> PoolDecision:
        self.world.settle()
        decided, self.memory = decide(self.world.snapshot(), self.memory, ImageSettings(), self.now)
        self.world.apply(decided)
        self.world.settle()
        self.now = later(self.now, 10)
        return decided.pools[0]

    def run(self, steps: int) -> PoolDecision:
        for _ in range(steps):
            decision = self.step()
        return decision

    def taint(self, *names: str, taints: tuple[Taint, ...] = DISRUPTED) -> None:
        for name in names:
            self.world.change_node(name, taints=taints)

    def balloons(self) -> dict[str, str]:
        return {balloon.node: balloon.uid for balloon in self.world.balloons()}


@pytest.mark.parametrize("key", sorted(LEAVING_TAINTS))
def test_the_balloon_goes_and_every_other_node_keeps_its_own(key: str) -> None:
    fleet = Fleet(5)
    before = fleet.balloons()
    fleet.taint("n002", taints=(Taint(key, effect="NoSchedule"),))
    decision = fleet.step()
    assert decision.because.sentence == "1 held node is being replaced or removed by the autoscaler: n002"
    assert standing(decision.because.reason) is Standing.MOVING
    assert fleet.balloons() == {node: uid for node, uid in before.items() if node != "n002"}
    assert fleet.world.replicas() == 4
    assert fleet.step().because.reason is Reason.STEADY


def test_nodes_that_are_not_wanted_any_more_are_told_with_those_that_leave() -> None:
    fleet = Fleet(5, size=5)
    fleet.taint("n002")
    fleet.world.change_pool(size=3)
    assert fleet.step().because.sentence == "2 more nodes are held than wanted"


def test_balloons_that_leave_do_not_count_against_the_limit_of_those_that_go() -> None:
    fleet = Fleet(30, size=30)
    fleet.taint(*(f"n{at:03}" for at in range(10)))
    fleet.step()
    assert fleet.world.replicas() == 20
    fleet.world.change_pool(size=0)
    fleet.now = later(fleet.now, -5.0)
    fleet.step()
    assert fleet.world.replicas() == 10


@pytest.mark.parametrize("is_paused", [False, True])
def test_the_balloon_is_told_to_go_by_itself_too_whatever_becomes_of_the_deployment(is_paused: bool) -> None:
    fleet = Fleet(3, size=3)
    fleet.world.change_pool(paused=is_paused)
    uid = fleet.balloons()["n001"]
    fleet.taint("n001")
    found, _ = decide(fleet.world.snapshot(), fleet.memory, ImageSettings(), fleet.now)
    last = found.pools[0].actions[-1]
    assert isinstance(last, LeaveNode)
    assert (last.uid, last.node) == (uid, "n001")
    assert last.because.sentence == "1 held node is being replaced or removed by the autoscaler: n001"
    assert not any(isinstance(action, ReleaseBalloon) for action in found.pools[0].actions), "it goes once"


def test_a_replacement_is_held_in_the_place_of_the_old_node_and_not_besides() -> None:
    fleet = Fleet(3)
    before = fleet.balloons()
    fleet.taint("n001")
    fleet.world.nodes["new"] = a_node("new", labels=KARPENTER)
    fleet.step()
    fleet.step()
    assert fleet.world.replicas() == 3
    after = fleet.balloons()
    assert {node: after[node] for node in ("n000", "n002")} == {node: before[node] for node in ("n000", "n002")}
    assert set(after) == {"n000", "n002", "new"}


def test_a_node_that_stays_after_all_is_held_again() -> None:
    fleet = Fleet(3)
    fleet.taint("n001")
    fleet.run(2)
    fleet.taint("n001", taints=())
    fleet.run(2)
    assert set(fleet.balloons()) == {"n000", "n001", "n002"}


def test_even_a_paused_pool_leaves_a_node_that_goes_and_takes_its_replacement() -> None:
    fleet = Fleet(3, size=3)
    before = fleet.balloons()
    fleet.world.change_pool(paused=True)
    fleet.taint("n001")
    fleet.step()
    assert fleet.world.replicas() == 3
    assert sorted(fleet.balloons()) == ["", "n000", "n002"]
    fleet.world.nodes["new"] = a_node("new", labels=KARPENTER)
    fleet.world.remove_node("n001")
    fleet.step()
    after = fleet.balloons()
    assert {"n000", "n002", "new"} == set(after)
    assert after["n000"] == before["n000"]


def test_a_cordoned_node_keeps_its_balloon() -> None:
    fleet = Fleet(3)
    before = fleet.balloons()
    fleet.world.change_node("n001", is_cordoned=True)
    fleet.run(3)
    assert fleet.balloons() == before


def test_balloons_that_tolerate_everything_do_not_stay_on_a_node_that_goes() -> None:
    everything = PoolNodes(LabelSelector({"pool": "gpu"}), (Toleration(operator="Exists"),))
    fleet = Fleet(3, nodes=everything)
    fleet.taint("n001")
    decision = fleet.run(3)
    assert decision.status.warm == 2


def test_headroom_asks_for_one_node_in_the_place_of_one_that_goes() -> None:
    fleet = Fleet(3, mode=Mode.HEADROOM, size=3, max_size=6)
    fleet.taint("n001")
    fleet.run(3)
    assert fleet.world.replicas() == 3
    assert sorted(fleet.balloons()) == ["", "n000", "n002"]


def test_busy_nodes_that_were_marked_freeze_nothing_when_they_go_together() -> None:
    """As when a zone's spot machines are called back. The pool has to order, or hold, what comes in their place."""
    fleet = Fleet(10, mode=Mode.HEADROOM, size=6, max_size=20)
    busy = [f"n{at:03}" for at in range(4)]
    fleet.world.add(*(work(f"job-{name}", name) for name in busy))
    fleet.run(2)
    fleet.taint(*busy)
    fleet.step()
    for name in busy:
        fleet.world.remove_node(name)
    assert fleet.step().because.reason is not Reason.SHRUNKEN_VIEW


def test_hold_leaves_a_new_node_to_the_work_of_one_that_goes() -> None:
    """Karpenter made it for that work, counts the work until it is gone, and buys another node, every ten seconds,
    while a balloon takes the room (read in the source of 1.15: the pods of a StatefulSet count while they end)."""
    fleet = Fleet(3)
    fleet.world.add(work("job", "n001"))
    fleet.run(2)
    fleet.taint("n001")
    made_s = fleet.now.wall.timestamp()
    fleet.world.nodes |= {name: a_node(name, labels=KARPENTER, created_s=made_s) for name in ("new", "newer")}
    decision = fleet.run(2)
    assert len(fleet.balloons()) == 3, "one of the two, whichever the scheduler takes, is not held"
    assert decision.because.sentence == "1 node stays free for pods that will take it"
    fleet.world.remove_node("n001")
    fleet.run(2)
    assert set(fleet.balloons()) == {"n000", "n002", "new", "newer"}


@pytest.mark.parametrize("names", [("older", "newer"), ("newer", "older")])
def test_of_two_kinds_of_machine_the_newest_is_left_to_the_work(names: tuple[str, ...]) -> None:
    fleet = Fleet(3)
    fleet.world.add(work("job", "n001"))
    fleet.run(2)
    fleet.taint("n001")
    made_s = {"older": fleet.now.wall.timestamp() - 60.0, "newer": fleet.now.wall.timestamp()}
    for name in names:
        labels = {**KARPENTER, INSTANCE_TYPE_LABEL: f"gpu.{name}"}
        fleet.world.nodes[name] = a_node(name, labels=labels, created_s=made_s[name])
    fleet.run(2)
    assert set(fleet.balloons()) == {"n000", "n002", "older"}


def test_a_new_node_that_is_left_to_work_counts_once_for_max_size() -> None:
    """It takes the place of the busy one that goes, which counts as well for as long as it is there."""
    fleet = Fleet(4, size=3, max_size=4)
    fleet.world.add(work("job", "n003"))
    fleet.run(2)
    before = fleet.balloons()
    fleet.taint("n003")
    fleet.world.nodes["new"] = a_node("new", labels=KARPENTER, created_s=fleet.now.wall.timestamp())
    fleet.run(2)
    assert fleet.balloons() == before
    assert set(before) == {"n000", "n001", "n002"}


@pytest.mark.parametrize(
    ("spec", "labels", "age_s"),
    [({}, KARPENTER, 900.0), ({}, {}, 0.0), ({"mode": Mode.HEADROOM, "size": 3, "max_size": 6}, KARPENTER, 0.0)],
    ids=["an old node", "a node of another autoscaler", "Headroom buys"],
)
def test_other_idle_nodes_are_held_beside_work_that_goes(
    spec: dict[str, object], labels: dict[str, str], age_s: float
) -> None:
    fleet = Fleet(3, **spec)
    fleet.world.add(work("job", "n001"))
    fleet.run(2)
    fleet.taint("n001")
    fleet.world.nodes["idle"] = a_node("idle", labels=labels, created_s=fleet.now.wall.timestamp() - age_s)
    fleet.run(2)
    assert "idle" in fleet.balloons()


@pytest.mark.parametrize(
    ("labels", "taints"), [(KARPENTER, ()), ({}, DISRUPTED)], ids=["it stays", "Karpenter does not remove it"]
)
def test_a_new_node_is_held_beside_work_that_needs_no_other(labels: dict[str, str], taints: tuple[Taint, ...]) -> None:
    fleet = Fleet(2)
    fleet.world.add(work("job", "busy"))
    fleet.world.nodes["busy"] = a_node("busy", labels=labels)
    fleet.run(2)
    fleet.taint("busy", taints=taints)
    fleet.world.nodes["new"] = a_node("new", labels=KARPENTER, created_s=fleet.now.wall.timestamp())
    fleet.run(2)
    assert set(fleet.balloons()) == {"n000", "n001", "new"}


@settings(max_examples=examples(0.4), deadline=None)
@given(going=st.sets(st.integers(0, 29), min_size=1), replaced=st.integers(0, 30))
def test_any_number_goes_at_once_and_nothing_is_held_twice(going: set[int], replaced: int) -> None:
    """The limit on removals is for capacity that could be kept: this one is lost whatever we do."""
    fleet = Fleet(30)
    before = fleet.balloons()
    leaving = [f"n{i:03}" for i in going]
    fleet.taint(*leaving)
    fleet.world.nodes |= nodes(replaced, "r", labels=KARPENTER)
    fleet.run(2)
    kept = {node: uid for node, uid in before.items() if node not in leaving}
    assert kept.items() <= fleet.balloons().items()
    assert not set(leaving) & set(fleet.balloons())
    assert fleet.world.replicas() == 30 - len(leaving) + replaced
    for name in leaving:
        fleet.world.remove_node(name)
    decision = fleet.run(2)
    assert decision.because.reason is Reason.STEADY, "nodes that went on purpose freeze nothing"
    assert decision.status.warm == 30 - len(leaving) + replaced
