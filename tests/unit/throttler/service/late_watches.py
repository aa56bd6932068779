"""What watches show of a story when each is late, and the world of joins that is seen then."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import CNI, LOGS, WALL_S, a_node, a_world, daemons_on
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node
from throttler.kube.pod import Pod

late = st.sampled_from([0.0, 2.0, 8.0, 16.0, 30.0])
"""Seconds that a watch is behind."""


class LateWatches:
    """The states of each kind, and until when its watch has shown them. Times are seconds of the story."""

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


def world_of(
    pods: Sequence[Pod],
    nodes: Iterable[tuple[str, bool, float]],
    claims: tuple[NodeClaim, ...],
    now_s: float,
    *others: Node,
) -> JoinWorld:
    """The world with these `nodes` (name, whether usable, when made), each with its DaemonSets' pods."""
    nodes = tuple(nodes)
    daemons = [pod for name, is_usable, _ in nodes for pod in daemons_on(name, CNI, LOGS, is_running=is_usable)]
    daemons += [pod for node in others for pod in daemons_on(node.name, CNI, LOGS)]
    made = [a_node(name, age_s=-at_s, is_ready=is_usable) for name, is_usable, at_s in nodes]
    world = a_world(*others, *made, pods=[*daemons, *(pod for pod in pods if pod.node)], claims=claims)
    return replace(world, unplaced=tuple(pod for pod in pods if not pod.node), wall_s=WALL_S + now_s)
