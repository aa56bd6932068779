"""What taints and labels let in stays within the window, however late the views are and whatever became of a write."""

from collections.abc import Container
from dataclasses import dataclass, field, replace
from itertools import cycle

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import CNI, LOGS, pending
from tests.unit.throttler.service.late_watches import (
    LABEL,
    LateWatches,
    Machine,
    late,
    node_of,
    tell_machines,
    world_of,
)
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.api.throttle import JoinThrottle
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.taints import Taint
from throttler.levers.lever_and_reasons import How, LeverWrite
from throttler.service.decide_throttles import Memories, TickView, decide_throttles
from throttler.service.lever_calls import LeverWriteOutcome
from throttler.service.throttle_write_queue import RESTS_S

MOST, STEP_S = 6, 2.0
KINDS = ("pods", "nodes")
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons"
TAINT_LEVER, LABEL_LEVER = {"startupTaint": {"key": TAINT}}, {"daemonSetLabel": {"key": LABEL}}
AGENTS = (CNI, msgspec.structs.replace(LOGS, node_selector={LABEL: "true"}))
DONE, LOST, LATER, REFUSED = "done", "lost", "done ten seconds later", "refused by a webhook"


def a_marking(levers: dict[str, dict[str, str]]) -> JoinThrottle:
    window = {"initial": MOST, "min": MOST, "max": MOST}
    return a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers=levers, window=window)


@dataclass
class HeldMachine(Machine):
    """A machine whose node waits until it has no taint and has the label."""

    is_tainted: bool = True
    is_labelled: bool = False
    let_in_s: float | None = None

    @property
    def joins_since_s(self) -> float | None:
        return self.let_in_s

    @property
    def is_joining(self) -> bool:
        return self.let_in_s is not None and self.usable_s is None

    def written(self, how: How, now_s: float) -> None:
        self.is_tainted = self.is_tainted and how is not How.JSON
        self.is_labelled = self.is_labelled or how is How.MERGE
        if self.let_in_s is None and self.is_labelled and not self.is_tainted:
            self.let_in_s = now_s

    def seen(self) -> Node:
        labels = {LABEL: "true"} if self.is_labelled else {}
        node = node_of(self.node, self.registered_s or 0.0, is_ready=True, **labels)
        return msgspec.structs.replace(node, taints=(Taint(TAINT, "NoSchedule"),)) if self.is_tainted else node

    def pod(self) -> Pod:
        pod = pending(self.name)
        return msgspec.structs.replace(pod, node=self.node, scheduling=None) if self.let_in_s is not None else pod


@dataclass
class Story:
    """Machines that nothing holds back until they have registered."""

    throttle: JoinThrottle
    machines: list[HeldMachine]
    boot_s: float
    join_s: float
    now_s: float = 0.0
    fates: dict[How, str] = field(default_factory=dict)
    """What becomes of writes of each mark; they are done where it does not say."""
    refused: Container[str] = ()
    under_way: list[tuple[float, LeverWrite]] = field(default_factory=list)
    rests_s: dict[str, float] = field(default_factory=dict)
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))
    memories: Memories = field(default_factory=dict)

    def __post_init__(self) -> None:
        levers = self.throttle.spec.levers
        for machine in self.machines:
            machine.is_tainted, machine.is_labelled = levers.startup_taint is not None, levers.daemon_set_label is None
        tell_machines(self.watches, self.now_s, self.machines)

    @property
    def joining(self) -> int:
        return sum(machine.is_joining for machine in self.machines)

    def go_on(self, lags: dict[str, float]) -> None:
        self.now_s += STEP_S
        for machine in self.machines:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        for at_s, write in self.under_way:
            if at_s <= self.now_s:
                self._carry_out(write)
        self.under_way = [(at_s, write) for at_s, write in self.under_way if at_s > self.now_s]
        tell_machines(self.watches, self.now_s, self.machines)
        (turn,), self.memories = decide_throttles((self.throttle,), self._view(lags), self.memories)
        for write in turn.lever_writes:
            self._begin(write)

    def _begin(self, write: LeverWrite) -> None:
        """An object of which a write is under way is left alone, and one that rests."""
        name, busy = write.key.name, {each.key.name for _, each in self.under_way}
        (machine,) = (machine for machine in self.machines if machine.node == name)
        if machine.let_in_s is not None or name in busy or self.now_s < self.rests_s.get(name, 0.0):
            return
        fate = self.fates.get(write.how, DONE)
        if fate == REFUSED and name in self.refused:
            self.rests_s[name] = self.now_s + RESTS_S[LeverWriteOutcome.WEBHOOK]
        elif fate == LATER:
            self.under_way.append((self.now_s + 10.0, write))
        elif fate != LOST:
            self._carry_out(write)

    def _carry_out(self, write: LeverWrite) -> None:
        (machine,) = (machine for machine in self.machines if machine.node == write.key.name)
        machine.written(write.how, self.now_s)

    def _view(self, lags: dict[str, float]) -> TickView:
        shown = self.watches.shown(lags, self.now_s)
        world = replace(world_of(shown["pods"], shown["nodes"], (), self.now_s), daemon_sets=AGENTS)
        resting = frozenset(("Node", ObjectKey("", name)) for name, at_s in self.rests_s.items() if self.now_s < at_s)
        return a_view(self.now_s, world, scene={"refused": resting})


fates = st.sampled_from([DONE, LOST, LATER, REFUSED])
lags_of_nodes = st.sampled_from([0.0, 0.0, 2.0, 16.0, 30.0, 30.0])
LEVERS = st.sampled_from([TAINT_LEVER, LABEL_LEVER, TAINT_LEVER | LABEL_LEVER])


@pytest.mark.whole
@settings(max_examples=15)
@given(
    LEVERS,
    st.integers(1, 30),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.sampled_from([4.0, 20.0]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_never_more_are_let_in_than_the_window_holds(
    levers: dict[str, dict[str, str]],
    count: int,
    every_s: float,
    join_s: float,
    is_turned: bool,
    is_mixed: bool,
    data: st.DataObject,
) -> None:
    order = [*range(count)][:: -1 if is_turned else 1]
    machines = [HeldMachine(f"p{number:02}", at * every_s) for at, number in enumerate(order)]
    story = Story(a_marking(levers), machines, boot_s=0.0, join_s=join_s)
    nodes = [machine.node for machine in machines]
    if is_mixed and len(levers) > 1:
        for machine, marks in zip(machines, cycle([(True, False), (True, True), (False, False)]), strict=False):
            machine.is_tainted, machine.is_labelled = marks
    for _ in range(12):
        lags = {"pods": data.draw(late, label="pods"), "nodes": data.draw(lags_of_nodes, label="nodes")}
        story.fates = {how: data.draw(fates, label=how.value) for how in (How.JSON, How.MERGE)}
        if REFUSED in story.fates.values():
            story.refused = nodes[: data.draw(st.integers(1, count), label="refused")]
        for _ in range(4):
            story.go_on(lags)
            assert story.joining <= MOST


@pytest.mark.parametrize(
    "levers", [TAINT_LEVER, LABEL_LEVER, TAINT_LEVER | LABEL_LEVER], ids=["taint", "label", "both"]
)
def test_all_get_through_when_views_are_in_time(levers: dict[str, dict[str, str]]) -> None:
    story = Story(a_marking(levers), [HeldMachine(f"p{number:02}", 0.0) for number in range(20)], 6.0, 4.0)
    most = 0
    for _ in range(60):
        story.go_on(dict.fromkeys(KINDS, 0.0))
        most = max(most, story.joining)
    assert all(machine.usable_s is not None for machine in story.machines)
    assert most == MOST
