"""Machines that were asked for and have not been heard of: from NodeClaims, or from what cluster-autoscaler says.

Karpenter's are known one by one. cluster-autoscaler tells numbers, per node group. It may stop telling: what it said
last holds for as long as those machines may still come, which is the kill timer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from throttler.joins.join_memory import JoinMemory
from throttler.joins.join_world import JoinRules, JoinWorld
from throttler.joins.late import LATE_BOOTS, LEAST_BOOT_S, NONE_YET
from throttler.joins.lost import past_timer, vanished_late
from throttler.joins.registered import Registered
from throttler.kube.karpenter import NodeClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """`asked_s` tells when each NodeClaim that has not registered was made (monotonic seconds, by uid)."""

    booting: int
    oldest_s: float
    asked_s: Mapping[str, float]
    lost: int
    late: int = 0
    """Of the booting ones (joins/late.py); cluster-autoscaler tells numbers only, and of those none is known."""
    came: tuple[tuple[str, float, float], ...] = ()
    """Karpenter's machines that registered since: pool, when each was asked for, and for how long it booted."""
    by_groups: int = 0
    """Of cluster-autoscaler."""
    groups_s: tuple[float, ...] = ()
    groups_asked_s: tuple[float, ...] = ()
    """Both as of JoinMemory."""
    booted_in_s: tuple[float, ...] = ()
    """How long each machine booted that was heard of since the last count."""


def count_requested(
    world: JoinWorld, memory: JoinMemory, rules: JoinRules, nodes: Registered, now_s: float
) -> Requested:
    """Machines that boot; those past their kill timer count no more, and once as lost."""
    waiting = [c for c in world.claims if rules.selects(c.metadata.labels) and not (c.is_registered or c.is_deleting)]
    asked_s = {claim.metadata.uid: _asked_s(claim, world, memory, now_s) for claim in waiting}
    alive = [(asked_s[c.metadata.uid], _is_late(c, asked_s, memory, now_s)) for c in waiting]
    # Nodes that have registered and are not matched yet still have such a claim each.
    booting = sorted(each for each in alive if not past_timer(each[0], rules, now_s))[nodes.unmatched :]
    timely = [at_s for at_s, is_late in booting if not is_late]
    later = _registered_since(world, memory, nodes)
    # Whoever registers is taken for the one that was asked for first: of all together the mean is exact in any order.
    heard_of = len(nodes.ordered_by_groups_s)
    arrived, left = memory.groups_asked_s[:heard_of], memory.groups_asked_s[heard_of:]
    groups_asked_s, given_up = _asked_of_groups(world, memory, left, len(later), now_s)
    by_groups = [at_s for at_s in groups_asked_s if not past_timer(at_s, rules, now_s)]
    came = tuple(_came(world, memory, now_s))
    return Requested(
        booting=len(booting) + len(by_groups),
        oldest_s=now_s - min((*timely, *by_groups), default=now_s),
        asked_s=asked_s,
        lost=_lost_claims(world, asked_s, memory, rules, now_s)
        + _newly_lost(groups_asked_s, given_up, memory, rules, now_s),
        late=len(booting) - len(timely),
        came=came,
        by_groups=len(by_groups),
        groups_s=later,
        groups_asked_s=groups_asked_s,
        booted_in_s=tuple(took_s for _, _, took_s in came) + tuple(now_s - at_s for at_s in arrived),
    )


def _is_late(claim: NodeClaim, asked_s: Mapping[str, float], memory: JoinMemory, now_s: float) -> bool:
    usual = memory.usual_boots.get(claim.pool, NONE_YET)
    return usual.is_late(asked_s[claim.metadata.uid], now_s, LATE_BOOTS, LEAST_BOOT_S)


def _came(world: JoinWorld, memory: JoinMemory, now_s: float) -> Iterator[tuple[str, float, float]]:
    for claim in world.claims:
        at_s = memory.asked_s.get(claim.metadata.uid)
        if claim.is_registered and at_s is not None:
            yield claim.pool, at_s, now_s - at_s


def _asked_s(claim: NodeClaim, world: JoinWorld, memory: JoinMemory, now_s: float) -> float:
    """On the monotonic clock; the claim's age is read off the wall clock once."""
    known = memory.asked_s.get(claim.metadata.uid)
    return known if known is not None else memory.first_s(claim.metadata.created_s, world.wall_s, now_s)


def _lost_claims(
    world: JoinWorld, asked_s: Mapping[str, float], memory: JoinMemory, rules: JoinRules, now_s: float
) -> int:
    registered = {claim.metadata.uid for claim in world.claims if claim.is_registered}
    gone = (at_s for uid, at_s in memory.asked_s.items() if uid not in asked_s and uid not in registered)
    return _newly_lost(asked_s.values(), gone, memory, rules, now_s)


def _newly_lost(
    asked_s: Iterable[float], gone: Iterable[float], memory: JoinMemory, rules: JoinRules, now_s: float
) -> int:
    """Machines that passed their timer since the last count, or went shortly before it without a Node."""
    if not memory.nodes:
        return 0
    before_s = memory.counted_s
    ended = [at_s for at_s in asked_s if past_timer(at_s, rules, now_s)]
    ended += [at_s for at_s in gone if vanished_late(at_s, rules, now_s)]
    return sum(1 for at_s in ended if not past_timer(at_s, rules, before_s))


def _asked_of_groups(
    world: JoinWorld, memory: JoinMemory, left: tuple[float, ...], registered: int, now_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """When all was asked for that cluster-autoscaler says to boot, and what went without a Node since the last count.

    `left` are those of before that have not registered. What is new in its words was asked for before it spoke; given
    up are the oldest.
    """
    said = world.autoscaler
    asked_s = memory.first_s(said.at_s, world.wall_s, now_s) if said and said.at_s else now_s
    booting = max(0, said.booting - registered) if said else 0
    surplus = max(0, len(left) - booting)
    return (*left[surplus:], *(asked_s,) * (booting - len(left))), left[:surplus]


def _registered_since(world: JoinWorld, memory: JoinMemory, nodes: Registered) -> tuple[float, ...]:
    """Nodes that registered after cluster-autoscaler looked, every ten seconds; none where it says no time."""
    since_s = world.autoscaler.at_s if world.autoscaler else 0.0
    if not since_s:
        return ()
    return tuple(at_s for at_s in (*memory.groups_s, *nodes.ordered_by_groups_s) if at_s > since_s)
