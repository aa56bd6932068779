"""A cluster in the service's own index, in the state in which nothing is left to do."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Decision, Memory
from balloons.view.index_and_snapshot import Circumstances, Deployment, Index, Now, PriorityClass, Snapshot
from benchmarks.decide import population
from benchmarks.decide.population import NAMESPACE, POOLS, Place, Reader, work_on
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import PRIORITY_CLASS, Pod
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Toleration

SETTINGS = ImageSettings()
_COMPLETE = Circumstances(server_minor=36)
_CREATED = datetime(2026, 11, 20, tzinfo=UTC)


@dataclass
class Cluster:
    """The index and the objects in it, as the caches would hold them."""

    count: int
    reader: Reader = field(default_factory=Reader)
    index: Index = field(default_factory=Index)
    nodes: list[Node] = field(default_factory=list)
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    started_at: float = field(default_factory=time.monotonic)

    def fill(self) -> None:
        """Add pools, nodes and pods."""
        ours = PriorityClass(Metadata(PRIORITY_CLASS), value=-10, preemption_policy="Never")
        self.index.change_priority_class(None, ours)
        for name in POOLS:
            self.index.change_pool(None, _pool(name))
        self.nodes = list(population.nodes(self.count, self.reader))
        for node in self.nodes:
            self.index.change_node(None, node)
        self._add(population.pods(self.count, self.reader))

    def _add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.pods.setdefault(pod.node, []).append(pod)
            self.index.change_pod(None, pod)

    def snapshot(self) -> Snapshot:
        """The view as it is now."""
        return self.index.snapshot(_COMPLETE)

    def decide(self, snapshot: Snapshot, memory: Memory) -> tuple[Decision, Memory]:
        """One decision, at this moment."""
        return decide(snapshot, memory, SETTINGS, Now(time.monotonic(), datetime.now(UTC)))

    def apply(self, decided: Decision) -> int:
        """Store the objects that a decision writes, as the API server would; returns how many."""
        written = [
            action for decision in decided.pools for action in decision.actions if isinstance(action, ApplyObject)
        ]
        for action in written:
            metadata = Metadata(
                action.key.name,
                action.key.namespace,
                uid=action.key.name,
                labels=dict(action.manifest["metadata"]["labels"]),
                annotations=dict(action.manifest["metadata"]["annotations"]),
            )
            self.index.change_deployment(None, Deployment(metadata, dict(action.manifest["spec"])))
        return len(written)

    def change(self, share: float, run: int) -> int:
        """Change a share of nodes and pods: a heartbeat each, and work takes or leaves the node; returns how many."""
        step, changed = round(1 / share), 0
        for turn, number in enumerate(range(run % step, self.count, step)):
            self._change_node(number)
            self._change_pods(Place(number), run, is_taken=bool(turn % 2))
            changed += 2
        return changed

    def _change_node(self, number: int) -> None:
        before = self.nodes[number]
        after = msgspec.structs.replace(before, resource_version=before.resource_version + "1")
        self.nodes[number] = after
        self.index.change_node(before, after)

    def _change_pods(self, place: Place, run: int, *, is_taken: bool) -> None:
        """On a node that is taken, work arrives in its balloon's place; on the others the last pod's status changes."""
        pods = self.pods[place.name]
        last = pods.pop()
        if place.is_busy or not is_taken:
            after = msgspec.structs.replace(last, resource_version=last.resource_version + "1")
            self.index.change_pod(last, after)
        else:
            self.index.change_pod(last, None)
            after = self.reader.pod(work_on(place, run))
            self.index.change_pod(None, after)
        pods.append(after)


def _pool(name: str) -> BalloonPool:
    tolerations = (Toleration(key="nvidia.com/gpu", operator="Exists"),) if name == "gpu" else ()
    nodes = PoolNodes(LabelSelector({"pool": name}), tolerations)
    metadata = Metadata(name, NAMESPACE, uid=f"uid-{name}", generation=1, creation_timestamp=_CREATED)
    return BalloonPool(metadata, PoolSpec(nodes, Mode.HOLD))


def targets(decided: Decision) -> dict[ObjectKey, tuple[int, int, int]]:
    """Per pool: nodes, busy, warm; what the caller knows must come out."""
    return {d.pool: (d.status.nodes, d.status.busy, d.status.warm) for d in decided.pools}
