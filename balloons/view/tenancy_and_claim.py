"""Whose pools are served, and which pool each node belongs to: the oldest of those that select it and act. Pure.

A pool that is not served, or asks for more than the operator lets it, is as good as absent for all others: it claims no
node, shows none, and costs no decision.

A pool that is paused or a dry run takes nothing from one that acts, however old it is. Nodes that changed and stay
where they are, which is nearly all that a large cluster ever reports, are exchanged one by one; anything else is worked
out anew (80 ms for 50,000 nodes).

A balloon of a younger pool holds nothing on a node that counts for an older one, and would be removed and made again
for as long as the scheduler prefers that node. So it is told by labels where not to go: node affinity can say "not what
this selector selects", as one alternative for each thing that the selector asks for. See
docs/decisions/0015-overlapping-pools.md.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256

import msgspec

from balloons.api.pool import BalloonPool, Mode, PoolSpec
from balloons.view.node_load_and_devices import EMPTY, NodeLoad, among_scavengers
from throttler.kube.karpenter import is_refused_in_pods
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import Labels, LabelSelector, Requirement, are_contrary, matches, opposite, requirements

_NAME_LIMIT = 63
_DIGEST_LENGTH = 8
EVERY_NAMESPACE = "*"
"""In `node_labels`: what holds for namespaces that have no entry of their own."""
MOST_KNOWN = 50_000
"""Combinations of labels that are remembered. Where a selector reads host names each new node is one of its own."""
LoadedNode = tuple[Node, NodeLoad]
"""A node and what runs on it, looked up once."""


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

    def refused(
        self, pools: Iterable[BalloonPool], broken: Mapping[ObjectKey, float] | None = None
    ) -> dict[ObjectKey, Refusal]:
        """The pools that are not served, with the first bound that each breaks; older pools come first.

        `broken` are pools that break a rule of their own, by when they were made (Unix s): of those only the namespace
        and the number are judged, or whoever writes nothing but such pools would be bounded by nothing.
        """
        refusals: dict[ObjectKey, Refusal] = {}
        counts: dict[str, tuple[int, int]] = {}
        ages: list[tuple[float, ObjectKey, PoolSpec | None]]
        ages = [(pool.metadata.created_s, pool.key, pool.spec) for pool in pools]
        ages += [(created_s, key, None) for key, created_s in (broken or {}).items()]
        for _, key, spec in sorted(ages, key=lambda age: age[:2]):
            before, schedules = counts.get(key.namespace, (0, 0))
            refusal = next(self._breaches(key.namespace, spec, before, schedules), None)
            if refusal is None:
                counts[key.namespace] = before + 1, schedules + (len(spec.schedules) if spec else 0)
            else:
                refusals[key] = refusal
        return refusals

    def _breaches(self, namespace: str, spec: PoolSpec | None, pools: int, schedules: int) -> Iterator[Refusal]:
        if not self.serves(namespace):
            served = ", ".join(sorted(self.namespaces))
            yield Refusal(Bound.NAMESPACES, f"namespace {namespace} is not served; served: {served}")
            return
        if self.pools_per_namespace is not None and pools >= self.pools_per_namespace:
            yield Refusal(Bound.POOLS, f"namespace {namespace} has {pools} older pools; accepted: {pools}")
        if spec is None:
            return
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


@dataclass(slots=True)
class Claim:
    """One pool's nodes with their loads, what it lost to pools before it (pool -> nodes), its balloons elsewhere, and
    the pools to whose nodes those strayed. `within`: a pool before it that gets every node which this one selects.

    Loads in `nodes` count balloons of other pools among the scavengers; `own_loads` are those that are changed by it.
    """

    nodes: list[LoadedNode] = field(default_factory=list)
    lost: dict[ObjectKey, int] = field(default_factory=dict)
    strays: list[Pod] = field(default_factory=list)
    strayed_to: set[ObjectKey] = field(default_factory=set)
    own_loads: dict[str, NodeLoad] = field(default_factory=dict)
    within: ObjectKey | None = None


class Selectors:
    """Which pools select a node, in order, asked once per combination of the labels that any selector reads.

    Thousands of nodes share a handful of combinations, so a node costs a few look-ups however many pools there are. Of
    a thousand pools, each for the nodes of a team, one is looked at for the combinations of that team.
    """

    def __init__(self, pools: Iterable[BalloonPool]) -> None:
        self._pools = sorted(pools, key=precedence)
        self._keys = sorted({key for pool in self._pools for key in _keys_of(pool.spec.nodes.selector)})
        self._known: dict[tuple[str | None, ...], tuple[ObjectKey, ...]] = {}
        listed = [
            [part for part in requirements(pool.spec.nodes.selector) if part.operator == "In"] for pool in self._pools
        ]
        told = {(part.key, value) for parts in listed for part in parts for value in part.values}
        values = Counter(key for key, _ in told)
        self._by_value: dict[str, dict[str | None, list[int]]] = {}
        """By label and value the pools, by their places, each by the one of its labels that has most values."""
        self._others = [at for at, parts in enumerate(listed) if not parts]
        for at, parts in enumerate(listed):
            if parts:
                part = max(parts, key=lambda part: values[part.key])
                for value in {*part.values}:
                    self._by_value.setdefault(part.key, {}).setdefault(value, []).append(at)
        self._places: dict[str, tuple[tuple[ObjectKey, ...], int]] = {}
        """By node: the pools that select it, and where it is in its owner's claim as last worked out."""
        self._hosts: frozenset[str] = frozenset()
        """Nodes with strays: with every change of them all is worked out anew."""
        self._within: dict[ObjectKey, ObjectKey] | None = None

    def are_of(self, pools: Iterable[BalloonPool]) -> bool:
        """Whether these pools claim exactly what the ones at hand do, whatever else was changed about them."""
        return {_claimant(pool) for pool in pools} == {_claimant(pool) for pool in self._pools}

    def of(self, labels: Labels) -> tuple[ObjectKey, ...]:
        """The pools that select a node with these labels."""
        keys = self._keys
        read = (labels.get(keys[0]),) if len(keys) == 1 else tuple([labels.get(key) for key in keys])
        pools = self._known.get(read)
        if pools is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            able = (at for key, places in self._by_value.items() for at in places.get(labels.get(key), ()))
            ordered = (self._pools[at] for at in sorted([*self._others, *able]))
            pools = tuple(pool.key for pool in ordered if matches(pool.spec.nodes.selector, labels))
            self._known[read] = pools
        return pools

    def claims(self, nodes: Iterable[Node], loads: Mapping[str, NodeLoad]) -> dict[ObjectKey, Claim]:
        """Every pool's claim; a node goes to the first pool that selects it and counts as lost by the others."""
        if self._within is None:
            self._within = self._pools_within()
        claims = {pool.key: Claim(within=self._within.get(pool.key)) for pool in self._pools}
        straying: list[tuple[str, tuple[Pod, ...], ObjectKey | None]] = []
        self._places = places = {}
        for node in nodes:
            pools = self.of(node.labels)
            owner, load = (pools[0] if pools else None), loads.get(node.name) or EMPTY
            places[node.name] = (pools, len(claims[owner].nodes) if owner is not None else 0)
            if load.balloons and (strays := _strays(load.balloons, owner)):
                straying.append((node.name, strays, owner))
                load = among_scavengers(load, strays)
                if owner is not None:
                    claims[owner].own_loads[node.name] = load
            if owner is None:
                continue
            claims[owner].nodes.append((node, load))
            for loser in pools[1:]:
                claims[loser].lost[owner] = claims[loser].lost.get(owner, 0) + 1
        for _, strays, owner in sorted(straying, key=lambda node: node[0]):
            _note_strays(strays, owner, claims)
        self._hosts = frozenset(name for name, _, _ in straying)
        return claims

    def _pools_within(self) -> dict[ObjectKey, ObjectKey]:
        """Pools that get no node, whichever comes, each with one before it that does: it selects one such node, too, so
        of a thousand pools a handful is compared."""
        within: dict[ObjectKey, ObjectKey] = {}
        selectors = {pool.key: pool.spec.nodes.selector for pool in self._pools}
        for key, selector in selectors.items():
            selecting = self.of(_labels_of_one(selector))
            before = selecting[: selecting.index(key)] if key in selecting else ()
            term = tuple(requirements(selector))
            if (other := next((older for older in before if not _without(term, selectors[older])), None)) is not None:
                within[key] = other
        return within

    def renewed(
        self,
        claims: Mapping[ObjectKey, Claim],
        names: Iterable[str],
        nodes: Mapping[str, Node],
        loads: Mapping[str, NodeLoad],
    ) -> dict[ObjectKey, Claim] | None:
        """These claims after nothing but the nodes of these names, or their loads, changed.

        `claims` are what `claims` or this gave last, and stay as they are. None where a node came, went or changed
        hands, or has balloons of others: then all of it is to be worked out anew.
        """
        lists: dict[ObjectKey, list[LoadedNode]] = {}
        for name in names:
            node, place = nodes.get(name), self._places.get(name)
            if node is None and place is None:
                continue  # pods may be bound to a node that is not known
            if node is None or place is None or name in self._hosts or self.of(node.labels) != place[0]:
                return None
            (pools, at), load = place, loads.get(name) or EMPTY
            owner = pools[0] if pools else None
            if load.balloons and _strays(load.balloons, owner):
                return None
            if owner is not None:
                if owner not in lists:
                    lists[owner] = claims[owner].nodes.copy()
                lists[owner][at] = (node, load)
        return {key: replace(claim, nodes=lists[key]) if key in lists else claim for key, claim in claims.items()}


