"""One odd node, or one small pod, changes nothing for the others."""

from typing import Any

import msgspec
import pytest

from balloons.api.pool import BalloonPool, Mode, NotWarm, NotWarmTaint, PoolNodes, ShapeSpec, ShapeType, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.census import JOIN_LIMIT_S, PREFLIGHT_LIMIT_S
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Action, ApplyObject, Decision, Memory, Reason
from balloons.view.index_and_snapshot import Now
from tests.world import NOW, World, a_pool, daemon, later, nodes, work
from throttler.kube.node import INSTANCE_TYPE_LABEL
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint

SETTINGS = ImageSettings()
GPUS = parse_resources({"cpu": "192", "memory": "2000Gi", "pods": "110", "nvidia.com/gpu": "8"})
WITH_CARDS = {**GPUS, "vpc.amazonaws.com/efa": 4_000}
TYPE = {INSTANCE_TYPE_LABEL: "p5.48xlarge"}
MODES = [{"mode": Mode.HOLD}, {"mode": Mode.HEADROOM, "size": 3, "max_size": 20}]


class Story:
    """A world, what is remembered of it, and the time."""

    def __init__(self, *pools: BalloonPool, count: int = 3, **made: Any) -> None:
        self.world = World.of(*pools, nodes=nodes(count, **{"allocatable": GPUS, "labels": TYPE, **made}))
        self.memory = Memory()
        self.now: Now = NOW

    def step(self, seconds: float = 10.0) -> Decision:
        decided, self.memory = decide(self.world.snapshot(), self.memory, SETTINGS, self.now)
        self.world.apply(decided)
        self.world.settle()
        self.now = later(self.now, seconds)
        return decided

    def settled(self) -> "Story":
        for _ in range(4):
            decided = self.step()
        assert not actions(decided)
        return self


def actions(decided: Decision) -> list[Action]:
    return [action for decision in decided.pools for action in decision.actions]


def notes(decided: Decision) -> list[str]:
    return [note.sentence for note in decided.pools[0].notes]


# -- pods in the slack -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", MODES, ids=["hold", "headroom"])
@pytest.mark.parametrize("cpu", ["0", "100m"])
def test_a_small_pod_beside_a_balloon_changes_nothing(spec: dict[str, Any], cpu: str) -> None:
    story = Story(a_pool(**spec)).settled()
    story.world.add(work("node-debugger", "n000", cpu=cpu, requests=parse_resources({"cpu": cpu, "pods": "1"})))
    for _ in range(5):
        decided = story.step(2.0)
        assert not actions(decided)
        assert (decided.pools[0].status.warm, decided.pools[0].status.busy) == (3, 0)
        assert notes(decided) == ["1 warm node runs other pods beside its balloon: n000"]


def test_a_node_with_work_is_busy_however_small_a_balloon_the_pool_asks_for() -> None:
    """A balloon of a given size holds an empty node: room beside work is no warm node."""
    story = Story(a_pool(shape=ShapeSpec(type=ShapeType.EXPLICIT, resources={"cpu": "4", "memory": "8Gi"})))
    story.world.add(work("training", "n000", cpu="100"))
    story.settled()
    status = story.step().pools[0].status
    assert (status.warm, status.busy) == (2, 1)
    assert {balloon.node for balloon in story.world.balloons()} == {"n001", "n002"}


@pytest.mark.parametrize("spec", MODES, ids=["hold", "headroom"])
@pytest.mark.parametrize(("priority", "busy"), [(0, 1), (-10, 0)])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_node_whose_devices_work_has_claimed_is_not_warm(
    spec: dict[str, Any], priority: int, busy: int, *, is_first: bool
) -> None:
    """A pod that has GPUs by a claim of Dynamic Resource Allocation need ask for no cpu: it runs beside any balloon.

    So the scheduler may put a balloon beside it, and would put the next one there if that one went: it stays.
    """
    story = Story(a_pool(**spec), allocatable=BARE, count=4)
    story.settled() if not is_first else None
    nothing = parse_resources({"pods": "1"})
    story.world.add(work("notebook", "n000", requests=nothing, priority=priority, claims_devices=True))
    story.settled()
    status = story.step().pools[0].status
    assert (status.warm, status.busy, status.idle, status.pending) == (3, busy, 0, 0)
    assert {balloon.node for balloon in story.world.balloons()} == set(story.world.nodes)


