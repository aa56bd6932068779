"""What a cluster's own nodes teach: how they came to be, how long machines boot and nodes join.

How nodes came to be, read off their own timestamps: whatever else was lost, objects remember when they were made.
"""

import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec

from balloons.preview.inputs import MOST_JITTER, REACTION_S, Known
from throttler.kube.node import group_of
from throttler.kube.quantities_and_durations import count

LONGEST_S = 1800.0
"""A transition later than this after a node's birth is no part of it: nodes and pods restart."""
DAY_S = 86_400.0
"""Older nodes say little about today's images and agents."""
LEAST = 3
"""Fewer nodes teach nothing."""
LEAST_SPREAD = 0.05
"""Scale-ups differ from each other by more than their nodes' mean tells."""
GUESS_SPREAD = 0.2
"""Where only the pods that a node was made for tell when it was asked for: they may have waited for something else."""
SECONDS_VARIANCE = 1 / 6
"""Timestamps are whole seconds: what that adds to the variance of a difference of two."""
BURST_S = 30.0
"""Pods that were made further apart are no part of one burst (chosen: longer than any batch of an autoscaler)."""
BURST_SPREAD = 0.3
"""Of the reaction to one burst: it depends on where in its own rhythm the autoscaler was."""


class _Owner(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    creation_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: datetime | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    conditions: tuple[_Condition, ...] = ()


class Dated(msgspec.Struct, frozen=True, gc=False):
    """A node, a pod or a NodeClaim, cut down to what its timestamps tell."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def created_s(self) -> float | None:
        """When it was made."""
        at = self.metadata.creation_timestamp
        return at.timestamp() if at else None

    @property
    def ready_s(self) -> float | None:
        """Since when it has been Ready; None while it is not."""
        for condition in self.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                at = condition.last_transition_time
                return at.timestamp() if at else None
        return None

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet made it."""
        return any(owner.kind == "DaemonSet" for owner in self.metadata.owner_references)


_decoder = msgspec.json.Decoder(Dated)


def dated(texts: Iterable[bytes]) -> list[Dated]:
    """The objects of these JSON texts; what cannot be read is left out."""
    objects = []
    for text in texts:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            objects.append(_decoder.decode(text))
    return objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """One node; times in seconds since the epoch, None where nothing tells."""

    name: str
    pool: str
    """The group that it belongs to, as `group_of` names it."""
    created_s: float
    """Registered."""
    asked_s: float | None = None
    """Its NodeClaim was made, or the pods that it was made for were."""
    is_asked_by_claim: bool = False
    wanted_s: float | None = None
    """The newest pod was made that runs on it and is older than its NodeClaim: what it was most likely made for."""
    ready_s: float | None = None
    usable_s: float | None = None
    """Ready, and the DaemonSet pods that came with it ready too."""
    own_s: float | None = None
    """Of its join, what was its own and no waiting for DaemonSet pods to be made."""

    @property
    def boot_s(self) -> float | None:
        """From being asked for to being registered."""
        return None if self.asked_s is None else self.created_s - self.asked_s

    @property
    def join_s(self) -> float | None:
        """From registered to usable."""
        return None if self.usable_s is None else self.usable_s - self.created_s


def births_of(
    nodes: Iterable[Dated], pods: Iterable[Dated], claims: Iterable[Dated], since_s: float
) -> tuple[Birth, ...]:
    """Every node's that registered since then (seconds since the epoch), the oldest first."""
    young = {
        node.metadata.name: (node, made_s)
        for node in nodes
        if (made_s := node.created_s) is not None and made_s >= since_s
    }
    by_node: dict[str, list[Dated]] = {name: [] for name in young}
    for pod in pods:
        if (on_node := by_node.get(pod.spec.node_name)) is not None:
            on_node.append(pod)
    claimed = {claim.status.node_name: claim for claim in claims}
    births = (_birth(node, made_s, by_node[name], claimed.get(name)) for name, (node, made_s) in young.items())
    return tuple(sorted(births, key=lambda birth: (birth.created_s, birth.name)))


def _birth(node: Dated, created_s: float, pods: list[Dated], claim: Dated | None) -> Birth:
    ready_s = _since(node.ready_s, created_s)
    daemons = [times for pod in pods if (times := _daemon_times(pod, created_s)) is not None]
    claimed_s = claim.created_s if claim is not None else None
    asked_s = claimed_s if claim is not None else _asked_by_pods(pods, created_s)
    usable_s = None if ready_s is None else max([ready_s, *(done_s for _, done_s in daemons)])
    own_s = None if ready_s is None else max([ready_s - created_s, *(done_s - made_s for made_s, done_s in daemons)])
    return Birth(
        name=node.metadata.name,
        pool=group_of(node.metadata.labels),
        created_s=created_s,
        asked_s=asked_s if asked_s is not None and created_s - LONGEST_S <= asked_s <= created_s else None,
        is_asked_by_claim=claim is not None,
        wanted_s=None if claimed_s is None else _wanted_s(pods, claimed_s),
        ready_s=ready_s,
        usable_s=usable_s,
        own_s=own_s,
    )


def _daemon_times(pod: Dated, born_s: float) -> tuple[float, float] | None:
    """(made, ready) of a DaemonSet pod that came with the node."""
    if not pod.is_daemon:
        return None
    made_s, ready_s = _since(pod.created_s, born_s), _since(pod.ready_s, born_s)
    return None if made_s is None or ready_s is None or ready_s < made_s else (made_s, ready_s)


def _asked_by_pods(pods: list[Dated], born_s: float) -> float | None:
    """The newest pod that runs on the node and is older than it: what the node was most likely made for."""
    times = [made_s for pod in pods if (made_s := pod.created_s) is not None and made_s < born_s]
    return max(times, default=None)


def _wanted_s(pods: list[Dated], asked_s: float) -> float | None:
    """The same for a NodeClaim. Times are whole seconds: a pod of the same second may have come first."""
    times = [made_s for pod in pods if (made_s := pod.created_s) is not None and not pod.is_daemon]
    return max((made_s for made_s in times if asked_s - LONGEST_S <= made_s <= asked_s), default=None)


def _since(at_s: float | None, born_s: float) -> float | None:
    """The time, if it can belong to the birth: times are whole seconds, so one second early is none."""
    return max(at_s, born_s) if at_s is not None and -1.0 <= at_s - born_s <= LONGEST_S else None


def boot(births: Sequence[Birth], known: Known) -> Known:
    """Boot time: by NodeClaims where there are enough, else by the pods that nodes were made for.

    Pods wait for the autoscaler's reaction first, which is counted by itself.
    """
    claimed = [birth.boot_s for birth in births if birth.is_asked_by_claim and birth.boot_s is not None]
    if len(claimed) >= LEAST:
        return _learned(claimed, known)
    guessed = [max(0.0, birth.boot_s - REACTION_S.value) for birth in births if birth.boot_s is not None]
    return _learned(guessed, known, ", by the pods they were made for", GUESS_SPREAD)


def boot_jitter(births: Sequence[Birth], known: Known) -> Known:
    """Standard deviation between machines over their median, robustly; only NodeClaims tell it.

    By the tenth and ninetieth percentile, 2.563 deviations apart, which costs a third of the sample's worth.
    """
    times = [birth.boot_s for birth in births if birth.is_asked_by_claim and birth.boot_s is not None]
    if len(times) < 2 * LEAST or not (centre := statistics.median(times)):
        return known
    tenths = statistics.quantiles(times, n=10)
    told = ((tenths[-1] - tenths[0]) / 2.563) ** 2
    error = told * (2 / (0.65 * (len(times) - 1))) ** 0.5
    variance = _at_least_0(told - SECONDS_VARIANCE, error)
    spread = min(0.5, max(0.1, error / (2 * variance))) if variance else 0.0
    return Known.learned(min(MOST_JITTER, variance**0.5 / centre), _from(len(times)), spread)


def _at_least_0(value: float, error: float) -> float:
    """The mean of what a figure may be that cannot be below 0 and was measured with a normal error.

    Machines that seem not to differ at all in whole seconds still do, by what whole seconds hide.
    """
    if not error:
        return max(0.0, value)
    normal = statistics.NormalDist()
    return value + error * normal.pdf(value / error) / max(1e-12, normal.cdf(value / error))


def reaction(births: Sequence[Birth], known: Known) -> Known:
    """How soon the autoscaler asks for the first machines of a burst; what it asks for later was held back."""
    bursts = _bursts(births)
    count = sum(map(len, bursts))
    if count < LEAST:
        return known
    times = [_first_reaction_s(burst) for burst in bursts]
    spread = max(LEAST_SPREAD, BURST_SPREAD / len(times) ** 0.5)
    return Known.learned(max(0.5, statistics.median(times)), _from(count), spread)


def _bursts(births: Sequence[Birth]) -> list[list[tuple[float, float]]]:
    """(pods made, machine asked for) of those that tell both, burst by burst, the oldest first.

    A claim that cannot be of its node's time tells neither when that was asked for nor how soon.
    """
    told = sorted(
        (birth.wanted_s, birth.asked_s) for birth in births if birth.wanted_s is not None and birth.asked_s is not None
    )
    bursts: list[list[tuple[float, float]]] = []
    latest_s = float("-inf")
    for wanted_s, asked_s in told:
        if wanted_s > latest_s + BURST_S:
            bursts.append([])
        bursts[-1].append((wanted_s, asked_s))
        latest_s = wanted_s
    return bursts


def _first_reaction_s(burst: Sequence[tuple[float, float]]) -> float:
    """The mean over the machines that were asked for first, within a second."""
    first_s = min(asked_s for _, asked_s in burst)
    return statistics.fmean(asked_s - wanted_s for wanted_s, asked_s in burst if asked_s <= first_s + 1.0)


def join(births: Sequence[Birth], known: Known) -> Known:
    """A join's own time, without its waiting for DaemonSet pods to be made: that is another limit."""
    return _learned([birth.own_s for birth in births if birth.own_s is not None], known)


def ready_share(births: Sequence[Birth]) -> float | None:
    """Share of joins after which nodes were Ready; None while there are too few."""
    told = [(birth.ready_s - birth.created_s, birth.join_s) for birth in births if birth.ready_s and birth.join_s]
    if len(told) < LEAST:
        return None
    return sum(ready_s for ready_s, _ in told) / sum(join_s for _, join_s in told)


def _learned(times: Sequence[float], known: Known, how: str = "", least: float = LEAST_SPREAD) -> Known:
    """The middle; `known` while there are too few."""
    if len(times) < LEAST:
        return known
    centre = middle(times)
    deviation = statistics.stdev(times) / centre if centre else 0.0
    spread = min(0.5, max(least, deviation / len(times) ** 0.5))
    return Known.learned(max(0.5, centre), f"{_from(len(times))}{how}", spread)


def middle(times: Sequence[float]) -> float:
    """The mean without the outermost tenths, at least one at each end: a few odd ones do not count, and whole seconds
    still tell tenths, which a median does not."""
    outer = max(1, round(len(times) / 10))
    return statistics.fmean(sorted(times)[outer:-outer])


def _from(nodes: int) -> str:
    return f"{count(nodes, 'node')} of the last 24 h"
