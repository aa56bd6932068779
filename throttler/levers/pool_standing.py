"""How far the ceiling of a NodePool can be trusted, and why it is what it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from throttler.kube.because import Because, because
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.quantity import format_milli, total
from throttler.levers.clamp import amount_of
from throttler.levers.contest import CONTESTED_WRITE_EVERY_S, Contest
from throttler.levers.lever import LeverState
from throttler.levers.lever_reasons import LeverReason
from throttler.levers.original import Mark
from throttler.levers.pool_ceiling import PoolRoom
from throttler.levers.pool_figures import PoolFigures
from throttler.levers.sizes import CPU, size_of
from throttler.levers.taken_up import Uptake


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMoment:
    """One pool, what was derived from it, and what is to be written on it."""

    pool: NodePool
    claims: Sequence[NodeClaim]
    mark: Mark
    figures: PoolFigures
    room: PoolRoom
    unmet_s: float

    @property
    def text(self) -> str:
        """The ceiling in words."""
        return f"{self.mark.ceiling.get(CPU, 'none')} cores"


def standing_of(
    moment: PoolMoment, kept: Mark, before: Mark | None, contest: Contest, uptake: Uptake, now_s: float
) -> tuple[LeverState, Because]:
    """The state and its reason.

    `kept` is what stands on the object now, `before` what stood there before, `moment.mark` what is to be written.
    """
    if contest.is_contested(now_s):
        period = int(CONTESTED_WRITE_EVERY_S)
        return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=period)
    if not moment.mark.ceiling:
        return LeverState.HANDED_BACK, reason_of(moment)
    if overrun := _overrun(moment, kept, before):
        return LeverState.UNCONFIRMED, overrun
    if uptake.is_late(now_s):
        waited = round(uptake.waited_s(now_s))
        return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=moment.text, waited=waited)
    if not kept.ceiling or uptake.waiting_since_s is not None:
        return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=moment.text)
    return LeverState.CONFIRMED, reason_of(moment)


def reason_of(moment: PoolMoment) -> Because:
    """Why the ceiling is what it is."""
    figures, room, ceiling = moment.figures, moment.room, moment.text
    if _is_users(moment.mark):
        limit = moment.mark.original.get(CPU) if moment.mark.ceiling else (moment.pool.spec.limits or {}).get(CPU)
        return because(LeverReason.USER_LIMIT_IS_LOWER, limit=limit)
    if room.lighter:
        return because(LeverReason.RAN_DRY, ceiling=ceiling, waited=round(moment.unmet_s), lighter=room.lighter)
    if room.heavier and not room.share:
        return because(LeverReason.HEAVIER_FIRST, ceiling=ceiling, heavier=room.heavier)
    if room.doublings:
        return because(LeverReason.NOTHING_STARTS, ceiling=ceiling, waited=round(moment.unmet_s))
    if not figures.seen and room.share:
        return because(LeverReason.PROBING_SIZE, ceiling=ceiling)
    if room.charge > 1:
        return because(LeverReason.WIDE_POOL, ceiling=ceiling, share=room.share, charge=room.charge)
    usage = f"{format_milli(figures.usage.get(CPU, 0))} cores"
    if figures.is_mixed:
        smallest, largest = map(format_milli, figures.cores)
        detail = {"smallest": smallest, "largest": largest, "share": room.share}
        return because(LeverReason.PACING_IN_CAPACITY, ceiling=ceiling, **detail)
    return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=room.share)


def _is_users(mark: Mark) -> bool:
    return all(value == mark.original.get(name) for name, value in mark.ceiling.items())


def _overrun(moment: PoolMoment, kept: Mark, before: Mark | None) -> Because | None:
    """Machines beyond the last two ceilings, more than one batch and replacements explain.

    A round that was under way went by the ceiling before; without one it went by none. Karpenter starts a replacement
    while usage is not above the ceiling: three drifted machines under a ceiling equal to the usage had two replacements
    at once (observed, 1.15.0).
    """
    ceilings = [_cores(mark) for mark in (kept, before)]
    if None in ceilings or not moment.figures.seen:
        return None
    standing = [claim for claim in moment.claims if not claim.is_deleting]
    usage = total(size_of(claim) for claim in standing).get(CPU, 0)
    drifted = sum(claim.is_drifted for claim in standing)
    allowed = max(amount for amount in ceilings if amount) + (1 + drifted) * moment.figures.seen.get(CPU, 0)
    if usage <= allowed:
        return None
    return because(LeverReason.OVERRUN, usage=format_milli(usage), ceiling=kept.ceiling[CPU])


def _cores(mark: Mark | None) -> int | None:
    """A ceiling of ours, in milli-cores; None where the user's own value, or nothing, stood."""
    value = mark.ceiling.get(CPU) if mark else None
    is_ours = mark is not None and value is not None and value != mark.original.get(CPU)
    return amount_of(value) if is_ours else None
