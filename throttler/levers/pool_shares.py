"""Splits the budget of one throttle: between the autoscalers where it has a ceiling for each, then between NodePools.

Each pool's part follows from the pods that wait for it, not from what it has on its way: a pool whose machines never
come would otherwise draw ever more. Pods that several pools may serve are for the first of these in Karpenter's order
alone, because a ceiling on it would make Karpenter buy from the next.

Karpenter takes the first pool in this order that a pod is compatible with, and a pool at its limit is passed over
within the same round (`addToNewNodeClaim`, Karpenter 1.15). So it matters which of the pools that may serve a pod has
room. What cannot be judged from the objects counts as possible: the provider's instance types and the labels that it
gives are not in them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from throttler.api.throttle import NodePoolLever
from throttler.joins.demand import Crowd, waiting_crowds
from throttler.kube.karpenter import NodePool
from throttler.kube.node import HOST_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.pod import Scheduling
from throttler.kube.quantities_and_durations import Resources, larger
from throttler.kube.selectors import LabelSelector, Requirement, can_match, meets
from throttler.kube.taints import Toleration, untolerated
from throttler.levers.lever_and_reasons import TURN_S, LeverContext
from throttler.levers.node_pool_ceiling import ACCELERATORS, PoolShare


def fair_shares(total: int, wants: Mapping[str, int], turn: Sequence[str] = ()) -> dict[str, int]:
    """Give nobody more than it wants, and nobody less than another that got more (max-min fairness).

    What is left over when `total` does not divide goes to names in the order of `turn`, without it in alphabetical
    order, so that nothing flaps.
    """
    shares = dict.fromkeys(turn or sorted(wants), 0)
    left = max(0, total)
    hungry = [name for name in shares if wants.get(name, 0) > 0]
    while left and hungry:
        portion = max(1, left // len(hungry))
        for name in hungry:
            granted = min(portion, left, wants[name] - shares[name])
            shares[name] += granted
            left -= granted
        hungry = [name for name in hungry if shares[name] < wants[name]]
    return shares


PROVIDERS = (
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "k8s.aws",
    "amazonaws.com",
    "aws.com",
    "azure.com",
    "google.com",
    "oraclecloud.com",
    "kwok.sh",
)
"""Domains of labels that a machine may carry although its pool does not name them: zone, type, architecture, ..."""
USERS_OWN = "node-restriction.kubernetes.io"
"""... but for this one, which is kept for labels of the cluster's administrators."""


def is_of(pool: NodePool, lever: NodePoolLever, nodes: LabelSelector) -> bool:
    """Whether the lever moves this pool: by its name, or because the throttle selects nodes like its own."""
    if lever.names:
        return pool.metadata.name in lever.names
    # A label that the pool's template does not name and that no requirement gives is on none of its nodes.
    labels = {KARPENTER_POOL_LABEL: pool.metadata.name, **pool.spec.labels}
    allowed = {part.key: part.values for part in pool.spec.requirements if part.operator == "In"}
    for key, value in nodes.match_labels.items():
        if labels.get(key) != value and value not in allowed.get(key, ()):
            return False
    return can_match(nodes, labels)


def in_karpenters_order(pools: Iterable[NodePool]) -> list[NodePool]:
    """The heaviest first; of equal weight the one whose name comes later in the alphabet (Karpenter's own rule)."""
    by_name = sorted(pools, key=lambda pool: pool.metadata.name, reverse=True)
    return sorted(by_name, key=lambda pool: -(pool.spec.weight or 0))


def may_make(pool: NodePool, how: Scheduling) -> bool:
    """Whether the pool's taints, labels and requirements leave room for a machine that the pod may run on."""
    if untolerated(pool.spec.taints, how.tolerations) is not None:
        return False
    if not all(_may_meet(Requirement(key, "In", (value,)), pool) for key, value in how.node_selector.items()):
        return False
    return not how.node_terms or any(all(_may_meet(part, pool) for part in term) for term in how.node_terms)


