"""The answer before the evidence: can it be done, what do others feel of it, and what does pacing cost or spare."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from balloons.preview.forecast import BUSY, SLOW
from balloons.preview.policies import NONE, THROTTLE
from balloons.preview.scale_up_plan import Side
from balloons.preview.words import POLICIES, duration, end, share, times
from balloons.report import document
from balloons.report.document import Document
from balloons.report.sentences import LONGEST_COMMAND, no_longer, shown

REFUSED = 0.0005


class Level(enum.Enum):
    """As a traffic light: green, yellow, red."""

    YES = "yes"
    HURTS = "hurts"
    NO = "no"


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """One or two sentences; `command` is what lifts the limit, where one does."""

    level: Level
    sentence: str
    command: str = ""


def verdict(plan: Document) -> PlanVerdict:
    """Of a plan; promises that it breaks come first."""
    sides = [side_of(each) for each in plan.pacing.sides]
    own = next((each for each in sides if each.policy == plan.pacing.policy), None)
    compared = _compared(sides, plan.pacing.policy)
    if plan.broken:
        more = f" {compared}" if own is not None and own.is_collapse and compared else ""
        fix = shown(plan.limit.fix, LONGEST_COMMAND) if plan.limit else ""
        return PlanVerdict(Level.NO, f"No: {shown(plan.broken[0])}.{more}", fix)
    if not plan.request.add_nodes or own is None:
        return PlanVerdict(Level.YES, f"Nothing to do: {no_longer(plan)}.")
    done = f"{_nodes(plan.nodes_coming)} ready in {_end(own)}"
    if hurts(own) or may_hurt(own):
        how = "it hurts" if hurts(own) else "it may hurt"
        return PlanVerdict(Level.HURTS, f"Yes, but {how}: {done}, and {felt(own)}. {compared}".rstrip())
    return PlanVerdict(Level.YES, f"Yes: {done}, and {felt(own)}. {compared}".rstrip())


def verdict_of_sides(sides: Sequence[Side]) -> PlanVerdict:
    """Of the same scale-up under several policies: what it does to others unpaced, and what pacing changes."""
    unpaced = next((each for each in sides if each.policy == NONE), None)
    if unpaced is None:
        quick = [each for each in sides if not hurts(each) and each.eta_s is not None]
        best = min(quick, key=lambda each: each.eta_s or 0.0, default=None)
        if best is None:
            return PlanVerdict(Level.NO, "None of these spares others.")
        return PlanVerdict(Level.YES, f"Of those that spare others {_name(best)} ends first: {_end(best)}.")
    level = Level.HURTS if hurts(unpaced) or may_hurt(unpaced) else Level.YES
    if unpaced.is_collapse or unpaced.eta_s is None:
        level = Level.NO
    said = f"No pacing: {_end(unpaced)}, and {felt(unpaced)}."
    return PlanVerdict(level, f"{said} {_compared(sides, NONE)}".rstrip())


def hurts(side: Side) -> bool:
    """Whether others notice, in most of the possible worlds."""
    return side.peak_utilisation >= BUSY or side.slower_by >= SLOW or side.error_share >= REFUSED


def may_hurt(side: Side) -> bool:
    """Whether they do in some of them."""
    return side.hurt_share > 0.0 and not hurts(side)


def felt(side: Side) -> str:
    """By others, while it lasts."""
    if may_hurt(side):
        high = side.slower_by_high
        how = f"they wait up to {times(high)} longer" if high >= SLOW else "they notice"
        return f"others feel nothing in most cases; in {share(side.hurt_share)} of the possible worlds {how}"
    if not hurts(side):
        return "others feel nothing"
    if side.slower_by >= SLOW:
        found = f"others wait {times(side.slower_by)} longer"
    else:
        found = f"the API servers are {share(side.peak_utilisation)} busy"
    if side.error_share >= REFUSED:
        found += f", and {share(side.error_share)} of all requests are refused"
    return f"{found}, for {duration(side.hurt_s)}" if side.hurt_s else found


def side_of(side: document.SavedSide) -> Side:
    """As the preview has it."""
    return Side(
        policy=side.policy,
        eta_s=side.eta_seconds,
        peak_requests_per_s=side.peak_requests_per_second,
        peak_utilisation=side.peak_utilisation,
        error_share=side.refused_share,
        slower_by=side.slower_by,
        is_stuck=side.is_stuck,
        hurt_s=side.hurt_seconds or 0.0,
        hurt_share=side.hurt_share or 0.0,
        slower_by_high=side.slower_by_high or side.slower_by,
    )


def _compared(sides: Sequence[Side], policy: str) -> str:
    """What pacing costs or spares; `policy` is what holds now. Empty where it is not known."""
    unpaced = next((each for each in sides if each.policy == NONE), None)
    paced = next((each for each in sides if each.policy == THROTTLE), None)
    if unpaced is None or paced is None:
        return ""
    if policy == NONE:
        return _with_pacing(paced, unpaced)
    without = f"Without pacing: {_end(unpaced)}, and {felt(unpaced)}"
    if not _is_later(paced, unpaced):
        return f"{without}."
    if _hurts_more(unpaced, paced):
        most = " in most cases" if may_hurt(paced) else ""
        spares = "" if unpaced.is_collapse else f" Pacing {_price(paced, unpaced)} and spares them{most}."
        return f"{without}.{spares}"
    if hurts(unpaced) or may_hurt(unpaced):
        return f"{without}."
    return f"{without} either: pacing {_price(paced, unpaced)} here and spares nobody."


def _with_pacing(paced: Side, unpaced: Side) -> str:
    if not hurts(unpaced) and not may_hurt(unpaced):
        return "No JoinThrottle is needed for this." if not hurts(paced) else ""
    if hurts(paced):
        return f"A JoinThrottle {_price(paced, unpaced)} and does not avoid that: {felt(paced)}."
    if may_hurt(paced):
        rest = f"{share(paced.hurt_share)} of the possible worlds"
        if not _hurts_more(unpaced, paced):
            return f"A JoinThrottle does not avoid that in {rest} and {_price(paced, unpaced)}."
        return f"A JoinThrottle avoids that in most cases (not in {rest}) and {_price(paced, unpaced)}."
    return f"A JoinThrottle avoids that and {_price(paced, unpaced)}."


def _hurts_more(unpaced: Side, paced: Side) -> bool:
    """In most of the possible worlds, or in more of them."""
    if hurts(unpaced) or hurts(paced):
        return hurts(unpaced) and not hurts(paced)
    return unpaced.hurt_share > paced.hurt_share


def _is_later(paced: Side, unpaced: Side) -> bool:
    if paced.eta_s is None or unpaced.eta_s is None:
        return paced.eta_s is None and unpaced.eta_s is not None
    return paced.eta_s - unpaced.eta_s >= 1.0


def _price(paced: Side, unpaced: Side) -> str:
    """In time: no cost is made up against an end that is only a lower bound."""
    if paced.eta_s is None or unpaced.eta_s is None or unpaced.is_collapse or paced.is_collapse:
        return f"takes {_end(paced)} instead of {_end(unpaced)}"
    more = paced.eta_s - unpaced.eta_s
    if abs(more) < 1.0:
        return "takes no longer"
    return f"takes {duration(abs(more))} {'longer' if more > 0 else 'less'} ({share(abs(more) / unpaced.eta_s)})"


def _end(side: Side) -> str:
    return end(side.eta_s, is_collapse=side.is_collapse, is_stuck=side.is_stuck)


def _name(side: Side) -> str:
    return shown(POLICIES.get(side.policy, side.policy))


def _nodes(number: int) -> str:
    return "1 node is" if number == 1 else f"{number:,} nodes are"
