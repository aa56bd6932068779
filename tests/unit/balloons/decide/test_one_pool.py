"""What one pool does and says, where several things are true at once."""

from typing import Any

import msgspec
import pytest

from balloons.api.pool import Mode, PodTemplate, PoolNodes, Schedule
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import (
    ApplyObject,
    Decision,
    MarkBalloon,
    Memory,
    PoolDecision,
    Reason,
    ReleaseBalloon,
)
from balloons.service.pool_status_and_events import Standing, standing
from tests.world import NOW, POOL_KEY, World, a_lane, a_pool, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import PodKind, Scheduling
from throttler.kube.quantities_and_durations import parse_resources, total
from throttler.kube.reasons_and_events import because
from throttler.kube.selectors import LabelSelector

SETTINGS = ImageSettings()


class Story:
    """Decisions ten seconds apart, each carried out at once."""

    def __init__(self, world: World) -> None:
        self.world, self.memory, self.now = world, Memory(), NOW

    def step(self) -> Decision:
        decided, self.memory = decide(self.world.snapshot(), self.memory, SETTINGS, self.now)
        self.world.apply(decided)
        self.now = later(self.now, 10.0)
        return decided

    def settle(self, times: int = 4) -> PoolDecision:
        for _ in range(times):
            decided = self.step()
            self.world.settle()
        return decided.pools[0]


def held(count: int, **spec: Any) -> Story:
    """A pool that holds so many nodes and is at rest."""
    story = Story(World.of(a_pool(**spec), nodes=nodes(count)))
    assert story.settle().because.reason in (Reason.STEADY, Reason.WARMING)
    assert len(story.world.balloons()) == count
    return story


def test_of_two_balloons_on_a_node_the_younger_goes_and_nothing_else() -> None:
    story = held(3)
    older = next(balloon for balloon in story.world.balloons() if balloon.node == "n001")
    twin = msgspec.structs.replace(
        older, key=ObjectKey("team-a", "twin"), uid="uid-twin", created_s=older.created_s + 1
    )
    story.world.add(twin)
    kept = {balloon.uid for balloon in story.world.balloons()} - {"uid-twin"}
    story.step()
    assert {balloon.uid for balloon in story.world.balloons() if balloon.deletion_cost < 0} <= {"uid-twin"}
    story.settle()
    assert {balloon.uid for balloon in story.world.balloons()} == kept


@pytest.mark.parametrize(
    ("namespace", "count", "sentence"),
    [
        ("team-a", 2, "2 nodes also match pool older, which keeps them"),
        ("team-a", 0, "all nodes also match pool older, which keeps them"),
        ("team-b", 2, "some nodes also match a pool of another namespace, which keeps them"),
        ("team-b", 0, "all nodes also match a pool of another namespace, which keeps them"),
    ],
)
def test_a_younger_pool_says_that_another_has_its_nodes_and_names_none_of_another_namespace(
    namespace: str, count: int, sentence: str
) -> None:
    world = World.of(a_pool("older", namespace=namespace), a_pool(created_s=10.0), nodes=nodes(count))
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    (younger,) = [decision for decision in decided.pools if decision.pool == POOL_KEY]
    assert (younger.because.reason, younger.status.target) == (Reason.CONFLICT, 0)
    assert younger.because.sentence == sentence


def test_no_balloon_waits_for_a_node_that_is_away_with_its_own() -> None:
    story = held(3, mode=Mode.HEADROOM, size=3, max_size=9)
    story.world.change_node("n000", is_ready=False, created_s=NOW.wall.timestamp())
    story.step()
    assert story.world.replicas() == 3


def test_a_deployment_that_only_loses_balloons_that_wait_is_no_shrinking() -> None:
    story = Story(World.of(a_pool(mode=Mode.HEADROOM, size=4, max_size=10), nodes=nodes(2)))
    story.settle()
    assert (len(story.world.balloons()), story.world.replicas()) == (4, 4)
    assert story.step().pools[0].notes == (), "it waits for nodes of its main shape"
    story.world.change_pool(size=2)
    (lowered,) = [action for action in story.step().pools[0].actions if isinstance(action, ApplyObject)]
    assert (lowered.replicas, lowered.because.reason) == (2, Reason.WARMING)


