"""When a pool is left as it is, what is still done then, and what keeps a bad view from costing capacity.

Reasons for which a pool is left as it is. What happens to pools that are left alone, to pools that nobody saw, and to
balloons that nobody will make. Views that are not believed, and removals that are limited.
"""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, NotWarm, NotWarmTaint, PoolNodes
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import (
    Action,
    ApplyObject,
    Decision,
    MarkBalloon,
    Memory,
    PoolDecision,
    PoolMemory,
    Reason,
)
from balloons.decide.deleted_pools import SWEEP_AFTER_S
from balloons.decide.pools_left_alone import recent_removals, removal_limit
from balloons.service.pool_status_and_events import Standing, standing
from balloons.view.index_and_snapshot import DeploymentCondition, DeploymentStatus, Now
from tests.world import CLASS, NOW, POOL_KEY, World, a_node, a_pool, later, nodes, work
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint

ONE_REGISTRY = ImageSettings(allowed_images=("registry.example/warm/",))
SETTINGS = ImageSettings()
QUOTA = 'pods "gpu-16cpu-64gi-7d9-x2k" is forbidden: exceeded quota: q, requested: cpu=15, used: cpu=0, limited: cpu=8'


def decision(world: World, **changes: Any) -> PoolDecision:
    return decide(world.snapshot(**changes), Memory(), ONE_REGISTRY, NOW)[0].pools[0]


def pool_of(**spec: Any) -> World:
    return World.of(a_pool(**spec), nodes=nodes(2))


@pytest.mark.parametrize("value", [-11, -1000, 0, 5])
def test_a_class_outside_the_accepted_priorities_freezes(value: int) -> None:
    found = decision(pool_of(), priority_classes={"kube-balloons": msgspec.structs.replace(CLASS, value=value)})
    assert (found.because.reason, found.actions) == (Reason.NO_PRIORITY_CLASS, ())
    assert str(value) in found.because.sentence


@pytest.mark.parametrize("value", [-10, -1])
def test_the_accepted_priorities_are_from_minus_ten_to_minus_one(value: int) -> None:
    assert decision(pool_of(), priority_classes={"kube-balloons": msgspec.structs.replace(CLASS, value=value)}).actions


def test_a_class_that_preempts_freezes() -> None:
    bad = msgspec.structs.replace(CLASS, preemption_policy="PreemptLowerPriority")
    assert decision(pool_of(), priority_classes={"kube-balloons": bad}).because.reason is Reason.NO_PRIORITY_CLASS


def test_only_images_on_the_list_run() -> None:
    assert decision(pool_of(image="registry.example/warm/pause:1")).actions
    for spec in ({"image": "docker.example/miner"}, {"pre_pull": ("docker.example/model",)}):
        found = decision(pool_of(**spec))
        assert (found.because.detail["accepted"], found.actions) == ("registry.example/warm/", ())


def test_without_a_list_only_the_default_image_runs() -> None:
    views = (pool_of(image=image).snapshot() for image in ("registry.example/warm/pause:1", ImageSettings().image))
    other, default = (decide(view, Memory(), ImageSettings(), NOW)[0].pools[0] for view in views)
    assert (other.because.reason, "none besides" in other.because.sentence) == (Reason.IMAGE_NOT_ALLOWED, True)
    assert default.actions


@pytest.mark.parametrize(("minor", "may"), [(34, False), (35, True), (0, True)])
def test_image_volumes_need_their_version(minor: int, may: bool) -> None:
    found = decision(pool_of(pre_pull=("registry.example/warm/model:1",)), server_minor=minor)
    assert bool(found.actions) is may
    assert (found.because.reason is Reason.NO_IMAGE_VOLUMES) is not may
    assert decision(pool_of(), server_minor=minor).actions, "a pool that pulls nothing needs none"


def test_a_paused_pool_is_left_alone() -> None:
    found = decision(pool_of(paused=True))
    assert (found.because.reason, found.actions) == (Reason.PAUSED, ())


