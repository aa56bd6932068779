"""What a decision sees of one pool before it aims at anything.

Which schedule holds now. The question is "is now inside the window", never "when does it fire next": a service that
was down at the firing, a clock that jumps and the nights when clocks change then need no care of their own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

from balloons.api.pool import BalloonPool, Mode, PoolSpec, Schedule, ShapeType, Strategy
from balloons.balloon_manifest import hosts_in, own_terms, stored_terms
from balloons.decide.census import (
    END_LIMIT_S,
    JOIN_LIMIT_S,
    PREFLIGHT_LIMIT_S,
    Census,
    NodeState,
    Rules,
    Unready,
    has_room,
    take_census,
)
from balloons.decide.decision_and_reasons import PoolMemory
from balloons.decide.refusing import NodeRefusal, hosts_left_out, refusals, sought_by_karpenter
from balloons.view.index_and_snapshot import Deployment, Now, Snapshot, StoredObject
from balloons.view.node_load_and_devices import EMPTY, NodeLoad
from balloons.view.shape_and_balloon_size import (
    ANY_TYPE,
    EXPLICIT,
    Shape,
    Shapes,
    any_type_requests,
    balloon_requests,
    counted_by_nodes,
    explicit_shape,
    extended,
    is_any_settled,
    pod_requests,
    remembered_shapes,
    shapes_of,
)
from balloons.view.tenancy_and_claim import Claim, Term, deployment_name, is_bought_by_karpenter, selectors_to_avoid
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import INSTANCE_TYPE_LABEL, Node, is_leaving
from throttler.kube.pod import POOL_LABEL, SHAPE_LABEL, Pod, is_marked
from throttler.kube.quantities_and_durations import Resources, parse_duration, parse_resources
from throttler.kube.selectors import LabelSelector, Requirement, are_contrary, requirements

CLOCK_CHANGE = timedelta(hours=3)
"""No zone sets its clocks by more than two hours at a time."""
REMEMBERED = 4096
"""Firings that are remembered: those of some namespaces' schedules, for this minute and the last ones."""


def active_schedule(schedules: Sequence[Schedule], wall: datetime) -> Schedule | None:
    """The first schedule, in the order the user wrote them, whose window holds `wall` (aware)."""
    return next((schedule for schedule in schedules if is_inside(schedule, wall)), None)


def is_inside(schedule: Schedule, wall: datetime) -> bool:
    """Whether `wall` is at or after the last firing and before its end, in real elapsed time."""
    return wall < last_firing(schedule, wall) + timedelta(seconds=parse_duration(schedule.duration))


def last_firing(schedule: Schedule, wall: datetime) -> datetime:
    """The newest firing at or before `wall`, in UTC. Whatever fires at all does so within 40 years."""
    return _last_firing(schedule.cron, schedule.time_zone, wall.astimezone(UTC).replace(second=0, microsecond=0))


@lru_cache(maxsize=REMEMBERED)
def _last_firing(cron: str, zone: str, minute: datetime) -> datetime:
    """The same for a whole minute: cron fires at no other moment, and a day that comes every 28 years is far to seek.

    Firings follow Debian's cron where clocks change: a fixed time that the spring night skips fires when the
    hour is over, and one that the autumn night repeats fires once.
    """
    local, earlier = (moment.astimezone(ZoneInfo(zone)) for moment in (minute, minute - CLOCK_CHANGE))
    # The iterator looks strictly before the moment it is given; a firing at this very second counts.
    newest = next(CronSim(cron, local + timedelta(seconds=1), reverse=True)).astimezone(UTC)
    if local.utcoffset() == earlier.utcoffset():
        return newest
    # Looking back from an hour that is repeated it passes over what fired in that hour's first pass.
    later = (firing.astimezone(UTC) for firing in CronSim(cron, earlier))
    return max([newest, *takewhile(lambda firing: firing <= minute, later)])


def wanted_size(spec: PoolSpec, schedule: Schedule | None) -> int | None:
    """The size the user asks for now, in nodes; None is "every idle node" (Hold without a size)."""
    source: PoolSpec | Schedule = schedule or spec
    size = source.size
    if size is None and source.size_percent is not None:
        assert spec.max_size is not None, "a pool whose percents are of nothing is invalid"
        size = percent_of(source.size_percent, spec.max_size)
    return None if size is None else max(size, spec.min_size)