def test_a_pool_that_asks_for_no_shape_leaves_the_whole_allowance_to_the_next() -> None:
    spec: dict[str, Any] = {"mode": Mode.HEADROOM, "max_size": 10}
    blank = a_pool("blank", size=4, nodes=PoolNodes(LabelSelector({"pool": "blank"})), **spec)
    world = World.of(blank, a_pool(created_s=1.0, size=8, **spec), nodes=nodes(2))
    decided, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW, a_lane(3))
    without, other = decided.pools
    assert (without.because.reason, without.lacking, memory.pools[blank.key].granted) == (Reason.NO_SHAPE, 0, 0)
    assert [action.replicas for action in other.actions if isinstance(action, ApplyObject)] == [2 + 3]
    _, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert memory.pools[blank.key].granted is None, "nobody paces it"


def test_a_pool_whose_writes_fail_takes_no_allowance_from_the_next() -> None:
    """Whoever may not make a Deployment, by a quota say, would keep all younger pools of the cluster from growing."""
    spec: dict[str, Any] = {"mode": Mode.HEADROOM, "max_size": 10, "size": 8}
    stuck = a_pool("stuck", nodes=PoolNodes(LabelSelector({"pool": "stuck"})), **spec)
    there = {**nodes(1, "s", labels={"pool": "stuck"}), **nodes(2)}
    world = World.of(stuck, a_pool(created_s=1.0, **spec), nodes=there)
    for resting, size, granted in ((frozenset[ObjectKey](), 2, 3), (frozenset({stuck.key}), 2 + 3, 0)):
        decided, memory = decide(world.snapshot(resting=resting), Memory(), SETTINGS, NOW, a_lane(3))
        actions = [action for pool in decided.pools for action in pool.actions]
        assert [action.replicas for action in actions if isinstance(action, ApplyObject)] == [1 + 3, size]
        assert memory.pools[stuck.key].granted == granted


def test_a_pool_whose_writes_fail_is_not_said_to_wait_for_its_throttle() -> None:
    """Its reason changed with each try, and sent people to a throttle that lets it grow."""
    world = World.of(a_pool(mode=Mode.HEADROOM, size=3, max_size=9), nodes=nodes(1))
    for resting in (frozenset[ObjectKey](), frozenset({POOL_KEY})):
        decided, _ = decide(world.snapshot(resting=resting), Memory(), SETTINGS, NOW, a_lane(3))
        assert decided.pools[0].because.reason is Reason.GROWING


@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_pools_that_have_as_many_of_its_nodes_always_the_same_is_named(turn: int) -> None:
    older = [a_pool(name, nodes=PoolNodes(LabelSelector({"pool": "gpu", "of": name}))) for name in ("a", "b")]
    there = {name: node for pool in "ab" for name, node in nodes(2, pool, labels={"of": pool}).items()}
    world = World.of(*older, a_pool(created_s=10.0), nodes=dict(list(there.items())[::turn]))
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    (younger,) = [decision for decision in decided.pools if decision.pool == POOL_KEY]
    assert "pool b" in younger.because.sentence


def test_a_deployment_that_loses_held_nodes_shrinks_by_as_many() -> None:
    story = held(4, size=4)
    story.world.change_pool(size=3)
    decision = story.step().pools[0]
    (lowered,) = [action for action in decision.actions if isinstance(action, ApplyObject)]
    assert lowered.because == decision.because == because(Reason.SHRINKING, surplus=1)


def test_a_deployment_that_grows_says_by_how_many_balloons() -> None:
    story = held(2)
    story.world.nodes |= nodes(1, "x")
    (raised,) = [action for action in story.step().pools[0].actions if isinstance(action, ApplyObject)]
    assert raised.because == because(Reason.WARMING, warm=2, target=3, pending=1)