class Makers:
    """NodePools by the labels that their machines carry: of a thousand pools, each for a team of its own, one is looked
    at for the pods of a team."""

    def __init__(self, pools: Sequence[NodePool]) -> None:
        self._pools = pools
        self._by_label: dict[str, dict[str | None, list[NodePool]]] = {}
        """By label and value; under None those that do not name the label."""

    def of(self, how: Scheduling) -> list[NodePool]:
        """The pools that may make a machine on which the pod may run."""
        looks = [self._carrying(key, (value,)) for key, value in how.node_selector.items()]
        if len(how.node_terms) == 1:
            looks += [self._carrying(part.key, part.values) for part in how.node_terms[0] if part.operator == "In"]
        return [pool for pool in min(looks, key=len, default=self._pools) if may_make(pool, how)]

    def _carrying(self, key: str, values: Iterable[str]) -> Sequence[NodePool]:
        if key not in self._by_label:
            carried: dict[str | None, list[NodePool]] = {}
            for pool in self._pools:
                carried.setdefault(_labels_of(pool).get(key), []).append(pool)
            self._by_label[key] = carried
        carried = self._by_label[key]
        return [pool for value in (*dict.fromkeys(values), None) for pool in carried.get(value, ())]


def _labels_of(pool: NodePool) -> Mapping[str, str]:
    return {**pool.spec.labels, KARPENTER_POOL_LABEL: pool.metadata.name}


def may_have_accelerators(sizes: Sequence[Resources], requests: Resources) -> bool:
    """Whether machines of the sizes seen so far have the accelerators that a pod asks for; a guess of yes before any.

    Other resources do not tell: a pool may have types of many sizes, of which only small ones were needed so far.
    """
    wanted = {name for name, milli in requests.items() if milli and name in ACCELERATORS}
    return not sizes or any(wanted <= size.keys() for size in sizes)


def _may_meet(part: Requirement, pool: NodePool) -> bool:
    labels = _labels_of(pool)
    if part.key in labels:
        return meets(part, labels)
    own = [requirement for requirement in pool.spec.requirements if requirement.key == part.key]
    if own:
        return _have_in_common(part, own)
    is_without = part.operator in ("NotIn", "DoesNotExist")
    return is_without or (part.key != HOST_LABEL and _may_come_with_the_machine(part.key))


def _have_in_common(part: Requirement, own: Sequence[Requirement]) -> bool:
    """Whether some value satisfies the pod's term and all of the pool's; yes where neither lists its values."""
    listed = next((requirement.values for requirement in (*own, part) if requirement.operator == "In"), None)
    if listed is None:
        return part.operator != "DoesNotExist" or any(requirement.operator == "DoesNotExist" for requirement in own)
    return any(all(meets(requirement, {part.key: value}) for requirement in (*own, part)) for value in listed)


def _may_come_with_the_machine(key: str) -> bool:
    domain = key.rpartition("/")[0]
    is_providers = any(domain == provider or domain.endswith(f".{provider}") for provider in PROVIDERS)
    return is_providers and domain != USERS_OWN


LATE_BOOTS = 3
"""A machine that is not usable after so many times the usual time is taken for one that never will be."""
USUAL_S = 120.0
"""The usual time from an order to a usable node, while the throttle has seen none."""
ALMOST_NONE = 1e-6
"""Of a node: thirds and the like do not add up to whole numbers exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWork:
    """What waits for Karpenter's machines, and how long these usually take. `wall_s` is seconds since the epoch."""

    crowds: tuple[Crowd, ...] = ()
    wall_s: float = 0.0
    usual_s: float | None = None
    """From an order to a usable node; None while unknown."""

    @property
    def late_s(self) -> float:
        """Machines older than this that are not usable are taken for lost."""
        return LATE_BOOTS * (self.usual_s or USUAL_S)


