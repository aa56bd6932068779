"""What runs on one node, summed up so that a decision need not look at pods; and which of its resources are devices.

Devices are accelerators, and the network cards beside them: extended resources by well-known names. Anything else that
a node offers may be a node agent's (a CNI's branch interfaces, reclaimed cpu).
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

import msgspec

from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import Resources, total

USUAL_PRIORITY = -10
"""The shipped PriorityClass's value: what balloons are weighed at while the class is not there."""
_NOTHING: Resources = {}


class NodeLoad(msgspec.Struct, frozen=True, gc=False):
    """The pods of one node by what they mean for warmth.

    `work` counts pods above the balloons' priority (they make a node busy), `scavengers` those at or below it
    (balloons never preempt them). `daemons` is requested by DaemonSet and mirror pods, `others` by work
    and scavengers, both in milli-units. `balloons` are the live balloon pods, oldest first; `is_being_left` says that
    another one was told to end and has not yet. `claims_devices`: work or
    scavengers have devices by a claim, which nothing here counts.
    """

    work: int = 0
    scavengers: int = 0
    daemons: Resources = msgspec.field(default_factory=lambda: _NOTHING)
    others: Resources = msgspec.field(default_factory=lambda: _NOTHING)
    balloons: tuple[Pod, ...] = ()
    claims_devices: bool = False
    is_being_left: bool = False


EMPTY = NodeLoad()
"""The load of a node without pods."""


def load_of(pods: Iterable[Pod], balloon_priority: int) -> NodeLoad:
    """Sum up the pods of a node; finished pods take no room, and a balloon that is leaving holds nothing."""
    work: list[Pod] = []
    daemons: list[Pod] = []
    balloons: list[Pod] = []
    is_being_left = False
    for pod in pods:
        if pod.is_finished:
            continue
        if pod.kind is PodKind.WORK:
            work.append(pod)
        elif pod.kind is not PodKind.BALLOON:
            daemons.append(pod)
        elif pod.is_terminating:
            is_being_left = True
        else:
            balloons.append(pod)
    above = sum([pod.priority > balloon_priority for pod in work])
    ordered = tuple(sorted(balloons, key=_age) if len(balloons) > 1 else balloons)
    claims_devices = any(pod.claims_devices for pod in work)
    return NodeLoad(above, len(work) - above, _sum(daemons), _sum(work), ordered, claims_devices, is_being_left)


def among_scavengers(load: NodeLoad, strays: Collection[Pod]) -> NodeLoad:
    """The load where these of its balloons are another pool's: no balloon preempts them, and they hold nothing here."""
    others = total([load.others, *(stray.requests for stray in strays)])
    return msgspec.structs.replace(
        load,
        scavengers=load.scavengers + len(strays),
        others=_one(tuple(sorted(others.items()))),
        balloons=tuple(balloon for balloon in load.balloons if balloon not in strays),
        claims_devices=load.claims_devices or any(stray.claims_devices for stray in strays),
    )


def _sum(pods: list[Pod]) -> Resources:
    """Equal sums share one dict: nodes of a kind run the same DaemonSets, and shapes are told apart by identity."""
    if not pods:
        return _NOTHING
    return _one(tuple(sorted(total(pod.requests for pod in pods).items())))


@lru_cache(maxsize=4096)
def _one(items: tuple[tuple[str, int], ...]) -> Resources:
    return dict(items)


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created_s, pod.uid


_ACCELERATOR = re.compile(r"[^/]+/(gpu(\.shared)?|tpu|mig-.+|neuron|neuroncore|neurondevice)|gpu\.intel\.com/(i915|xe)")
_NETWORK = re.compile(r"[^/]+/(efa|rdma([_-].+)?)|rdma/.+")
_VIRTUAL = ("koordinator.sh/",)
"""Domains whose resources a node agent makes up and moves; they say gpu and rdma, too."""
_NEURON = re.compile(r"[^/]+/neuron.*")


def is_device(name: str) -> bool:
    """Whether a balloon asks for this resource by itself; others only where the pool names them in `shape.devices`."""
    return is_accelerator(name) or is_network_card(name)


def is_accelerator(name: str) -> bool:
    """Whether this counts GPUs or the like: whole ones, slices or shares of them, TPUs, Neuron devices or cores."""
    return _ACCELERATOR.fullmatch(name) is not None and not name.startswith(_VIRTUAL)


def is_network_card(name: str) -> bool:
    """Whether this counts the network cards that stand beside accelerators."""
    return _NETWORK.fullmatch(name) is not None and not name.startswith(_VIRTUAL)


def counted_apart(names: Iterable[str]) -> list[list[str]]:
    """Groups of accelerators whose amounts may be added up.

    A Neuron node offers the same chips three times (devices, cores and their old name): these are never added. Slices
    and whole GPUs are different chips.
    """
    accelerators = sorted(filter(is_accelerator, names))
    added = [name for name in accelerators if not _NEURON.fullmatch(name)]
    alone = [[name] for name in accelerators if _NEURON.fullmatch(name)]
    return [added, *alone] if added else alone
