"""What gates let go stays within `maxInFlight`, however late the views are and whatever became of a write."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import CNI, LOGS, a_claim, a_node, a_world, balloon_on, daemons_on, pending
from tests.unit.throttler.service.late_watches import (
    LateStory,
    LateWatches,
    Machine,
    daemons_of,
    late,
    node_of,
    world_of,
)
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodeClaim
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Pod, Scheduling
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.decide_throttles import Memories, TickView, decide_throttles
from throttler.service.lever_calls import LeverWriteOutcome
from throttler.service.throttle_write_queue import RESTS_S

MOST, STEP_S = 6, 2.0
KINDS = ("pods", "nodes", "claims")
THROTTLE = a_throttle(
    nodes={"matchLabels": {"pool": "a"}},
    levers={"schedulingGates": {}},
    window={"initial": MOST, "min": MOST, "max": 500},
    maxInFlight=MOST,
)


@dataclass
class Job(Machine):
    """A machine whose pod a gate holds until it is released."""

    made_s: float = 0.0
    released_s: float | None = None
    warm_node: str = ""
    """The warm node that took it."""
    is_scarce: bool = False
    """Whether it asks for machines that may be out of stock."""

    @property
    def is_in_flight(self) -> bool:
        return self.released_s is not None and self.usable_s is None

    def pod(self) -> Pod:
        is_gated = self.released_s is None
        how = {"is_gated": is_gated, "is_tried": not is_gated, "gates": (PACED_GATE,) if is_gated else ()}
        pod = pending(self.name, cpu="7" if self.is_scarce else "6", owner=self.name[0], **how)
        node = self.warm_node or (self.node if self.registered_s is not None else "")
        return msgspec.structs.replace(pod, node=node, scheduling=None if node else pod.scheduling)


@dataclass
class Story(LateStory):
    """An autoscaler orders for each pod that was let go."""

    jobs: list[Job]
    look_s: float
    boot_s: float
    join_s: float
    warm: set[str] = field(default_factory=set)
    """Nodes on which a balloon runs."""
    taken: set[str] = field(default_factory=set)
    """Nodes that were warm."""
    is_rival_quick: bool = False
    """Whether other pods, which nothing holds back, take the warm nodes first."""
    has_stock: bool = True
    now_s: float = 0.0
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))
    memories: Memories = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        return sum(job.is_in_flight for job in self.jobs)

    def go_on(self) -> None:
        self.now_s += STEP_S
        is_look = self.now_s % self.look_s < STEP_S
        seeking = [
            job for job in self.jobs if job.released_s is not None and job.ordered_s is None and job.usable_s is None
        ]
        if seeking and self.is_rival_quick:
            self.taken, self.warm = self.taken | self.warm, set()
        for job, name in zip(seeking, sorted(self.warm), strict=False):
            job.warm_node, job.usable_s = name, self.now_s
            self.warm.remove(name)
            self.taken.add(name)
        for job in self.jobs:
            if job.warm_node:
                continue
            can_be_had = self.has_stock or not job.is_scarce
            if job.released_s is not None and job.ordered_s is None and is_look and can_be_had:
                job.ordered_s = self.now_s
            else:
                job.go_on(self.now_s, self.boot_s, self.join_s)
        self._tell()

    def _tell(self) -> None:
        jobs = [job for job in self.jobs if job.made_s <= self.now_s]
        balloons = [balloon_on(name) for name in sorted(self.warm)]
        machines = [job for job in self.jobs if job.ordered_s is not None]
        self.watches.tell("claims", self.now_s, tuple(self._claim(job) for job in machines))
        nodes = [
            (job.node, job.registered_s, job.usable_s is not None) for job in machines if job.registered_s is not None
        ]
        nodes += [(name, -9999.0, True) for name in sorted(self.warm | self.taken)]
        self.watches.tell(
            "nodes", self.now_s, tuple(node_of(name, at_s, is_ready=ready) for name, at_s, ready in nodes)
        )
        daemons = [pod for name, _, is_usable in nodes for pod in daemons_of(name, is_running=is_usable)]
        self.watches.tell("pods", self.now_s, (*balloons, *daemons, *(job.pod() for job in jobs)))

    def _claim(self, job: Job) -> NodeClaim:
        claim = a_claim(f"c-{job.name}", age_s=-(job.ordered_s or 0.0), is_registered=job.registered_s is not None)
        name = job.node if job.registered_s is not None else ""
        return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, node_name=name))

    def view(self, lags: Mapping[str, float], **more: Any) -> TickView:
        """What the watches show when each is so late."""
        shown = self.watches.shown(lags, self.now_s)
        world = world_of(shown["pods"] or (), shown["nodes"] or (), shown["claims"] or (), self.now_s)
        return a_view(self.now_s, world, **more)

    def decide(
        self, lags: Mapping[str, float], *, is_lost: bool = False, stuck: Container[str] = (), **more: Any
    ) -> set[str]:
        """Returns whom it lets go, by name; those that are `stuck` stay."""
        (turn,), self.memories = decide_throttles((THROTTLE,), self.view(lags, **more), self.memories)
        let_go = {write.key.name for write in turn.lever_writes}
        for job in self.jobs:
            if job.name in let_go and job.name not in stuck and job.released_s is None and not is_lost:
                job.released_s = self.now_s
        return let_go


IN_TIME = dict.fromkeys(KINDS, 0.0)


@pytest.mark.whole
@settings(max_examples=60)
@given(
    st.integers(1, 30),
    st.sampled_from([2.0, 4.0, 10.0]),
    st.sampled_from([0.0, 6.0, 40.0]),
    st.sampled_from([0.0, 4.0, 20.0]),
    st.integers(0, 12),
    st.data(),
)
def test_never_more_in_flight_than_the_user_allows(
    count: int, look_s: float, boot_s: float, join_s: float, warm: int, data: st.DataObject
) -> None:
    names = {f"w{number:02}" for number in range(warm)}
    story = Story([Job(f"p{number:02}") for number in range(count)], look_s, boot_s, join_s, names)
    for _ in range(12):
        lags = {kind: data.draw(late, label=kind) for kind in KINDS}
        is_lost = data.draw(st.booleans(), label="writes are lost")
        story.is_rival_quick = data.draw(st.booleans(), label="others take the warm nodes first")
        if data.draw(st.booleans(), label="nodes are warm again"):
            story.warm |= {name for name in names if not any(job.warm_node == name for job in story.jobs)}
        for _ in range(8):
            story.go_on()
            story.decide(lags, is_lost=is_lost)
            assert story.in_flight <= MOST


def test_all_get_through_when_views_are_in_time() -> None:
    story = Story([Job(f"p{number:02}") for number in range(20)], look_s=4.0, boot_s=6.0, join_s=4.0)
    most = story.most_in_flight({"pods": 0.0, "nodes": 2.0, "claims": 2.0}, looks=60)
    assert all(job.usable_s is not None for job in story.jobs)
    assert most == MOST


def test_pods_that_the_api_server_never_lets_go_keep_nobody_else_waiting() -> None:
    """A policy engine that refuses every change of some pods: they are older than all others, and fill the window."""
    story = Story([Job(f"p{number:02}") for number in range(20)], look_s=4.0, boot_s=6.0, join_s=4.0)
    stuck = {f"p{number:02}" for number in range(MOST + 2)}
    tried_s: dict[str, float] = {}
    for _ in range(100):
        story.go_on()
        resting = frozenset(("Pod", ObjectKey("jobs", name)) for name, at_s in tried_s.items() if story.now_s < at_s)
        let_go = story.decide(IN_TIME, stuck=stuck, scene={"refused": resting})
        tried_s |= dict.fromkeys(let_go & stuck, story.now_s + RESTS_S[LeverWriteOutcome.WEBHOOK])
        assert story.in_flight <= MOST
    assert {job.name for job in story.jobs if job.usable_s is None} == stuck


@pytest.mark.whole
def test_no_more_start_together_however_long_a_type_was_out_of_stock() -> None:
    """Sixty pods of a large job, and a small one each minute: pods that fit nowhere for long count no more."""
    large = [Job(f"l{number:02}", is_scarce=True) for number in range(60)]
    small = [Job(f"s{number:02}", made_s=60.0 * number) for number in range(30)]
    story = Story([*large, *small], look_s=10.0, boot_s=30.0, join_s=10.0, has_stock=False)
    story.most_in_flight(IN_TIME, looks=750)
    made = [job for job in small if job.made_s < story.now_s - 300.0]
    assert len(made) >= 20
    assert all(job.usable_s is not None for job in made), "the others go on"
    held = {job.name for job in large if job.released_s is None}
    assert len(held) >= len(large) - MOST
    lost = story.view(IN_TIME, missing=("nodes",), is_given_up=True)
    (turn,), _ = decide_throttles((THROTTLE,), lost, story.memories)
    assert {write.key.name for write in turn.lever_writes} >= held, "a throttle that gives up holds none of them"
    story.has_stock = True
    assert story.most_in_flight(IN_TIME, looks=450) <= MOST + 2, (
        "those that were given up, and small ones that came before them"
    )
    assert all(job.usable_s is not None for job in large)


def warm_world(warm: int, held: int, claims: int = 0, loose: int = 0) -> JoinWorld:
    """So many warm nodes, pods that the gate holds, machines on their way, and pods that nothing holds back."""
    nodes = [a_node(f"w{number}", age_s=9999) for number in range(warm)]
    daemons = [pod for node in nodes for pod in daemons_on(node.name, CNI, LOGS)]
    gated = [pending(f"h{number}", is_gated=True, is_tried=False, gates=(PACED_GATE,)) for number in range(held)]
    free = [pending(f"l{number}", is_tried=False) for number in range(loose)]
    balloons = [balloon_on(node.name) for node in nodes]
    ordered = [a_claim(f"c{number}") for number in range(claims)]
    return a_world(*nodes, pods=[*daemons, *balloons], unplaced=(*free, *gated), claims=tuple(ordered))


def let_go_at(now_s: float, world: JoinWorld, memories: Memories, throttle: Any = THROTTLE) -> tuple[int, Memories]:
    (turn,), memories = decide_throttles((throttle,), a_view(now_s, world), memories)
    return len(turn.lever_writes), memories


FULL = a_throttle(
    nodes={"matchLabels": {"pool": "a"}}, levers={"schedulingGates": {}}, window={"initial": 6, "min": 6, "max": 6}
)


def test_a_full_window_keeps_no_pod_from_a_warm_node() -> None:
    """Six machines boot, which is the window: twelve pods more wait, and nodes are there for five of them."""
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, FULL)
    count, memories = let_go_at(2.0, warm_world(5, 12, claims=6), memories, FULL)
    assert count == 5
    # Until the view has heard of it they are let go again, and no other pod takes their nodes.
    assert let_go_at(4.0, warm_world(5, 12, claims=6), memories, FULL)[0] == 5


def test_pods_that_nothing_holds_back_come_first_to_warm_nodes() -> None:
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, FULL)
    assert let_go_at(2.0, warm_world(5, 12, claims=6, loose=3), memories, FULL)[0] == 2


def test_pods_that_another_gate_holds_take_no_warm_node() -> None:
    """Kueue's, say: a hundred jobs that are not admitted yet, and came first."""
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, FULL)
    world = warm_world(5, 5, claims=6)
    others = tuple(pending(f"k{number}", is_gated=True, is_tried=False, gates=("kueue",)) for number in range(100))
    assert let_go_at(2.0, replace(world, unplaced=(*others, *world.unplaced)), memories, FULL)[0] == 5


