"""Machine shapes of a pool, and the size of the balloon that holds one whole.

Sizes come from *observed* allocatable, because what an instance type promises and what a node offers differ. One odd
node must not set them: devices are asked for by the commonest count, cpu and memory by what all but the smallest tenth
of the nodes have left after DaemonSets, less slack (without slack the next DaemonSet pod, priority 0, would preempt the
balloon). See docs/decisions/0007.

What our own Deployments and PodTemplates still say about shapes of which no node is up now. A pool that was scaled to
zero knows from them how large its balloons are and on which machines they go.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import attrgetter
from typing import Any

from balloons.api.pool import BalloonPool, ShapeType
from balloons.view.node_load_and_devices import NodeLoad, is_device, is_network_card
from throttler.kube.node import INSTANCE_TYPE_LABEL, Node
from throttler.kube.quantities_and_durations import QuantityError, Resources, minus, parse_resources

GRAIN = {"cpu": 10, "memory": 1024**2 * 1000}
"""Steps (milli-units) to which requests are rounded down: 10 millicores and 1 MiB."""
DEFAULT_SLACK = {"cpu": "200m", "memory": "256Mi"}
"""Room left on a node for DaemonSet pods to come, where the pool says nothing else of a resource."""
KEPT_SHARE = 0.9
"""A request in use is kept while it still covers this share of what would be asked for anew."""
ODD_SHARE = 0.1
"""Up to this share of a shape's nodes may have less room than its balloon asks for, and always one of several.

As many as a rolling update of nodes or of a DaemonSet changes at a time: what a tenth of the nodes has is news, what
more of them have is how they are.
"""
SETTLED_S = 900.0
"""A node that old has started its device plugins, or they will not come: both autoscalers' own limit for a join."""
EXPLICIT = "explicit"
"""Shape name of balloons whose requests the user gave."""
ANY_TYPE = "any-type"
"""Shape name of balloons that ask for a new node of whatever type the autoscaler has."""
BESIDE_DEVICES = 0.25
"""Such a balloon asks for all of the main shape's devices, and beside them for this share of its cpu and memory.

Generations of machines with eight accelerators differ that much in cores.
"""
_GIB = 1024**3 * 1000
_NO_LABEL_VALUE = re.compile(r"[^A-Za-z0-9-]+")
_SHAPE_NAME_LIMIT = 40
_DIGEST_LENGTH = 6
_Seen = tuple[Node, NodeLoad]
_Alike = list[_Seen]
Kind = tuple[str, int, int, str | None]
"""A node's instance type, its size and its DaemonSets, and the shape of the first balloon there (None: there is none).

Size and DaemonSets are told apart by identity: caches share one dict between equal ones, so this is fast, and where
they do not it is merely slower.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """Nodes that one balloon size fits: those of one instance type with the same devices.

    `name` is a label value; `room` is what its nodes have for a balloon (milli-units), after DaemonSets, but for a few
    odd ones. `is_vacant`: no node of the shape is up (known from our own Deployment, or any type). `short` maps the
    shape's nodes that have fewer devices than the others, or than explicit requests, to the first one lacking.
    `other_than` are instance types that a node of any type must not have.
    """

    name: str
    instance_type: str
    room: Resources
    short: Mapping[str, str] = field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    is_vacant: bool = False
    other_than: tuple[str, ...] = ()


def shape_name(node: Node, devices: Collection[str], *, is_taken: bool = False) -> str:
    """The name of the shape of this node's type with these devices; without an instance type its size in words.

    One that is too long, or that another type has already (`is_taken`), gets a digest.
    """
    text = node.instance_type or _size_in_words(node.allocatable)
    whole = "-".join([text, *(name.rpartition("/")[2] for name in sorted(devices))])
    name = _NO_LABEL_VALUE.sub("-", whole).strip("-").lower() or "node"
    if len(name) <= _SHAPE_NAME_LIMIT and not is_taken:
        return name
    digest = sha256(whole.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: _SHAPE_NAME_LIMIT - _DIGEST_LENGTH - 1].strip('-')}-{digest}"


def _size_in_words(allocatable: Resources) -> str:
    return f"{allocatable.get('cpu', 0) // 1000}cpu-{allocatable.get('memory', 0) // _GIB}gi"


def extended(resources: Resources) -> list[str]:
    """Names of device-like resources present (GPUs and the like), sorted."""
    return sorted(name for name, milli in resources.items() if "/" in name and milli > 0)


@dataclass(frozen=True, slots=True)
class Shapes:
    """A pool's shapes by name, largest group of nodes first, and the shape of each kind of node."""

    by_name: Mapping[str, Shape]
    _of_kind: Mapping[tuple[str, int], str]
    beside_balloons: frozenset[tuple[str, str]] = frozenset()
    """Every combination of a first balloon's shape and the shape of the node that it is on."""

    def of(self, node: Node) -> str:
        """The name of the shape the node belongs to; empty for one that was not measured."""
        return self._of_kind.get((node.instance_type, id(node.allocatable)), "")

    def of_all(self, nodes: Sequence[Node]) -> Counter[str]:
        """How many of these nodes each shape has."""
        count = Counter[str]()
        kinds = zip(
            map(attrgetter("instance_type"), nodes), map(id, map(attrgetter("allocatable"), nodes)), strict=True
        )
        for kind, number in Counter(kinds).items():
            count[self._of_kind.get(kind, "")] += number
        return count

    @property
    def are_vacant(self) -> bool:
        """Whether no node of any of them is up: all that is known of them is what our own objects say."""
        return all(shape.is_vacant for shape in self.by_name.values())

    @property
    def main(self) -> str:
        """The shape that new nodes are asked for in: the one with most nodes; empty while none is known."""
        return next(iter(self.by_name), "")

    def holds(self, balloon_shape: str, node_shape: str) -> bool:
        """Whether a balloon cut for one shape holds nodes of the other.

        It does where both are of one instance type and the node has the same devices, network cards apart, which it may
        have besides. A balloon that was made before the first GPUs were named leaves them to whoever asks.
        """
        own, other = self.by_name.get(balloon_shape), self.by_name.get(node_shape)
        if own is None or other is None or own is other:
            return own is other and own is not None
        is_same_type = bool(own.instance_type) and own.instance_type == other.instance_type
        return is_same_type and own.devices < other.devices and all(map(is_network_card, other.devices - own.devices))


