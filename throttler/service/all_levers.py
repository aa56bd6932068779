"""Every lever that there is, and what they are to do now: each one that a throttle names, and nothing else. Pure.

Where several throttles name one object, the oldest keeps it: two that write one ceiling would each take the other's
value for the user's own. An object is nobody's when its throttle was deleted, cannot be read any more, or no longer
names the lever. It is given back: growth must not stay blocked for that.
"""

from collections.abc import Sequence
from typing import Any

from throttler.api.throttle import JoinThrottle
from throttler.levers.admission_queue import AdmissionLever
from throttler.levers.capacity_quota import CAPACITY_QUOTAS
from throttler.levers.ceiling import CeilingLever
from throttler.levers.lever_and_reasons import (
    Lever,
    LeverContext,
    LeverDecision,
    LeverMemory,
    LeverScene,
    LeverWrite,
)
from throttler.levers.machine_deployments import MACHINE_DEPLOYMENTS
from throttler.levers.node_pool_limits import NODE_POOL_LIMITS
from throttler.levers.saved_limits import restore
from throttler.levers.scheduling_gate import SCHEDULING_GATES
from throttler.levers.taint_and_label import DAEMON_SET_LABEL, STARTUP_TAINT

CEILINGS: tuple[CeilingLever[Any, Any, Any], ...] = (CAPACITY_QUOTAS, NODE_POOL_LIMITS, MACHINE_DEPLOYMENTS)
ADMISSIONS: tuple[AdmissionLever[Any, Any, Any], ...] = (SCHEDULING_GATES, STARTUP_TAINT, DAEMON_SET_LABEL)
LEVERS: tuple[Lever[Any, Any], ...] = (*CEILINGS, *ADMISSIONS)
"""A new lever is a row here."""


def decide_levers(context: LeverContext, memory: LeverMemory) -> tuple[tuple[LeverDecision, ...], LeverMemory]:
    """What to write for each lever of the throttle, and what to remember."""
    decisions: list[LeverDecision] = []
    by_lever = dict(memory.by_lever)
    for lever in LEVERS:
        if lever.settings(context.throttle.spec.levers) is not None:
            decided, by_lever[lever.FIELD] = lever.decide(context, lever.remembered(memory))
            decisions += decided
    return tuple(decisions), LeverMemory(by_lever)


def paces_both(throttle: JoinThrottle, scene: LeverScene) -> bool:
    """Whether the throttle bounds both autoscalers, by objects that are there or can be made."""
    stated = [lever for lever in CEILINGS if lever.settings(throttle.spec.levers) is not None]
    return len({lever.PACES for lever in stated if lever.can_act(scene)}) > 1


def leftover_writes(scene: LeverScene, throttles: Sequence[JoinThrottle]) -> tuple[LeverWrite, ...]:
    """The writes that give back what none of these throttles names.

    A throttle claims what its spec names, whether its turn was decided or failed: what is in force stays then.
    """
    ceilings = (
        write
        for lever in CEILINGS
        for thing in scene.of(lever.OBJECTS)
        if lever.owner(thing, throttles) is None
        for write in restore(thing)
    )
    return (*ceilings, *SCHEDULING_GATES.leftover_writes(scene, throttles))
