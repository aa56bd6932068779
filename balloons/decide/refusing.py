"""Nodes whose kubelet refuses balloons: when they are left alone, and when they are tried again. Pure.

A ReplicaSet has no back-off for Failed pods, and the scheduler finds the node as empty as before: one node that refuses
makes pods for ever. A few Failed balloons within a while are enough to count the node as sick, so that nobody asks for
a balloon there. If they keep coming all the same (another node has become free, or Headroom waits for one), or if
Karpenter removes held nodes because it counts on the room there, its host name is left out of the Deployment's node
affinity. See docs/decisions/0014-nodes-that-refuse.md.

The Failed balloons and the host names in the Deployment are the record that a restart finds; for how long the node
has been left alone, and how often before, is forgotten with the memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from balloons.view.index_and_snapshot import FailedBalloon, Now
from balloons.view.node_load_and_devices import EMPTY, NodeLoad
from throttler.kube.node import HOST_LABEL, KARPENTER_POOL_LABEL, Node, is_leaving

FEW = 3
"""So many Failed balloons of one node within `WINDOW_S` are no accident; as many are kept as its record."""
WINDOW_S = 600.0
"""Apart by when they were made, on the API server's clock. Failed balloons that prove nothing are removed after it."""
SAME_RUSH_S = 60.0
"""One failure is enough on a node where that is made within this time of another node's: the scheduler may try the same
broken node a hundred times, and a second one only once."""
FIRST_REST_S = 600.0
LONGEST_REST_S = 4 * 3600.0
"""A node is left alone for ever longer times. One that is left out by name is so for the longest from the start: to
let it in again changes the template, which costs every balloon of the shape its pod."""
PERSIST_S = 15.0
"""Balloons that come for so long to a node that was given up are kept off by nothing but its name. A shorter rush
ends by itself: others are found to refuse, or sizes are lowered after a preemption."""
MANY = 200
"""Failed balloons of one node that wait to be removed: the rush outruns us (a quick control plane makes forty a second,
we remove five), and its end is not waited for."""
CALM_S = 12.0
"""A rush has ended when nothing has failed for so long; an idle service decides every ten seconds."""
MOST_LEFT_OUT = 32
"""Host names in one affinity. Where more refuse, names are not what is wrong; the others are merely not counted."""
MOST_REMOVED = 16
"""Failed balloons removed by one decision: a turn of notes, which have a ceiling of their own."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """A node that is left alone since `since_s` (monotonic), for the `times`-th time in a row.

    `newest_s` is when the youngest of its Failed balloons was made, in seconds since the epoch, `why` the kubelet's
    word for it. `rush_s` and `last_s` (monotonic) are when the last rush of balloons there began, and was last seen.
    """

    since_s: float
    times: int
    newest_s: float
    why: str
    rush_s: float
    last_s: float
    is_sought: bool = False
    """Whether the scheduler goes on sending balloons there, or Karpenter counts on the room."""

    @property
    def rest_s(self) -> float:
        """For how long the node is left alone."""
        if self.is_sought:
            return LONGEST_REST_S
        return float(min(LONGEST_REST_S, FIRST_REST_S * 2 ** min(self.times - 1, 16)))

    def is_left_alone(self, now_s: float) -> bool:
        """Whether it is not its time to be tried again."""
        return now_s - self.since_s < self.rest_s


def refusals(
    failed: Iterable[FailedBalloon],
    nodes: Mapping[str, Node],
    loads: Mapping[str, NodeLoad],
    before: Mapping[str, NodeRefusal] | None,
    left_out: Iterable[str],
    now: Now,
) -> dict[str, NodeRefusal]:
    """The nodes that refuse balloons or did so lately, by name.

    `before` is what the last decision knew, None after a restart: then the host names that are `left_out` of the
    stored Deployments speak as well. A cordoned node is in somebody's hands and begins anew when it is given back; one
    on which a balloon runs does not refuse.
    """
    by_node = _by_node(failed)
    names = {*by_node, *(before or ())}
    recorded = _names(left_out, nodes) if before is None else frozenset()
    refused: dict[str, NodeRefusal] = {}
    suspects: dict[str, list[FailedBalloon]] = {}
    for name in sorted(names | recorded):
        node = nodes.get(name)
        if node is None or node.is_cordoned or any(b.is_running for b in loads.get(name, EMPTY).balloons):
            continue
        known, failures = (before or {}).get(name), by_node.get(name, [])
        refusal = _next(known, failures, now.monotonic_s, is_recorded=name in recorded)
        if refusal is not None:
            refused[name] = refusal
        elif known is None:
            suspects[name] = failures
    rush_s = max(
        (refusal.newest_s for refusal in refused.values() if refusal.is_left_alone(now.monotonic_s)), default=inf
    )
    for name, failures in suspects.items():
        if failures[0].created_s > rush_s - SAME_RUSH_S:
            refused[name] = _begin(failures, now.monotonic_s)
    return refused


def sought_by_karpenter(
    refused: Mapping[str, NodeRefusal], nodes: Mapping[str, Node], now_s: float
) -> dict[str, NodeRefusal]:
    """These refusals after Karpenter has marked a held node for removal.

    It does so where it sees room for the node's balloon elsewhere, and takes a node that refuses, and that it may not
    remove, for such room: again and again, until no held node is left. Only a name in the affinity tells it.
    """
    return {
        name: replace(refusal, is_sought=True)
        if refusal.is_left_alone(now_s) and KARPENTER_POOL_LABEL in nodes[name].labels and not is_leaving(nodes[name])
        else refusal
        for name, refusal in refused.items()
    }


def _begin(failures: Sequence[FailedBalloon], now_s: float) -> NodeRefusal:
    return NodeRefusal(now_s, 1, failures[0].created_s, failures[0].reason, rush_s=now_s, last_s=now_s)


def _by_node(failed: Iterable[FailedBalloon]) -> dict[str, list[FailedBalloon]]:
    """Youngest first."""
    by_node: dict[str, list[FailedBalloon]] = {}
    for balloon in sorted(failed, key=lambda balloon: (-balloon.created_s, balloon.key)):
        if balloon.node and not balloon.is_terminating:
            by_node.setdefault(balloon.node, []).append(balloon)
    return by_node


def _names(hosts: Iterable[str], nodes: Mapping[str, Node]) -> frozenset[str]:
    wanted = frozenset(hosts)
    if not wanted:
        return wanted
    return frozenset(name for name, node in nodes.items() if node.labels.get(HOST_LABEL) in wanted)


def _next(
    before: NodeRefusal | None, failures: Sequence[FailedBalloon], now_s: float, *, is_recorded: bool
) -> NodeRefusal | None:
    if is_recorded:
        newest_s = failures[0].created_s if failures else 0.0
        return NodeRefusal(now_s, 1, newest_s, "seen before a restart", now_s, now_s, is_sought=True)
    if before is None:
        is_few = len(failures) >= FEW and failures[0].created_s - failures[FEW - 1].created_s <= WINDOW_S
        return _begin(failures, now_s) if is_few else None
    fresh = [balloon for balloon in failures if balloon.created_s > before.newest_s]
    rested_s = now_s - before.since_s
    if rested_s < before.rest_s:
        if not fresh:
            return before
        rush_s = before.rush_s if now_s - before.last_s < CALM_S else now_s
        is_sought = before.is_sought or now_s - rush_s >= PERSIST_S or len(failures) > MANY
        return replace(before, newest_s=fresh[0].created_s, rush_s=rush_s, last_s=now_s, is_sought=is_sought)
    if fresh:
        return replace(_begin(fresh, now_s), times=before.times + 1, is_sought=before.is_sought)
    # Tried again without a word against it, for as long as it was left alone: forgiven.
    return before if rested_s < 2 * before.rest_s else None


def hosts_left_out(
    stored: tuple[str, ...], nodes: Mapping[str, Node], refused: Mapping[str, NodeRefusal], now: Now, instance_type: str
) -> tuple[str, ...]:
    """The host names that a shape's balloons must avoid; `stored` as long as that does, since any change of it costs
    every balloon of the shape its pod. `instance_type` is the shape's, empty where it has none."""
    alone = {name: refusal for name, refusal in refused.items() if refusal.is_left_alone(now.monotonic_s)}
    sought = sorted(
        (name for name, refusal in alone.items() if refusal.is_sought and _is_of(nodes[name], instance_type)),
        key=lambda name: (-alone[name].since_s, name),
    )
    needed = {nodes[name].labels[HOST_LABEL] for name in sought[:MOST_LEFT_OUT]}
    let_in = {name for name in _names(stored, nodes) if name not in alone and not nodes[name].is_cordoned}
    return stored if needed <= set(stored) and not let_in else tuple(sorted(needed))


def _is_of(node: Node, instance_type: str) -> bool:
    return bool(node.labels.get(HOST_LABEL)) and instance_type in ("", node.instance_type)


def to_remove(
    failed: Iterable[FailedBalloon],
    nodes: Mapping[str, Node],
    refused: Mapping[str, NodeRefusal],
    since_s: Mapping[str, float],
    now: Now,
) -> list[FailedBalloon]:
    """Failed balloons that nobody needs, oldest first: those beyond a node's record, and records that are over.

    `since_s` says since when each is known, by uid.
    """
    unneeded: list[FailedBalloon] = []
    for name, failures in _by_node(failed).items():
        node, refusal = nodes.get(name), refused.get(name)
        if node is None or node.is_cordoned:
            kept = []
        elif refusal is not None:
            kept = failures[:FEW] if refusal.is_left_alone(now.monotonic_s) else []
        else:
            kept = [f for f in failures[:FEW] if now.monotonic_s - since_s.get(f.uid, now.monotonic_s) < WINDOW_S]
        unneeded += [balloon for balloon in failures if balloon not in kept]
    return sorted(unneeded, key=lambda balloon: (balloon.created_s, balloon.key))[:MOST_REMOVED]