def shapes_of(
    measured: Mapping[Kind, _Alike],
    wall_s: float,
    devices: Collection[str],
    remembered: Collection[Shape],
) -> Shapes:
    """The pool's shapes at `wall_s` (seconds since the epoch); `devices` are asked for besides the well-known ones.

    Nodes of equal size and equal DaemonSets are measured once. `remembered` are the shapes that our own objects tell
    of: a node that comes to an empty pool names its devices only once their plugins run.
    """

    def asked_for(names: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in names if is_device(name) or name in devices)

    stored: dict[str, list[frozenset[str]]] = {}
    for shape in remembered:
        stored.setdefault(shape.instance_type, []).append(asked_for(shape.devices))
    alikes: dict[tuple[str, int, int], _Alike] = {}
    for (instance_type, size, daemons, _), alike in measured.items():
        alikes.setdefault((instance_type, size, daemons), []).extend(alike)
    types: dict[str, dict[frozenset[str], list[_Alike]]] = {}
    for alike in alikes.values():
        node = alike[0][0]
        own = asked_for(node.allocatable)
        types.setdefault(node.instance_type or _size_in_words(node.allocatable), {}).setdefault(own, []).append(alike)
    of_kind: dict[tuple[str, int], str] = {}
    shapes: list[tuple[int, Shape]] = []
    names = {shape.name: shape.instance_type for shape in remembered}
    for text, variants in sorted(types.items()):
        had = stored.get(text, ())
        # Nearly always all nodes of a type have the same devices, and had no more before.
        is_odd = len(variants) > 1 or any(own < other for own in variants for other in had)
        makes = _makes(variants, had, wall_s) if is_odd else variants
        for wanted, groups in makes.items():
            instance_type, name = groups[0][0][0].instance_type, shape_name(groups[0][0][0], wanted)
            if names.setdefault(name, instance_type) != instance_type:
                # Names are of fewer letters than instance types: gpu.large and gpu-large are two machines.
                name = shape_name(groups[0][0][0], wanted, is_taken=True)
            shape = _measure(name, wanted, groups)
            shapes.append((sum(map(len, groups)), shape))
            of_kind |= {(a[0][0].instance_type, id(a[0][0].allocatable)): shape.name for a in groups}
    shapes.sort(key=lambda counted: (-counted[0], counted[1].name))
    by_name = {shape.name: shape for _, shape in shapes}
    return Shapes(by_name, of_kind, _beside_balloons(measured, of_kind))


