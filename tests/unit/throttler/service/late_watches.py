"""Machines in virtual time, and what watches show of them when each is late: the world of joins as it is seen.

Times are seconds of the story; None before it happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import msgspec
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import CNI, LOGS, WALL_S, a_node, a_world, daemons_on, pending
from tests.unit.throttler.levers.owned_object import ConflictError, OwnedObject
from throttler.api.throttle import JoinThrottle
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.levers.lever_and_reasons import LeverWrite
from throttler.service.decide_throttles import Memories, TickView, decide_throttles

late = st.sampled_from([0.0, 2.0, 8.0, 16.0, 30.0])
"""Seconds that a watch is behind."""
LABEL = "example.com/let-in"
OLD = a_node("old", age_s=9999, labels={LABEL: "true"})
"""A node that was there before, and that nothing holds back."""


@dataclass
class Machine:
    """A whole-node pod's machine."""

    name: str
    ordered_s: float | None = None
    registered_s: float | None = None
    usable_s: float | None = None

    @property
    def is_in_flight(self) -> bool:
        return self.ordered_s is not None and self.usable_s is None

    @property
    def node(self) -> str:
        return f"n-{self.name}"

    @property
    def joins_since_s(self) -> float | None:
        """Since when it loads the API servers."""
        return self.registered_s

    def go_on(self, now_s: float, boot_s: float, join_s: float) -> None:
        if self.registered_s is None:
            is_there = self.ordered_s is not None and now_s >= self.ordered_s + boot_s
            self.registered_s = now_s if is_there else None
        elif self.usable_s is None and self.joins_since_s is not None and now_s >= self.joins_since_s + join_s:
            self.usable_s = now_s

    def seen(self) -> Node:
        """Its node, as it is told of."""
        return node_of(self.node, self.registered_s or 0.0, is_ready=self.usable_s is not None)

    def waiting(self) -> Pod:
        """The pod before it has a node."""
        return pending(self.name)

    def pod(self) -> Pod:
        pod = self.waiting()
        is_placed = self.registered_s is not None
        return msgspec.structs.replace(pod, node=self.node, scheduling=None) if is_placed else pod


class LateWatches:
    """The states of each kind, and until when its watch has shown them."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._heard: dict[str, list[tuple[float, Any]]] = {kind: [] for kind in kinds}
        self._seen_s = dict.fromkeys(self._heard, 0.0)

    def tell(self, kind: str, now_s: float, state: Any) -> None:
        """The state of now, which is shown when the watch has come so far."""
        self._heard[kind].append((now_s, state))

    def shown(self, lags: Mapping[str, float], now_s: float) -> dict[str, Any]:
        """By kind, the latest state that has come; None before the first. No watch goes back in time."""
        shown = {}
        for kind, states in self._heard.items():
            self._seen_s[kind] = max(self._seen_s[kind], now_s - lags[kind])
            shown[kind] = next((state for at_s, state in reversed(states) if at_s <= self._seen_s[kind]), None)
        return shown


@cache
def node_of(name: str, made_s: float, *, is_ready: bool, **labels: str) -> Node:
    """A node that was made then."""
    return a_node(name, age_s=-made_s, is_ready=is_ready, labels=labels)


@cache
def daemons_of(name: str, *, is_running: bool) -> tuple[Pod, ...]:
    """The DaemonSets' pods on the node of this name."""
    return daemons_on(name, CNI, LOGS, is_running=is_running)


def tell_machines(watches: LateWatches, now_s: float, machines: Sequence[Machine]) -> None:
    """The pods and nodes of now."""
    there = [machine for machine in machines if machine.registered_s is not None]
    daemons = [pod for one in there for pod in daemons_of(one.node, is_running=one.usable_s is not None)]
    watches.tell("pods", now_s, (*daemons, *(machine.pod() for machine in machines)))
    watches.tell("nodes", now_s, tuple(machine.seen() for machine in there))


def world_of(pods: Iterable[Pod], nodes: Iterable[Node], claims: tuple[NodeClaim, ...], now_s: float) -> JoinWorld:
    """The world with these, and with the node that was there before."""
    pods = tuple(pods)
    placed = [*daemons_on(OLD.name, CNI, LOGS), *(pod for pod in pods if pod.node)]
    world = a_world(OLD, *nodes, pods=placed, claims=claims)
    return replace(world, unplaced=tuple(pod for pod in pods if not pod.node), wall_s=WALL_S + now_s)


class LateStory(ABC):
    """A cluster that goes on, and a throttle that looks at late views of it."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Machines that were asked for and are not usable."""

    @abstractmethod
    def go_on(self) -> None:
        """A step later."""

    @abstractmethod
    def decide(self, lags: Mapping[str, float], *, is_lost: bool = False) -> object:
        """A look of ours; what it writes stands unless it is lost."""

    def most_in_flight(self, lags: Mapping[str, float], looks: int) -> int:
        """The most that there were in so many looks of ours at views that are so late."""
        self.decide(lags)
        most = 0
        for _ in range(looks):
            self.go_on()
            self.decide(lags)
            most = max(most, self.in_flight)
        return most


@dataclass
class LimitStory(LateStory):
    """Its autoscaler orders what the limit of an object admits, which a throttle moves."""

    THROTTLE: ClassVar[JoinThrottle]

    machines: list[Machine]
    look_s: float
    """Between two looks of the autoscaler."""
    boot_s: float
    join_s: float
    now_s: float = 0.0
    limited: OwnedObject = field(default_factory=OwnedObject)
    memories: Memories = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        return sum(machine.is_in_flight for machine in self.machines)

    @property
    def ordered(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.ordered_s is not None]

    @abstractmethod
    def view(self, lags: Mapping[str, float]) -> TickView:
        """What the watches show when each is so late; pods and the object were there before the first look."""

    def decide(self, lags: Mapping[str, float], *, is_lost: bool = False) -> None:
        (turn,), self.memories = decide_throttles((self.THROTTLE,), self.view(lags), self.memories)
        for write in turn.lever_writes:
            if not is_lost:
                with suppress(ConflictError):
                    self.carry_out(write)

    def carry_out(self, write: LeverWrite) -> None:
        """On the object that it is for."""
        self.limited.carry_out(write)