def _labels_of_one(selector: LabelSelector) -> dict[str, str]:
    """Labels of a node that the selector selects, if it selects any."""
    needed = [part for part in requirements(selector) if part.operator in ("In", "Exists")]
    return {part.key: next(iter(part.values), "") for part in sorted(needed, key=lambda part: part.operator == "In")}


def is_bought_by_karpenter(pool: BalloonPool, claim: Claim) -> bool:
    """Whether Karpenter makes nodes for the pool's balloons."""
    return pool.spec.mode is Mode.HEADROOM and any(KARPENTER_POOL_LABEL in node.labels for node, _ in claim.nodes)


def pool_of(balloon: Pod) -> ObjectKey:
    """The pool that a balloon pod says it is of."""
    return ObjectKey(balloon.key.namespace, balloon.pool)


@lru_cache(maxsize=4096)
def deployment_name(pool: str, shape: str) -> str:
    """One name per pool and shape, cut to what a label value may hold; a cut name says by a digest whose it is."""
    whole = f"{pool}-{shape}"
    if len(whole) <= _NAME_LIMIT:
        return whole
    digest = sha256(whole.encode()).hexdigest()[:_DIGEST_LENGTH]
    room = _NAME_LIMIT - len(shape) - len(digest) - 2
    return f"{pool[:room].rstrip('-.')}-{digest}-{shape}"


