"""A small cluster made of values: builders for snapshots, and a world that carries decisions out.

The world stands in for the API server, the ReplicaSet controller and the scheduler in unit tests: it applies a
decision's actions, binds what fits, and gives the next snapshot. It knows nothing about why it was made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    Decision,
    DeleteObject,
    LeaveNode,
    MarkBalloon,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.view.index_and_snapshot import (
    Deployment,
    DeploymentStatus,
    FailedBalloon,
    Index,
    Now,
    PriorityClass,
    Snapshot,
    StoredObject,
)
from balloons.view.node_load_and_devices import NodeLoad, load_of
from balloons.view.tenancy_and_claim import Claim, Selectors, Tenancy, pool_of
from throttler.kube.metadata import Metadata, ObjectKey, OwnerReference
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL, ZONE_LABEL, Node
from throttler.kube.pod import POOL_LABEL, SHAPE_LABEL, Pod, PodKind, Scheduling
from throttler.kube.quantities_and_durations import fits, minus, parse_resources, total
from throttler.kube.selectors import LabelSelector, Requirement, meets
from throttler.kube.taints import Toleration, untolerated
from throttler.levers.lever_and_reasons import Lane

NOW = Now(1_000.0, datetime(2026, 11, 21, 12, 0, tzinfo=UTC))
POOL_KEY = ObjectKey("team-a", "gpu")
CLASS = PriorityClass(Metadata("kube-balloons"), value=-10, preemption_policy="Never")
SIZE = parse_resources({"cpu": "16", "memory": "64Gi", "pods": "110"})


def later(now: Now, seconds: float) -> Now:
    """The moment `seconds` after another, on both clocks."""
    return Now(now.monotonic_s + seconds, now.wall + timedelta(seconds=seconds))


def a_node(name: str, **changes: Any) -> Node:
    """A Ready node of the pool's selector with 16 cores and 64 GiB."""
    labels = {"pool": "gpu", "kubernetes.io/hostname": name, **changes.pop("labels", {})}
    node = Node(
        name,
        f"uid-{name}",
        "1",
        labels,
        SIZE,
        conditions=frozenset({("Ready", "True")}),
        zone=labels.get(ZONE_LABEL, ""),
        instance_type=labels.get(INSTANCE_TYPE_LABEL, ""),
        is_uninitialized=KARPENTER_POOL_LABEL in labels and KARPENTER_INITIALIZED_LABEL not in labels,
    )
    return msgspec.structs.replace(node, **changes)


def nodes(count: int, prefix: str = "n", **changes: Any) -> dict[str, Node]:
    """Several such nodes by name."""
    made = [a_node(f"{prefix}{i:03}", **changes) for i in range(count)]
    return {node.name: node for node in made}


def a_pool(name: str = "gpu", *, created_s: float = 0.0, namespace: str = "team-a", **spec: Any) -> BalloonPool:
    """A pool that selects `pool=gpu` and holds every idle node unless told otherwise."""
    spec = {"nodes": PoolNodes(LabelSelector({"pool": "gpu"})), "mode": Mode.HOLD, **spec}
    created = datetime.fromtimestamp(created_s, UTC)
    metadata = Metadata(name, namespace, uid=f"uid-{name}", generation=1, creation_timestamp=created)
    return BalloonPool(metadata, PoolSpec(**spec))


def work(name: str, node: str = "", *, cpu: str = "12", priority: int = 0, **changes: Any) -> Pod:
    """A real pod, bound when it names a node, else waiting and refused once by the scheduler."""
    requests = parse_resources({"cpu": cpu, "memory": "1Gi", "pods": "1"})
    scheduling = changes.pop("scheduling", None) or (None if node else Scheduling(is_tried=True))
    pod = Pod(
        ObjectKey("jobs", name),
        f"uid-{name}",
        "1",
        node,
        priority,
        requests,
        is_running=bool(node),
        scheduling=scheduling,
    )
    return msgspec.structs.replace(pod, **changes)


def daemon(name: str, node: str, cpu: str = "500m") -> Pod:
    """A DaemonSet pod."""
    return work(name, node, cpu=cpu, kind=PodKind.DAEMON, owner=OwnerReference("DaemonSet", "ds", controller=True))