def test_pods_that_the_api_server_does_not_let_go_keep_no_warm_node_from_others() -> None:
    world = warm_world(5, 12, claims=6)
    resting = frozenset(("Pod", ObjectKey("jobs", f"h{number}")) for number in range(5))
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, FULL)
    (turn,), _ = decide_throttles((FULL,), a_view(2.0, world, scene={"refused": resting}), memories)
    assert len(turn.lever_writes) == 5


def test_urgent_pods_have_warm_nodes_first() -> None:
    throttle = a_throttle(**msgspec.to_builtins(FULL.spec) | {"reserved": {"nodes": 0, "priorityAtLeast": 100}})
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, throttle)
    world = warm_world(2, 3, claims=6)
    urgent = pending("urgent", priority=100, owner="u", is_gated=True, is_tried=False, gates=(PACED_GATE,))
    urgent = msgspec.structs.replace(urgent, uid="z")
    view = a_view(2.0, replace(world, unplaced=(*world.unplaced, urgent)))
    (turn,), _ = decide_throttles((throttle,), view, memories)
    assert [write.key.name for write in turn.lever_writes] == ["urgent", "h0"]


def test_pods_that_no_balloon_leaves_for_take_no_warm_node() -> None:
    """Of a scheduler that nobody runs, say: they wait for ever."""
    world = warm_world(5, 12, claims=6)
    strange = [pending(f"s{number}", is_tried=False, cannot_preempt=True, scheduler="nobody") for number in range(4)]
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=6), {}, FULL)
    assert let_go_at(2.0, replace(world, unplaced=(*strange, *world.unplaced)), memories, FULL)[0] == 5


