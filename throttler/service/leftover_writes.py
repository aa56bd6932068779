"""What nobody looks after any more: ceilings and gates of ours that no throttle claims now. Pure.

A throttle was deleted, cannot be read any more, or no longer names a lever: growth must not stay blocked for that.
"""

from collections.abc import Iterable, Sequence

from throttler.api.throttle import JoinThrottle
from throttler.joins.demand import may_use
from throttler.joins.join_world import JoinRules
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.levers.lever import LeverWrite, Room
from throttler.levers.restore import hand_back
from throttler.levers.scheduling_gate import PACED_GATE, GatedDemand, GateMemory, GateSettings, is_held, release_gates
from throttler.service.lever_objects import pool_owner, quota_owner
from throttler.service.lever_scene import LeverScene
from throttler.service.tick_view import Turn

_BACK = Room(existing=0, booting=0, allowance=0, admit=0, waiting=0, may_move=True, is_stopping=True)


def leftover_writes(scene: LeverScene, turns: Sequence[Turn]) -> tuple[LeverWrite, ...]:
    """The writes that give back what none of these turns is about.

    A throttle claims what its spec names, whether its turn was decided or failed: what it has in force stays then.
    """
    throttles = [turn.stored for turn in turns if isinstance(turn.stored, JoinThrottle)]
    things: Iterable[NodePool | CapacityQuota] = (*scene.pools, *scene.quotas.values())
    found = [write for thing in things if not _is_claimed(thing, throttles) for write in hand_back(thing)]
    return (*found, *_gates(scene, turns))


def _is_claimed(thing: NodePool | CapacityQuota, throttles: Iterable[JoinThrottle]) -> bool:
    if isinstance(thing, NodePool):
        return pool_owner(thing, throttles) is not None
    return quota_owner(thing.metadata.name, throttles) is not None


def _gates(scene: LeverScene, turns: Sequence[Turn]) -> tuple[LeverWrite, ...]:
    gated = [pod for pod in scene.unplaced if is_held(pod)]
    if not gated:
        return ()
    throttles = (turn.stored for turn in turns if isinstance(turn.stored, JoinThrottle))
    rules = [JoinRules.of(throttle, PACED_GATE) for throttle in throttles if _has_gates(throttle)]
    strays = [pod for pod in gated if not any(may_use(pod, each) for each in rules)]
    demand = GatedDemand(pods=strays, shape={})
    return release_gates(demand, GateSettings(max_wait_s=0.0), _BACK, GateMemory(), scene.moment)[0].writes


def _has_gates(throttle: JoinThrottle) -> bool:
    lever = throttle.spec.levers.scheduling_gates
    return lever is not None and lever.enabled
