"""Nodes by pool and zone: how many are ready, warm, busy, and how full. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from balloons.cli.documents import NodeGroupItem, NodeGroupListDocument, RequestedItem
from balloons.cli.table import NONE
from throttler.kube.node import GROUP_LABELS, INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.resources import total

POOL_LABELS = (KARPENTER_POOL_LABEL, *GROUP_LABELS, INSTANCE_TYPE_LABEL)
"""By the first of these that a node has it is grouped: node pools of the autoscalers and clouds, else its size."""
COLUMNS = ("POOL", "ZONE", "NODES", "READY", "BUSY", "WARM", "IDLE", "CPU", "MEMORY", "GPU")

FIRST_TO_GO = ("MEMORY", "CPU", "READY")


@dataclass(slots=True)
class Group:
    """The nodes of one pool in one zone. Amounts are milli-units, of what real work requests and of what there is."""

    nodes: int = 0
    ready: int = 0
    busy: int = 0
    warm: int = 0
    idle: int = 0
    used: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)


def groups(nodes: Iterable[Node], pods: Iterable[Pod]) -> dict[tuple[str, str], Group]:
    """The groups by pool and zone, sorted."""
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node and not pod.is_finished:
            on_node[pod.node].append(pod)
    found: dict[tuple[str, str], Group] = defaultdict(Group)
    for node in nodes:
        _add(found[_pool_of(node), node.zone], node, on_node.get(node.name, []))
    return dict(sorted(found.items()))


def rows(found: Mapping[tuple[str, str], Group]) -> list[dict[str, str]]:
    """One row for each group."""
    return [_row(pool, zone, group) for (pool, zone), group in found.items()]


def document(found: Mapping[tuple[str, str], Group]) -> NodeGroupListDocument:
    """For machines; shares are of what is allocatable."""
    return NodeGroupListDocument(items=[_item(*each) for each in found.items()])


def _add(group: Group, node: Node, pods: Sequence[Pod]) -> None:
    work = [pod for pod in pods if pod.kind is PodKind.WORK and pod.priority >= 0]
    is_held = any(pod.kind is PodKind.BALLOON or (pod.kind is PodKind.WORK and pod.priority < 0) for pod in pods)
    group.nodes += 1
    group.ready += node.is_ready
    group.busy += bool(work)
    group.warm += is_held and not work and node.is_ready
    group.idle += not work and not is_held and node.is_ready
    group.used = total((group.used, *(pod.requests for pod in work)))
    group.there = total((group.there, node.allocatable))


def _pool_of(node: Node) -> str:
    return next((node.labels[label] for label in POOL_LABELS if label in node.labels), NONE)


def _row(pool: str, zone: str, group: Group) -> dict[str, str]:
    shares = _shares(group)
    counts = {name.upper(): str(getattr(group, name)) for name in ("nodes", "ready", "busy", "warm", "idle")}
    amounts = {name.upper(): _percent(shares[name]) for name in ("cpu", "memory", "gpu")}
    return {"POOL": pool, "ZONE": zone or NONE, **counts, **amounts}


def _item(key: tuple[str, str], group: Group) -> NodeGroupItem:
    counts = {name: getattr(group, name) for name in ("nodes", "ready", "busy", "warm", "idle")}
    return NodeGroupItem(pool=key[0], zone=key[1], **counts, requested=RequestedItem(**_shares(group)))


def _shares(group: Group) -> dict[str, float | None]:
    gpus = [name for name in group.there if name.endswith("/gpu")]
    parts = {"cpu": ["cpu"], "memory": ["memory"], "gpu": gpus}
    return {name: _share(group, keys) for name, keys in parts.items()}


def _share(group: Group, names: Sequence[str]) -> float | None:
    there = sum(group.there.get(name, 0) for name in names)
    return round(sum(group.used.get(name, 0) for name in names) / there, 4) if there else None


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"