def is_of_its_pool(balloon: Pod) -> bool:
    """Whether the pod's ReplicaSet is named as that of its pool's Deployment is: a copy of it makes pods with the same
    labels, and they hold nothing for the pool."""
    made_by = balloon.owner.name if balloon.owner is not None else ""
    return made_by.rpartition("-")[0] == deployment_name(balloon.pool, balloon.shape)


def _keys_of(selector: LabelSelector) -> Iterable[str]:
    return [*selector.match_labels, *(part.key for part in selector.match_expressions)]


def precedence(pool: BalloonPool) -> tuple[bool, float, ObjectKey]:
    """The order in which pools get nodes: those that act before those that only look, older before younger."""
    return pool.spec.paused or pool.spec.dry_run, pool.metadata.created_s, pool.key


def _claimant(pool: BalloonPool) -> tuple[tuple[bool, float, ObjectKey], bytes]:
    """What decides which nodes a pool gets."""
    return precedence(pool), msgspec.msgpack.encode(pool.spec.nodes.selector)


def _strays(balloons: tuple[Pod, ...], owner: ObjectKey | None) -> tuple[Pod, ...]:
    """The balloons of other pools on a node of the owner's."""
    if owner is None:
        return balloons
    first = balloons[0]
    if len(balloons) == 1 and first.pool == owner.name and first.key.namespace == owner.namespace:
        return ()  # the usual case, decided without building anything
    return tuple(balloon for balloon in balloons if pool_of(balloon) != owner)