def test_a_dry_run_plans_and_writes_nothing() -> None:
    world = pool_of(dry_run=True)
    decided, _ = decide(world.snapshot(), Memory(), ONE_REGISTRY, NOW)
    assert decided.pools[0].is_dry_run
    assert decided.pools[0].actions
    world.apply(decided)
    assert not world.deployments


def test_shapes_that_no_label_tells_apart_are_noted() -> None:
    world = pool_of()
    world.nodes["big"] = a_node("big", allocatable={**world.nodes["n000"].allocatable, "cpu": 32_000})
    assert [note.reason for note in decision(world).notes] == [Reason.SHAPES_ALIKE]


@pytest.mark.parametrize(
    ("prefix", "image", "is_allowed"),
    [
        ("registry.example.com", "registry.example.com/x:1", True),
        ("registry.example.com", "registry.example.com.attacker.net/x:1", False),
        ("registry.example.com", "registry.example.com:5000/x:1", False),
        ("registry.example.com/base", "registry.example.com/base-evil/x:1", False),
        ("registry.example.com/base", "registry.example.com/base:1", True),
        ("registry.example.com/base", "registry.example.com/base@sha256:0", True),
        ("registry.example.com/base/", "registry.example.com/base/x:1", True),
        ("registry.example.com/base:1", "registry.example.com/base:1", True),
        ("registry.example.com/base:1", "registry.example.com/base:12", False),
    ],
)
def test_images_are_allowed_by_whole_parts_of_their_name(prefix: str, image: str, is_allowed: bool) -> None:
    world = World.of(a_pool(image=image), nodes=nodes(1))
    decided, _ = decide(world.snapshot(), Memory(), ImageSettings(allowed_images=(prefix,)), NOW)
    assert (decided.pools[0].because.reason is not Reason.IMAGE_NOT_ALLOWED) is is_allowed


class Story:
    """A world, what is remembered of it, and the time."""

    def __init__(self, count: int, **spec: Any) -> None:
        self.world = World.of(a_pool(**spec), nodes=nodes(count))
        self.memory = Memory()
        self.now: Now = NOW

    def step(self, seconds: float = 10.0, **changes: Any) -> Decision:
        decided, self.memory = decide(self.world.snapshot(**changes), self.memory, SETTINGS, self.now)
        self.world.apply(decided)
        self.world.settle()
        self.now = later(self.now, seconds)
        return decided

    def settled(self) -> "Story":
        for _ in range(4):
            self.step()
        return self


def actions(decided: Decision) -> list[Action]:
    return [*(action for decision in decided.pools for action in decision.actions), *decided.sweeps]


# -- maxSize -----------------------------------------------------------------------------------------------------------


def work_takes_every_warm_node(world: World) -> None:
    for balloon in [b for b in world.balloons() if b.node]:
        del world.pods[balloon.key]
        world.add(work(f"job-{balloon.node}", balloon.node))


def the_autoscaler_acts(world: World) -> None:
    """One node per Pending balloon, beyond those that a free node will take."""
    for _ in [b for b in world.balloons() if not b.node]:
        name = f"x{len(world.nodes):03}"
        world.nodes[name] = a_node(name)


def test_a_paused_pool_does_not_outgrow_max_size() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=3, max_size=6).settled()
    story.world.change_pool(paused=True)
    for _ in range(5):
        work_takes_every_warm_node(story.world)
        story.world.settle()
        story.step()
        the_autoscaler_acts(story.world)
        assert story.step().pools[0].because.reason is Reason.PAUSED
    assert len(story.world.nodes) <= 6