@pytest.mark.parametrize("spec", MODES, ids=["hold", "headroom"])
def test_a_node_with_a_small_pod_is_held_again_after_its_balloon_went(spec: dict[str, Any]) -> None:
    story = Story(a_pool(**spec)).settled()
    story.world.add(work("coredns", "n000", cpu="100m", requests=parse_resources({"cpu": "100m", "pods": "1"})))
    story.world.pods = {key: pod for key, pod in story.world.pods.items() if pod.node != "n000" or not pod.pool}
    for _ in range(3):
        decided = story.step()
    assert decided.pools[0].status.warm == 3
    assert {balloon.node for balloon in story.world.balloons()} == set(story.world.nodes)


def test_a_node_that_is_kept_by_annotations_stays_so_while_a_small_pod_runs_there() -> None:
    """A CronJob made it busy for a minute, in which any autoscaler might remove it, and each run wrote it twice."""
    story = Story(a_pool(strategy=Strategy.ANNOTATE)).settled()
    story.world.add(work("cron", "n000", requests=parse_resources({"cpu": "100m", "pods": "1"})))
    decided = story.step()
    assert (actions(decided), decided.pools[0].status.warm) == ([], 3)
    story.world.add(work("job", "n001", cpu="100"))
    assert story.step().pools[0].status.busy == 1


def test_a_node_with_a_small_pod_that_stops_being_ready_is_in_use() -> None:
    """Nobody orders another one in its place: the pod may go on running there."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=2, max_size=20))
    story.world.add(work("coredns", "n000", cpu="100m", requests=parse_resources({"cpu": "100m", "pods": "1"})))
    story.world.change_node("n000", **NOT_READY)
    status = story.step().pools[0].status
    assert (status.nodes, status.busy, status.sick) == (3, 1, 0)


def test_work_that_takes_the_balloons_room_makes_the_node_busy() -> None:
    story = Story(a_pool()).settled()
    story.world.add(work("job", "n000", cpu="100"))
    decided = story.step()
    assert (decided.pools[0].status.busy, notes(decided)) == (1, [])


@pytest.mark.parametrize(("count", "is_busy"), [(109, False), (110, True)])
def test_a_node_that_runs_as_many_pods_as_its_kubelet_takes_is_busy(count: int, *, is_busy: bool) -> None:
    """Small as they are: a balloon for it would wait for ever, and the autoscaler would buy a node for that."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=1, max_size=1), count=1)
    slot = parse_resources({"pods": "1"})
    story.world.add(*(work(f"cron-{i}", "n000", requests=slot) for i in range(count)))
    for _ in range(3):
        status = story.step().pools[0].status
    assert (status.busy, status.warm) == (int(is_busy), int(not is_busy))
    assert story.world.replicas() == len(story.world.balloons()) == int(not is_busy)


def test_a_node_that_is_short_of_devices_is_told_as_that_alone() -> None:
    story = Story(a_pool()).settled()
    story.world.add(work("node-debugger", "n000", cpu="0", requests=parse_resources({"pods": "1"})))
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": 7_000})
    assert [note.reason for note in story.step().pools[0].notes] == [Reason.SHORT_OF_DEVICES]


# -- devices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_busy", [True, False])
@pytest.mark.parametrize("left", [7_000, 4_000, 0])
def test_a_gpu_off_the_bus_changes_no_other_balloon(is_busy: bool, left: int) -> None:
    story = Story(a_pool(), count=10)
    if is_busy:
        story.world.add(work("job", "n000", cpu="100"))
    story.settled()
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": left})
    for _ in range(40):
        decided = story.step()
        assert not actions(decided)
    assert decided.pools[0].status.sick == (0 if is_busy else 1)
    assert bool(notes(decided)) is not is_busy
    if not is_busy:
        assert notes(decided) == [
            "1 node is short of devices: fewer nvidia.com/gpu than others of shape p5-48xlarge-gpu: n000"
        ]


