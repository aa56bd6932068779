"""Machines that were asked for and have not been heard of: from NodeClaims, or from what cluster-autoscaler says.

Karpenter's are known one by one. cluster-autoscaler tells numbers, and of all its node groups together (a CapacityQuota
counts registered nodes only): a throttle that selects only some nodes takes all of them for its own, which errs towards
fewer joins.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from throttler.joins.lost import past_timer, vanished_late
from throttler.joins.memory import JoinMemory
from throttler.joins.registered import Registered
from throttler.joins.world import JoinRules, JoinWorld
from throttler.kube.node_claim import NodeClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """`asked_s` tells when each NodeClaim that has not registered was made (monotonic seconds, by uid)."""

    booting: int
    oldest_s: float
    asked_s: Mapping[str, float]
    lost: int
    groups_s: tuple[float, ...] = ()
    """As of JoinMemory."""


def count_requested(
    world: JoinWorld, memory: JoinMemory, rules: JoinRules, nodes: Registered, now_s: float
) -> Requested:
    """Machines that boot; those past their kill timer count no more, and once as lost."""
    waiting = [c for c in world.claims if rules.selects(c.metadata.labels) and not (c.is_registered or c.is_deleting)]
    asked_s = {claim.metadata.uid: _asked_s(claim, world, memory, now_s) for claim in waiting}
    alive = sorted(at_s for at_s in asked_s.values() if not past_timer(at_s, rules, now_s))
    # Nodes that have registered and are not matched yet still have such a claim each.
    booting = alive[nodes.unmatched :]
    later = _registered_since(world, memory, nodes)
    by_groups = max(0, world.autoscaler.booting - len(later)) if world.autoscaler else 0
    counted = max(0, len(booting) + by_groups - len(new_certificates(world)))
    return Requested(
        booting=counted,
        oldest_s=now_s - booting[0] if booting and counted else 0.0,
        asked_s=asked_s,
        lost=_newly_lost(world, asked_s, memory, rules, now_s),
        groups_s=later,
    )


def _asked_s(claim: NodeClaim, world: JoinWorld, memory: JoinMemory, now_s: float) -> float:
    """On the monotonic clock; the claim's age is read off the wall clock once."""
    known = memory.asked_s.get(claim.metadata.uid)
    return known if known is not None else memory.first_s(claim.metadata.created_s, world.wall_s, now_s)


def _newly_lost(
    world: JoinWorld, asked_s: Mapping[str, float], memory: JoinMemory, rules: JoinRules, now_s: float
) -> int:
    """Claims that passed their timer since the last count, or went shortly before it without a Node."""
    if not memory.nodes:
        return 0
    registered = {claim.metadata.uid for claim in world.claims if claim.is_registered}
    gone = [at_s for uid, at_s in memory.asked_s.items() if uid not in asked_s and uid not in registered]
    passed = [at_s for uid, at_s in asked_s.items() if past_timer(at_s, rules, now_s)]
    before_s = memory.counted_s
    return sum(1 for at_s in passed if not past_timer(at_s, rules, before_s)) + sum(
        1 for at_s in gone if vanished_late(at_s, rules, now_s) and not past_timer(at_s, rules, before_s)
    )


def _registered_since(world: JoinWorld, memory: JoinMemory, nodes: Registered) -> tuple[float, ...]:
    """Nodes that registered after cluster-autoscaler looked, which it does every ten seconds."""
    if world.autoscaler is None:
        return ()
    since_s = world.autoscaler.at_s
    return tuple(at_s for at_s in (*memory.groups_s, *nodes.ordered_by_groups_s) if at_s > since_s)


def new_certificates(world: JoinWorld) -> list[str]:
    """Machines that wait for a certificate and have no Node yet: booted, and no autoscaler knows."""
    return [name for name in world.certificates if name not in world.nodes]