def waiting_work(context: LeverContext) -> WaitingWork:
    """What waits for Karpenter's machines: pods, and balloons that Headroom pools want."""
    anywhere = (Toleration(operator="Exists"),)
    wanted = ((pool.selector, pool.lacking) for pool in context.growth if pool.lacking > 0)
    balloons = (
        Crowd(Scheduling(anywhere, own.match_labels, (own.match_expressions,)), {}, lacking) for own, lacking in wanted
    )
    pods = _regardless_of_owner(waiting_crowds(context.scene.unplaced, context.rules, context.machines))
    boot_s, join_s = context.joins.boot_s, context.joins.join_s
    usual_s = None if boot_s is None else boot_s + (join_s or 0.0)
    return WaitingWork(crowds=(*pods, *balloons), wall_s=context.scene.moment.wall_s, usual_s=usual_s)


def _regardless_of_owner(crowds: Iterable[Crowd]) -> Iterable[Crowd]:
    """Pods that ask the same, together: thousands of Jobs are a handful of crowds to Karpenter."""
    merged: dict[tuple[object, ...], list[Crowd]] = {}
    for crowd in crowds:
        how = crowd.how
        kind = id(how.tolerations), id(how.node_selector), id(how.node_terms), id(crowd.requests)
        merged.setdefault((*kind, how.is_gated, crowd.is_urgent), []).append(crowd)
    for alike in merged.values():
        yield replace(alike[-1], nodes=sum(crowd.nodes for crowd in alike)) if len(alike) > 1 else alike[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A NodePool as one that may serve pods."""

    name: str
    serves: frozenset[int]
    """Which of the crowds its machines could take, by their places."""
    coming: int
    """Machines on their way: Karpenter counts on them for pods that wait, be they late or not."""
    is_late: bool = False
    """Whether machines of it are late and none that was ordered after them has become usable."""
    is_full: bool = False
    """Whether its user's own limits admit no further machine, or Karpenter says that it cannot use the pool."""
    is_dry: bool = False
    """Whether it had room and pods waited, and nothing was ordered."""
    ordered_s: float = 0.0
    """Creation of its newest machine."""
    still_open: int = 0
    """For how many machines it had room of late: they may be ordered, and no watch have told of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What waits for one pool.

    `urgent` of the nodes pass by the reserved lane; `visible` are for pods that Karpenter sees, and not for gated ones.
    """

    nodes: float = 0.0
    urgent: float = 0.0
    visible: float = 0.0
    hint: Resources = field(default_factory=dict)
    """The largest request among the pods that it may serve."""
    heavier: str = ""
    """The pool that is to serve such pods before this one."""
    lighter: str = ""
    """The pool that serves them because this one ordered nothing."""

    def and_also(self, crowd: Crowd, nodes: float) -> "Need":
        """With so many nodes for this crowd."""
        return replace(
            self,
            nodes=self.nodes + nodes,
            urgent=self.urgent + (nodes if crowd.is_urgent else 0.0),
            visible=self.visible + (0.0 if crowd.how.is_gated else nodes),
        )


def needs_of(crowds: Sequence[Crowd], candidates: Sequence[Candidate]) -> Mapping[str, Need]:
    """What waits for each pool; the candidates are in Karpenter's order.

    Machines on their way are taken off, first for pods that have the least choice. The rest is for the first pool that
    has not run dry; where all of them have, each searches for itself.
    """
    needs = {candidate.name: Need() for candidate in candidates}
    asked: dict[str, dict[int, Resources]] = {candidate.name: {} for candidate in candidates}
    coming: dict[str, float] = {candidate.name: candidate.coming for candidate in candidates}
    choices = zip(crowds, _able(candidates, len(crowds)), strict=True)
    for crowd, able in sorted(choices, key=lambda pair: (len(pair[1]), not pair[0].is_urgent)):
        left = crowd.nodes
        for candidate in able:
            taken = min(left, coming[candidate.name])
            left, coming[candidate.name] = left - taken, coming[candidate.name] - taken
            asked[candidate.name][id(crowd.requests)] = crowd.requests
        usable = [candidate for candidate in able if not candidate.is_full]
        first = next((candidate for candidate in usable if not candidate.is_dry), None)
        for candidate in [first] if first else usable:
            needs[candidate.name] = needs[candidate.name].and_also(crowd, left)
        if first is not None:
            at = usable.index(first)
            for candidate in usable[:at]:
                if not needs[candidate.name].lighter:
                    needs[candidate.name] = replace(needs[candidate.name], lighter=first.name)
            for candidate in usable[at + 1 :]:
                if not needs[candidate.name].heavier:
                    needs[candidate.name] = replace(needs[candidate.name], heavier=first.name)
    return {name: replace(need, hint=reduce(larger, asked[name].values(), need.hint)) for name, need in needs.items()}


def _able(candidates: Iterable[Candidate], crowds: int) -> list[list[Candidate]]:
    """Those that may serve each of so many crowds, in their order."""
    able: list[list[Candidate]] = [[] for _ in range(crowds)]
    for candidate in candidates:
        for at in candidate.serves:
            able[at].append(candidate)
    return able


def node_pool_shares(
    budget: int, candidates: Sequence[Candidate], needs: Mapping[str, Need], now_s: float
) -> dict[str, PoolShare]:
    """What each pool may order now; together no more than the budget.

    Urgent pods come first, then the pools share by max-min fairness. What does not divide goes to those that have the
    fewest machines on their way, of these to the one that ordered longest ago, and then to each in turn. Pools that are
    late or dry get what the others leave, and one place goes to a dry one whose pods another serves, so that it is seen
    when it has machines again.
    """
    names = sorted(candidate.name for candidate in candidates)
    begin = int(now_s // TURN_S)
    place = {name: (at - begin) % len(names) for at, name in enumerate(names)}
    in_turn = sorted(candidates, key=lambda candidate: (candidate.coming, candidate.ordered_s, place[candidate.name]))
    turn = [candidate.name for candidate in in_turn]
    usable = {candidate.name: candidate for candidate in candidates if not candidate.is_full}
    wanted = {name: _whole(needs[name].nodes) for name in usable}
    good = [name for name, candidate in usable.items() if not (candidate.is_late or candidate.is_dry)]
    # Of a pool that is passed over for a heavier one a machine would be bought in place of that one's.
    idle = [name for name in good if not wanted[name] and not needs[name].heavier]
    passing = [name for name in usable if needs[name].lighter and not needs[name].heavier and not wanted[name]]
    steps: list[dict[str, int]] = [
        {name: _whole(needs[name].urgent) for name in good},
        dict.fromkeys(passing if budget > 1 else (), 1),
        {name: wanted[name] for name in good},
        wanted,
        dict.fromkeys(idle, 1),
        # What nobody needs yet stands open where more may come.
        {name: budget for name in good if wanted[name]},
        {name: budget for name in usable if wanted[name] or name in idle},
    ]
    shares = dict.fromkeys(turn, 0)
    left = budget
    for step in steps:
        more = {name: max(0, most - shares[name]) for name, most in step.items()}
        for name, count in fair_shares(left, more, turn).items():
            shares[name] += count
            left -= count
    # What was open in one pool a moment ago is no other's yet: both would order it.
    still_open = {candidate.name: candidate.still_open for candidate in candidates}
    growth = {name: count - still_open[name] for name, count in shares.items()}
    grown = fair_shares(budget - sum(still_open.values()), growth, turn)
    return {
        name: PoolShare(
            nodes=min(count, still_open[name]) + grown[name], heavier=needs[name].heavier, lighter=needs[name].lighter
        )
        for name, count in shares.items()
    }


def _whole(nodes: float) -> int:
    return math.ceil(nodes - ALMOST_NONE)