@pytest.mark.parametrize(
    ("key", "is_made", "waiting"), [("preflight", False, 1), ("preflight", True, 0), ("csi", False, 1)]
)
def test_a_paused_pool_keeps_the_balloon_for_a_node_that_karpenter_waits_for(
    key: str, is_made: bool, waiting: int
) -> None:
    """Paused, it would not make it again, and nobody would hold the node. Else Karpenter buys another node for it."""
    selected = PoolNodes(LabelSelector({"pool": "gpu"}), not_warm=NotWarm((NotWarmTaint("preflight"),)))
    story = Story(2, mode=Mode.HEADROOM, size=3, max_size=3, nodes=selected).settled()
    story.world.change_pool(paused=True)
    story.world.nodes["new"] = a_node("new", taints=(Taint(key, "NoSchedule"),), is_uninitialized=not is_made)
    story.step()
    assert len([balloon for balloon in story.world.balloons() if not balloon.node]) == waiting


def test_a_paused_pool_without_a_max_size_keeps_what_waits() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=6).settled()
    assert len([balloon for balloon in story.world.balloons() if not balloon.node]) == 3
    story.world.change_pool(paused=True)
    assert not actions(story.step())


def test_a_frozen_pool_does_not_outgrow_max_size() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=6).settled()
    for name in list(story.world.nodes)[:3]:
        story.world.remove_node(name)
    story.world.settle()
    decided = story.step()
    assert decided.pools[0].because.reason is Reason.SHRUNKEN_VIEW
    assert not [balloon for balloon in story.world.balloons() if not balloon.node], "the three may still be there"


BLIND: dict[str, Any] = {"missing": ("pods",)}


def seen_before(story: Story) -> dict[str, Any]:
    """What a snapshot shows of pods and nodes while their caches stand still."""
    return {**BLIND, **{name: getattr(story.world.snapshot(), name) for name in ("nodes", "loads", "unbound")}}


def test_a_pool_that_nobody_sees_does_not_outgrow_max_size() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=12).settled()
    old = seen_before(story)
    story.step(**old)
    for _ in range(6):
        work_takes_every_warm_node(story.world)
        story.world.settle()
        story.step(**old)
        the_autoscaler_acts(story.world)
        story.world.settle()
        assert story.step(**old).pools[0].because.reason is Reason.INCOMPLETE_VIEW
    assert len(story.world.nodes) <= 12


def test_what_waited_before_nobody_saw_goes_on_waiting_once() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=6, max_size=12).settled()
    old = seen_before(story)
    assert not actions(story.step(**old))
    the_autoscaler_acts(story.world)
    story.world.settle()
    assert not actions(story.step(**old))
    assert len([b for b in story.world.balloons() if b.node]) == 6
    work_takes_every_warm_node(story.world)
    story.world.settle()
    story.step(**old)
    assert story.world.replicas() == 0, "the three that waited have had their nodes"
    assert story.step().pools[0].actions, "in view again, the pool grows to what it may"
    assert story.world.replicas() == 6


def test_a_roll_out_that_nobody_sees_takes_no_balloon_away() -> None:
    story = Story(20, mode=Mode.HEADROOM, size=20, max_size=20).settled()
    old = seen_before(story)
    for updated, ready in ((20, 20), (0, 20), (2, 18), (2, 20), (4, 18), (19, 19), (20, 18), (20, 19), (20, 20)):
        shown = {**old, **with_ready(story, ready, updated)}
        decided, story.memory = decide(story.world.snapshot(**shown), story.memory, SETTINGS, NOW)
        assert not actions(decided)
    decided, _ = decide(story.world.snapshot(**old, **with_ready(story, 19)), story.memory, SETTINGS, NOW)
    assert [action.replicas for action in actions(decided) if isinstance(action, ApplyObject)] == [19], (
        "the roll-out is over"
    )


def test_a_roll_out_that_never_ends_and_that_nobody_sees_keeps_max_size() -> None:
    """Balloons of a new template that cannot start: the others are still lost to work one by one."""
    story = Story(20, mode=Mode.HEADROOM, size=20, max_size=20).settled()
    old = seen_before(story)
    sizes = []
    for ready in (20, 18, 13, 8, 8):
        shown = {**old, **with_ready(story, ready, updated=2)}
        decided, story.memory = decide(story.world.snapshot(**shown), story.memory, SETTINGS, NOW)
        story.world.apply(decided)
        sizes.append(story.world.replicas())
    assert sizes == [20, 20, 15, 9, 9]


