"""The safety invariants of the design, held against everything a cluster may do in virtual time.

The machine changes nodes, work and pools at will, crashes in the middle of decisions, forgets, and looks through broken
caches; after each it checks what must hold whatever happened before.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from balloons.api.pool import Mode
from balloons.balloon_manifest import ImageSettings
from balloons.decide import pools_left_alone
from balloons.decide.census import NodeState, Rules, ages_s, take_census
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import (
    Action,
    ApplyObject,
    Decision,
    DeleteObject,
    MarkBalloon,
    Memory,
    Reason,
    ReleaseBalloon,
)
from balloons.decide.pools_left_alone import STALE_AFTER_S
from tests.examples import examples
from tests.world import NOW, POOL_KEY, World, a_node, a_pool, claim_nodes, daemon, later, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import PodKind, Scheduling

SETTINGS = ImageSettings()
REMOVED_AT_LEAST = 2
"""Small clusters meet the removal limit, too."""
MOST_NODES = 8
NOT_READY = frozenset({("Ready", "False")})
HOLDABLE = (NodeState.WARM, NodeState.IDLE)


@pytest.fixture(autouse=True, scope="module")
def few_removals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools_left_alone, "REMOVED_AT_LEAST", REMOVED_AT_LEAST)
        yield


class Cluster(RuleBasedStateMachine):
    """One pool in either mode over a handful of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.memory = Memory()
        self.made = 0
        self.world = World.of(nodes={})

    @initialize(mode=st.sampled_from(Mode), size=st.integers(0, 6))
    def start(self, mode: Mode, size: int) -> None:
        self.world = World.of(a_pool(mode=mode, size=size, max_size=8), nodes={})
        for _ in range(4):
            self.add_node(zone="a", is_ready=True)

    # -- what a cluster does ---------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.nodes) < MOST_NODES)
    @rule(zone=st.sampled_from("ab"), is_ready=st.booleans())
    def add_node(self, zone: str, is_ready: bool) -> None:
        self.made += 1
        node = a_node(f"n{self.made:03}", labels={"topology.kubernetes.io/zone": zone})
        self.world.nodes[node.name] = self._readiness(node, is_ready)
        self.world.add(daemon(f"d{self.made}", node.name))

    def _readiness(self, node: Node, is_ready: bool) -> Node:
        conditions = frozenset({("Ready", "True")}) if is_ready else NOT_READY
        created_s = node.created_s or self.now.wall.timestamp()
        return msgspec.structs.replace(node, is_ready=is_ready, conditions=conditions, created_s=created_s)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), is_ready=st.booleans())
    def change_readiness(self, data: st.DataObject, is_ready: bool) -> None:
        name = self._a_node(data)
        self.world.nodes[name] = self._readiness(self.world.nodes[name], is_ready)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), is_cordoned=st.booleans())
    def cordon(self, data: st.DataObject, is_cordoned: bool) -> None:
        self.world.change_node(self._a_node(data), is_cordoned=is_cordoned)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def lose_node(self, data: st.DataObject) -> None:
        self.world.remove_node(self._a_node(data))

    def _a_node(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.nodes)))

    @rule(count=st.integers(1, 3), cpu=st.sampled_from(["100m", "4", "14"]), gang=st.sampled_from(["", "g"]))
    def submit_work(self, count: int, cpu: str, gang: str) -> None:
        for _ in range(count):
            self.made += 1
            self.world.add(work(f"w{self.made}", cpu=cpu, scheduling=Scheduling(is_tried=True, gang=gang)))

    @rule()
    def finish_work(self) -> None:
        self.world.pods = {k: p for k, p in self.world.pods.items() if p.kind is not PodKind.WORK}

    @rule(changes=st.fixed_dictionaries({}, optional={"size": st.integers(0, 8), "mode": st.sampled_from(Mode)}))
    def edit_pool(self, changes: dict[str, Any]) -> None:
        self.world.change_pool(**changes)

    @rule(seconds=st.sampled_from([1, 10, 61, 301]))
    def wait(self, seconds: int) -> None:
        self.now = later(self.now, seconds)

    @rule(hours=st.integers(-48, 48))
    def step_the_wall_clock(self, hours: int) -> None:
        self.now = replace(self.now, wall=self.now.wall + timedelta(hours=hours))

    @rule()
    def forget(self) -> None:
        self.memory = Memory()

    # -- what the service does -------------------------------------------------------------------------------------

    def _decide(self, **changes: Any) -> tuple[Decision, Memory]:
        snapshot = self.world.snapshot(**changes)
        first = decide(snapshot, self.memory, SETTINGS, self.now)
        assert decide(snapshot, self.memory, SETTINGS, self.now) == first, "equal input, equal decision"
        return first

    @rule(lag=st.booleans())
    def tick(self, lag: bool) -> None:
        decided, self.memory = self._decide()
        self._check(decided)
        self.world.apply(decided)
        if not lag:
            self.world.settle()
        self.now = later(self.now, 1)

    @rule(count=st.integers(0, 4), lag=st.booleans())
    def crash_in_the_middle(self, count: int, lag: bool) -> None:
        decided, _ = self._decide()
        self.world.apply(decided, count)
        if not lag:
            self.world.settle()
        self.memory = Memory()

    @rule()
    def controllers_catch_up(self) -> None:
        self.world.settle()

    @rule(changes=st.sampled_from([{"missing": ("pods",)}, {"age_s": STALE_AFTER_S + 1}]))
    def look_through_broken_caches(self, changes: dict[str, Any]) -> None:
        decided, memory = self._decide(**changes)
        for action in actions_of(decided):
            assert isinstance(action, ApplyObject), "invariants 4 and 5: blind, nothing moves but what keeps maxSize"
            assert self.world.pools[POOL_KEY].spec.mode is Mode.HEADROOM
            assert action.replicas < self._stored(action.key)
        assert replace(memory, unseen={}) == replace(self.memory, unseen={})
        self.memory = memory

    # -- what must hold --------------------------------------------------------------------------------------------

    def _check(self, decided: Decision) -> None:
        actions = actions_of(decided)
        self._only_balloons_are_deleted(actions)
        self._removals_are_few(actions)
        self._marks_come_first_and_deletes_last(actions)
        self._hold_never_asks_for_more_than_there_is(actions)
        self._growth_stays_within_max_size(decided, actions)

    def _only_balloons_are_deleted(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, MarkBalloon | ReleaseBalloon):
                assert self.world.pods[action.key].kind is PodKind.BALLOON, "only balloons are deleted"

    def _removals_are_few(self, actions: list[Action]) -> None:
        marked = [a for a in actions if isinstance(a, MarkBalloon) and a.cost < 0]
        moved = [a for a in actions if isinstance(a, ReleaseBalloon) and not a.taker]
        assert len(marked) + len(moved) <= REMOVED_AT_LEAST, "few are removed at once"

    def _marks_come_first_and_deletes_last(self, actions: list[Action]) -> None:
        order = {MarkBalloon: 0, ApplyObject: 1, DeleteObject: 1, ReleaseBalloon: 2}
        ranks = [order[type(action)] for action in actions if type(action) in order]
        assert ranks == sorted(ranks)

    def _states(self) -> dict[NodeState, list[Node]]:
        snapshot = self.world.snapshot()
        claims = claim_nodes(self.world.pools.values(), snapshot.nodes, snapshot.loads)
        pool = self.world.pools[POOL_KEY]
        unready = ages_s(self.memory.unready_since_s, self.now)
        return take_census(claims[POOL_KEY].nodes, Rules.of(pool, self.now.wall.timestamp(), unready)).by_state

    def _hold_never_asks_for_more_than_there_is(self, actions: list[Action]) -> None:
        if self.world.pools[POOL_KEY].spec.mode is Mode.HEADROOM:
            return
        carrying = {balloon.node for balloon in self.world.balloons() if balloon.node}
        holdable = {node.name for state in HOLDABLE for node in self._states()[state]}
        for action in actions:
            if isinstance(action, ApplyObject):
                assert action.replicas <= len(holdable | carrying), "a balloon has a node to go to"

    def _growth_stays_within_max_size(self, decided: Decision, actions: list[Action]) -> None:
        spec, states = self.world.pools[POOL_KEY].spec, self._states()
        raised = [a for a in actions if isinstance(a, ApplyObject) and a.replicas > self._stored(a.key)]
        if not raised or spec.max_size is None:
            return
        asked = sum(a.replicas for a in actions if isinstance(a, ApplyObject))
        carrying = {b.node for b in self.world.balloons() if b.node in self.world.nodes}
        usable = {node.name for state in HOLDABLE for node in states[state]}
        new = max(0, asked - len(usable | carrying) - len(states[NodeState.JOINING]))
        assert new == 0 or len(self.world.nodes) + new <= spec.max_size, "never beyond maxSize"

    def _stored(self, key: ObjectKey) -> int:
        found = self.world.deployments.get(key)
        return found.replicas if found else 0

    @invariant()
    def work_is_never_harmed(self) -> None:
        made = [action.key for action in self.world.log if isinstance(action, ReleaseBalloon | MarkBalloon)]
        assert all(key.namespace == POOL_KEY.namespace for key in made)

    def teardown(self) -> None:
        """Invariants 8 and 10: left alone, every past ends in the same rest, in which nothing is written."""
        self.world.settle()
        self.now = later(self.now, 1_000)
        for _ in range(40):
            decided, self.memory = self._decide()
            self._check(decided)
            is_frozen = decided.pools[0].because.reason is Reason.SHRUNKEN_VIEW
            if not actions_of(decided) and not is_frozen:
                self._is_at_its_aim(decided)
                return
            self.world.apply(decided)
            self.world.settle()
            self.now = later(self.now, 20)
        raise AssertionError(f"still writing: {actions_of(decided)}")

    def _is_at_its_aim(self, decided: Decision) -> None:
        states, spec = self._states(), self.world.pools[POOL_KEY].spec
        free = len(states[NodeState.WARM]) + len(states[NodeState.IDLE])
        room = max(0, (spec.max_size or 0) - len(states[NodeState.BUSY]))
        assert len(states[NodeState.WARM]) == min(spec.size or 0, room, free), "at rest, desired = actual"
        busy = {node.name for node in states[NodeState.BUSY]}
        assert not [balloon for balloon in self.world.balloons() if balloon.node in busy]
        if spec.mode is Mode.HOLD:
            assert not [balloon for balloon in self.world.balloons() if not balloon.node], "none without a node"


def actions_of(decided: Decision) -> list[Action]:
    return [action for decision in decided.pools for action in decision.actions]


Cluster.TestCase.settings = settings(
    max_examples=examples(0.6), stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)
TestCluster = Cluster.TestCase