EXPLICIT = ShapeSpec(type=ShapeType.EXPLICIT, resources={"cpu": "100", "nvidia.com/gpu": "8"})


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({"nvidia.com/gpu": 7_000}, "is short of devices: fewer nvidia.com/gpu than others of shape explicit"),
        ({"cpu": 64_000}, "has less cpu or memory left than others of shape explicit, so no balloon fits"),
    ],
)
def test_no_explicit_balloon_is_made_for_a_node_that_it_does_not_fit(lost: dict[str, int], words: str) -> None:
    """It would wait for ever, and the autoscaler would buy a node for it, beyond maxSize."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=3, shape=EXPLICIT))
    story.world.change_node("n000", allocatable={**GPUS, **lost})
    for _ in range(3):
        decided = story.step(400.0)
    status = decided.pools[0].status
    assert (status.warm, status.sick, status.pending, story.world.replicas()) == (2, 1, 0, 2)
    assert notes(decided) == [f"1 node {words}: n000"]


def test_no_node_is_short_of_explicit_devices_that_none_names() -> None:
    """A DRA driver gives them, and nodes say nothing of it."""
    story = Story(
        a_pool(shape=EXPLICIT), allocatable=parse_resources({"cpu": "192", "memory": "2000Gi", "pods": "110"})
    )
    decided = story.step()
    assert (decided.pools[0].status.idle, story.world.replicas(), notes(decided)) == (3, 3, [])


def asked_for(story: Story) -> dict[str, str]:
    (stored,) = story.world.deployments.values()
    requests: dict[str, str] = stored.spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    return requests


@pytest.mark.parametrize(("age_s", "asked"), [(60.0, {"cpu": "100", "nvidia.com/gpu": "8"}), (901.0, {"cpu": "100"})])
def test_an_explicit_balloon_claims_no_devices_of_a_dra_driver(age_s: float, asked: dict[str, str]) -> None:
    """Since 1.36 a DRA driver serves them by number, too. No preemption takes them from a balloon: work would wait."""
    story = Story(a_pool(shape=EXPLICIT), allocatable=BARE, created_s=NOW.wall.timestamp() - age_s)
    story.step()
    assert asked_for(story) == asked
    for name in story.world.nodes:
        story.world.change_node(name, created_s=NOW.wall.timestamp())
    story.settled()
    assert asked_for(story) == asked, "new nodes alone are no news"
    story.world.change_node("n000", allocatable=GPUS)
    story.step()
    assert asked_for(story) == {"cpu": "100", "nvidia.com/gpu": "8"}, "a device plugin gives them after all"


def test_balloons_ask_for_no_gpu_once_one_has_got_it_by_a_claim() -> None:
    """A DRA driver has taken the place of the device plugin: nodes go on saying that they have no GPU at all."""
    story = Story(a_pool()).settled()
    for name in story.world.nodes:
        story.world.change_node(name, allocatable={**GPUS, "nvidia.com/gpu": 0})
    story.settled()
    assert asked_for(story)["nvidia.com/gpu"] == "8", "the plugin may be restarting"
    balloon = story.world.balloons()[0]
    story.world.pods[balloon.key] = msgspec.structs.replace(balloon, claims_devices=True)
    story.step()
    assert "nvidia.com/gpu" not in asked_for(story)
    story.world.pods[balloon.key] = balloon
    story.settled()
    assert "nvidia.com/gpu" not in asked_for(story)


def test_an_explicit_balloon_stays_on_a_node_that_loses_a_gpu() -> None:
    story = Story(a_pool(shape=EXPLICIT)).settled()
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": 7_000})
    for _ in range(30):
        decided = story.step()
        assert not actions(decided)
    assert (decided.pools[0].status.warm, decided.pools[0].status.sick) == (2, 1)


def test_a_node_short_of_devices_is_not_kept_by_annotations_while_others_are_there() -> None:
    story = Story(a_pool(strategy=Strategy.ANNOTATE, size=2))
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": 7_000})
    for _ in range(3):
        decided = story.step(400.0)
    assert {name for name, node in story.world.nodes.items() if node.annotations} == {"n001", "n002"}
    assert [note.reason for note in decided.pools[0].notes] == [Reason.SHORT_OF_DEVICES]


def test_a_node_short_of_devices_is_replaced_after_the_grace() -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=9)).settled()
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": 7_000})
    assert not actions(story.step(170.0))
    assert not actions(story.step(20.0))
    grown = [action for action in actions(story.step()) if isinstance(action, ApplyObject)]
    assert [action.replicas for action in grown] == [4]


@pytest.mark.parametrize(("age_s", "late_s", "sick"), [(900.0, 170.0, 0), (900.0, 180.0, 1), (100.0, 180.0, 0)])
def test_a_node_without_all_devices_is_sick_after_the_grace_unless_it_is_new(
    age_s: float, late_s: float, sick: int
) -> None:
    """The others of its shape stay warm."""
    story = Story(a_pool()).settled()
    created_s = later(story.now, late_s).wall.timestamp() - age_s
    story.world.change_node("n000", allocatable={**GPUS, "nvidia.com/gpu": 7_000}, created_s=created_s)
    story.step(late_s)
    status = story.step().pools[0].status
    assert (status.sick, status.warm) == (sick, 2)


BARE = parse_resources({"cpu": "192", "memory": "2000Gi", "pods": "110"})
"""A new node whose device plugin does not run yet."""


@pytest.mark.parametrize("spec", MODES, ids=["hold", "headroom"])
def test_balloons_that_came_before_the_first_device_plugin_are_exchanged(spec: dict[str, Any]) -> None:
    """They held no GPU for ever: cluster-autoscaler took such a node for empty, and one in use was told to be warm."""
    story = Story(a_pool(**spec), allocatable=BARE).settled()
    for name in story.world.nodes:
        story.world.change_node(name, allocatable=GPUS)
    story.settled()
    assert [balloon.requests["nvidia.com/gpu"] for balloon in story.world.balloons()] == [8_000] * 3
    story.world.add(work("job", "n000", requests=parse_resources({"cpu": "100m", "nvidia.com/gpu": "8", "pods": "1"})))
    assert story.step().pools[0].status.busy == 1


def test_the_first_node_of_an_emptied_pool_joins_until_its_device_plugin_runs() -> None:
    """It had a shape of its own for as long, and the waiting balloons seemed to ask for another one."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=2, max_size=9), count=2).settled()
    before = dict(story.world.deployments)
    for name in list(story.world.nodes):
        story.world.remove_node(name)
    story.step()
    story.world.nodes = nodes(1, allocatable=BARE, labels=TYPE, created_s=story.now.wall.timestamp())
    for _ in range(3):
        decided = story.step()
        assert (decided.pools[0].because.reason, actions(decided)) == (Reason.GROWING, [])
    assert notes(decided) == [
        "1 node is short of devices: fewer nvidia.com/gpu than others of shape p5-48xlarge-gpu: n000"
    ]
    story.world.change_node("n000", allocatable=GPUS)
    for _ in range(2):
        decided = story.step()
    assert (decided.pools[0].status.warm, notes(decided), story.world.deployments.keys()) == (1, [], before.keys())


