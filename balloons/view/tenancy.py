"""Whose pools are served, and what the operator lets them ask for. Pure.

A pool that is refused here is as good as absent for all others: it claims no node, shows none, and costs no decision.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from balloons.api.pool import BalloonPool, PoolSpec
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector

EVERY_NAMESPACE = "*"
"""In `node_labels`: what holds for namespaces that have no entry of their own."""


class Bound(enum.Enum):
    """What a pool may be refused for, by the name that flags, chart values and sentences share."""

    NAMESPACES = "namespaces"
    NODE_LABELS = "nodeLabels"
    MAX_SIZE = "maxSize"
    POOLS = "poolsPerNamespace"
    SCHEDULES = "schedulesPerNamespace"
    SELECTOR_VALUES = "selectorValues"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The bound that a pool breaks, and how."""

    bound: Bound
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The namespaces that are served and the bounds of their pools; None and empty bound nothing.

    Raises ValueError when a bound is out of its range.
    """

    namespaces: frozenset[str] = frozenset()
    """Namespaces whose pools are served; empty: all."""
    node_labels: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """By namespace: node labels (key, value), one of which a selector there must ask for."""
    max_size: int | None = None
    """Largest `maxSize` of a pool, in nodes."""
    pools_per_namespace: int | None = None
    """Pools of one namespace; the oldest are served."""
    schedules_per_namespace: int | None = None
    """Schedules of all pools of one namespace together; each costs time at every decision."""
    selector_values: int | None = None
    """Values in the `matchExpressions` of one selector; each may be compared with each node."""

    def __post_init__(self) -> None:
        for name in ("max_size", "pools_per_namespace", "schedules_per_namespace", "selector_values"):
            bound = getattr(self, name)
            if bound is not None and bound < 0:
                raise ValueError(f"{name} {bound}: accepted are 0 and more")

    def serves(self, namespace: str) -> bool:
        """Whether pools of this namespace are served at all."""
        return not self.namespaces or namespace in self.namespaces

    def refused(self, pools: Iterable[BalloonPool]) -> dict[ObjectKey, Refusal]:
        """The pools that are not served, with the first bound that each breaks; older pools come first."""
        found: dict[ObjectKey, Refusal] = {}
        counts: dict[str, tuple[int, int]] = {}
        for pool in sorted(pools, key=lambda pool: (pool.metadata.created_s, pool.key)):
            namespace = pool.key.namespace
            before, schedules = counts.get(namespace, (0, 0))
            refusal = next(self._breaches(pool, before, schedules), None)
            if refusal is None:
                counts[namespace] = before + 1, schedules + len(pool.spec.schedules)
            else:
                found[pool.key] = refusal
        return found

    def _breaches(self, pool: BalloonPool, pools: int, schedules: int) -> Iterator[Refusal]:
        namespace, spec = pool.key.namespace, pool.spec
        if not self.serves(namespace):
            served = ", ".join(sorted(self.namespaces))
            yield Refusal(Bound.NAMESPACES, f"namespace {namespace} is not served; served: {served}")
            return
        if self.pools_per_namespace is not None and pools >= self.pools_per_namespace:
            yield Refusal(Bound.POOLS, f"namespace {namespace} has {pools} older pools; accepted: {pools}")
        total = schedules + len(spec.schedules)
        if self.schedules_per_namespace is not None and total > self.schedules_per_namespace and spec.schedules:
            accepted = self.schedules_per_namespace
            yield Refusal(Bound.SCHEDULES, f"with this pool {namespace} has {total} schedules; accepted: {accepted}")
        values = sum(len(part.values) for part in spec.nodes.selector.match_expressions)
        if self.selector_values is not None and values > self.selector_values:
            yield Refusal(Bound.SELECTOR_VALUES, f"the selector has {values} values; accepted: {self.selector_values}")
        yield from self._size_breach(spec)
        yield from self._label_breach(namespace, spec.nodes.selector)

    def _size_breach(self, spec: PoolSpec) -> Iterator[Refusal]:
        if self.max_size is None:
            return
        if spec.max_size is None:
            yield Refusal(Bound.MAX_SIZE, f"maxSize is not set; accepted: up to {self.max_size}")
        elif spec.max_size > self.max_size:
            yield Refusal(Bound.MAX_SIZE, f"maxSize is {spec.max_size}; accepted: up to {self.max_size}")

    def _label_breach(self, namespace: str, selector: LabelSelector) -> Iterator[Refusal]:
        allowed = self.node_labels.get(namespace, self.node_labels.get(EVERY_NAMESPACE))
        if allowed is None or any(_keeps_to(selector, key, allowed) for key in {key for key, _ in allowed}):
            return
        accepted = ", ".join(f"{key}={value}" for key, value in sorted(allowed)) or "none"
        yield Refusal(
            Bound.NODE_LABELS, f"the selector reaches beyond the nodes of {namespace}; accepted: one of {accepted}"
        )


def _keeps_to(selector: LabelSelector, key: str, allowed: frozenset[tuple[str, str]]) -> bool:
    """Whether only nodes can match whose label `key` has an allowed value."""
    if key in selector.match_labels:
        return (key, selector.match_labels[key]) in allowed
    parts = (part for part in selector.match_expressions if part.key == key and part.operator == "In")
    return any(all((key, value) in allowed for value in part.values) for part in parts)
