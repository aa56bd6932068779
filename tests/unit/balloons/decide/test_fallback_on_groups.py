"""Headroom falls back where machines come by node groups, which cluster-autoscaler orders from.

A group without stock looks like one whose machines boot: its target is raised, and nothing comes. What is modelled here
of cluster-autoscaler: a pending pod waits for a machine on its way that it fits, else one is ordered; a machine that
has not come after 15 minutes is given up, and its group is left alone for five minutes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from balloons.api.pool import Mode
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Memory, PoolMemory
from tests.unit.balloons.decide.test_fallback import typed
from tests.unit.throttler.joins.cluster import WALL_S
from tests.unit.throttler.service.throttle_scene import QUOTAS_SERVED, a_throttle, a_view
from tests.world import NOW, POOL_KEY, World, a_pool, later
from throttler.joins.joins import JoinWorld
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import INSTANCE_TYPE_LABEL
from throttler.kube.selectors import LabelSelector, Requirement, meets
from throttler.levers.lever_and_reasons import Lane, PoolGrowth
from throttler.service.decide_throttles import Memories, decide_throttles

GIVEN_UP_S, LEFT_ALONE_S, BOOT_S = 900.0, 300.0, 60.0


@dataclass
class Groups:
    """A pool with two nodes of the group `big`, which has run out, that wants one more; the group `other` has some.

    `tells` means that the cloud says at once that the group has run out. After `big_boots_s` one of its machines
    comes all the same.
    """

    tells: bool
    big_boots_s: float = math.inf
    world: World = field(
        default_factory=lambda: World.of(a_pool(mode=Mode.HEADROOM, size=3, max_size=9), nodes=typed(2, "big"))
    )
    memory: Memory = field(default_factory=Memory)
    memories: Memories = field(default_factory=dict)
    now_s: float = 0.0
    ordered: list[tuple[str, float]] = field(default_factory=list)
    """(group, when) of machines on their way."""
    left_alone_s: dict[str, float] = field(default_factory=dict)
    lacking: int = 0
    most_ordered: int = 0

    def until(self, shape: str, within_s: float) -> float:
        """When a balloon of the shape first waited."""
        return self._until(lambda: shape in {b.shape for b in self.world.balloons() if not b.node}, within_s)

    def until_it_comes(self, within_s: float) -> float:
        """When the third node was there and held."""
        return self._until(lambda: sum(bool(b.node) for b in self.world.balloons()) == 3, within_s)

    def _until(self, is_so: Callable[[], bool], within_s: float) -> float:
        while not is_so():
            assert self.now_s < within_s
            self.step()
        return self.now_s

    def step(self) -> None:
        """Ten seconds."""
        lanes = self._lanes()
        now = later(NOW, self.now_s)
        decided, self.memory = decide(self.world.snapshot(), self.memory, ImageSettings(), now, lanes)
        self.lacking = decided.pools[0].lacking
        self.world.apply(decided)
        self.world.settle()
        self._autoscale()
        self.world.settle()
        self.now_s += 10

    def _lanes(self) -> list[Lane]:
        """What the throttle lets the pool start, by what cluster-autoscaler says of its groups."""
        booting, there = [group for group, _ in self.ordered], [name[:-3] for name in self.world.nodes]
        counts = {group: there.count(group) for group in ("big", "other")}
        groups = tuple(NodeGroup(group, count + booting.count(group), count) for group, count in counts.items())
        world = JoinWorld(nodes=self.world.nodes, autoscaler=AutoscalerStatus(groups, WALL_S + self.now_s))
        granted = self.memory.pools.get(POOL_KEY, PoolMemory()).granted or 0
        growth = (PoolGrowth(LabelSelector({"pool": "gpu"}), self.lacking, granted),)
        throttle = a_throttle(nodes={"matchLabels": {"pool": "gpu"}}, levers={"capacityQuota": {"name": "q"}})
        view = a_view(self.now_s, world=world, growth=growth, scene={"versions": QUOTAS_SERVED})
        turns, self.memories = decide_throttles((throttle,), view, self.memories)
        return [turn.lane for turn in turns if turn.lane is not None]

    def _autoscale(self) -> None:
        boots_s = {"big": self.big_boots_s, "other": BOOT_S}
        for group, at_s in list(self.ordered):
            if self.now_s - at_s >= boots_s[group]:
                self.ordered.remove((group, at_s))
                self.world.nodes |= typed(3, group) if group == "big" else typed(1, group)
            elif group == "big" and (self.tells or self.now_s - at_s >= GIVEN_UP_S):
                self.ordered.remove((group, at_s))
                self.left_alone_s[group] = self.now_s + LEFT_ALONE_S
        coming = [group for group, _ in self.ordered]
        for balloon in self.world.balloons():
            fitting = self._groups_for(balloon.shape)
            if balloon.node:
                continue
            if waits_for := next((group for group in coming if group in fitting), ""):
                coming.remove(waits_for)
                continue
            free = [group for group in fitting if self.now_s >= self.left_alone_s.get(group, 0.0)]
            self.ordered += [(free[0], self.now_s)] if free else []
        self.most_ordered = max(self.most_ordered, len(self.ordered))

    def _groups_for(self, shape: str) -> list[str]:
        """Groups whose machines a balloon of this shape fits; each group has a type of its own name."""
        template = self.world.deployments[ObjectKey("team-a", f"gpu-{shape}")].spec["template"]
        required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        rules = msgspec.convert(term["matchExpressions"], list[Requirement])
        labels = {group: {"pool": "gpu", INSTANCE_TYPE_LABEL: group} for group in ("big", "other")}
        return [group for group in labels if all(meets(rule, labels[group]) for rule in rules)]


def test_a_group_that_says_that_it_has_run_out_costs_the_time_of_one_shape() -> None:
    story = Groups(tells=True)
    asked_s = story.until("big", 60)
    assert 300 <= story.until("any-type", 400) - asked_s <= 320
    assert story.until_it_comes(500) <= 420
    assert story.most_ordered == 1


def test_a_machine_that_never_comes_from_its_group_costs_no_more() -> None:
    """It is on its way, so nothing of ours holds it back. cluster-autoscaler waits for it until it gives it up, and
    orders another for a balloon that the machine would not fit."""
    story = Groups(tells=False)
    asked_s = story.until("big", 60)
    assert 300 <= story.until("any-type", 400) - asked_s <= 320
    assert story.until_it_comes(500) <= 420
    assert story.most_ordered == 2, "the one that does not come, and one of the other group"


def test_a_machine_that_comes_late_is_held_in_its_own_size() -> None:
    story = Groups(tells=False, big_boots_s=330)
    story.until("any-type", 400)
    assert story.until_it_comes(500) <= 380
    for _ in range(60):
        story.step()
        assert {(b.node, b.shape) for b in story.world.balloons()} == {(f"big00{n}", "big") for n in range(3)}