@pytest.mark.parametrize("spec", [{}, {"mode": Mode.HEADROOM, "size": 3, "max_size": 5}])
def test_gates_that_keep_balloons_from_the_scheduler_are_named_once_they_stay(spec: dict[str, Any]) -> None:
    """The pool said that it was warming up, or that it grows, without end."""
    story = held(3, **spec)
    gated = Scheduling(is_gated=True, gates=("kueue.x-k8s.io/admission",))
    for balloon in story.world.balloons()[:2]:
        made_s = story.now.wall.timestamp()
        waiting = msgspec.structs.replace(balloon, node="", is_running=False, scheduling=gated, created_s=made_s)
        story.world.add(waiting)
    why = [story.step().pools[0].because for _ in range(8)]
    assert {each.reason for each in why[:6]} == {Reason.WARMING}, "a job queue lets them go within seconds"
    assert why[6].sentence == "scheduling gates hold 2 balloons back: kueue.x-k8s.io/admission"


@pytest.mark.parametrize("spec", [{}, {"mode": Mode.HEADROOM, "size": 3, "max_size": 5}])
def test_what_makes_balloons_too_large_at_their_admission_is_named(spec: dict[str, Any]) -> None:
    story = held(3, **spec)
    more = parse_resources({"cpu": "1", "ephemeral-storage": "1Gi"})
    for balloon in story.world.balloons()[:2]:
        requests, made_s = total((balloon.requests, more)), story.now.wall.timestamp()
        waiting = {"node": "", "is_running": False, "requests": requests, "created_s": made_s}
        story.world.add(msgspec.structs.replace(balloon, **waiting))
    why = [story.step().pools[0].because for _ in range(8)]
    assert {each.reason for each in why[:6]} == {Reason.WARMING}
    assert why[6].code == "Enlarged"
    assert why[6].sentence.endswith("they got more cpu, ephemeral-storage")
    key, stored = next(iter(story.world.deployments.items()))
    rolling = msgspec.structs.replace(stored.status, updated_replicas=1)
    story.world.deployments[key] = msgspec.structs.replace(stored, status=rolling)
    assert story.step().pools[0].because.reason is Reason.WARMING, "those that wait are still of the former template"


def test_balloons_that_do_not_start_on_their_nodes_are_named() -> None:
    """The pool said that it was warming up, with no balloon that waits for a node, without end."""
    story = held(3)
    started = story.world.balloons()
    made = {"is_running": False, "is_ready": False, "created_s": story.now.wall.timestamp()}
    for balloon, problem in zip(started, ("ImagePullBackOff", "CreateContainerError", ""), strict=True):
        story.world.add(msgspec.structs.replace(balloon, start_problem=problem, **made))
    told = [story.step().pools[0].because for _ in range(8)]
    assert {each.reason for each in told[:6]} == {Reason.WARMING}, "a registry may answer again within seconds"
    why = told[6]
    assert why.sentence == "2 nodes do not start their balloons (CreateContainerError, ImagePullBackOff): n000, n001"
    assert standing(why.reason) is Standing.STUCK
    story.world.add(started[2])
    beside = story.step().pools[0]
    assert beside.because.reason is Reason.WARMING, "some do"
    assert [note.reason for note in beside.notes] == [Reason.NOT_STARTED]
    story.world.add(*started[:2])
    assert story.step().pools[0].because.reason is Reason.STEADY


@pytest.mark.parametrize("more", [{}, {"cpu": "100m"}])
def test_a_balloon_that_would_fit_waits_for_another_reason(more: dict[str, str]) -> None:
    story = held(3)
    balloon = story.world.balloons()[0]
    waiting = {"node": "", "is_running": False, "requests": total((balloon.requests, parse_resources(more)))}
    story.world.add(msgspec.structs.replace(balloon, **waiting))
    assert story.step().pools[0].because.reason is Reason.WARMING