def test_balloons_are_exchanged_for_devices_that_the_pool_names_later() -> None:
    story = Story(a_pool(), allocatable={**BARE, "habana.ai/gaudi": 8_000}).settled()
    story.world.change_pool(shape=ShapeSpec(devices=("habana.ai/gaudi",)))
    story.settled()
    assert [balloon.requests["habana.ai/gaudi"] for balloon in story.world.balloons()] == [8_000] * 3


def test_nodes_with_and_without_network_cards_are_all_held() -> None:
    story = Story(a_pool(), count=5)
    story.world.nodes |= nodes(5, "efa", allocatable=WITH_CARDS, labels=TYPE)
    story.settled()
    assert {balloon.node for balloon in story.world.balloons()} == set(story.world.nodes)


def test_a_network_card_that_appears_rolls_no_balloon() -> None:
    story = Story(a_pool()).settled()
    for name in sorted(story.world.nodes):
        story.world.change_node(name, allocatable=WITH_CARDS)
        assert not [action for action in actions(story.step()) if not isinstance(action, ApplyObject)]
    assert {balloon.node for balloon in story.world.balloons()} == set(story.world.nodes)


def test_resources_of_node_agents_are_not_asked_for() -> None:
    story = Story(a_pool(), allocatable={**GPUS, "vpc.amazonaws.com/pod-eni": 107_000, "example.com/batch-cpu": 5_000})
    story.settled()
    assert all("pod-eni" not in name for balloon in story.world.balloons() for name in balloon.requests)
    assert all("batch-cpu" not in name for balloon in story.world.balloons() for name in balloon.requests)


