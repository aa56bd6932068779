"""How many new nodes a row of pods needs: an estimate from their requests and the largest machine of the pool.

Next fit: each pod goes on the node that was opened last, or opens another. It needs no more than twice the nodes of a
perfect packing, and knows nothing of ports, volumes or affinity: whole-node pods, the case that matters, are exact.
`throttler.joins.demand` says why it estimates in another way.
"""

from collections.abc import Iterable, Iterator, Sequence

from throttler.kube.pod import Pod
from throttler.kube.quantity import Resources, fits, minus


def nodes_opened(pods: Iterable[Pod], shape: Resources) -> Iterator[int]:
    """After each pod, how many nodes have been opened so far.

    A pod that keeps its own kind off its node, or that is larger than `shape`, has a node to itself; so has every pod
    while the shape is unknown.
    """
    opened = 0
    left: Resources = {}
    for pod in pods:
        if _is_alone(pod) or not fits(pod.requests, left):
            opened, left = opened + 1, dict(shape)
        left = {} if _is_alone(pod) or not fits(pod.requests, left) else minus(left, pod.requests)
        yield opened


def nodes_for(pods: Sequence[Pod], shape: Resources) -> int:
    """How many nodes these pods need."""
    return max(nodes_opened(pods, shape), default=0)


def _is_alone(pod: Pod) -> bool:
    return pod.scheduling is not None and pod.scheduling.is_one_per_node