def test_a_balloon_that_waits_without_a_gate_is_not_held_back() -> None:
    story = held(3)
    balloon = story.world.balloons()[0]
    story.world.add(msgspec.structs.replace(balloon, node="", is_running=False, scheduling=Scheduling(is_tried=True)))
    assert story.step().pools[0].because.reason is Reason.WARMING


def test_a_pool_that_may_not_let_all_go_at_once_says_how_many_are_too_many() -> None:
    story = held(20, size=20)
    story.world.change_pool(size=5)
    told = story.step().pools[0].because
    assert told.reason is Reason.SHRINK_LIMITED
    assert (told.detail["surplus"], told.detail["limit"]) == (15, 20 - story.world.replicas())
    story.world.settle()
    decided, _ = decide(story.world.snapshot(), story.memory, SETTINGS, later(story.now, -5.0))
    told = decided.pools[0].because
    assert (told.reason, told.detail["surplus"], told.detail["limit"]) == (Reason.SHRINK_LIMITED, 5, 0)


def test_what_was_asked_for_and_does_not_exist_yet_counts_as_asked_for() -> None:
    """The ReplicaSet is slow: no balloon waits yet, and none may be asked for a second time."""
    story = Story(World.of(a_pool(mode=Mode.HEADROOM, size=4, max_size=10), nodes=nodes(1)))
    first, memory = decide(story.world.snapshot(), Memory(), SETTINGS, NOW, a_lane(3))
    story.world.apply(first)
    assert story.world.replicas() == 4
    for seconds in (1.0, 2.0, 10.0):
        decided, memory = decide(story.world.snapshot(), memory, SETTINGS, later(NOW, seconds), a_lane(0))
        story.world.apply(decided)
        assert story.world.replicas() == 4, "with no allowance left what was asked for stays"


def test_what_a_paused_pool_was_let_out_counts_until_it_has_its_node() -> None:
    """It counts against the growth of all other pools."""
    world = World.of(a_pool(mode=Mode.HEADROOM, size=4, max_size=10), nodes=nodes(1))
    first, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW, a_lane(3))
    world.apply(first)
    world.change_pool(paused=True)
    let_out = []
    for count in (1, 2, 4, 4):
        world.nodes = nodes(count)
        world.settle()
        _, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10.0), a_lane(0))
        let_out.append(memory.pools[POOL_KEY].granted)
    assert let_out == [3, 2, 0, 0]


def test_a_pod_that_passed_its_node_over_gets_none_at_the_next_looks() -> None:
    story = held(4)
    stubborn = [work(f"j{number}", priority=100) for number in range(2)]
    story.world.add(*stubborn)
    freed = [isinstance(action, ReleaseBalloon) for _ in range(40) for action in story.step().pools[0].actions]
    rest = [isinstance(action, ReleaseBalloon) for _ in range(3) for action in story.step().pools[0].actions]
    assert sum(freed) >= 1
    assert not any(rest)


@pytest.mark.parametrize("label", ["gpu", "other"])
def test_balloons_of_another_pool_are_not_ours_to_count(label: str) -> None:
    story = held(2)
    foreign = msgspec.structs.replace(
        story.world.balloons()[0], key=ObjectKey("team-a", "x"), uid="uid-x", node="", pool=label, kind=PodKind.BALLOON
    )
    other = a_pool("other", created_s=5.0, nodes=PoolNodes(LabelSelector({"pool": "else"})))
    story.world.pools[other.key] = other
    story.world.add(foreign)
    decision = story.step().pools[0]
    assert decision.status.pending == (1 if label == "gpu" else 0)