def claim_nodes(
    pools: Iterable[BalloonPool], nodes: Mapping[str, Node], loads: Mapping[str, NodeLoad]
) -> dict[ObjectKey, Claim]:
    """Which nodes each of the pools claims."""
    return Selectors(pools).claims(nodes.values(), loads)


def a_lane(allowance: int) -> tuple[Lane]:
    """What a throttle says that lets so many nodes start, whosever they are."""
    return (Lane(LabelSelector(), allowance),)


@dataclass
class World:
    """Objects by name; `apply` carries a decision out, `settle` lets controllers and scheduler do their work."""

    pools: dict[ObjectKey, BalloonPool] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[ObjectKey, Pod] = field(default_factory=dict)
    deployments: dict[ObjectKey, Deployment] = field(default_factory=dict)
    buffers: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    templates: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    version: int = 10
    log: list[Action] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    """Nodes whose kubelet admits no balloon."""
    failed: dict[ObjectKey, FailedBalloon] = field(default_factory=dict)

    @classmethod
    def of(cls, *pools: BalloonPool, nodes: Mapping[str, Node], pods: Iterable[Pod] = ()) -> "World":
        """A world with these pools, nodes and pods, and no balloons yet."""
        return cls({p.key: p for p in pools}, dict(nodes), {p.key: p for p in pods})

    def snapshot(self, **changes: Any) -> Snapshot:
        """What a complete view of this world says."""
        live = list(self.pods.values())
        seen = replace(
            Snapshot(
                pools=dict(self.pools),
                nodes=dict(self.nodes),
                loads=self.loads(),
                unbound={key: self._unbound(key) for key in self.pools.keys() | set(map(pool_of, self.balloons()))},
                failed={key: self._failed(key) for key in self.pools},
                waiting=tuple(p for p in live if p.kind is PodKind.WORK and not p.node),
                deployments=dict(self.deployments),
                buffers=dict(self.buffers),
                templates=dict(self.templates),
                priority_classes={"kube-balloons": CLASS},
                server_minor=36,
            ),
            **changes,
        )
        return replace(seen, claims=claim_nodes(seen.pools.values(), seen.nodes, seen.loads))

    def index(self, tenancy: Tenancy | None = None) -> Index:
        """All of it but buffers and templates, filed as the service files it."""
        index = Index(tenancy)
        for node in self.nodes.values():
            index.change_node(None, node)
        for pod in self.pods.values():
            index.change_pod(None, pod)
        for pool in self.pools.values():
            index.change_pool(None, pool)
        for deployment in self.deployments.values():
            index.change_deployment(None, deployment)
        index.change_priority_class(None, CLASS)
        return index

    def loads(self) -> dict[str, NodeLoad]:
        """The load of every node."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if pod.node:
                by_node.setdefault(pod.node, []).append(pod)
        return {name: load_of(pods, -10) for name, pods in by_node.items()}

    def _unbound(self, pool: ObjectKey) -> tuple[Pod, ...]:
        return tuple(p for p in self.balloons() if not p.node and ObjectKey(p.key.namespace, p.pool) == pool)

    def _failed(self, pool: ObjectKey) -> tuple[FailedBalloon, ...]:
        return tuple(f for f in self.failed.values() if ObjectKey(f.key.namespace, f.pool) == pool)

    def balloons(self, pool: str = "") -> list[Pod]:
        """Balloon pods, of one pool or of all."""
        return [p for p in self.pods.values() if p.kind is PodKind.BALLOON and pool in ("", p.pool)]

    def replicas(self) -> int:
        """Balloons wanted by all Deployments."""
        return sum(d.replicas for d in self.deployments.values())

    def apply(self, decided: Decision, count: int | None = None) -> None:
        """Carry out a decision's actions in order, or only the first `count` of them (a crash)."""
        actions = [a for decision in decided.pools if not decision.is_dry_run for a in decision.actions]
        for action in [*actions, *decided.sweeps][:count]:
            self.log.append(action)
            self._do(action)

    def _do(self, action: Action) -> None:
        self.version += 1
        match action:
            case ApplyObject(key=key, kind="Deployment", manifest=manifest):
                self._store(key, manifest)
            case ApplyObject(key=key, kind=kind, manifest=manifest):
                self._store_other(key, kind, manifest)
            case DeleteObject(key=key, kind=kind, uid=uid):
                self._delete(self._of(kind), key, uid)
            case MarkBalloon(key=key, cost=cost):
                self._mark(key, cost)
            case ReleaseBalloon(key=key, uid=uid) | LeaveNode(key=key, uid=uid):
                self._delete_balloon(key, uid)
            case AnnotateNode(node=name, annotations=annotations):
                self._annotate(name, annotations)
            case RemoveFailed(key=key, uid=uid):
                assert self.failed.pop(key).uid == uid

    def _store(self, key: ObjectKey, manifest: Mapping[str, Any]) -> None:
        before = self.deployments.get(key)
        metadata = Metadata(
            key.name,
            key.namespace,
            uid=before.metadata.uid if before else f"uid-{key.name}-{self.version}",
            resource_version=str(self.version),
            labels=dict(manifest["metadata"]["labels"]),
            annotations=dict(manifest["metadata"].get("annotations", {})),
        )
        self.deployments[key] = Deployment(
            metadata, dict(manifest["spec"]), before.status if before else DeploymentStatus()
        )

    def _delete(self, stored: dict[ObjectKey, Any], key: ObjectKey, uid: str) -> None:
        if key in stored and stored[key].metadata.uid == uid:
            del stored[key]

    def _delete_balloon(self, key: ObjectKey, uid: str) -> None:
        if key in self.pods and self.pods[key].uid == uid:
            assert self.pods[key].kind is PodKind.BALLOON, "only balloons may ever be deleted"
            del self.pods[key]

    def _mark(self, key: ObjectKey, cost: int) -> None:
        if key in self.pods:
            self.pods[key] = msgspec.structs.replace(self.pods[key], deletion_cost=cost)

    def _of(self, kind: str) -> dict[ObjectKey, Any]:
        kinds: dict[str, dict[ObjectKey, Any]] = {
            "Deployment": self.deployments,
            "CapacityBuffer": self.buffers,
            "PodTemplate": self.templates,
        }
        return kinds[kind]

    def _store_other(self, key: ObjectKey, kind: str, manifest: Mapping[str, Any]) -> None:
        stored = self._of(kind).get(key)
        metadata = Metadata(
            key.name,
            key.namespace,
            uid=stored.metadata.uid if stored else f"uid-{key.name}-{self.version}",
            resource_version=str(self.version),
            labels=dict(manifest["metadata"]["labels"]),
            annotations=dict(manifest["metadata"].get("annotations", {})),
        )
        self._of(kind)[key] = StoredObject(metadata, manifest.get("spec", {}), manifest.get("template", {}))

    def remove_node(self, name: str) -> None:
        """The node goes with all its pods."""
        del self.nodes[name]
        self.pods = {key: pod for key, pod in self.pods.items() if pod.node != name}

    def change_node(self, name: str, **changes: Any) -> None:
        """The node as it is, but for these fields."""
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], **changes)

    def change_pool(self, key: ObjectKey = POOL_KEY, **spec: Any) -> None:
        """The pool's spec as it is, but for these fields."""
        pool = self.pools[key]
        self.pools[key] = msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, **spec))

    def add(self, *pods: Pod) -> None:
        """Pods, by name."""
        self.pods |= {pod.key: pod for pod in pods}

    def _annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        merged = {**self.nodes[name].annotations, **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], annotations=kept)

    def settle(self) -> None:
        """ReplicaSets make and remove balloons; then everything that fits is bound, by priority, preempting."""
        for deployment in self.deployments.values():
            self._scale(deployment)
        owners = {
            (d.metadata.namespace, d.metadata.labels[SHAPE_LABEL], d.metadata.labels[POOL_LABEL])
            for d in self.deployments.values()
        }
        for balloon in self.balloons():
            if (balloon.key.namespace, balloon.shape, balloon.pool) not in owners:
                del self.pods[balloon.key]
        for pod in sorted((p for p in self.pods.values() if not p.node), key=lambda p: (-p.priority, p.key)):
            self._bind(pod)
        for key, deployment in self.deployments.items():
            self.deployments[key] = msgspec.structs.replace(deployment, status=self._status(deployment))

    def _status(self, deployment: Deployment) -> DeploymentStatus:
        own = self._made_for(deployment)
        ready = sum(1 for pod in own if pod.node)
        return msgspec.structs.replace(
            deployment.status, replicas=len(own), ready_replicas=ready, updated_replicas=len(own)
        )

    def _made_for(self, deployment: Deployment) -> list[Pod]:
        labels, namespace = deployment.metadata.labels, deployment.metadata.namespace
        return [
            p
            for p in self.balloons(labels[POOL_LABEL])
            if p.shape == labels[SHAPE_LABEL] and p.key.namespace == namespace
        ]

    def _scale(self, deployment: Deployment) -> None:
        labels, namespace = deployment.metadata.labels, deployment.metadata.namespace
        own = self._made_for(deployment)
        # The ReplicaSet's order: unbound first, then the lowest deletion cost.
        own.sort(key=lambda p: (bool(p.node), p.deletion_cost, p.key))
        for surplus in own[: max(0, len(own) - deployment.replicas)]:
            del self.pods[surplus.key]
        template = deployment.spec["template"]["spec"]
        requests = parse_resources(template["containers"][0]["resources"]["requests"])
        for _ in range(deployment.replicas - len(own)):
            self.version += 1
            key = ObjectKey(namespace, f"{deployment.metadata.name}-{self.version}")
            self.pods[key] = Pod(
                key,
                f"uid-{self.version}",
                str(self.version),
                "",
                -10,
                {**requests, "pods": 1000},
                kind=PodKind.BALLOON,
                owner=OwnerReference("ReplicaSet", f"{deployment.metadata.name}-5f7d", controller=True),
                pool=labels[POOL_LABEL],
                shape=labels[SHAPE_LABEL],
                created_s=float(self.version),
            )

    def _bind(self, pod: Pod) -> None:
        for node in sorted(self.nodes.values(), key=lambda n: (*self._work_on(n), n.name)):
            here = [p for p in self.pods.values() if p.node == node.name]
            if node.is_cordoned or not node.is_ready or not self._wants(pod, node, here):
                continue
            stays = [p for p in here if p.kind is not PodKind.BALLOON or pod.kind is PodKind.BALLOON]
            if fits(pod.requests, minus(node.allocatable, total(p.requests for p in here))):
                victims: list[Pod] = []
            elif fits(pod.requests, minus(node.allocatable, total(p.requests for p in stays))):
                victims = [p for p in here if p not in stays]
            else:
                continue
            if node.name in self.refuses and pod.kind is PodKind.BALLOON:
                self._fail(self.pods.pop(pod.key), node)
                return
            for victim in victims:
                del self.pods[victim.key]
            self.pods[pod.key] = msgspec.structs.replace(
                pod, node=node.name, is_running=True, is_ready=True, scheduling=None
            )
            return

    def _fail(self, pod: Pod, node: Node) -> None:
        self.failed[pod.key] = FailedBalloon(
            pod.key, pod.uid, node.name, pod.pool, pod.created_s, "UnexpectedAdmissionError"
        )

    def _work_on(self, node: Node) -> tuple[int, int]:
        """The scheduler's default: the emptiest node first, and among equals none more often than another."""
        work = sum(p.requests.get("cpu", 0) for p in self.pods.values() if p.node == node.name)
        return work, sum(each.node == node.name for each in self.failed.values())

    def _wants(self, pod: Pod, node: Node, here: list[Pod]) -> bool:
        if pod.kind is not PodKind.BALLOON:
            tolerations = pod.scheduling.tolerations if pod.scheduling else ()
            return untolerated(node.taints, tolerations) is None
        if any(p.kind is PodKind.BALLOON and (p.key.namespace, p.pool) == (pod.key.namespace, pod.pool) for p in here):
            return False
        template = self._template_of(pod)
        tolerations = msgspec.convert(template.get("tolerations", []), tuple[Toleration, ...])
        required = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        terms = [msgspec.convert(t["matchExpressions"], list[Requirement]) for t in required["nodeSelectorTerms"]]
        is_selected = any(all(meets(rule, node.labels) for rule in term) for term in terms)
        return is_selected and untolerated(node.taints, tolerations) is None

    def _template_of(self, balloon: Pod) -> dict[str, Any]:
        assert balloon.owner is not None
        owner = self.deployments[ObjectKey(balloon.key.namespace, balloon.owner.name.rpartition("-")[0])]
        return dict(owner.spec["template"]["spec"])