def _note_strays(strays: Iterable[Pod], owner: ObjectKey | None, claims: Mapping[ObjectKey, Claim]) -> None:
    """Each is its own pool's stray, on a node of the owner's."""
    for balloon in strays:
        if claim := claims.get(pool_of(balloon)):
            claim.strays.append(balloon)
            if owner is not None:
                claim.strayed_to.add(owner)


Term = tuple[Requirement, ...]
"""One alternative of a node affinity: all of it must hold."""
MOST_TERMS = 32
"""Alternatives in one affinity. A selector that would make more of them is not kept off."""


def selectors_to_avoid(
    pool: BalloonPool, terms: Sequence[Term], stored: Sequence[Term], claim: Claim, before: Iterable[BalloonPool]
) -> tuple[LabelSelector, ...]:
    """The selectors of pools that come `before` this one, of whose nodes its balloons must keep off.

    `terms` is where its balloons may go by its own selector, `stored` where its Deployment lets them go now (empty
    where there is none). A change of that replaces every balloon. So a pool is added when the first balloon was seen
    to stray to its nodes, or when the Deployment is to be made, and stays for as long as it comes first. Where
    Karpenter makes the nodes, selectors with labels that it refuses in a pod are left out: it would make none any more.
    """
    if not claim.lost and all(len(kept) <= len(own) for kept, own in zip(stored, terms, strict=False)):
        return ()
    # Only by what its own terms do not all ask for can the Deployment keep off a pool that those do not. Of a thousand
    # pools, each younger than one that takes nodes from all, a handful is looked at.
    added = {part.key for part in set().union(*stored).difference(set(terms[0]).intersection(*terms))}
    avoided = []
    for other in before:
        selector = other.spec.nodes.selector
        if other.key not in claim.lost and added.isdisjoint(_keys_of(selector)):
            continue
        is_said = bool(stored) and all(_rules_out(term, selector) for term in stored)
        is_needed = other.key in claim.lost and (not stored or other.key in claim.strayed_to)
        if (is_said or is_needed) and not all(_rules_out(term, selector) for term in terms):
            avoided.append(selector)
    return tuple(
        selector
        for selector in avoided
        if not (_is_refused_by_karpenter(selector) and is_bought_by_karpenter(pool, claim))
    )


def _is_refused_by_karpenter(selector: LabelSelector) -> bool:
    return any(is_refused_in_pods(part.key) for part in requirements(selector))


def _rules_out(term: Term, selector: LabelSelector) -> bool:
    """Whether a node that meets the term cannot be one that the selector selects."""
    return any(are_contrary(own, other) for other in requirements(selector) for own in term)


def away_from(terms: Sequence[Term], selectors: Iterable[LabelSelector]) -> list[Term]:
    """These alternatives without the nodes that any of the selectors selects.

    A selector that leaves nothing, or more than `MOST_TERMS` alternatives, changes nothing.
    """
    alternatives = list(terms)
    for selector in selectors:
        parted: dict[Term, None] = {}
        for term in alternatives:
            rest = [term] if _rules_out(term, selector) else _without(term, selector)
            parted.update(dict.fromkeys(rest))
        if 0 < len(parted) <= MOST_TERMS:
            alternatives = list(parted)
    return alternatives


def _without(term: Term, selector: LabelSelector) -> list[Term]:
    """One alternative for each thing that a node may lack of what the selector asks for."""
    lacks = [opposite(part) for part in requirements(selector)]
    # Karpenter reads the first alternative to see whether a pod is for its nodes, and that may not be "not mine".
    lacks.sort(key=lambda part: part.operator == "DoesNotExist")
    return [(*term, lack) for lack in lacks if not any(are_contrary(lack, own) for own in term)]