def test_a_first_deployment_is_told_as_what_is_still_to_come() -> None:
    decided, _ = decide(World.of(a_pool(), nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    (made,) = [action for action in decided.pools[0].actions if isinstance(action, ApplyObject)]
    assert (made.because.reason, made.because.detail) == (Reason.WARMING, {"warm": 0, "target": 3, "pending": 3})


def test_a_pool_that_holds_nothing_says_why() -> None:
    empty = World.of(a_pool(), nodes={})
    assert Story(empty).settle().because.reason is Reason.NO_NODES
    busy = World.of(a_pool(), nodes=nodes(2), pods=[work("a", "n000"), work("b", "n001")])
    told = Story(busy).settle().because
    assert (told.reason, told.detail["busy"]) == (Reason.GAVE_WAY, 2)
    not_wanted = World.of(a_pool(size=0), nodes=nodes(2), pods=[work("a", "n000")])
    assert Story(not_wanted).settle().because.reason is Reason.STEADY, "an idle node is left"


def test_a_hold_that_is_paused_keeps_what_waits() -> None:
    """No autoscaler makes a node for it, whatever maxSize says."""
    story = held(3, max_size=3)
    story.world.change_pool(paused=True)
    story.world.pods = {}
    story.world.add(*(work(f"job-{name}", name) for name in story.world.nodes))
    story.world.settle()
    told = story.step().pools[0]
    assert (told.because.reason, told.status.pending, told.actions) == (Reason.PAUSED, 3, ())


def test_a_pool_names_its_schedule_once_it_holds_what_the_schedule_wants() -> None:
    always = Schedule("0 0 * * *", "24h", size=3)
    story = Story(World.of(a_pool(schedules=(always,)), nodes=nodes(4)))
    assert story.settle(1).because.reason is Reason.WARMING
    assert story.settle().because.reason is Reason.SCHEDULE
    story.world.change_pool(schedules=(), size=3)
    assert story.settle().because.reason is Reason.STEADY


def test_a_pool_whose_work_leaves_too_few_nodes_does_not_name_its_schedule() -> None:
    """What it holds is less than the schedule wants, and all that maxSize leaves."""
    always = Schedule("0 0 * * *", "24h", size=3)
    world = World.of(a_pool(schedules=(always,), max_size=3), nodes=nodes(4), pods=[work("job", "n000")])
    told = Story(world).settle()
    assert (told.status.warm, told.because.reason) == (2, Reason.MAX_SIZE)


def test_a_pool_of_which_nothing_is_seen_has_a_status_of_its_present_generation() -> None:
    world = World.of(a_pool(), nodes=nodes(1))
    (frozen,) = decide(world.snapshot(missing=("pods",)), Memory(), SETTINGS, NOW)[0].pools
    assert (frozen.because.reason, frozen.status.observed_generation) == (Reason.INCOMPLETE_VIEW, 1)


def test_a_paused_pool_takes_a_balloon_that_waits_away_once() -> None:
    """The Deployment is seen lowered before its pod is seen gone: one more would be taken off a node."""
    story = Story(World.of(a_pool(mode=Mode.HEADROOM, size=4, max_size=9), nodes=nodes(3)))
    story.settle()
    waiting = [balloon for balloon in story.world.balloons() if not balloon.node]
    story.world.change_pool(paused=True, max_size=3)
    story.settle(1)
    story.world.add(*waiting)
    story.step()
    assert (len(waiting), story.world.replicas()) == (1, 3)


@pytest.mark.parametrize("marked", ["n000", "n001"])
def test_of_two_that_are_in_the_way_the_marked_one_goes_by_its_deployment_and_the_other_by_name(marked: str) -> None:
    story = held(4, size=4)
    other = {"n000": "n001", "n001": "n000"}[marked]
    (balloon,) = (balloon for balloon in story.world.balloons() if balloon.node == marked)
    story.world.add(work("a", "n000"), work("b", "n001"), msgspec.structs.replace(balloon, deletion_cost=-1000))
    story.world.nodes |= nodes(1, "new")
    moved = [action.node for action in story.step().pools[0].actions if isinstance(action, ReleaseBalloon)]
    assert (moved, story.world.replicas()) == ([other], 3)


@pytest.mark.parametrize(("count", "left"), [(30, [20, 20, 10]), (100, [80, 80, 64])])
def test_balloons_that_take_their_time_to_go_count_against_the_limit_once(count: int, left: list[int]) -> None:
    story, sizes = held(count), []
    story.world.change_pool(size=0)
    for seconds in (0.0, 5.0, 10.0):
        decided, story.memory = decide(story.world.snapshot(), story.memory, SETTINGS, later(story.now, seconds))
        story.world.apply(decided)
        sizes.append(story.world.replicas())
    assert sizes == left


def test_a_deployment_that_is_made_anew_unseen_is_not_held_to_what_the_former_had() -> None:
    """Its balloons wait at first, and the pods of both are not seen."""
    story = held(3, mode=Mode.HEADROOM, size=3, max_size=9)
    ((key, former),) = story.world.deployments.items()
    status = msgspec.structs.replace(former.status, replicas=3, ready_replicas=0)
    for there in ({key: former}, {}, {key: msgspec.structs.replace(former, status=status)}):
        story.world.deployments = there
        decided, story.memory = decide(story.world.snapshot(missing=("pods",)), story.memory, SETTINGS, story.now)
        assert decided.pools[0].actions == ()


def test_a_deployment_that_keeps_its_size_does_not_shrink() -> None:
    """Work took a node, another one is held instead, and the image is a new one: no node more is held than wanted."""
    story = held(2, size=2)
    story.world.nodes |= nodes(1, "spare")
    story.world.add(work("job", "n000"))
    story.world.change_pool(template=PodTemplate(labels={"team": "a"}))
    (changed,) = [action for action in story.step().pools[0].actions if isinstance(action, ApplyObject)]
    assert (changed.replicas, changed.because.reason) == (2, Reason.WARMING)
    assert changed.because.detail["pending"] == 0, "nor does one wait"


@pytest.mark.parametrize("left_alone", [{"paused": True}, {"image": "docker.example/miner"}])
def test_a_pool_that_is_left_alone_takes_no_allowance_from_the_next(left_alone: dict[str, Any]) -> None:
    spec: dict[str, Any] = {"mode": Mode.HEADROOM, "max_size": 10, "size": 8}
    older = a_pool("older", nodes=PoolNodes(LabelSelector({"pool": "older"})), **spec, **left_alone)
    world = World.of(older, a_pool(created_s=1.0, **spec), nodes=nodes(2))
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW, a_lane(3))
    actions = [action for pool in decided.pools for action in pool.actions]
    assert [action.replicas for action in actions if isinstance(action, ApplyObject)] == [2 + 3]


@pytest.mark.parametrize(
    ("pools", "runs"), [("registry.example/warm/pause:1", "registry.example/warm/pause:1"), ("", "own.example/pause:9")]
)
def test_balloons_run_the_pools_image_and_else_the_services(pools: str, runs: str) -> None:
    settings = ImageSettings(image="own.example/pause:9", allowed_images=("registry.example/warm/",))
    decided, _ = decide(World.of(a_pool(image=pools), nodes=nodes(1)).snapshot(), Memory(), settings, NOW)
    (made,) = [action for action in decided.pools[0].actions if isinstance(action, ApplyObject)]
    assert [each["image"] for each in made.manifest["spec"]["template"]["spec"]["containers"]] == [runs]


def test_a_slow_replica_set_is_told_once_to_remove_and_then_the_next_ones_go() -> None:
    """What is being removed still counts against the limit of its own time, and of no later one."""
    story = held(30, size=30)
    story.world.change_pool(size=0)
    left = []
    for seconds in (0.0, 5.0, 9.9, 10.0):
        if seconds == 10.0:
            story.world.settle()
        decided, story.memory = decide(story.world.snapshot(), story.memory, SETTINGS, later(story.now, seconds))
        story.world.apply(decided)
        left.append(story.world.replicas())
    assert left == [20, 20, 20, 10]


def test_a_balloon_is_marked_as_former_versions_did() -> None:
    """By the cost the next version finds which marks are its own to take off."""
    story = held(3, size=3)
    story.world.change_pool(size=1)
    marks = [action.cost for action in story.step().pools[0].actions if isinstance(action, MarkBalloon)]
    assert marks == [-1000, -1000]
