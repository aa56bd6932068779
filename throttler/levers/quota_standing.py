"""How far a CapacityQuota can be trusted: it is enforced only while cluster-autoscaler says that it is valid."""

from throttler.kube.because import Because, because
from throttler.kube.cluster_autoscaler import NODES, CapacityQuota
from throttler.levers.contest import CONTESTED_WRITE_EVERY_S
from throttler.levers.lever import LeverState, Room
from throttler.levers.lever_reasons import LeverReason
from throttler.levers.original import Mark
from throttler.levers.quota_seen import QuotaMemory, QuotaSeen

Standing = tuple[LeverState, Because]


def is_quota_taken_up(quota: CapacityQuota | None) -> bool:
    """Whether cluster-autoscaler enforces this very generation."""
    valid = quota.validity if quota else None
    if quota is None or valid is None:
        return False
    return valid.status == "True" and valid.observed_generation >= quota.metadata.generation


def quota_standing(seen: QuotaSeen, mark: Mark, memory: QuotaMemory, reason: Because, now_s: float) -> Standing:
    """The state of a quota, and why; `mark` is what is to stand there, and `reason` why that is so."""
    if seen.quota is None and memory.mark is not None:
        return LeverState.LOST, because(LeverReason.QUOTA_LOST)
    if seen.selects_others:
        return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_CHANGED)
    valid = seen.quota.validity if seen.quota else None
    if valid is not None and valid.status == "False":
        return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_INVALID, message=valid.message)
    if memory.contest.is_contested(now_s):
        return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=int(CONTESTED_WRITE_EVERY_S))
    if not mark.ceiling:
        return LeverState.HANDED_BACK, reason
    return _uptake(f"{mark.ceiling[NODES]} nodes", memory, reason, now_s)


def _uptake(ceiling: str, memory: QuotaMemory, reason: Because, now_s: float) -> Standing:
    if memory.uptake.is_late(now_s):
        waited = round(memory.uptake.waited_s(now_s))
        return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=ceiling, waited=waited)
    if memory.uptake.waiting_since_s is not None:
        return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=ceiling)
    return LeverState.CONFIRMED, reason


def quota_reason(seen: QuotaSeen, mark: Mark, room: Room, floor: int) -> Because:
    """Why the ceiling is what it is."""
    theirs = mark.original.get(NODES) if mark.ceiling else seen.limits.get(NODES)
    if not mark.ceiling or mark.ceiling[NODES] == theirs:
        return because(LeverReason.USER_LIMIT_IS_LOWER, limit=theirs)
    ceiling, usage = f"{mark.ceiling[NODES]} nodes", f"{floor} nodes"
    if room.is_atomic:
        return because(LeverReason.ROOM_FOR_ALL, ceiling=ceiling, share=room.allowance)
    return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=room.allowance)
