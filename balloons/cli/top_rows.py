"""Nodes by pool and zone: how many are ready, warm, busy, and how full. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from balloons.cli.documents import NodeGroupItem, NodeGroupListDocument, RequestedItem
from balloons.cli.table import NONE
from balloons.preview.from_cluster import price_of
from throttler.kube.node import GROUP_LABELS, INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantity import total

NO_PRICES: Mapping[str, float] = MappingProxyType({})
POOL_LABELS = (KARPENTER_POOL_LABEL, *GROUP_LABELS, INSTANCE_TYPE_LABEL)
"""By the first of these that a node has it is grouped: node pools of the autoscalers and clouds, else its size."""
STATES = ("busy", "warm", "idle", "joining", "sick")
COLUMNS = ("POOL", "ZONE", "NODES", "READY", *map(str.upper, STATES), "CPU", "MEMORY", "GPU", "COST/H")

FIRST_TO_GO = ("MEMORY", "CPU", "READY", "COST/H")
JOIN_MOST_S = 900.0
"""After so long both autoscalers give a machine up: what is not ready then is sick."""


@dataclass(slots=True)
class Group:
    """The nodes of one pool in one zone. Amounts are milli-units, of what real work requests and of what there is."""

    nodes: int = 0
    ready: int = 0
    busy: int = 0
    warm: int = 0
    idle: int = 0
    joining: int = 0
    sick: int = 0
    price_per_hour: float | None = None
    """Of those nodes whose price is known; None where that is none of them."""
    used: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)


def groups(
    nodes: Iterable[Node], pods: Iterable[Pod], now_s: float, prices: Mapping[str, float] = NO_PRICES
) -> dict[tuple[str, str], Group]:
    """The groups by pool and zone, sorted. `now_s` is the epoch's; `prices` by instance type, `*` for every other."""
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node and not pod.is_finished:
            on_node[pod.node].append(pod)
    found: dict[tuple[str, str], Group] = defaultdict(Group)
    for node in nodes:
        group = found[_pool_of(node), node.zone]
        _add(group, node, on_node.get(node.name, []), now_s)
        price = prices.get(node.instance_type, price_of(node))
        price = prices.get("*") if price is None else price
        if price is not None:
            group.price_per_hour = (group.price_per_hour or 0.0) + price
    return dict(sorted(found.items()))


def rows(found: Mapping[tuple[str, str], Group]) -> list[dict[str, str]]:
    """One row for each group."""
    return [_row(pool, zone, group) for (pool, zone), group in found.items()]


def document(found: Mapping[tuple[str, str], Group]) -> NodeGroupListDocument:
    """For machines; shares are of what is allocatable."""
    return NodeGroupListDocument(items=[_item(*each) for each in found.items()])


def _add(group: Group, node: Node, pods: Sequence[Pod], now_s: float) -> None:
    """A node is in one of the five states: not ready and young is joining, not ready and old is sick."""
    work = [pod for pod in pods if pod.kind is PodKind.WORK and pod.priority >= 0]
    is_held = any(pod.kind is PodKind.BALLOON or (pod.kind is PodKind.WORK and pod.priority < 0) for pod in pods)
    group.nodes += 1
    group.ready += node.is_ready
    group.joining += not node.is_ready and now_s - node.created_s < JOIN_MOST_S
    group.sick += not node.is_ready and now_s - node.created_s >= JOIN_MOST_S
    group.busy += bool(work) and node.is_ready
    group.warm += is_held and not work and node.is_ready
    group.idle += not work and not is_held and node.is_ready
    group.used = total((group.used, *(pod.requests for pod in work)))
    group.there = total((group.there, node.allocatable))


def _pool_of(node: Node) -> str:
    return next((node.labels[label] for label in POOL_LABELS if label in node.labels), NONE)


def _row(pool: str, zone: str, group: Group) -> dict[str, str]:
    shares = _shares(group)
    counts = {name.upper(): str(getattr(group, name)) for name in ("nodes", "ready", *STATES)}
    amounts = {name.upper(): _percent(shares[name]) for name in ("cpu", "memory", "gpu")}
    cost = NONE if group.price_per_hour is None else f"{group.price_per_hour:,.2f}"
    return {"POOL": pool, "ZONE": zone or NONE, **counts, **amounts, "COST/H": cost}


def _item(key: tuple[str, str], group: Group) -> NodeGroupItem:
    counts = {name: getattr(group, name) for name in ("nodes", "ready", *STATES)}
    requested = RequestedItem(**_shares(group))
    return NodeGroupItem(pool=key[0], zone=key[1], **counts, requested=requested, price_per_hour=group.price_per_hour)


def _shares(group: Group) -> dict[str, float | None]:
    gpus = [name for name in group.there if name.endswith("/gpu")]
    parts = {"cpu": ["cpu"], "memory": ["memory"], "gpu": gpus}
    return {name: _share(group, keys) for name, keys in parts.items()}


def _share(group: Group, names: Sequence[str]) -> float | None:
    there = sum(group.there.get(name, 0) for name in names)
    return round(sum(group.used.get(name, 0) for name in names) / there, 4) if there else None


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"
