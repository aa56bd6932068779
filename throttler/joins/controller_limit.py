"""The controller manager's own request limit: the one wait that no pace shortens.

By default it sends 20 requests/s per controller, so that with D DaemonSets at most 20/D nodes/s get their pods, however
idle the API servers are. It shows as Ready nodes whose DaemonSet pods do not even exist while latency is as usual.
"""

from collections.abc import Iterable

PATIENCE_S = 5.0
"""Without a backlog the pods exist within a second of the node."""
NODES = 3
"""Fewer nodes may be any odd DaemonSet."""
USUAL_INDEX = 2.0
"""Latency up to twice the baseline is noise: the servers are not what joins wait for."""


def is_controller_bound(waiting_s: Iterable[float], joining: int, index: float | None) -> bool:
    """Whether most joins wait for pods that do not exist, for longer than usual, and the servers are not the reason.

    `waiting_s` tells for how long each node has been Ready and without those pods; `index` is latency over its
    baseline, and without it nothing can be said.
    """
    late = sum(1 for seconds in waiting_s if seconds >= PATIENCE_S)
    return late >= NODES and 2 * late >= joining and index is not None and index < USUAL_INDEX
