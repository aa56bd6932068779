"""Pools that want the same nodes, and pools beside each other."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from balloons.api.pool import Mode, PoolNodes
from balloons.balloon_manifest import ImageSettings, hosts_in
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory, Reason
from balloons.view.index_and_snapshot import Deployment
from tests.world import CLASS, NOW, POOL_KEY, World, a_node, a_pool, claim_nodes, later, nodes
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector, Requirement, matches

SETTINGS = ImageSettings()
YOUNGER = a_pool("young", created_s=100.0)


def settled(world: World, ticks: int = 6) -> Decision:
    memory = Memory()
    for tick in range(ticks):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 20 * tick))
        world.apply(decided)
        world.settle()
    return decided


def test_the_older_pool_keeps_the_nodes_and_the_younger_says_so() -> None:
    world = World.of(YOUNGER, a_pool(created_s=50.0), nodes=nodes(4))
    older, younger = settled(world).pools
    assert older.because.reason is Reason.STEADY
    assert younger.because.reason is Reason.CONFLICT
    assert younger.because.sentence == "4 nodes also match pool gpu, which keeps them"
    assert not world.balloons("young")


class Counted(dict[ObjectKey, Deployment]):
    """How often somebody goes through all of them."""

    passes = 0

    def items(self) -> Any:
        self.passes += 1
        return super().items()

    def values(self) -> Any:
        self.passes += 1
        return super().values()


@pytest.mark.parametrize("missing", [(), ("pods",)])
def test_more_pools_do_not_look_at_all_deployments_more_often(missing: tuple[str, ...]) -> None:
    """A thousand pools that each looked at the Deployments of all took half a second of every decision."""
    spec: dict[str, Any] = {"mode": Mode.HEADROOM, "size": 1, "max_size": 3}
    passes = []
    for count in (2, 20):
        pools = [a_pool(f"p{i}", nodes=PoolNodes(LabelSelector({"pool": f"p{i}"})), **spec) for i in range(count)]
        made = [a_node(f"n{i}", labels={"pool": f"p{i}"}) for i in range(count)]
        world = World.of(*pools, nodes={node.name: node for node in made})
        assert len(settled(world).pools) == count
        deployments = Counted(world.deployments)
        assert len(deployments) == count
        decided, _ = decide(world.snapshot(deployments=deployments, missing=missing), Memory(), SETTINGS, NOW)
        assert not any(decision.actions for decision in decided.pools)
        passes.append(deployments.passes)
    assert passes[0] == passes[1] <= 3


def test_host_names_are_looked_for_only_where_a_deployment_leaves_some_out() -> None:
    """Else each pool's Deployments would cost a look at the selectors of all older pools."""

    def selectors() -> Iterator[LabelSelector]:
        raise AssertionError("nobody needs them")
        yield

    assert hosts_in([(Requirement("pool", "In", ("gpu",)),)], selectors()) == ()


def test_a_partial_conflict_is_a_note_beside_the_decision() -> None:
    wide = a_pool("wide", created_s=100.0, nodes=PoolNodes(LabelSelector({"kind": "any"})))
    world = World.of(a_pool(), wide, nodes=nodes(2, "a", labels={"kind": "any"}))
    world.nodes["own"] = a_node("own", labels={"kind": "any", "pool": "other"})
    found = settled(world).pools[1]
    assert found.because.reason is Reason.STEADY
    assert [note.reason for note in found.notes] == [Reason.CONFLICT]


def test_balloons_on_nodes_lost_to_an_older_pool_give_way_to_its_own() -> None:
    world = World.of(YOUNGER, nodes=nodes(4))
    settled(world)
    assert len(world.balloons("young")) == 4
    world.pools[POOL_KEY] = a_pool(created_s=50.0)
    settled(world, 12)
    assert (len(world.balloons("young")), len(world.balloons("gpu"))) == (0, 4)


def test_another_pools_balloon_is_neither_counted_nor_marked() -> None:
    world = World.of(YOUNGER, nodes=nodes(2))
    settled(world)
    del world.pools[YOUNGER.key]
    world.pools[POOL_KEY] = a_pool()
    world.change_pool(size=0)
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert decided.pools[0].status.warm == 0
    assert not decided.pools[0].actions


def test_a_bad_pool_changes_no_other_pools_decision() -> None:
    world = World.of(a_pool(size=2), nodes=nodes(4))
    alone, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    beside, _ = decide(world.snapshot(invalid={ObjectKey("x", "bad"): "size -1"}), Memory(), SETTINGS, NOW)
    assert beside.pools[1:] == alone.pools
    assert beside.pools[0].because.sentence == "size -1"


def test_a_pool_without_its_priority_class_freezes_all_and_removes_nothing() -> None:
    world = World.of(a_pool(), nodes=nodes(4))
    settled(world)
    world.change_pool(size=0)
    for classes in ({}, {"other": CLASS}):
        decided, _ = decide(world.snapshot(priority_classes=classes), Memory(), SETTINGS, NOW)
        assert decided.pools[0].because.reason is Reason.NO_PRIORITY_CLASS
        assert not decided.pools[0].actions


def test_many_pools_cost_little_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each selector is asked once per combination of labels that it lists, however many nodes share it."""
    teams = [a_pool(f"t{i}", nodes=PoolNodes(LabelSelector({"team": str(i)})), created_s=float(i)) for i in range(100)]
    made = {f"n{i}": a_node(f"n{i}", labels={"team": str(i % 100)}) for i in range(500)}
    asked: list[Mapping[str, str]] = []

    def counting(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
        asked.append(labels)
        return matches(selector, labels)

    monkeypatch.setattr("balloons.view.tenancy_and_claim.matches", counting)
    claims = claim_nodes(teams, made, {})
    assert all(len(claim.nodes) == 5 for claim in claims.values())
    assert len(asked) == 100