def test_what_warm_nodes_take_keeps_to_what_may_be_in_flight() -> None:
    """Another pod may come first to the node, and then a machine is ordered for the one that was let go."""
    _, memories = let_go_at(0.0, warm_world(0, 0, claims=4), {})
    assert let_go_at(2.0, warm_world(9, 12, claims=4), memories)[0] == MOST - 4


def test_another_throttles_ceiling_does_not_stand_in_for_the_bound() -> None:
    """It bounds what is ordered on the nodes that both select, and the pods may go to others."""
    other = a_throttle("other", created="2026-02-01T00:00:00Z", nodes={"matchLabels": {"zone": "z"}}, levers=CEILING)
    _, memories = decide_throttles((THROTTLE, other), a_view(0.0, warm_world(0, 0), names=NAMES), {})
    turns, memories = decide_throttles((THROTTLE, other), a_view(2.0, warm_world(12, 12), names=NAMES), memories)
    assert len(turns[0].lever_writes) == MOST
    # Others came first, and their nodes are warm again.
    world = warm_world(12, 12)
    gone = {write.key for write in turns[0].lever_writes}
    pods = tuple(pending(pod.key.name) if pod.key in gone else pod for pod in world.unplaced)
    turns, _ = decide_throttles((THROTTLE, other), a_view(4.0, replace(world, unplaced=pods), names=NAMES), memories)
    assert not turns[0].lever_writes


