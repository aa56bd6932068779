"""What waiting and warmth cost, in the currency of whoever gave the prices."""

from collections.abc import Mapping
from dataclasses import dataclass

from balloons.preview.inputs import PoolFacts

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """None where no price is known; `unpriced` names the machine that has none."""

    price_per_hour: float | None = None
    """Of one new node."""
    waiting: float | None = None
    """For machines that are paid for and not usable yet, all of this scale-up."""
    warm_per_hour: float | None = None
    """For nodes that are warm now."""
    unpriced: str = ""


def cost_of(pool: PoolFacts, node_seconds: float, prices: Mapping[str, float]) -> Cost:
    """`prices` maps instance types to what one costs per hour; a price at the shape itself gives way to it."""
    shape = pool.shape
    instance_type = shape.instance_type if shape else ""
    price = prices.get(instance_type, shape.price_per_hour if shape else None)
    if price is None:
        price = prices.get("*")
    if price is None:
        return Cost(unpriced=instance_type or pool.name or "new nodes")
    return Cost(
        price_per_hour=price,
        waiting=price * node_seconds / HOUR_S,
        warm_per_hour=price * pool.warm if pool.warm else 0.0,
    )