def test_a_daemonset_pod_on_one_node_changes_no_other_balloon() -> None:
    story = Story(a_pool(), count=10).settled()
    before = dict(story.world.deployments)
    story.world.pods = {key: pod for key, pod in story.world.pods.items() if pod.node != "n000"}
    story.world.add(daemon("storage", "n000", cpu="64"))
    for _ in range(30):
        decided = story.step()
    assert [d.spec["template"] for d in story.world.deployments.values()] == [
        d.spec["template"] for d in before.values()
    ]
    assert decided.pools[0].status.sick == 1
    assert notes(decided)[0].startswith("1 node has less cpu or memory left than others of shape p5-48xlarge-gpu")


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_blip_of_a_kubelet_orders_no_node() -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20)).settled()
    story.world.change_node("n000", is_ready=False, conditions=frozenset({("Ready", "Unknown")}))
    for _ in range(8):
        assert not actions(story.step(20.0))
    for _ in range(3):
        decided = story.step(20.0)
    assert decided.pools[0].because.reason is Reason.GROWING


AGENT = (Taint("node.cilium.io/agent-not-ready", "NoSchedule"),)


def test_an_agent_that_starts_anew_on_a_held_node_orders_no_other() -> None:
    """Headroom bought a node for each, when a DaemonSet that taints nodes was rolled out."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20)).settled()
    for name in ("n000", "n001"):
        story.world.change_node(name, taints=AGENT)
        for _ in range(8):
            decided = story.step(20.0)
            assert (actions(decided), decided.pools[0].status.warm) == ([], 2)
        story.world.change_node(name, taints=())
        assert story.step().pools[0].status.warm == 3


def test_a_held_node_with_a_taint_is_replaced_after_the_grace() -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20)).settled()
    story.world.change_node("n000", taints=AGENT)
    for _ in range(9):
        assert not actions(story.step(20.0))
    assert story.step().pools[0].because.reason is Reason.GROWING


@pytest.mark.parametrize(
    "changes",
    [{"taints": AGENT, "is_cordoned": True}, {"taints": (*AGENT, Taint("karpenter.sh/disrupted", "NoSchedule"))}],
    ids=["cordoned", "leaving"],
)
def test_a_held_node_that_somebody_takes_away_is_replaced_at_once(changes: dict[str, Any]) -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20)).settled()
    story.world.change_node("n000", **changes)
    assert story.step().pools[0].because.reason is Reason.GROWING


@pytest.mark.parametrize(
    ("changes", "age_s", "waiting"),
    [
        ({"allocatable": {**GPUS, "nvidia.com/gpu": 7_000}}, 900.0, 0),
        ({"is_ready": False, "conditions": frozenset({("Ready", "Unknown")})}, 900.0, 0),
        ({"is_ready": False, "conditions": frozenset({("Ready", "False")})}, 100.0, 1),
        ({"allocatable": {**GPUS, "nvidia.com/gpu": 7_000}}, 100.0, 0),
        ({"allocatable": {**GPUS, "nvidia.com/gpu": 0}}, 100.0, 1),
        ({"allocatable": {**GPUS, "memory": GPUS["memory"] // 2}}, 100.0, 0),
    ],
    ids=["a GPU off the bus", "not Ready", "new", "new, a GPU off the bus", "new, no GPU yet", "new, short of room"],
)
def test_for_a_node_that_is_expected_back_no_balloon_waits(changes: dict[str, Any], age_s: float, waiting: int) -> None:
    """No autoscaler counts on it, so one was bought at once, beyond maxSize too, as after a job that broke a GPU."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=3))
    story.world.change_node("n000", created_s=NOW.wall.timestamp() - age_s, **changes)
    for _ in range(3):
        decided = story.step()
    assert (decided.pools[0].status.warm, decided.pools[0].status.pending) == (2, waiting)


