"""Why a held object is let in, or is not: the reasons of the levers that hold single objects."""

from collections.abc import Sequence

from throttler.kube.because import Because, Sentence, because
from throttler.levers.held import Held
from throttler.levers.lever import LeverReport, LeverState, Room


class HoldReason(Sentence):
    """Why, in a sentence; the braces name the figures."""

    ADMITTED = "let in after {age_s:.0f} s: there is room for it now"
    HOLD_TIME_IS_UP = (
        "let in after {age_s:.0f} s: nothing is held for longer than {limit_s:.0f} s, whatever the signals say"
    )
    HOLD_HANDED_BACK = "let in: the throttle is stopping, paused or gone, and holds nothing back"
    NOTHING_HELD = "nothing is held back"
    HOLDING = "{held} held back, the oldest for {oldest_s:.0f} s; each is let in after {limit_s:.0f} s at the latest"
    HOLDING_BLIND = (
        "{held} held back: the view is incomplete or stale, so only those held for {limit_s:.0f} s are let in"
    )
    PODS_HELD = "{held} pods held back, the oldest for {oldest_s:.0f} s; they are let go as nodes may start"
    PODS_HELD_BLIND = "{held} pods held back: the view is incomplete or stale, so none is let go"


def why_let_in(held: Held, limit_s: float, room: Room) -> Because:
    """Why this one is let in."""
    if room.is_stopping:
        return because(HoldReason.HOLD_HANDED_BACK)
    if held.age_s >= limit_s:
        return because(HoldReason.HOLD_TIME_IS_UP, age_s=held.age_s, limit_s=limit_s)
    return because(HoldReason.ADMITTED, age_s=held.age_s)


def hold_report(name: str, stays: Sequence[Held], limit_s: float, room: Room) -> LeverReport:
    """What users see of a lever that holds objects: how many stay behind after this decision, and why.

    A hold needs no confirmation: an object that bears our mark is held by the fact.
    """
    if room.is_stopping:
        return LeverReport(name=name, state=LeverState.HANDED_BACK, because=because(HoldReason.HOLD_HANDED_BACK))
    if not stays:
        return LeverReport(name=name, state=LeverState.HANDED_BACK, because=because(HoldReason.NOTHING_HELD))
    reason = HoldReason.HOLDING if room.may_move else HoldReason.HOLDING_BLIND
    oldest_s = max(each.age_s for each in stays)
    why = because(reason, held=len(stays), oldest_s=oldest_s, limit_s=limit_s)
    return LeverReport(name=name, state=LeverState.CONFIRMED, because=why, ceiling=f"{len(stays)} held")