def test_the_last_balloons_of_a_roll_out_that_began_before_the_view_was_lost_keep_their_nodes() -> None:
    story = Story(20, mode=Mode.HEADROOM, size=20, max_size=20).settled()
    old = seen_before(story)
    for ready, updated in ((20, 18), (18, 20), (20, 20)):
        shown = {**old, **with_ready(story, ready, updated=updated)}
        decided, story.memory = decide(story.world.snapshot(**shown), story.memory, SETTINGS, NOW)
        assert not actions(decided)


def test_an_error_in_one_pool_that_nobody_sees_changes_nothing_for_the_others() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=6)
    other = a_pool("other", mode=Mode.HEADROOM, size=3, max_size=3, nodes=PoolNodes(LabelSelector({"pool": "other"})))
    story.world.pools[other.key] = other
    story.world.nodes |= nodes(3, "x", labels={"pool": "other"})
    story.settled()
    old = seen_before(story)
    story.step(**old)
    work_takes_every_warm_node(story.world)
    story.world.settle()
    whole = dict(story.world.deployments)
    broken = {
        key: msgspec.structs.replace(stored, spec={**stored.spec, "replicas": "many"})
        if key.name.startswith("gpu")
        else stored
        for key, stored in whole.items()
    }
    decided, story.memory = decide(story.world.snapshot(**old, deployments=broken), story.memory, SETTINGS, NOW)
    assert [decision.because.reason for decision in decided.pools] == [Reason.FAILED, Reason.INCOMPLETE_VIEW]
    assert [action.replicas for action in actions(decided) if isinstance(action, ApplyObject)] == [0]
    decided, _ = decide(story.world.snapshot(**old, deployments=whole), story.memory, SETTINGS, NOW)
    assert [action.replicas for action in decided.pools[0].actions if isinstance(action, ApplyObject)] == [0], (
        "not forgotten"
    )


def with_ready(story: Story, ready: int, updated: int = 20) -> dict[str, Any]:
    """The Deployments as their controller tells of them: so many of the balloons are Ready, and of the new template."""
    key, stored = next(iter(story.world.deployments.items()))
    status = msgspec.structs.replace(stored.status, ready_replicas=ready, updated_replicas=updated)
    return {"deployments": {key: msgspec.structs.replace(stored, status=status)}}


def test_nodes_that_stop_being_ready_take_no_balloon_with_them_that_nobody_sees() -> None:
    """A control plane that falters: our watch of pods breaks, and the nodes' Leases run out."""
    story = Story(20, mode=Mode.HEADROOM, size=20, max_size=30).settled()
    old = seen_before(story)
    nodes = {name: msgspec.structs.replace(node, is_ready=False) for name, node in old["nodes"].items()}
    for gone in (0, 7, 20, 20, 3, 0):
        shown = {name: nodes[name] if at < gone else old["nodes"][name] for at, name in enumerate(nodes)}
        decided, story.memory = decide(
            story.world.snapshot(**{**old, "nodes": shown}, **with_ready(story, 20 - gone)),
            story.memory,
            SETTINGS,
            NOW,
        )
        assert not actions(decided)


@pytest.mark.parametrize("missing", [("nodes",), ("nodes (no answer)", "pods"), ()])
def test_nothing_goes_while_nobody_sees_the_nodes_either(missing: tuple[str, ...]) -> None:
    story = Story(20, mode=Mode.HEADROOM, size=20, max_size=30).settled()
    old = {**seen_before(story), "missing": missing, "age_s": 500.0}
    for ready in (20, 12, 0):
        decided, story.memory = decide(
            story.world.snapshot(**old, **with_ready(story, ready)), story.memory, SETTINGS, NOW
        )
        assert not actions(decided)


