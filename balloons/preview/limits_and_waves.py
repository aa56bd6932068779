"""What holds a scale-up back, and a run cut into waves: stretches of time in which the same thing holds it back.

What can hold a scale-up back has one name each, the same in every output (docs/plan.md).
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from balloons.preview.possible_worlds import World
from balloons.preview.scale_up_run import Flow, FlowMoment

LIMITING_LOAD = 0.85
"""Utilisation from which the API servers themselves are what joins wait for."""
FILLED = 0.6
"""Utilisation from which a window that holds nodes back does so for the servers' sake (the law aims at 0.8)."""
BACKLOG_S = 8.0
"""A queue for DaemonSet pods that takes so long to empty is more than the moment that every node waits for them."""
SLIVER = 0.02
"""Of the whole time; shorter stretches go to their neighbour."""


class Limit(enum.Enum):
    """What binds, and what it means for whoever reads the plan."""

    REACTION = "autoscaler"
    CEILING = "ceiling"
    LAUNCH_RATE = "cloud quota"
    OWN_WINDOW = "pacing"
    BOOT = "boot time"
    API_SERVERS = "API servers"
    CONTROLLER_MANAGER = "controller manager"
    SCHEDULER = "scheduler"
    JOIN = "join time"

    __hash__ = object.__hash__

    @property
    def because(self) -> str:
        """The code that stands in JSON."""
        return _BECAUSE[self]

    @property
    def meaning(self) -> str:
        """One sentence."""
        return _MEANING[self]


_BECAUSE = {
    Limit.REACTION: "AutoscalerReaction",
    Limit.CEILING: "NodeCeiling",
    Limit.LAUNCH_RATE: "LaunchRate",
    Limit.OWN_WINDOW: "OwnWindow",
    Limit.BOOT: "BootTime",
    Limit.API_SERVERS: "ApiServers",
    Limit.CONTROLLER_MANAGER: "ControllerManagerLimit",
    Limit.SCHEDULER: "SchedulerLimit",
    Limit.JOIN: "JoinTime",
}


_MEANING = {
    Limit.REACTION: "the autoscaler has not asked for machines yet",
    Limit.CEILING: "a limit on the number of nodes is reached",
    Limit.LAUNCH_RATE: "the cloud does not start machines faster",
    Limit.OWN_WINDOW: "the JoinThrottle waits until it has seen that the API servers keep up",
    Limit.BOOT: "the machines are ordered and still booting",
    Limit.API_SERVERS: "the API servers can take no more joins",
    Limit.CONTROLLER_MANAGER: "the controller manager does not make DaemonSet pods faster (--kube-api-qps)",
    Limit.SCHEDULER: "the scheduler does not bind DaemonSet pods faster (its --kube-api-qps)",
    Limit.JOIN: "nodes have registered and start: this is no limit, only the time that a join takes",
}


@dataclass(frozen=True, slots=True)
class Wave:
    """From `from_s` to `until_s` (None: without end); `nodes` became usable in it, `ready` are usable at its end."""

    from_s: float
    until_s: float | None
    nodes: int
    ready: int
    limit: Limit
    name: str = ""
    """Of the object that binds, where there is one."""

    @property
    def seconds(self) -> float:
        """Its length; 0 where it does not end."""
        return 0.0 if self.until_s is None else self.until_s - self.from_s


def waves_of(run: Flow, world: World) -> tuple[Wave, ...]:
    """The run's waves in order; they cover it without gaps."""
    moments = [moment for moment in run.moments if moment.at_s >= 0.0]
    waves: list[Wave] = []
    for before, after in pairwise(moments):
        limit = binding(before, after, world)
        wave = Wave(before.at_s, after.at_s, after.ready - before.ready, after.ready, limit)
        waves = _joined(waves, wave)
    return tuple(_without_slivers(waves, moments[-1].at_s if moments else 0.0))


def binding(before: FlowMoment, after: FlowMoment, world: World) -> Limit:
    """What holds the scale-up back between two moments: the narrowest place that nodes are waiting before."""
    joining, queued = before.joining, min(before.pods_queued, after.pods_queued)
    if not (before.booting or before.held or joining or before.ready):
        return Limit.REACTION
    if queued * world.daemon_sets / world.pods_per_s >= BACKLOG_S:
        return Limit.SCHEDULER if world.is_scheduler_slower else Limit.CONTROLLER_MANAGER
    if after.utilisation >= LIMITING_LOAD and joining:
        return Limit.API_SERVERS
    if before.is_launch_bound and before.waiting:
        return Limit.LAUNCH_RATE
    if before.waiting or before.held:
        return _held_back(before, after)
    return Limit.BOOT if before.booting > joining else Limit.JOIN


def _held_back(before: FlowMoment, after: FlowMoment) -> Limit:
    if after.utilisation >= FILLED and before.joining:
        return Limit.API_SERVERS
    return Limit.OWN_WINDOW


def main_limit(waves: Sequence[Wave]) -> Limit | None:
    """The one that binds for longest; a ceiling that is never lifted comes first. None without waves."""
    if any(wave.until_s is None for wave in waves):
        return Limit.CEILING
    spent: dict[Limit, float] = {}
    for wave in waves:
        spent[wave.limit] = spent.get(wave.limit, 0.0) + wave.seconds
    return max(spent, key=lambda limit: spent[limit], default=None)


def _joined(waves: list[Wave], wave: Wave) -> list[Wave]:
    if waves and waves[-1].limit is wave.limit:
        return [*waves[:-1], _both(waves[-1], wave, wave.limit)]
    return [*waves, wave]


def _both(first: Wave, second: Wave, limit: Limit) -> Wave:
    return replace(first, until_s=second.until_s, nodes=first.nodes + second.nodes, ready=second.ready, limit=limit)


def _without_slivers(waves: list[Wave], end_s: float) -> list[Wave]:
    """A short stretch goes to the longer neighbour."""
    kept: list[Wave] = []
    for wave in waves:
        if kept and min(wave.seconds, kept[-1].seconds) < SLIVER * end_s:
            longer = max((kept[-1], wave), key=lambda stretch: stretch.seconds)
            kept[-1] = _both(kept[-1], wave, longer.limit)
        else:
            kept = _joined(kept, wave)
    return kept
