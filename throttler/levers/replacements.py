"""Room for Karpenter to replace machines: it starts the new one before it ends the old."""

from collections.abc import Sequence

from throttler.kube.node_claim import NodeClaim
from throttler.kube.node_pool import NodePool

PERCENT = 100


def replacements(pool: NodePool, claims: Sequence[NodeClaim]) -> int:
    """Machines for which a replacement may be started beside them: the drifted ones, within the pool's budget.

    Those that are being deleted already count as existing until they are gone, which is the room that they need.
    """
    drifted = sum(claim.is_drifted and not claim.is_deleting for claim in claims)
    return min(drifted, _budget(pool, len(claims)))


def _budget(pool: NodePool, count: int) -> int:
    """How many may be replaced at once. Schedules and reasons of budgets are left out: the largest bounds them all."""
    return max((_nodes(budget.nodes, count) for budget in pool.spec.disruption.budgets), default=count)


def _nodes(text: str, count: int) -> int:
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        return count
    return -(-count * int(number) // PERCENT) if text.endswith("%") else int(number)
