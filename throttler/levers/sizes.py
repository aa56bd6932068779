"""How large the machines of a NodePool are, from what was ordered so far. Amounts are milli-units."""

from collections.abc import Iterable, Mapping
from typing import Any

from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.quantity import QuantityError, Resources, larger, total
from throttler.levers.clamp import amount_of

CPU = "cpu"
MEMORY = "memory"
ACCELERATORS = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "aws.amazon.com/neuron",
        "habana.ai/gaudi",
        "google.com/tpu",
    }
)
"""The extended resources that set the price of a machine; others (network interfaces, ...) say nothing of its size."""
LIMITED = frozenset({CPU, MEMORY}) | ACCELERATORS
"""What a ceiling is written in, where the pool's machines have it."""
CPU_LABEL = "/instance-cpu"
"""How Karpenter's providers end the name of the label that tells a machine's cores."""


def readable(texts: Mapping[str, Any]) -> dict[str, int]:
    """The amounts of LIMITED resources; what cannot be read is left out, so that one bad object spoils nothing."""
    amounts = {name: _amount(value) for name, value in texts.items() if name in LIMITED}
    return {name: milli for name, milli in amounts.items() if milli}


def _amount(value: Any) -> int:
    try:
        return max(0, amount_of(value))
    except QuantityError:
        return 0


def size_of(claim: NodeClaim) -> Resources:
    """The size of a launched machine. Its capacity may be an estimate; the label says how many cores it really has."""
    labels = claim.metadata.labels.items()
    cores = max((_amount(value) for name, value in labels if name.endswith(CPU_LABEL)), default=0)
    return larger(readable(claim.status.capacity), {CPU: cores} if cores else {})


def sizes_seen(pool: NodePool, claims: Iterable[NodeClaim]) -> tuple[Resources, ...]:
    """The sizes of the pool's machines, once each; empty while it has had none."""
    found = [size_of(claim) for claim in claims if claim.is_launched]
    return tuple(
        dict(pairs) for pairs in sorted({tuple(sorted(size.items())) for size in [*found, _mean(pool)] if size})
    )


def _mean(pool: NodePool) -> Resources:
    """The size of one machine by Karpenter's own count of the pool."""
    count = _amount(pool.status.resources.get("nodes", 0)) // 1000 if "nodes" in pool.status.resources else 0
    used = readable(pool.status.resources)
    return {name: milli // count for name, milli in used.items()} if count else {}


def usage_of(pool: NodePool, claims: Iterable[NodeClaim], largest: Resources) -> Resources:
    """What the pool has and has been promised, as Karpenter counts it or more.

    A claim counts with its estimated capacity until its Node is there, then with its real size; one that is not
    launched, with the largest. Karpenter's own count is up to 5 s old and leaves out what is being deleted: the larger
    one holds.
    """
    counted = total(_counted(claim, largest) for claim in claims)
    return larger(counted, readable(pool.status.resources))


def _counted(claim: NodeClaim, largest: Resources) -> Resources:
    if not claim.is_launched:
        return largest
    return size_of(claim) if claim.is_registered else readable(claim.status.capacity)