def _beside_balloons(measured: Iterable[Kind], of_kind: Mapping[tuple[str, int], str]) -> frozenset[tuple[str, str]]:
    return frozenset((own, of_kind[instance_type, size]) for instance_type, size, _, own in measured if own is not None)


def _makes(
    variants: Mapping[frozenset[str], list[_Alike]], stored: Collection[frozenset[str]], wall_s: float
) -> dict[frozenset[str], list[_Alike]]:
    """The nodes of one instance type, given by the devices that they have, by those that they should have.

    A node that names fewer devices than others of its type is a machine of another make only if several of them have
    been like that for long; else its device plugins have not started, or are broken, and it belongs to those others.
    A node without any device never is one. A device at zero counts as had: its plugin is down for the moment.

    Where there are no such others, what is `stored` tells which devices nodes of the type had, until one is settled.
    """
    total = sum(len(alike) for groups in variants.values() for alike in groups)
    makes: set[frozenset[str]] = set()
    for own, groups in variants.items():
        has_fuller = any(own < other for other in variants)
        had = {other for other in stored if own < other and not has_fuller}
        if not (has_fuller or had):
            makes.add(own)  # the usual case: not a look at each node
            continue
        settled = sum(1 for alike in groups for node, _ in alike if wall_s - node.created_s >= SETTLED_S)
        if has_fuller:
            makes |= {own} if own and settled >= max(2, ODD_SHARE * total) else set()
        else:
            makes |= had if settled < max(1, ODD_SHARE * total) else {own}
    gathered: dict[frozenset[str], list[_Alike]] = {}
    in_order = sorted(makes, key=lambda own: (len(own), sorted(own)))
    for own, groups in variants.items():
        gathered.setdefault(next(make for make in in_order if own <= make), []).extend(groups)
    return gathered


def counted_by_nodes(measured: Mapping[Kind, _Alike], requests: Resources) -> Resources:
    """These requests less the devices that no node names: where a DRA driver gives them, no node tells its number."""
    named = set[str]().union(*(alike[0][0].allocatable for alike in measured.values()))
    return {name: milli for name, milli in requests.items() if "/" not in name or name in named}


def is_any_settled(measured: Mapping[Kind, _Alike], wall_s: float) -> bool:
    """Whether some node is old enough to name all devices that a plugin gives it."""
    return any(wall_s - node.created_s >= SETTLED_S for alike in measured.values() for node, _ in alike)


def explicit_shape(measured: Mapping[Kind, _Alike], requests: Resources) -> Shapes:
    """The one shape of a pool whose balloons have these explicit requests, whatever its machines are."""
    of_kind = {(instance_type, size): EXPLICIT for instance_type, size, _, _ in measured}
    devices = {name: requests[name] for name in extended(requests)}
    shape = Shape(EXPLICIT, "", {}, short=_short(measured.values(), devices))
    return Shapes({EXPLICIT: shape}, of_kind, _beside_balloons(measured, of_kind))


def _measure(name: str, devices: frozenset[str], groups: list[_Alike]) -> Shape:
    """One shape: each group's first node speaks for all of it."""
    counts = {device: _commonest(device, groups) for device in sorted(devices)}
    rooms = [(minus(alike[0][0].allocatable, alike[0][1].daemons), alike) for alike in groups]
    counted = [(room, len(alike)) for room, alike in rooms]
    if len(rooms) > 1:
        idle = [(room, sum(1 for _, load in alike if not (load.work or load.scavengers))) for room, alike in rooms]
        counted = idle if any(count for _, count in idle) else counted
    plain = {of: _low([(room.get(of, 0), count) for room, count in counted]) for of in ("cpu", "memory")}
    return Shape(
        name=name,
        instance_type=groups[0][0][0].instance_type,
        room={**plain, **counts},
        short=_short(groups, counts),
        devices=devices,
    )


def _commonest(device: str, groups: list[_Alike]) -> int:
    """The count (milli-units) that most nodes offer, the larger of two; nodes whose plugin is down do not vote."""
    votes: Counter[int] = Counter()
    for alike in groups:
        votes[alike[0][0].allocatable.get(device, 0)] += len(alike)
    votes.pop(0, None)
    return max(votes, key=lambda count: (votes[count], count), default=0)


