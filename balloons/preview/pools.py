"""Groups of nodes that can grow, as far as a cluster tells: Karpenter's NodePools, or groups by their labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from balloons.preview import calibrate
from balloons.preview.assumed import BOOT_JITTER, BOOT_S
from balloons.preview.births import Birth
from balloons.preview.inputs import NodeShape, PoolFacts
from balloons.view.node_load import EMPTY, NodeLoad
from throttler.kube.node import GROUP_LABELS, INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL, Node, is_joining_taint
from throttler.kube.quantity import minus

POOL_LABELS = (KARPENTER_POOL_LABEL, *GROUP_LABELS, "agentpool", INSTANCE_TYPE_LABEL)
"""Labels that name a node's group, the first that is there; the instance type where no other is."""
PRICE_LABEL = "kube-balloons.github.io/price-per-hour"
HOST_LABEL = "kubernetes.io/hostname"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsWorld:
    """What pools are made from. `loads` by node name; `births` of the last 24 h."""

    nodes: Sequence[Node]
    loads: Mapping[str, NodeLoad]
    births: Sequence[Birth]


def group_of(node: Node) -> str:
    """The name of a node's group; empty where no label tells one."""
    return next((node.labels[label] for label in POOL_LABELS if node.labels.get(label)), "")


def pools_of(world: PoolsWorld, named: Iterable[str] = ()) -> tuple[PoolFacts, ...]:
    """Every group that has nodes, and those that are `named` and have none yet; without ceilings."""
    grouped: dict[str, list[Node]] = {name: [] for name in named}
    for node in world.nodes:
        if CONTROL_PLANE not in node.labels:
            grouped.setdefault(group_of(node), []).append(node)
    if not grouped:
        grouped[""] = []
    members = {node.name: name for name, found in grouped.items() for node in found}
    return tuple(_pool(name, nodes, world, members) for name, nodes in sorted(grouped.items()))


def _pool(name: str, nodes: Sequence[Node], world: PoolsWorld, members: Mapping[str, str]) -> PoolFacts:
    own = [birth for birth in world.births if members.get(birth.name) == name]
    births = own if len(own) >= calibrate.LEAST else world.births
    return PoolFacts(
        name=name,
        nodes=len(nodes),
        warm=sum(1 for node in nodes if node.is_ready and not world.loads.get(node.name, EMPTY).work),
        shape=_shape(nodes, world.loads),
        boot_s=calibrate.boot(births, BOOT_S),
        boot_jitter=calibrate.boot_jitter(births, BOOT_JITTER),
    )


def _shape(nodes: Sequence[Node], loads: Mapping[str, NodeLoad]) -> NodeShape | None:
    """The newest node that is Ready speaks for those to come."""
    node = max((each for each in nodes if each.is_ready), key=lambda each: (each.created_s, each.name), default=None)
    if node is None:
        return None
    return NodeShape(
        instance_type=node.instance_type,
        room=minus(node.allocatable, loads.get(node.name, EMPTY).daemons),
        labels={key: value for key, value in node.labels.items() if key != HOST_LABEL},
        taints=tuple(taint for taint in node.taints if not is_joining_taint(taint)),
        price_per_hour=price_of(node),
    )


def price_of(node: Node) -> float | None:
    """What its label says that an hour of it costs; None where it says nothing."""
    text = node.labels.get(PRICE_LABEL, "")
    return float(text) if text.replace(".", "", 1).isdecimal() and text.isascii() else None