def percent_of(percent: int, whole: int) -> int:
    """`percent` of `whole`, rounded up: a pool that asks for 1 % asks for at least one node."""
    return -(-percent * whole // 100)


_ON_THEIR_WAY = (NodeState.PREFLIGHT, NodeState.JOINING)
Late = tuple[str, NodeState]
"""A node by uid and what keeps it: a test, a taint of its join, what it is short of (SICK), a taint that closes it
(CLOSED), or a balloon that was told to end and is still there (IDLE). Each has its time."""


@dataclass(frozen=True, slots=True)
class Short:
    """What a node lacks for its shape's balloon: the `device`, or (empty) cpu or memory."""

    shape: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool with its nodes sorted and measured.

    `deployments` are the pool's own, by shape name; in `loads` its nodes carry no balloons but its own.
    """

    pool: BalloonPool
    claim: Claim
    census: Census
    shapes: Shapes
    schedule: Schedule | None
    unbound: tuple[Pod, ...]
    deployments: Mapping[str, Deployment]
    loads: Mapping[str, NodeLoad]
    requests: Mapping[str, Resources | None]
    """What a balloon of each shape asks for; None where nothing is left for one."""
    short: Mapping[str, Short]
    """Nodes by name that a balloon of their shape does not fit, though nothing else keeps it off."""
    late: tuple[Late, ...]
    """Nodes that are Ready and not usable yet, or not any more: how long that lasts decides what they are."""
    refusals: Mapping[str, NodeRefusal]
    """Nodes that refuse balloons or did so lately, by name."""
    alone: frozenset[str]
    """Those of the pool's nodes that are left alone for it now."""
    left_out: Mapping[str, tuple[str, ...]]
    """Host names that the balloons of each shape must avoid."""
    avoided: Mapping[str, tuple[LabelSelector, ...]]
    """Selectors of older pools that the balloons of each shape must keep off."""
    copies: tuple[str, ...]
    """Names of Deployments that wear the labels of the pool's and are none of them."""
    endless: tuple[str, ...]
    """Names of idle nodes that a balloon does not leave."""
    outranking: tuple[Pod, ...]
    """Balloons that were given a priority of work's."""
    leaving: tuple[Pod, ...]
    """Balloons on nodes that an autoscaler is about to remove: what runs there is replaced, or ends."""

    @property
    def is_bought_by_karpenter(self) -> bool:
        """Whether Karpenter makes nodes for the pool's balloons: it makes none for pods that rule out host names."""
        return is_bought_by_karpenter(self.pool, self.claim)

    @property
    def coming(self) -> list[Node]:
        """Nodes that the autoscaler counts on for balloons, and that none may hold yet."""
        return [node for node in self.census.coming if not self.is_seen_short(node)]

    def is_seen_short(self, node: Node) -> bool:
        """Whether the autoscaler sees that no balloon fits there and buys another node for one that waits, however new
        this one is. It expects a device of which there is none at all to be named yet."""
        short = self.short.get(node.name)
        return short is not None and (not short.device or bool(node.allocatable.get(short.device)))


@dataclass(frozen=True, slots=True)
class PoolDeployments:
    """The Deployments that wear the labels of one pool."""

    own: Mapping[str, Deployment] = field(default_factory=dict)
    """By shape name; one that is being deleted is nobody's any more."""
    copies: tuple[str, ...] = ()
    """Names of those that wear all labels of the pool's and that somebody else has made, sorted."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a pool's stored objects say of its balloons, by shape name."""

    templates: Mapping[str, Any]
    """Their pod templates."""
    terms: Mapping[str, Sequence[Term]]
    """The alternatives of their node affinity."""
    hosts: Mapping[str, tuple[str, ...]]
    """Host names that they keep off."""


def view_of(
    pool: BalloonPool,
    snapshot: Snapshot,
    labelled: PoolDeployments,
    templates: Mapping[str, StoredObject],
    before: Sequence[BalloonPool],
    past: PoolMemory,
    unready: Mapping[str, Unready],
    now: Now,
) -> PoolView:
    """Sort and measure one pool's nodes. `templates` are the pool's PodTemplates by shape name, `before` the pools that
    come first where both select a node; `unready` says how long ago nodes stopped being Ready."""
    claim = snapshot.claims[pool.key]
    rules = Rules.of(pool, now.wall.timestamp(), unready)
    census = take_census(claim.nodes, rules)
    census = census.corrected(_left_behind(census, snapshot))
    stored = _stored(pool, labelled.own, templates, before)
    counted: dict[str, Resources] = {}
    if pool.spec.shape.type is ShapeType.EXPLICIT:
        counted = {EXPLICIT: counted_by_nodes(census.measured, parse_resources(pool.spec.shape.resources))}
    shapes, requests = _shapes_and_requests(pool, claim, census, stored, counted, rules.wall_s)
    loads = {**snapshot.loads, **claim.own_loads} if claim.own_loads else snapshot.loads
    fitting = _Fitting(shapes, {**requests, **counted}, loads, rules)
    if not counted:
        census = census.corrected(fitting.free_beside_work(census))
    schedule = active_schedule(pool.spec.schedules, now.wall)
    refusing = _refusing(pool, census, snapshot, past.refusals, stored.hosts, schedule, now)
    census = refusing.census
    short = fitting.short(census, has_balloons=pool.spec.strategy is Strategy.BALLOON)
    going = {node.name for node in census.by_state[NodeState.CLOSED] if is_leaving(node)}
    lacking, tainted = [snapshot.nodes[name] for name in short], _tainted(census)
    idle = [(node, loads.get(node.name) or EMPTY) for node in census.by_state[NodeState.IDLE]]
    left = [node for node, load in idle if load.is_being_left and not load.balloons]
    late = (
        *((node.uid, state) for state in _ON_THEIR_WAY for node in census.by_state[state] if node.is_ready),
        *((node.uid, NodeState.SICK) for node in lacking),
        *((node.uid, NodeState.CLOSED) for node in tainted),
        *((node.uid, NodeState.IDLE) for node in left),
    )
    late_s = {one: now.monotonic_s - past.late_since_s.get(one, now.monotonic_s) for one in late}
    endless = [node.name for node in left if late_s[node.uid, NodeState.IDLE] >= END_LIMIT_S]
    return PoolView(
        pool=pool,
        claim=claim,
        census=census.corrected(
            _aged(census, lacking, tainted, rules, late_s) | dict.fromkeys(endless, NodeState.SICK)
        ),
        shapes=shapes,
        schedule=schedule,
        unbound=tuple(pod for pod in snapshot.unbound.get(pool.key, ()) if not pod.is_terminating),
        deployments=labelled.own,
        loads=loads,
        requests=requests,
        short=short,
        late=late,
        refusals=refusing.refusals,
        alone=refusing.alone,
        copies=labelled.copies,
        endless=tuple(endless),
        outranking=snapshot.outranking.get(pool.key, ()),
        leaving=tuple(balloon for balloon in census.balloons[NodeState.CLOSED] if balloon.node in going),
        left_out=_left_out(pool, claim, shapes, stored.hosts, refusing, snapshot.nodes, now),
        avoided={
            name: selectors_to_avoid(pool, own_terms(pool, shape), stored.terms.get(name, ()), claim, before)
            for name, shape in shapes.by_name.items()
        },
    )


def _stored(
    pool: BalloonPool,
    deployments: Mapping[str, Deployment],
    templates: Mapping[str, StoredObject],
    before: Sequence[BalloonPool],
) -> _Stored:
    said: dict[str, Any] = {name: deployment.spec.get("template") for name, deployment in deployments.items()}
    if pool.spec.strategy is Strategy.CAPACITY_BUFFER:
        said |= {name: own.template for name, own in templates.items()}
    terms = {name: stored_terms(deployment.spec) for name, deployment in deployments.items()}
    hosts = {
        name: hosts_in(term, (other.spec.nodes.selector for other in (pool, *before))) for name, term in terms.items()
    }
    return _Stored(said, terms, hosts)


def _shapes_and_requests(
    pool: BalloonPool,
    claim: Claim,
    census: Census,
    stored: _Stored,
    counted: Mapping[str, Resources],
    wall_s: float,
) -> tuple[Shapes, dict[str, Resources | None]]:
    """The pool's shapes, and what a balloon of each asks for: as measured on its nodes, or as the `stored` pod
    templates say of shapes of which no node is up. `counted` is what explicit requests ask of nodes.

    No balloon asks for devices that a DRA driver gives. It would get them by a claim, and the scheduler takes claimed
    devices from nobody (KEP-5690 is about to change that): whoever needs them would wait behind the balloon for ever.
    """
    remembered = remembered_shapes(stored.templates)
    if counted:
        shapes = explicit_shape(census.measured, counted[EXPLICIT])
    else:
        shapes = shapes_of(census.measured, wall_s, pool.spec.shape.devices, remembered.values())
    vacant = {name: shape for name, shape in remembered.items() if name not in shapes.by_name}
    shapes = replace(shapes, by_name={**shapes.by_name, **vacant})
    in_use = {name: pod_requests(template) for name, template in stored.templates.items()}
    claiming = {balloon.shape for here in census.balloons.values() for balloon in here if balloon.claims_devices}
    for name in claiming & shapes.by_name.keys() - vacant.keys():
        # A driver has taken the place of the plugin that the requests in use go on waiting for.
        in_use[name] = {of: milli for of, milli in (in_use.get(name) or {}).items() if "/" not in of}
    requests = {name: balloon_requests(pool, shape, in_use.get(name)) for name, shape in shapes.by_name.items()}
    if counted and (in_use.get(EXPLICIT) == counted[EXPLICIT] or is_any_settled(census.measured, wall_s)):
        requests |= counted
    tried = _types_tried(pool, claim, shapes, stored.terms.get(ANY_TYPE))
    if (wanted := requests.get(shapes.main)) and _takes_any_type(pool, shapes, tried):
        any_type = Shape(ANY_TYPE, "", {}, is_vacant=True, other_than=tried)
        shapes = replace(shapes, by_name={**shapes.by_name, ANY_TYPE: any_type})
        # As long as nodes are waited for in that shape, those on their way are for what was asked for.
        requests[ANY_TYPE] = in_use.get(ANY_TYPE) or any_type_requests(wanted)
    return shapes, requests


@dataclass(frozen=True, slots=True)
class _Refusing:
    """The nodes that refuse balloons, as in PoolView, and the census in which those that are left alone are sick."""

    refusals: Mapping[str, NodeRefusal]
    alone: frozenset[str]
    census: Census


def _refusing(
    pool: BalloonPool,
    census: Census,
    snapshot: Snapshot,
    refused: Mapping[str, NodeRefusal] | None,
    hosts: Mapping[str, tuple[str, ...]],
    schedule: Schedule | None,
    now: Now,
) -> _Refusing:
    """Judge the nodes by the pool's failed balloons; `hosts` are those that its stored Deployments keep off."""
    failed, kept_off = snapshot.failed.get(pool.key, ()), chain.from_iterable(hosts.values())
    judged = refusals(failed, snapshot.nodes, snapshot.loads, refused, kept_off, now)
    alone = frozenset(name for name, refusal in judged.items() if refusal.is_left_alone(now.monotonic_s))
    if alone:
        idle = census.by_state[NodeState.IDLE]
        census = census.corrected({node.name: NodeState.SICK for node in idle if node.name in alone})
    if _loses_held_nodes(pool, census, schedule, alone):
        judged = sought_by_karpenter(judged, snapshot.nodes, now.monotonic_s)
    sick = census.by_state[NodeState.SICK]
    return _Refusing(judged, frozenset(node.name for node in sick if node.name in alone), census)


def _left_out(
    pool: BalloonPool,
    claim: Claim,
    shapes: Shapes,
    hosts: Mapping[str, tuple[str, ...]],
    refusing: _Refusing,
    nodes: Mapping[str, Node],
    now: Now,
) -> dict[str, tuple[str, ...]]:
    """Host names that the balloons of each shape must avoid.

    Karpenter makes no node for a pod that rules out host names: for pools that may be its own a name is said only while
    it must be. Without a node nobody knows who makes them, and no balloon loses its node by a change of the template.
    """
    barred = refusing.refusals
    if is_bought_by_karpenter(pool, claim) or not claim.nodes:
        hosts, barred = {}, {name: refusing.refusals[name] for name in refusing.alone}
    return {
        name: hosts_left_out(hosts.get(name, ()), nodes, barred, now, shape.instance_type)
        for name, shape in shapes.by_name.items()
    }


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Whether nodes have room for their shape's balloon; nodes of a size with equal pods are judged once."""

    shapes: Shapes
    requests: Mapping[str, Resources | None]
    loads: Mapping[str, NodeLoad]
    rules: Rules
    _known: dict[tuple[str, int, int, int, bool], bool] = field(default_factory=dict)

    def free_beside_work(self, census: Census) -> dict[str, NodeState]:
        """What nodes are that run work, but so little of it that a balloon has its room beside it."""
        states: dict[str, NodeState] = {}
        for (_, _, _, balloon), alike in census.measured.items():
            for node, load in alike if balloon is None else ():
                if (load.work or load.scavengers) and node.is_ready and self._takes(node, load):
                    states[node.name] = self.rules.state_of(node, msgspec.structs.replace(load, work=0, scavengers=0))
        return states

    def short(self, census: Census, *, has_balloons: bool) -> dict[str, Short]:
        """Nodes with fewer devices than their shape; where the pool `has_balloons`, also those without one that have no
        room for it."""
        lacking = {name: device for shape in self.shapes.by_name.values() for name, device in shape.short.items()}
        short: dict[str, Short] = {}
        # A warm node has its balloon: it can only lack a device.
        for state in (NodeState.WARM, NodeState.IDLE) if lacking else (NodeState.IDLE,):
            for node in census.by_state[state]:
                load = self.loads.get(node.name) or EMPTY
                if node.name in lacking:
                    short[node.name] = Short(self.shapes.of(node), lacking[node.name])
                elif has_balloons and not load.balloons and not self._takes(node, load):
                    short[node.name] = Short(self.shapes.of(node), self._device_lacking(node))
        return short

    def _device_lacking(self, node: Node) -> str:
        requests = self.requests.get(self.shapes.of(node)) or {}
        lacking = (name for name in extended(requests) if node.allocatable.get(name, 0) < requests[name])
        return next(lacking, "")

    def _takes(self, node: Node, load: NodeLoad) -> bool:
        """Where the shape has no size nothing is known to be short."""
        kind = (node.instance_type, id(node.allocatable), id(load.daemons), id(load.others), load.claims_devices)
        known = self._known.get(kind)
        if known is None:
            requests = self.requests.get(self.shapes.of(node))
            known = self._known[kind] = has_room(node, load, requests) if requests else not load.others
        return known


def _takes_any_type(pool: BalloonPool, shapes: Shapes, tried: Collection[str]) -> bool:
    """Whether a balloon without an instance type may get another node than one of these types or the main shape's."""
    main = shapes.by_name[shapes.main].instance_type
    if pool.spec.mode is not Mode.HEADROOM or not main:
        return False
    another = Requirement(INSTANCE_TYPE_LABEL, "NotIn", tuple({main, *tried}))
    return not any(are_contrary(another, part) for part in requirements(pool.spec.nodes.selector))


def _types_tried(pool: BalloonPool, claim: Claim, shapes: Shapes, stored: Sequence[Term] | None) -> tuple[str, ...]:
    """Instance types that a balloon of any other type rules out, sorted: they have all had their turn before it.

    cluster-autoscaler believes for 15 minutes in a machine that it has ordered. A balloon that fits that machine waits
    for it, and nothing is ordered from another group. Karpenter gives such an order up at once. What the `stored`
    Deployment says stays, as its requests do.
    """
    if pool.spec.strategy is not Strategy.BALLOON:
        return ()
    if stored:
        own = requirements(pool.spec.nodes.selector)
        ours = (part for part in stored[0] if part.key == INSTANCE_TYPE_LABEL and part not in own)
        return next((part.values for part in ours if part.operator == "NotIn"), ())
    if is_bought_by_karpenter(pool, claim):
        return ()
    return tuple(sorted({shape.instance_type for shape in shapes.by_name.values()} - {""}))


def _loses_held_nodes(pool: BalloonPool, census: Census, schedule: Schedule | None, refused: Collection[str]) -> bool:
    """Whether an autoscaler removes a node that the pool has no other idle one for, refusing ones apart.

    Its balloon may be gone by now: Karpenter evicts it within milliseconds.
    """
    wanted = wanted_size(pool.spec, schedule)
    is_short = wanted is None or len(census.holdable) < wanted
    closed = census.by_state[NodeState.CLOSED]
    return is_short and any(node.name not in refused and is_leaving(node) for node in closed)


def _left_behind(census: Census, snapshot: Snapshot) -> dict[str, NodeState]:
    """Nodes that nothing but a balloon of a pool that is gone still holds: it is swept up within minutes, and another
    pool, perhaps the same by a new name, can hold them then."""
    behind = {}
    for node in census.by_state[NodeState.SCAVENGED]:
        load = snapshot.loads[node.name]
        pools = {ObjectKey(balloon.key.namespace, balloon.pool) for balloon in load.balloons}
        is_stored = any(
            pool in stored for stored in (snapshot.pools, snapshot.invalid, snapshot.refused) for pool in pools
        )
        if not (load.scavengers or is_stored):
            behind[node.name] = NodeState.JOINING
    return behind


def _tainted(census: Census) -> list[Node]:
    """Held nodes that nothing closes but a taint: an agent that starts anew, or pressure, puts one on for a while."""
    held = {balloon.node for balloon in census.balloons[NodeState.CLOSED]}
    closed = (node for node in census.by_state[NodeState.CLOSED] if node.name in held)
    return [node for node in closed if node.is_ready and not (node.is_cordoned or is_leaving(node))]


def _aged(
    census: Census,
    short: Iterable[Node],
    tainted: Iterable[Node],
    rules: Rules,
    late_s: Mapping[Late, float],
) -> dict[str, NodeState]:
    """What becomes of nodes that are `short` of something, of held ones with a taint, and of those that have been on
    their way for too long."""
    states: dict[str, NodeState] = {}
    for node in tainted:
        if late_s[node.uid, NodeState.CLOSED] < rules.grace_s:
            states[node.name] = NodeState.JOINING
    for node in short:
        is_new = rules.wall_s - node.created_s < JOIN_LIMIT_S
        is_expected = is_new or late_s[node.uid, NodeState.SICK] < rules.grace_s
        states[node.name] = NodeState.JOINING if is_expected else NodeState.SICK
    for state, limit_s in ((NodeState.PREFLIGHT, PREFLIGHT_LIMIT_S), (NodeState.JOINING, JOIN_LIMIT_S)):
        for node in census.by_state[state]:
            if node.is_ready and late_s[node.uid, state] >= limit_s:
                states[node.name] = NodeState.SICK
    return states


def deployments_by_pool(deployments: Iterable[Deployment]) -> dict[ObjectKey, PoolDeployments]:
    """All pools' at once: each asks for its own only, and there may be a thousand."""
    own: dict[ObjectKey, dict[str, Deployment]] = {}
    copies: dict[ObjectKey, list[str]] = {}
    for deployment in deployments:
        metadata = deployment.metadata
        key = ObjectKey(metadata.namespace, metadata.labels.get(POOL_LABEL, ""))
        if pool_of(metadata) != key:
            if is_marked(metadata.labels):
                copies.setdefault(key, []).append(metadata.name)
        elif metadata.deletion_timestamp is None:
            own.setdefault(key, {})[metadata.labels.get(SHAPE_LABEL, "")] = deployment
    return {
        key: PoolDeployments(own.get(key, {}), tuple(sorted(copies.get(key, ())))) for key in own.keys() | copies.keys()
    }


def pool_of(metadata: Metadata) -> ObjectKey:
    """The pool an object of ours belongs to, by its labels, namespace and name; the pool's name is empty where it is
    not ours. A copy of one has all the labels and another name."""
    pool = metadata.labels[POOL_LABEL] if is_marked(metadata.labels) else ""
    is_ours = metadata.name == deployment_name(pool, metadata.labels.get(SHAPE_LABEL, ""))
    return ObjectKey(metadata.namespace, pool if is_ours else "")
