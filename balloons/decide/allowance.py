"""How many more nodes may start, where somebody paces that: one lane for each throttle."""

from collections.abc import Sequence

from balloons.api.pool import BalloonPool
from throttler.kube.selectors import LabelSelector, can_match
from throttler.levers.lever import Lane


class Purse:
    """What is left of each lane while pool after pool is served."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._left = [max(0, lane.allowance) for lane in lanes]

    def left(self, pool: BalloonPool) -> int | None:
        """How many more nodes the pool may start; None where nobody paces its nodes."""
        lane = self._lane_of(pool)
        return None if lane is None else self._left[lane]

    def take(self, pool: BalloonPool, started: int) -> None:
        """The pool starts so many."""
        lane = self._lane_of(pool)
        if lane is not None:
            self._left[lane] = max(0, self._left[lane] - started)

    def _lane_of(self, pool: BalloonPool) -> int | None:
        """The first lane that may be the pool's: where its labels do not tell, it is paced rather than not."""
        labels = pool.spec.nodes.selector.match_labels
        return next((i for i, lane in enumerate(self._lanes) if can_match(lane.nodes, labels)), None)


def lanes_of(allowance: int | Sequence[Lane] | None) -> Sequence[Lane]:
    """One number is one lane for all nodes; None is no lane at all."""
    if isinstance(allowance, int):
        return (Lane(LabelSelector(), allowance),)
    return allowance or ()
