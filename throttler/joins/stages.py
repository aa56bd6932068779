"""Where on its way to being usable a registered node is.

Everything is told by the Node and by the DaemonSet pods on it: which DaemonSets want a pod there, and which of those
pods run.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from throttler.joins.join_world import NO_PODS, JoinRules, JoinWorld
from throttler.kube.node import Node, is_joining_taint
from throttler.kube.pod import DaemonSet, Pod, PodKind, wants_daemon
from throttler.kube.selectors import Taint


class Stage(enum.Enum):
    """A registered node's stage; exactly one holds."""

    HELD = "kept back by a lever at the join"
    UNREADY = "registered, not Ready or not let in by others"
    WITHOUT_DAEMONS = "Ready, and DaemonSet pods do not exist there yet"
    STARTING_DAEMONS = "Ready, and DaemonSet pods are starting there"
    USABLE = "Ready, and its DaemonSet pods run"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class ExpectedDaemons:
    """Which DaemonSets want a pod on a node, asked once per combination of taints and of labels that any of them reads.

    Thousands of nodes share a handful of combinations.
    """

    daemon_sets: tuple[DaemonSet, ...]
    keys: tuple[str, ...]
    known: dict[tuple[tuple[Taint, ...], tuple[str | None, ...]], tuple[DaemonSet, ...]]

    @classmethod
    def by(cls, daemon_sets: tuple[DaemonSet, ...]) -> "ExpectedDaemons":
        """For these DaemonSets."""
        keys = sorted(set[str]().union(*(each.label_keys for each in daemon_sets)))
        return cls(daemon_sets, tuple(keys), {})

    def on(self, node: Node, taints: tuple[Taint, ...]) -> tuple[DaemonSet, ...]:
        """The DaemonSets that put a pod on the node once it has only these taints."""
        read = taints, tuple([node.labels.get(key) for key in self.keys])
        found = self.known.get(read)
        if found is None:
            found = self.known[read] = tuple(each for each in self.daemon_sets if wants_daemon(each, node, taints))
        return found


def stage_of(node: Node, world: JoinWorld, rules: JoinRules, wanted: ExpectedDaemons) -> Stage:
    """The one stage that holds; earlier cases win."""
    if _is_held(node, rules):
        return Stage.HELD
    if not node.is_ready or any(is_joining_taint(taint) for taint in node.taints):
        return Stage.UNREADY
    return _by_daemons(wanted.on(node, node.taints), world.pods.get(node.name, NO_PODS))


def _is_held(node: Node, rules: JoinRules) -> bool:
    if rules.taint_key and any(taint.key == rules.taint_key for taint in node.taints):
        return True
    return rules.label is not None and node.labels.get(rules.label.key) != rules.label.value


def _by_daemons(expected: tuple[DaemonSet, ...], pods: Iterable[Pod]) -> Stage:
    runs = {
        pod.owner.uid: pod.is_running
        for pod in pods
        if pod.kind is PodKind.DAEMON and pod.owner is not None and not pod.is_terminating
    }
    if any(each.uid not in runs for each in expected):
        return Stage.WITHOUT_DAEMONS
    return Stage.USABLE if all(runs[each.uid] for each in expected) else Stage.STARTING_DAEMONS
