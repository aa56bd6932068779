"""What keeps a bad view from costing capacity: freezes, and a limit on removals.

The lesson behind it: a controller that believes every view has once decided that all nodes are gone, and then
made it true.
"""

from collections.abc import Container
from dataclasses import replace

from balloons.decide.memory import PoolMemory
from balloons.decide.pool_reasons import Because, Reason, because
from balloons.decide.settings import DecideSettings
from balloons.view.snapshot import Now, Snapshot


def blind(snapshot: Snapshot, settings: DecideSettings) -> Because | None:
    """Why nothing at all may move, if so: caches incomplete or too old."""
    if not snapshot.is_complete:
        return because(Reason.INCOMPLETE_VIEW, missing=", ".join(snapshot.missing))
    if snapshot.age_s > settings.stale_after_s:
        return because(Reason.STALE_VIEW, age=snapshot.age_s)
    return None


def believe(
    memory: PoolMemory, present: Container[str], valued: frozenset[str], settings: DecideSettings, now: Now
) -> tuple[PoolMemory, Because | None]:
    """Whether the view may be believed.

    `present` holds the healthy nodes seen now, `valued` are those of them that are busy or held. If too many of the
    nodes valued last time are no longer present, the pool freezes until they are back or the view has
    lasted; nodes that nobody held may go at any number (the autoscaler removes idle nodes in bulk).
    """
    before = memory.valued
    gone = sum(1 for name in before - valued if name not in present)
    is_shrunken = gone >= settings.vanished_at_least and gone > settings.vanished_share * len(before)
    if not is_shrunken:
        return replace(memory, valued=valued, shrunken_since_s=None), None
    since_s = memory.shrunken_since_s if memory.shrunken_since_s is not None else now.monotonic_s
    wait_s = since_s + settings.freeze_s - now.monotonic_s
    if wait_s <= 0:
        return replace(memory, valued=valued, shrunken_since_s=None), None
    frozen = because(Reason.SHRUNKEN_VIEW, gone=gone, before=len(before), wait=wait_s)
    return replace(memory, shrunken_since_s=since_s), frozen


def removal_limit(memory: PoolMemory, balloons: int, settings: DecideSettings, now: Now) -> int:
    """How many of a pool's balloons may be removed now, given those removed within the last period."""
    recent = sum(count for at_s, count in memory.removed if now.monotonic_s - at_s < settings.removal_period_s)
    return max(0, max(settings.removed_at_least, int(settings.removed_share * (balloons + recent))) - recent)


def note_removal(memory: PoolMemory, count: int, settings: DecideSettings, now: Now) -> PoolMemory:
    """Remember a removal as long as it counts against the limit."""
    kept = tuple(r for r in memory.removed if now.monotonic_s - r[0] < settings.removal_period_s)
    return replace(memory, removed=(*kept, (now.monotonic_s, count)) if count else kept)