def test_a_paused_pool_keeps_no_balloon_for_a_new_node_that_is_short_of_devices() -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=3), count=2).settled()
    story.world.change_pool(paused=True)
    created_s = story.now.wall.timestamp()
    story.world.nodes |= nodes(1, "x", labels=TYPE, allocatable={**GPUS, "nvidia.com/gpu": 7_000}, created_s=created_s)
    assert (story.step().pools[0].because.reason, story.world.replicas()) == (Reason.PAUSED, 2)


def test_nodes_with_a_taint_that_no_balloon_holds_are_not_waited_for() -> None:
    """They may be another team's: a balloon would wait for each, and the autoscaler buy a node for it."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=3), taints=AGENT)
    assert (story.step().pools[0].because.reason, story.world.replicas()) == (Reason.MAX_SIZE, 0)


NOT_READY = {"is_ready": False, "conditions": frozenset({("Ready", "Unknown")})}


def led_anew(unready_s: float) -> Story:
    """Twenty warm nodes that are not Ready since this moment, and a leader that remembers nothing."""
    story = Story(a_pool(mode=Mode.HEADROOM, size=20, max_size=60), count=20).settled()
    for name in story.world.nodes:
        story.world.change_node(name, **NOT_READY, unready_s=unready_s)
    story.memory = Memory()
    return story


@pytest.mark.parametrize("age_s", [5.0, -600.0, None], ids=["seconds ago", "by a clock ahead", "undated"])
def test_a_new_leader_expects_nodes_back_for_the_grace(age_s: float | None) -> None:
    story = led_anew(later(NOW, 40.0).wall.timestamp() - age_s if age_s is not None else 0.0)
    for _ in range(8):
        assert not actions(story.step(20.0))
    for _ in range(5):
        decided = story.step(20.0)
    assert decided.pools[0].because.reason is Reason.GROWING


def test_a_new_leader_lets_clocks_differ_by_a_minute() -> None:
    story = led_anew(later(NOW, 40.0).wall.timestamp() - 230.0)
    assert not actions(story.step())
    assert story.step().pools[0].because.reason is Reason.GROWING


def test_a_new_leader_expects_nothing_of_nodes_that_are_long_not_ready() -> None:
    story = led_anew(NOW.wall.timestamp() - 600.0)
    assert story.step().pools[0].because.reason is Reason.GROWING


def test_the_grace_is_the_pools() -> None:
    grace = PoolNodes(LabelSelector({"pool": "gpu"}), not_ready_grace="10m")
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20, nodes=grace)).settled()
    story.world.change_node("n000", is_ready=False, conditions=frozenset({("Ready", "Unknown")}))
    for _ in range(29):
        assert not actions(story.step(20.0))


@pytest.mark.parametrize(
    ("key", "limit_s"), [("preflight", PREFLIGHT_LIMIT_S), ("node.kubernetes.io/not-ready", JOIN_LIMIT_S)]
)
def test_what_joins_for_too_long_is_sick_and_replaced(key: str, limit_s: float) -> None:
    spec = PoolNodes(LabelSelector({"pool": "gpu"}), not_warm=NotWarm((NotWarmTaint("preflight"),)))
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20, nodes=spec))
    for name in ("n000", "n001"):
        node = story.world.nodes[name]
        story.world.nodes[name] = msgspec.structs.replace(node, taints=(Taint(key, "NoSchedule"),))
    story.step(limit_s - 10.0)
    assert story.step().pools[0].status.sick == 0
    decided = story.step()
    assert decided.pools[0].status.sick == 2
    assert decided.pools[0].because.reason is Reason.GROWING


@pytest.mark.parametrize(
    "changes",
    [
        {"allocatable": {**GPUS, "nvidia.com/gpu": 0}},
        {"taints": (Taint("startup-taint.cluster-autoscaler.kubernetes.io/cni", "NoSchedule"),)},
    ],
    ids=["its device plugin starts anew", "a startup taint is still there"],
)
def test_what_comes_after_a_long_preflight_test_has_its_own_time(changes: dict[str, Any]) -> None:
    """The time of the test counted for it, too: the node was sick at once, and another one was ordered."""
    spec = PoolNodes(LabelSelector({"pool": "gpu"}), not_warm=NotWarm((NotWarmTaint("preflight"),)))
    story = Story(a_pool(mode=Mode.HEADROOM, size=3, max_size=20, nodes=spec))
    story.world.change_node("n000", taints=(Taint("preflight", "NoSchedule"),))
    for _ in range(5):
        story.step(400.0)
    story.world.change_node("n000", **{"taints": (), **changes})
    for _ in range(2):
        status = story.step(170.0).pools[0].status
        assert (status.sick, status.warm) == (0, 2)


# -- what no test held -------------------------------------------------------------------------------------------------


def test_balloons_of_another_shape_than_their_nodes_are_exchanged() -> None:
    """From an explicit size to whole nodes: the small ones go, at the removal limit's pace, and whole ones come."""
    story = Story(a_pool(shape=ShapeSpec(type=ShapeType.EXPLICIT, resources={"cpu": "4", "memory": "8Gi"}))).settled()
    assert {balloon.shape for balloon in story.world.balloons()} == {"explicit"}
    story.world.change_pool(shape=ShapeSpec())
    for _ in range(6):
        decided = story.step()
    assert not actions(decided)
    assert [balloon.shape for balloon in story.world.balloons()] == ["p5-48xlarge-gpu"] * 3
    assert {balloon.node for balloon in story.world.balloons()} == set(story.world.nodes)