@pytest.mark.parametrize("spec", [{"mode": Mode.HOLD}, {"mode": Mode.HEADROOM, "size": 6, "max_size": 9}])
def test_a_pool_that_nobody_sees_is_else_left_alone(spec: dict[str, Any]) -> None:
    story = Story(6, **spec).settled()
    old = seen_before(story)
    story.world.nodes = {}
    for _ in range(3):
        assert not actions(story.step(**old, age_s=500.0, deployments=story.world.deployments))


def test_a_hold_that_nobody_sees_keeps_its_size() -> None:
    story = Story(3).settled()
    old = seen_before(story)
    story.step(**old)
    work_takes_every_warm_node(story.world)
    story.world.settle()
    assert not actions(story.step(**old)), "Hold makes no cluster grow"


def test_a_pool_held_still_loses_no_balloon_that_holds_a_node() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=6).settled()
    story.world.change_pool(paused=True, max_size=4, size=4)
    for _ in range(3):
        assert not actions(story.step())
    assert len(story.world.balloons()) == 6


def test_a_paused_pool_keeps_its_template() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=3, max_size=6).settled()
    before = next(iter(story.world.deployments.values())).spec
    story.world.change_pool(paused=True, pre_pull=("registry.example/model:1",))
    work_takes_every_warm_node(story.world)
    story.world.settle()
    story.world.change_pool(max_size=4)
    changed = [action for action in actions(story.step()) if isinstance(action, ApplyObject)]
    assert [action.replicas for action in changed] == [1]
    assert changed[0].manifest["spec"] == {**before, "replicas": 1}


# -- what nobody saw ---------------------------------------------------------------------------------------------------


def test_blind_time_does_not_count_for_the_sweep() -> None:
    story = Story(3).settled()
    pools, story.world.pools = story.world.pools, {}
    story.step(60.0)
    for _ in range(3):
        assert not actions(story.step(300.0, missing=("balloonpools (404)",)))
    assert not actions(story.step(SWEEP_AFTER_S)), "the CRD is back, and its pools are not yet"
    story.world.pools = pools
    story.step()
    assert len(story.world.balloons()) == 3


def test_what_is_gone_in_full_view_is_swept() -> None:
    story = Story(3).settled()
    story.world.pools = {}
    story.step(SWEEP_AFTER_S)
    assert actions(story.step())


def refused(world: World, message: str = QUOTA, status: str = "True") -> None:
    told = DeploymentStatus(0, (DeploymentCondition("ReplicaFailure", status, message),))
    world.deployments = {k: msgspec.structs.replace(d, status=told) for k, d in world.deployments.items()}


def test_balloons_that_are_refused_no_longer_are_not_named() -> None:
    story = Story(3)
    decided, story.memory = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)
    story.world.apply(decided)
    refused(story.world, status="False")
    found = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)[0].pools[0]
    assert found.because.reason is not Reason.REFUSED


def test_balloons_that_admission_refuses_are_named_in_the_servers_words() -> None:
    story = Story(3)
    decided, story.memory = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)
    story.world.apply(decided)
    refused(story.world)
    found = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)[0].pools[0]
    assert found.because.reason is Reason.REFUSED
    assert found.because.sentence == (
        "the API server refuses balloons: pods is forbidden: exceeded quota: q, "
        "requested: cpu=15, used: cpu=0, limited: cpu=8"
    )


def test_a_refusal_that_is_over_is_not_named() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=5, max_size=9).settled()
    refused(story.world)
    assert story.step().pools[0].because.reason is Reason.GROWING, "two of them wait for nodes"


def test_a_refusal_needs_a_person() -> None:
    assert standing(Reason.REFUSED) is Standing.STUCK


