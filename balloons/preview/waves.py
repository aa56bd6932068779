"""A run cut into waves: stretches of time in which the same thing holds the scale-up back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from balloons.preview.flow import Flow, FlowMoment
from balloons.preview.limit import Limit
from balloons.preview.world import World

BUSY = 0.85
"""Utilisation from which the API servers themselves are what joins wait for."""
FILLED = 0.6
"""Utilisation from which a window that holds nodes back does so for the servers' sake (the law aims at 0.8)."""
BACKLOG_S = 8.0
"""A queue for DaemonSet pods that takes so long to empty is more than the moment that every node waits for them."""
SLIVER = 0.02
"""Of the whole time; shorter stretches go to their neighbour."""


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
    found: list[Wave] = []
    for before, after in pairwise(moments):
        limit = binding(before, after, world)
        wave = Wave(before.at_s, after.at_s, after.ready - before.ready, after.ready, limit)
        found = _joined(found, wave)
    return tuple(_without_slivers(found, moments[-1].at_s if moments else 0.0))


def binding(before: FlowMoment, after: FlowMoment, world: World) -> Limit:
    """What holds the scale-up back between two moments: the narrowest place that nodes are waiting before."""
    joining, queued = before.joining, min(before.pods_queued, after.pods_queued)
    if not (before.booting or before.held or joining or before.ready):
        return Limit.REACTION
    if queued * world.daemon_sets / world.pods_per_s >= BACKLOG_S:
        return Limit.SCHEDULER if world.is_scheduler_slower else Limit.CONTROLLER_MANAGER
    if after.utilisation >= BUSY and joining:
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
            longer = max((kept[-1], wave), key=lambda each: each.seconds)
            kept[-1] = _both(kept[-1], wave, longer.limit)
        else:
            kept = _joined(kept, wave)
    return kept
