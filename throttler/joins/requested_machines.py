"""Machines that were asked for and have not been heard of: from NodeClaims, or from what cluster-autoscaler says.

Karpenter's are known one by one. cluster-autoscaler tells numbers, per node group. It may stop telling: what it said
last holds for as long as those machines may still come, which is the kill timer. Both autoscalers give up on a machine
that has not registered for 15 min. If one does not, its machine must not hold a place for ever.

cluster-autoscaler names groups as the cloud does and says nothing of their nodes' labels, so the nodes that are there
already decide whose a group is: all nodes of a group are labelled alike. Where they do not tell, the machines count for
one throttle, which says so. Counted for several, they would fill the window with joins that never come; counted for
none, they would be asked for again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from throttler.api.throttle import JoinThrottle
from throttler.joins.join_memory import NONE_YET, JoinMemory
from throttler.joins.joining_nodes import Registered
from throttler.joins.joins import JoinRules, JoinWorld
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import GROUP_LABELS, KARPENTER_POOL_LABEL, Node
from throttler.kube.selectors import Labels, LabelSelector, matches

LATE_BOOTS, LEAST_BOOT_S = 2.0, 120.0
"""A machine is late after so many usual boots of its pool, and never before so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """`asked_s` tells when each NodeClaim that has not registered was made (monotonic seconds, by uid)."""

    booting: int
    oldest_s: float
    asked_s: Mapping[str, float]
    lost: int
    late: int = 0
    """Of the booting ones (joins/join_memory.py); cluster-autoscaler tells numbers only, and of those none is known."""
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
    there = _there(world)
    own = (claim for claim in world.claims if rules.selects(claim.metadata.labels))
    waiting = [claim for claim in own if not (claim.is_deleting or claim.metadata.uid in there)]
    asked_s = {claim.metadata.uid: _asked_s(claim, world, memory, now_s) for claim in waiting}
    alive = [(asked_s[c.metadata.uid], _is_late(c, asked_s, memory, now_s)) for c in waiting]
    # Nodes whose machine is not known yet still have such a claim each.
    booting = sorted(order for order in alive if not past_timer(order[0], rules, now_s))[nodes.unmatched :]
    timely = [at_s for at_s, is_late in booting if not is_late]
    later = _registered_since(world, memory, nodes)
    # Whoever registers is taken for the one that was asked for first: of all together the mean is exact in any order.
    heard_of = len(nodes.ordered_by_groups_s)
    arrived, left = memory.groups_asked_s[:heard_of], memory.groups_asked_s[heard_of:]
    groups_asked_s, given_up = _asked_of_groups(world, memory, left, len(later), now_s)
    by_groups = [at_s for at_s in groups_asked_s if not past_timer(at_s, rules, now_s)]
    came = tuple(_came(world, memory, there, now_s))
    return Requested(
        booting=len(booting) + len(by_groups),
        oldest_s=now_s - min((*timely, *by_groups), default=now_s),
        asked_s=asked_s,
        lost=_lost_claims(asked_s, memory, rules, there, now_s)
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


def _there(world: JoinWorld) -> frozenset[str]:
    """NodeClaims (by uid) whose Node is there. Karpenter says so a moment later: until then the machine would count as
    booting and as joining, and leave room for one less."""
    known = {node.provider_id for node in world.nodes.values()} - {""}
    return frozenset(c.metadata.uid for c in world.claims if c.is_registered or c.provider_id in known)


def _came(
    world: JoinWorld, memory: JoinMemory, there: frozenset[str], now_s: float
) -> Iterator[tuple[str, float, float]]:
    for claim in world.claims:
        at_s = memory.asked_s.get(claim.metadata.uid)
        if claim.metadata.uid in there and at_s is not None:
            yield claim.pool, at_s, now_s - at_s


def _asked_s(claim: NodeClaim, world: JoinWorld, memory: JoinMemory, now_s: float) -> float:
    """On the monotonic clock; the claim's age is read off the wall clock once."""
    known = memory.asked_s.get(claim.metadata.uid)
    return known if known is not None else memory.first_s(claim.metadata.created_s, world.wall_s, now_s)


def _lost_claims(
    asked_s: Mapping[str, float], memory: JoinMemory, rules: JoinRules, there: frozenset[str], now_s: float
) -> int:
    gone = (at_s for uid, at_s in memory.asked_s.items() if uid not in asked_s and uid not in there)
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
    """Nodes that registered after cluster-autoscaler looked, every ten seconds; none where it says no time.

    Both are told to the second. Who came in the same one may have come later, and counted twice would make room for
    another.
    """
    since_s = world.autoscaler.at_s if world.autoscaler else 0.0
    if not since_s:
        return ()
    return tuple(at_s for at_s in (*memory.groups_s, *nodes.ordered_by_groups_s) if at_s >= since_s)


MARGIN_S = 60.0
"""A machine that goes so shortly before its timer was given up: the autoscaler's clock began a little earlier."""


def past_timer(asked_s: float, rules: JoinRules, now_s: float) -> bool:
    """Whether nobody waits any more for a machine that was asked for then."""
    return now_s - asked_s > rules.kill_timer_s


def vanished_late(asked_s: float, rules: JoinRules, now_s: float) -> bool:
    """Whether a machine that was asked for then and is gone now was given up, not merely cancelled."""
    return now_s - asked_s > rules.kill_timer_s - MARGIN_S


_GROUP_LABELS = frozenset(GROUP_LABELS)
SAMPLE = 5
"""So many nodes are asked of which throttle they are; more would say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOf:
    """The groups that boot machines for one throttle; `guessed` are the names of those that may be another's."""

    status: AutoscalerStatus
    guessed: tuple[str, ...] = ()

    def and_also(self, group: NodeGroup, *, is_guessed: bool) -> "GroupsOf":
        """With this group."""
        status = replace(self.status, groups=(*self.status.groups, group))
        return GroupsOf(status=status, guessed=(*self.guessed, group.name) if is_guessed else self.guessed)


def share_groups(
    status: AutoscalerStatus, nodes: Iterable[Node], throttles: Sequence[JoinThrottle]
) -> Mapping[str, GroupsOf]:
    """Throttle -> its groups, each group once; `throttles` are the oldest first.

    A group that a throttle names is its own. One whose nodes no throttle selects is nobody's, and one of which no node
    tells is the oldest throttle's that has a CapacityQuota, else the oldest one's.
    """
    by_throttle = {throttle.metadata.name: GroupsOf(status=replace(status, groups=())) for throttle in throttles}
    booting = [group for group in status.groups if group.booting]
    if not booting or not throttles:
        return by_throttle
    if throttles[0].spec.nodes == LabelSelector():
        return {**by_throttle, throttles[0].metadata.name: GroupsOf(status=status)}
    shown = _shown(frozenset(group.name for group in booting), nodes, throttles)
    texts: dict[str, list[str]] = {}
    for text in shown:
        texts.setdefault(words_of(text), []).append(text)
    for group in booting:
        owners = _named(group.name, throttles) or _owners(names_within(group.name, texts), shown, throttles)
        owner = owners[0] if len(owners) == 1 else _guess(throttles)
        if owner is not None:
            by_throttle[owner] = by_throttle[owner].and_also(group, is_guessed=len(owners) != 1)
    return by_throttle


def _named(name: str, throttles: Iterable[JoinThrottle]) -> Sequence[str | None]:
    """The throttle whose lever names the group; none where no lever does."""
    levers = ((throttle.metadata.name, throttle.spec.levers.machine_deployments) for throttle in throttles)
    return [throttle for throttle, lever in levers if lever is not None and name in lever.groups][:1]


def _owners(
    parts: Sequence[str], shown: Mapping[str, Sequence[Labels]], throttles: Sequence[JoinThrottle]
) -> list[str | None]:
    """The throttles whose nodes those of the group can be; None among them: nobody's."""
    nodes = shown[max(sorted(parts), key=len)] if parts else ()
    return [*{_owner(labels, throttles) for labels in nodes}]


def _owner(labels: Labels, throttles: Iterable[JoinThrottle]) -> str | None:
    return next((throttle.metadata.name for throttle in throttles if matches(throttle.spec.nodes, labels)), None)


def _guess(throttles: Sequence[JoinThrottle]) -> str:
    quota = (throttle for throttle in throttles if throttle.spec.levers.capacity_quota is not None)
    return next(quota, throttles[0]).metadata.name


def _shown(
    names: frozenset[str], nodes: Iterable[Node], throttles: Iterable[JoinThrottle]
) -> Mapping[str, Sequence[Labels]]:
    """What nodes say to be a group's name, or a part of it -> the labels of some of them.

    A selector that asks for such a label says the same of nodes that are not there yet.
    """
    asked = (throttle.spec.nodes.match_labels for throttle in throttles if not throttle.spec.nodes.match_expressions)
    there = (node.labels for node in nodes if KARPENTER_POOL_LABEL not in node.labels)
    samples: dict[str, list[Labels]] = {}
    for labels in chain(asked, there):
        for text in _said(names, labels):
            sample = samples.setdefault(text, [])
            if len(sample) < SAMPLE:
                sample.append(labels)
    return samples


def _said(names: frozenset[str], labels: Labels) -> list[str]:
    said = [] if names.isdisjoint(labels.values()) else [*names.intersection(labels.values())]
    return said if _GROUP_LABELS.isdisjoint(labels) else said + [labels[key] for key in GROUP_LABELS if key in labels]


MOST_WORDS = 32
"""A label's value has 63 characters at most."""
AKS = "aks"
"""Before the name of a Windows pool in that of its scale set, without a hyphen: Windows' host names are short."""


def names_within(name: str, texts: Mapping[str, Sequence[str]]) -> list[str]:
    """The texts, by their words (`words_of`), whose words stand in `name` one after the other.

    All rows of words of the name are looked up: there may be a thousand groups, and as many texts.
    """
    words = words_of(name).split("-")
    rows = {
        "-".join(words[begin : begin + count])
        for begin in range(len(words))
        for count in range(1, min(MOST_WORDS, len(words) - begin) + 1)
    }
    if len(words) == 1:
        rows.add(name.lower().removeprefix(AKS))
    return [text for row in rows for text in texts.get(row, ()) if text]


def words_of(text: str) -> str:
    """The words of a name in lower case, with hyphens between them."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