CEILING = {"nodePoolLimits": {}}
NAMES = ("default", "other")


@pytest.mark.parametrize("pods", [1, 10], ids=["urgent: the reserved lane is open", "so many that the pace was spent"])
@pytest.mark.parametrize("pace", [{}, {"maxPerMinute": 60}], ids=["window", "pace"])
def test_a_stream_of_pods_to_warm_nodes_changes_nothing_for_those_in_turn(pods: int, pace: dict[str, int]) -> None:
    throttle = a_throttle(
        nodes={"matchLabels": {"pool": "a"}},
        levers={"schedulingGates": {}},
        window={"initial": 20, "min": 20, "max": 20},
        pace=pace,
    )
    assert _gone_in_turn(throttle, pods) == _gone_in_turn(throttle, 0)


def _gone_in_turn(throttle: Any, stream: int) -> list[int]:
    """How many of the pods that need machines are out after each look, while others come and go on warm nodes."""
    gone: dict[str, float] = {}
    sent: list[Pod] = []
    memories: Memories = {}
    counts = []
    for tick in range(40):
        now_s = 2.0 * tick
        loose = [msgspec.structs.replace(pod, scheduling=Scheduling()) for pod in sent]
        short = [_gated(f"short-{tick}-{number}") for number in range(stream)]
        held = [_gated(f"p{number:03}", owner="p", is_opaque=True) for number in range(100)]
        held = [pod for pod in held if pod.key.name not in gone]
        out = [pending(name, owner="p", is_opaque=True) for name in gone]
        claims = tuple(a_claim(f"c-{name}", age_s=-at_s) for name, at_s in gone.items())
        world = replace(warm_world(60, 0), unplaced=(*out, *loose, *held, *short), claims=claims)
        (turn,), memories = decide_throttles((throttle,), a_view(now_s, world), memories)
        let_go = {write.key.name for write in turn.lever_writes}
        assert let_go >= {pod.key.name for pod in short}
        gone |= dict.fromkeys((pod.key.name for pod in held if pod.key.name in let_go), now_s)
        sent = short
        counts.append(len(gone))
    return counts


def _gated(name: str, **more: Any) -> Pod:
    return pending(name, is_gated=True, is_tried=False, gates=(PACED_GATE,), **more)


def test_an_incomplete_view_takes_no_node_for_warm() -> None:
    view = a_view(2.0, warm_world(5, 12, claims=6), missing=("nodes",))
    (turn,), _ = decide_throttles((FULL,), view, {})
    assert not turn.lever_writes


@pytest.mark.whole
def test_slow_boots_make_no_room_for_others() -> None:
    """Pods whose machines boot for ten minutes wait long after others got theirs: they are in flight all the same."""
    made_s = [0.0] * 3 + [200.0] * 2 + [320.0] * 8
    story = Story([Job(f"p{number:02}", made_s=at_s) for number, at_s in enumerate(made_s)], 10.0, 600.0, 20.0)
    assert story.most_in_flight(IN_TIME, looks=250) == MOST