def test_pending_balloons_are_counted_and_leaving_ones_are_not() -> None:
    story = Story(0, mode=Mode.HEADROOM, size=2, max_size=6)
    story.world.nodes = nodes(1)
    story.settled()
    assert story.step().pools[0].status.pending == 1
    snapshot = story.world.snapshot()
    leaving = tuple(msgspec.structs.replace(pod, is_terminating=True) for pod in snapshot.unbound[POOL_KEY])
    gone = replace(snapshot, unbound={POOL_KEY: leaving})
    assert decide(gone, story.memory, SETTINGS, story.now)[0].pools[0].status.pending == 0


def held(count: int, size: int | None = None) -> tuple[World, Memory]:
    """A world at rest with that many held nodes."""
    world, memory = World.of(a_pool(size=size), nodes=nodes(count)), Memory()
    for _ in range(2):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
        world.apply(decided)
        world.settle()
    return world, memory


def pool_actions(decided: Decision) -> list[Action]:
    return [action for decision in decided.pools for action in decision.actions]


def why(decided: Decision) -> Reason:
    return decided.pools[0].because.reason


def lose(world: World, count: int) -> None:
    for name in sorted(world.nodes)[:count]:
        world.remove_node(name)


def test_an_incomplete_view_freezes_every_pool() -> None:
    world, memory = held(5)
    decided, after = decide(world.snapshot(missing=("nodes",)), memory, SETTINGS, NOW)
    assert (why(decided), pool_actions(decided), after) == (Reason.INCOMPLETE_VIEW, [], memory)


def test_a_stale_view_freezes_every_pool() -> None:
    world, memory = held(5)
    world.change_pool(size=1)
    assert why(decide(world.snapshot(age_s=75.1), memory, SETTINGS, NOW)[0]) is Reason.STALE_VIEW
    assert pool_actions(decide(world.snapshot(age_s=75.0), memory, SETTINGS, NOW)[0])


def test_a_pool_that_loses_too_many_held_nodes_is_frozen() -> None:
    world, memory = held(10)
    lose(world, 3)
    decided, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert (why(decided), pool_actions(decided)) == (Reason.SHRUNKEN_VIEW, [])


def test_a_fifth_may_go_without_a_freeze() -> None:
    world, memory = held(15)
    lose(world, 3)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is not Reason.SHRUNKEN_VIEW


def test_small_pools_may_lose_two_nodes() -> None:
    world, memory = held(3)
    lose(world, 2)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is not Reason.SHRUNKEN_VIEW


def test_a_freeze_ends_when_the_nodes_return() -> None:
    world, memory = held(10)
    gone = dict(world.nodes), dict(world.pods)
    lose(world, 5)
    _, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    world.nodes, world.pods = gone
    decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 1))
    assert (why(decided), memory.pools[world.pools.copy().popitem()[0]].shrunken_since_s) == (Reason.STEADY, None)


def test_a_view_that_lasts_is_believed() -> None:
    world, memory = held(10)
    lose(world, 5)
    _, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert why(decide(world.snapshot(), memory, SETTINGS, later(NOW, 299))[0]) is Reason.SHRUNKEN_VIEW
    assert pool_actions(decide(world.snapshot(), memory, SETTINGS, later(NOW, 300))[0])


def test_sick_nodes_count_as_gone() -> None:
    world, memory = held(10)
    for name in sorted(world.nodes)[:3]:
        world.change_node(name, is_ready=False, created_s=0.0)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is Reason.SHRUNKEN_VIEW


def test_idle_nodes_that_nobody_held_may_go_in_bulk() -> None:
    world, memory = held(20, size=2)
    for name in [name for name in world.nodes if not any(b.node == name for b in world.balloons())]:
        world.remove_node(name)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is Reason.STEADY


def test_a_tick_removes_ten_balloons_of_few() -> None:
    world, memory = held(30)
    world.change_pool(size=0)
    decided, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert sum(isinstance(action, MarkBalloon) for action in pool_actions(decided)) == 10
    assert why(decided) is Reason.SHRINK_LIMITED


