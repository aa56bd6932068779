"""Headroom growth as a lever: how many more balloons may ask for a node, for the pools whose nodes a throttle paces.

A balloon that waits is demand like any pod. It was let out for a machine of the allowance, so until one has been
ordered for it, it counts against the allowance: the autoscaler takes seconds to see it.
"""

from dataclasses import dataclass

from throttler.kube.selectors import LabelSelector
from throttler.levers.lever import Room


@dataclass(frozen=True, slots=True)
class Lane:
    """`allowance` more nodes may start now among those that `nodes` selects."""

    nodes: LabelSelector
    allowance: int


def headroom_lane(nodes: LabelSelector, room: Room, granted: int) -> Lane:
    """`granted` balloons wait by the leave of an earlier allowance.

    Of these, as many as nodes are waited for at all may still have no machine on its way.
    """
    if not room.may_move:
        return Lane(nodes, 0)
    return Lane(nodes, max(0, room.allowance - min(granted, room.waiting)))
