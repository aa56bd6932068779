"""Upper bounds on nodes that others set: Karpenter's limits, CapacityQuotas, the sizes of cluster-autoscaler's groups.

A bound that our own throttle holds in force is no ceiling: it moves as nodes join. There the user's own value counts.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from balloons.preview.inputs import Ceiling, PoolFacts
from throttler.kube.cluster_autoscaler import NODES, CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.quantity import QuantityError, Resources, parse_quantity
from throttler.kube.selectors import LabelSelector, can_match, matches
from throttler.levers.lever import THROTTLE_LABEL
from throttler.levers.saved_limits import read_mark

_TARGET, _MOST = "cloudProviderTarget:", "maxSize:"


def of_node_pool(node_pool: NodePool, size: Resources | None) -> Ceiling | None:
    """What `spec.limits` leave; None without limits, or where nothing tells how large a machine is."""
    limits = _limits(node_pool)
    used = node_pool.status.resources
    left = [(_room(limits[name], used.get(name, "0"), _each(name, size)), name) for name in sorted(limits)]
    known = [(room, name) for room, name in left if room is not None]
    if not known:
        return None
    room, name = min(known)
    detail = f"limits.{name} {limits[name]}, used {used.get(name, '0')}"
    return Ceiling(
        name=f"NodePool/{node_pool.metadata.name}",
        nodes=room,
        detail=detail,
        resource=name,
        used=(_milli(used.get(name, "0")) or 0) / 1000,
        per_node=_each(name, size) / 1000,
    )


def of_quota(quota: CapacityQuota, nodes: Iterable[Node]) -> Ceiling | None:
    """What is left of `limits.resources.nodes`; None where it has no such limit or is not enforced."""
    valid = quota.validity
    limit = _milli(quota.spec.limits.resources.get(NODES))
    if limit is None or valid is None or valid.status != "True" or THROTTLE_LABEL in quota.metadata.labels:
        return None
    selector = quota.spec.selector or LabelSelector()
    used = sum(1 for node in nodes if matches(selector, node.labels))
    return Ceiling(
        name=f"CapacityQuota/{quota.metadata.name}",
        nodes=max(0, limit // 1000 - used),
        detail=f"nodes {limit // 1000}, used {used}",
        resource=NODES,
        used=used,
        per_node=1,
    )


def of_groups(status_text: str) -> Ceiling | None:
    """What all of cluster-autoscaler's groups together may still grow by, as its ConfigMap says."""
    target, most = _sum(status_text, _TARGET), _sum(status_text, _MOST)
    if target is None or most is None:
        return None
    return Ceiling(
        name="cluster-autoscaler's groups", nodes=max(0, most - target), detail=f"maxSize {most}, now {target}"
    )


def lift(ceiling: Ceiling, nodes: int) -> str:
    """The command that makes room for so many more nodes; empty where none of kubectl does."""
    kind, _, name = ceiling.name.partition("/")
    if not name or not ceiling.resource:
        return ""
    limit: dict[str, Any] = {ceiling.resource: str(ceil(ceiling.used + nodes * ceiling.per_node))}
    if kind == "CapacityQuota":
        limit = {"resources": {ceiling.resource: int(limit[ceiling.resource])}}
    patch = json.dumps({"spec": {"limits": limit}}, separators=(",", ":"))
    return f"kubectl patch {kind.lower()} {shlex.quote(name)} --type merge -p {shlex.quote(patch)}"


def applies(quota: CapacityQuota, pool: PoolFacts) -> bool:
    """Whether new nodes of the pool would count; all of them where the pool's labels are not known."""
    labels = pool.shape.labels if pool.shape else {KARPENTER_POOL_LABEL: pool.name}
    return can_match(quota.spec.selector or LabelSelector(), labels)


def with_ceilings(pool: PoolFacts, ceilings: Iterable[Ceiling | None]) -> PoolFacts:
    """The pool with these as well, the lowest first."""
    found = [*pool.ceilings, *(each for each in ceilings if each is not None)]
    return replace(pool, ceilings=tuple(sorted(found, key=lambda each: (each.nodes, each.name))))


def _limits(node_pool: NodePool) -> Mapping[str, Any]:
    """The user's own: what our throttle put in their place is taken back when it is done."""
    own = dict(node_pool.spec.limits or {})
    mark = read_mark(node_pool.metadata)
    if mark is None:
        return own
    kept = {name: value for name, value in own.items() if name not in mark.ceiling}
    return kept | {name: value for name, value in mark.original.items() if value is not None}


def _each(name: str, size: Resources | None) -> int:
    """Milli-units of one machine; 0 where it is not known."""
    return 1000 if name == NODES else (size or {}).get(name, 0)


def _room(limit: Any, used: Any, each: int) -> int | None:
    most, now = _milli(limit), _milli(used)
    return None if most is None or now is None or not each else max(0, most - now) // each


def _milli(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else parse_quantity(str(value))
    except QuantityError:
        return None


def _sum(text: str, key: str) -> int | None:
    """Over all lines `key: N`; None where there is none. The ConfigMap has one scalar to a line."""
    found = [line.strip().removeprefix(key).strip() for line in text.splitlines() if line.strip().startswith(key)]
    numbers = [int(each) for each in found if each.isdecimal() and each.isascii() and len(each) < 10]
    return sum(numbers) if numbers else None