def test_a_tick_removes_a_fifth_of_many() -> None:
    world, memory = held(60)
    world.change_pool(size=0)
    decided, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert [action.replicas for action in pool_actions(decided) if isinstance(action, ApplyObject)] == [48]


def test_fast_ticks_remove_no_more_than_slow_ones() -> None:
    world, memory = held(30)
    world.change_pool(size=0)
    for tick in range(10):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, tick))
        world.apply(decided)
        world.settle()
    assert len(world.balloons()) == 20
    decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10))
    world.apply(decided)
    assert world.replicas() == 10


def test_a_slow_replicaset_never_makes_the_size_rise_again() -> None:
    world, memory = held(100)
    world.change_pool(size=60)
    sizes = []
    for tick in range(25):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, tick))
        world.apply(decided)
        sizes.append(world.replicas())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[9] == 80, "one period's share, though nothing has gone yet"


def test_victims_are_marked_before_the_size_is_lowered() -> None:
    world, memory = held(5)
    world.change_pool(size=3)
    decided, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert [type(action) for action in pool_actions(decided)] == [MarkBalloon, MarkBalloon, ApplyObject]
    world.apply(decided)
    assert not pool_actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0]), "once is enough"


def test_a_mark_goes_when_the_balloon_is_wanted_again() -> None:
    world, memory = held(5)
    world.change_pool(size=3)
    decided, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    world.apply(decided)
    world.change_pool(size=5)
    decided, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert [a.cost for a in pool_actions(decided) if isinstance(a, MarkBalloon)] == [0, 0]
    world.apply(decided)
    assert not pool_actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0])


def test_a_pool_that_cannot_be_looked_at_keeps_what_is_remembered_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(6).settled()
    story.step()
    before = dict(story.memory.pools)

    def fails(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("balloons.decide.decide.why_left_alone", fails)
    decided, memory = decide(story.world.snapshot(), story.memory, SETTINGS, NOW)
    assert [decision.because.reason for decision in decided.pools] == [Reason.FAILED]
    assert before
    assert memory.pools == before


# -- removals that are limited -----------------------------------------------------------------------------------------


def test_a_fifth_of_a_large_pool_may_go_within_one_period_and_then_a_fifth_of_the_rest() -> None:
    assert removal_limit(PoolMemory(), 100, NOW) == 20
    memory = PoolMemory(removed=recent_removals(PoolMemory(), 15, NOW))
    assert removal_limit(memory, 85, later(NOW, 5.0)) == 5, "those that went count as there"
    assert removal_limit(memory, 85, later(NOW, 10.0)) == 17


def test_ten_of_a_small_pool_may_go_within_one_period() -> None:
    assert removal_limit(PoolMemory(), 12, NOW) == 10
    memory = PoolMemory(removed=recent_removals(PoolMemory(), 10, NOW))
    assert removal_limit(memory, 2, later(NOW, 9.9)) == 0
    assert removal_limit(memory, 2, later(NOW, 10.0)) == 10
    assert recent_removals(memory, 0, later(NOW, 9.9)) == memory.removed
    assert recent_removals(memory, 0, later(NOW, 10.0)) == ()


@given(st.integers(0, 500), st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(0, 500)), max_size=12))
def test_no_period_takes_more_than_the_limit_whatever_is_wanted_when(
    balloons: int, wishes: list[tuple[float, int]]
) -> None:
    memory, now = PoolMemory(), NOW
    removals: list[tuple[float, int, int]] = []
    for wait_s, wanted in wishes:
        now = later(now, wait_s)
        count = min(wanted, balloons, removal_limit(memory, balloons, now))
        memory = PoolMemory(removed=recent_removals(memory, count, now))
        removals.append((now.monotonic_s, count, balloons))
        balloons -= count
    for number, (start_s, _, before) in enumerate(removals):
        within = sum(count for at_s, count, _ in removals[number:] if at_s - start_s < 10.0)
        assert within <= max(10, 0.2 * before)