def test_of_many_balloons_of_another_shape_no_more_go_at_once_than_may() -> None:
    """Another one beside them has gone already, from a node on which a DaemonSet runs."""
    small = ShapeSpec(type=ShapeType.EXPLICIT, resources={"cpu": "4", "memory": "8Gi"})
    story = Story(a_pool(shape=small), count=25)
    story.world.add(*(daemon(f"d-{name}", name, cpu="10m") for name in story.world.nodes))
    story.settled()
    (gone,) = (balloon.key for balloon in story.world.balloons() if balloon.node == "n000")
    del story.world.pods[gone]
    story.world.change_pool(shape=ShapeSpec())
    left = []
    for _ in range(4):
        story.step()
        left.append(sum(balloon.shape == "explicit" for balloon in story.world.balloons()))
    assert left == [14, 4, 0, 0]
    assert len({balloon.node for balloon in story.world.balloons()}) == 25


def test_a_shape_on_which_nothing_is_left_is_named() -> None:
    story = Story(a_pool(shape=ShapeSpec(slack={"cpu": "192"})))
    decided = story.step()
    assert not actions(decided)
    assert notes(decided) == ["DaemonSets and slack leave no room for a balloon on nodes of shape p5-48xlarge-gpu"]


def test_headroom_on_such_a_shape_asks_for_nothing() -> None:
    story = Story(a_pool(mode=Mode.HEADROOM, size=4, max_size=9, shape=ShapeSpec(slack={"cpu": "192"})))
    decided = story.step()
    assert decided.pools[0].because.reason is Reason.TOO_SMALL
    assert not actions(decided)