def _low(amounts: Sequence[tuple[int, int]]) -> int:
    """The amount that all but a few odd nodes reach; given as (amount, nodes)."""
    total = sum(count for _, count in amounts)
    left = max(1, int(ODD_SHARE * total)) if total > 1 else 0
    for amount, count in sorted(amounts):
        if count > left:
            return amount
        left -= count
    return 0


def _short(groups: Iterable[_Alike], counts: Mapping[str, int]) -> dict[str, str]:
    """The nodes that have fewer devices than these, by name, each with the first device that it lacks."""
    short: dict[str, str] = {}
    for alike in groups:
        allocatable = alike[0][0].allocatable
        lacking = next((device for device, count in counts.items() if allocatable.get(device, 0) < count), "")
        short.update(dict.fromkeys((node.name for node, _ in alike), lacking) if lacking else {})
    return short


def are_alike(shapes: Iterable[Shape]) -> bool:
    """Whether several shapes carry no instance type, so that no label keeps their balloons apart."""
    return sum(1 for shape in shapes if not shape.instance_type and not shape.is_vacant) > 1


def balloon_requests(pool: BalloonPool, shape: Shape, in_use: Resources | None) -> Resources | None:
    """The balloon's requests on this shape in milli-units, or None when nothing is left for one.

    `in_use` are the requests of the Deployment or PodTemplate as it stands: they are kept while they fit and still hold
    the node, because a change rolls every balloon of the shape.
    """
    asked = pool.spec.shape
    if shape.is_vacant:
        return in_use
    if asked.type is ShapeType.EXPLICIT:
        return parse_resources(asked.resources)
    slack = parse_resources({**DEFAULT_SLACK, **asked.slack})
    ideal = {name: _round_down(name, milli) for name, milli in minus(shape.room, slack).items()}
    if in_use:
        # A device that no node offers now is no reason for a change: its plugin is being started on all of them.
        ideal |= {name: in_use.get(name, 0) for name, milli in ideal.items() if "/" in name and not milli}
    if not all(ideal.get(name, 0) > 0 for name in ("cpu", "memory")):
        return None
    return in_use if in_use and _still_holds(in_use, ideal, shape.room, slack) else ideal


def _round_down(name: str, milli: int) -> int:
    return milli - milli % GRAIN.get(name, 1000)


def _still_holds(in_use: Resources, ideal: Resources, room: Resources, slack: Resources) -> bool:
    """Whether requests in use may stay: they cover the node, and at least half of the slack is left."""
    if any(in_use.get(name, 0) != ideal.get(name, 0) for name in {*extended(ideal), *extended(in_use)}):
        return False
    return all(
        KEPT_SHARE * ideal[name] <= in_use.get(name, 0) <= room[name] - slack.get(name, 0) // 2
        for name in ("cpu", "memory")
    )


def remembered_shapes(templates: Mapping[str, Any]) -> dict[str, Shape]:
    """The shapes of stored pod templates as if no node stood for them, by name; those that somebody broke are left
    out."""
    return {
        name: Shape(name, _instance_type(template), {}, devices=frozenset(extended(requests)), is_vacant=True)
        for name, template in sorted(templates.items())
        if name and name != ANY_TYPE and (requests := pod_requests(template))
    }


def any_type_requests(main: Resources) -> Resources:
    """What a balloon for a node of any type asks for, by the requests on the pool's `main` shape (milli-units).

    The autoscaler knows the sizes of its types, and a node that comes gets a balloon of its own size. Without devices
    it is as large as the main ones but for a tenth: Karpenter takes a type that it never ran for smaller than it is.
    """
    share = BESIDE_DEVICES if extended(main) else KEPT_SHARE
    return {name: milli if "/" in name else _round_down(name, int(share * milli)) for name, milli in main.items()}


def pod_requests(template: Any) -> Resources | None:
    """The requests of a stored pod template's first container; None where there is none or somebody broke them."""
    try:
        return parse_resources(template["spec"]["containers"][0]["resources"]["requests"])
    except (KeyError, TypeError, IndexError, AttributeError, QuantityError):
        return None


def _instance_type(template: Any) -> str:
    """The one instance type that the balloons' node affinity leaves, if any: the pool's selector may name several."""
    try:
        affinity = template["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        rules = [rule for rule in terms[0]["matchExpressions"] if rule["key"] == INSTANCE_TYPE_LABEL]
        (left,) = set.intersection(*(set(rule["values"]) for rule in rules if rule["operator"] == "In"))
        return str(left)
    except (KeyError, TypeError, IndexError, ValueError):
        return ""
