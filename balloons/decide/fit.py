"""Whether a waiting pod could run on a node once its balloon is gone.

A subset of the scheduler's filters, on purpose: pods with rules that are not judged here are opaque and left to the
scheduler, so a "yes" may at worst free a node that the scheduler then refuses for a while.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from balloons.view.node_load import NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.quantity import Resources, minus
from throttler.kube.selectors import Labels, Requirement, Toleration, meets, untolerated


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that the scheduler treats alike: what is judged once for all of them."""

    requests: Resources
    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    node_terms: tuple[tuple[Requirement, ...], ...]
    is_one_per_node: bool
    gang: str
    scheduler: str

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal classes; resource dicts are not hashable by themselves."""
        rest = (self.tolerations, self.node_selector, self.node_terms, self.is_one_per_node, self.gang, self.scheduler)
        return tuple(sorted(self.requests.items())), *rest


def class_of(pod: Pod, scheduling: Scheduling) -> PodClass:
    """The class of an unbound pod."""
    return PodClass(
        requests=pod.requests,
        tolerations=scheduling.tolerations,
        node_selector=tuple(sorted(scheduling.node_selector.items())),
        node_terms=scheduling.node_terms,
        is_one_per_node=scheduling.is_one_per_node,
        gang=f"{pod.key.namespace}/{scheduling.gang}" if scheduling.gang else "",
        scheduler=scheduling.scheduler,
    )


HOST_LABEL = "kubernetes.io/hostname"


def keys_of(classes: Iterable[PodClass]) -> tuple[str, ...]:
    """The labels that any of these classes reads, sorted; without the host's name, which no two nodes share."""
    return tuple(sorted(set[str]().union(*map(_keys, classes)) - {HOST_LABEL}))


def reads_host(wanted: PodClass) -> bool:
    """Whether the class chooses nodes by their host's name."""
    return HOST_LABEL in _keys(wanted)


def _keys(wanted: PodClass) -> set[str]:
    selected = {key for key, _ in wanted.node_selector}
    return selected | {part.key for term in wanted.node_terms for part in term}


def admits(node: Node, wanted: PodClass) -> bool:
    """Whether the node's labels and taints let the class in, whatever runs there."""
    if node.is_cordoned or node.is_deleting or not node.is_ready:
        return False
    if node.taints and untolerated(node.taints, wanted.tolerations) is not None:
        return False
    return selects(wanted, node.labels)


def selects(wanted: PodClass, labels: Labels) -> bool:
    """Whether the class's node selector and required node affinity hold for these labels."""
    if any(labels.get(key) != value for key, value in wanted.node_selector):
        return False
    if not wanted.node_terms:
        return True
    return any(all(meets(part, labels) for part in term) for term in wanted.node_terms)


def room_without_balloon(node: Node, load: NodeLoad) -> Resources:
    """What the node would offer if its balloons were gone, in milli-units."""
    return minus(minus(node.allocatable, load.daemons), load.others)


def how_many(wanted: PodClass, room: Resources) -> int:
    """How many pods of the class fit into the room."""
    counts = [room.get(name, 0) // milli for name, milli in wanted.requests.items() if milli > 0]
    most = min(counts, default=0)
    return min(most, 1) if wanted.is_one_per_node else most
