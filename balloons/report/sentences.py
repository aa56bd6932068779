"""A plan in words, its answer first. What may come from a cluster or a file is cut and made safe to show here, once.

The answer before the evidence: can it be done, what do others feel of it, and what does pacing cost or spare.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from balloons.preview import overload
from balloons.preview.forecast import NONE, THROTTLE, Limit
from balloons.preview.inputs import NO_CLUSTER
from balloons.preview.scale_up_plan import Side
from balloons.report import document
from balloons.report.document import Document, Gang, Input, SavedBand, SavedSide, SavedWave
from balloons.text_and_colours import POLICIES, TITLES, duration, end, figure, printable, share, times
from throttler.kube.quantities_and_durations import count, plural

LONGEST = 160
"""Characters of a name or a detail; of objects 253 are possible, and of a file any number."""
LONGEST_COMMAND = 1000
"""A command is there to be pasted: cut it would do harm, so a longer one ends in what no shell takes."""
OTHERS = "other users of the API"
"""Who they are is said once, in the first sentence; after it they are the others."""


@dataclass(frozen=True, slots=True)
class PlanReason:
    """One `because` of the plan: for how long it binds (None: for ever), and what it means."""

    because: str
    limit: str
    meaning: str
    seconds: float | None


def shown(text: str, longest: int = LONGEST) -> str:
    """Cut, and no character of it moves a cursor or turns the line round."""
    safe = printable(text[: longest + 1])
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"


def title(plan: Document) -> str:
    """What was asked for."""
    asked = plan.request
    name = f" of {shown(asked.pool)}" if asked.pool else ""
    if not asked.add_nodes:
        return f"No more nodes: {plan.cluster.pool_nodes:,}{name}"
    if plan.pods is not None and len(plan.pods.new_nodes) > 1:
        most_first = sorted(plan.pods.new_nodes.items(), key=lambda new: (-new[1], new[0]))
        of_pools = first([f"{nodes:,} of {shown(pool)}" for pool, nodes in most_first], 4)
        return f"{count(asked.add_nodes, 'node')} more: {', '.join(of_pools)}"
    return f"{count(asked.add_nodes, 'node')} more: {plan.cluster.pool_nodes:,} -> {asked.to_nodes:,}{name}"


def no_longer(plan: Document) -> str:
    """Why no node is to come."""
    if plan.pods is not None and plan.pods.pods == plan.pods.on_nodes_there:
        return "all pods fit nodes that are there"
    there = f"{_nodes(plan.cluster.pool_nodes)} there"
    words = shown(plan.request.in_words)
    return f"{there}, and {words} asks for no more" if words else f"{there}, and no more are asked for"


def arrowed(text: str) -> str:
    """For places that can show any letter."""
    return text.replace("->", "→")


def when(plan: Document) -> str:
    """How long it takes: the first thing that anybody asks."""
    if not plan.request.add_nodes:
        return f"Ready: now; {no_longer(plan)}"
    if plan.eta is None:
        return "Ready: none of them can come"
    which = "" if plan.nodes_coming == plan.request.add_nodes else f"{plan.nodes_coming:,} of them "
    if plan.eta.median_seconds is None:
        last = f" ({plan.timeline[-1].ready:,} by the end)" if plan.timeline else ""
        return f"Ready: {'never' if _is_stuck(plan) else 'not within 12 h'}{last}"
    first_s = plan.first_node.median_seconds if plan.first_node else None
    first = f"; the first after {duration(first_s)}" if first_s is not None else ""
    return f"Ready: {which}in {ends(plan)} (nine in ten: {band(plan.eta)}){first}"


def ends(plan: Document) -> str:
    """The median end, with `>` where it may be much later."""
    eta_s = plan.eta.median_seconds if plan.eta else None
    return end(eta_s, is_collapse=is_collapse(plan), is_stuck=_is_stuck(plan))


def _is_stuck(plan: Document) -> bool:
    return any(side.is_stuck for side in plan.pacing.sides if side.policy == plan.pacing.policy)


def band(saved: SavedBand) -> str:
    """What nine in ten lie between."""
    high = "no end" if saved.high_seconds is None else duration(saved.high_seconds)
    return f"{duration(saved.low_seconds)} to {high}"


def limited_by(plan: Document) -> str:
    """What binds for longest, and what would be won without it; empty where nothing does."""
    limit = plan.limit
    if limit is None:
        return ""
    without = f" Without this limit: {duration(limit.eta_without_seconds)}." if _helps(plan) else ""
    return f"Limited by {shown(limit.name)}: {shown(limit.meaning)}.{without}"


def _helps(plan: Document) -> bool:
    """By a twentieth or more."""
    eta_s = plan.eta.median_seconds if plan.eta else None
    without_s = plan.limit.eta_without_seconds if plan.limit else None
    return eta_s is not None and without_s is not None and without_s <= 0.95 * eta_s


def is_collapse(plan: Document) -> bool:
    """Whether the API servers would refuse so much that the end may be much later than planned."""
    return any(
        side.policy == plan.pacing.policy and overload.is_collapse(side.refused_share) for side in plan.pacing.sides
    )


def reasons(plan: Document) -> tuple[PlanReason, ...]:
    """Each `because` once, that which binds for longest first."""
    by_because: dict[str, PlanReason] = {}
    for wave in plan.waves:
        before = by_because.get(wave.because)
        spent = None if wave.until_seconds is None else wave.until_seconds - wave.from_seconds
        if before is not None:
            spent = None if spent is None or before.seconds is None else spent + before.seconds
        by_because[wave.because] = PlanReason(shown(wave.because), shown(wave.limit), _meaning(wave.because), spent)
    return tuple(sorted(by_because.values(), key=_spent_s, reverse=True))


def _spent_s(reason: PlanReason) -> float:
    return math.inf if reason.seconds is None else reason.seconds


def _meaning(because: str) -> str:
    """Empty for a reason that a later version knows."""
    return next((limit.meaning for limit in Limit if limit.because == because), "")


def wave_row(number: int, wave: SavedWave) -> tuple[str, ...]:
    """Number, from, until, nodes, ready, per minute, limited by."""
    spent = 0.0 if wave.until_seconds is None else wave.until_seconds - wave.from_seconds
    return (
        str(number),
        duration(wave.from_seconds),
        duration(wave.until_seconds),
        f"{wave.nodes:+,}" if wave.until_seconds is not None else f"{wave.nodes:,} missing",
        f"{wave.ready:,}",
        f"{60 * wave.nodes / spent:,.0f}" if spent >= 1.0 else "0",
        shown(f"{wave.limit} ({wave.object})" if wave.object else wave.limit),
    )


def side_row(side: SavedSide) -> tuple[str, ...]:
    """Policy, end, peak requests per second, load, refused, how much longer others wait."""
    return (
        policy(side),
        end(side.eta_seconds, is_collapse=overload.is_collapse(side.refused_share), is_stuck=side.is_stuck),
        f"{side.peak_requests_per_second:,.0f}",
        share(side.peak_utilisation),
        share(side.refused_share),
        times(side.slower_by),
    )


def policy(side: SavedSide) -> str:
    """As users call it."""
    return shown(POLICIES.get(side.policy, side.policy))


def input_row(known: Input) -> tuple[str, str, str, str]:
    """Name, value, source, detail."""
    name = shown(TITLES.get(known.name, known.name))
    return name, shown(figure(known.value, known.unit)), shown(known.source), shown(known.detail)


def risks(plan: Document) -> tuple[str, ...]:
    """What could go wrong in one of twenty; promises that are broken have their own place."""
    timer = plan.kill_timer
    if timer.lost_high is None or timer.lost_high < 0.5 or (timer.lost or 0) >= 1:
        return ()
    most = count(timer.lost_high, "machine")
    return (
        f"In one of twenty such scale-ups the autoscaler destroys {most} or more that have not registered after "
        f"{duration(timer.seconds)}.",
    )


def cost(plan: Document) -> tuple[str, ...]:
    """The bill, and what warmth costs, and waiting until nodes are usable; nothing where no price is known."""
    prices = plan.cost
    if prices.price_per_node_hour is None:
        return ()
    bill, new = prices.price_per_node_hour * plan.nodes_coming, count(plan.nodes_coming, "node")
    warm = f", {prices.warm_per_hour:,.2f}/h for {plan.cluster.warm_nodes:,} warm" if prices.warm_per_hour else ""
    return (f"Cost: {bill:,.2f}/h for {new}{warm}; waiting {prices.waiting or 0:,.2f} once.",)


def assumed(plan: Document) -> str:
    """How much of the plan is known, in one sentence."""
    number = sum(figure.source == "assumed" for figure in plan.inputs)
    if not number:
        return "Every figure was stated or learned in this cluster."
    return f"{number:,} of {count(len(plan.inputs), 'figure')} {plural(number, 'is', 'are')} assumed, not known."


def nothing_seen(plan: Document) -> str:
    """Said where a cluster was looked at and no node was seen; else empty."""
    if plan.cluster.nodes or plan.cluster.autoscaler == NO_CLUSTER:
        return ""
    return "No node was seen: all that this plan says of nodes is assumed."


def pods(plan: Document) -> tuple[str, ...]:
    """Where the pods that were given go."""
    fitting = plan.pods
    if fitting is None:
        return ()
    text = [
        f"{count(fitting.pods, 'pod')}: {fitting.on_nodes_there:,} on nodes that are there, "
        f"{fitting.on_new_nodes:,} on new ones."
    ]
    text += [
        f"Gang {shown(gang.name.removeprefix('/'))} ({count(gang.pods, 'pod')}) {_gang_starts(gang, plan)}."
        for gang in fitting.gangs
    ]
    text += [f"{count(left.pods, 'pod')} cannot run: {shown(left.reason)}." for left in fitting.unplaceable]
    if fitting.unjudged:
        text.append(
            f"{count(fitting.unjudged, 'pod')} with rules that are not judged here (volumes, zones, other pods, "
            "claimed devices)."
        )
    return tuple(text)


def _gang_starts(gang: Gang, plan: Document) -> str:
    if not gang.is_placeable:
        return "can never start: not all of it fits"
    if gang.fits_now:
        return "can start now, on nodes that are there"
    if plan.nodes_coming < plan.request.add_nodes or plan.eta is None:
        return "can never start: not all nodes that it needs can come"
    if _is_stuck(plan):
        return "can never start: machines are destroyed before they have joined"
    return f"can start in {ends(plan)}"


def first(texts: Iterable[str], most: int) -> list[str]:
    """At most so many of them, and how many more there are."""
    listed = list(texts)
    return listed if len(listed) <= most else [*listed[: most - 1], f"... and {len(listed) - most + 1:,} more."]


class Level(enum.Enum):
    """As a traffic light: green, yellow, red."""

    YES = "yes"
    HURTS = "hurts"
    NO = "no"


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """One or two sentences; `command` is what lifts the limit, where one does."""

    level: Level
    sentence: str
    command: str = ""


def answer_of(plan: Document) -> PlanAnswer:
    """Of a plan; promises that it breaks come first."""
    sides = [side_of(side) for side in plan.pacing.sides]
    own = next((side for side in sides if side.policy == plan.pacing.policy), None)
    compared = _compared(sides, plan.pacing.policy)
    if plan.broken:
        more = f" {compared}" if own is not None and own.is_collapse and compared else ""
        fix = shown(plan.limit.fix, LONGEST_COMMAND) if plan.limit else ""
        return PlanAnswer(Level.NO, f"No: {shown(plan.broken[0])}.{more}", fix)
    if not plan.request.add_nodes or own is None:
        return PlanAnswer(Level.YES, f"Nothing to do: {no_longer(plan)}.")
    done = f"{_nodes(plan.nodes_coming)} ready in {_end(own)}"
    said = felt(own, OTHERS)
    if hurts(own) or may_hurt(own):
        how = "it hurts" if hurts(own) else "it may hurt"
        return PlanAnswer(Level.HURTS, f"Yes, but {how}: {done}, and {said}. {compared}".rstrip())
    return PlanAnswer(Level.YES, f"Yes: {done}, and {said}. {compared}".rstrip())


def answer_of_sides(sides: Sequence[Side]) -> PlanAnswer:
    """Of the same scale-up under several policies: what it does to others unpaced, and what pacing changes."""
    unpaced = next((side for side in sides if side.policy == NONE), None)
    if unpaced is None:
        sparing = [(side.eta_s, side) for side in sides if not hurts(side) and side.eta_s is not None]
        if not sparing:
            return PlanAnswer(Level.NO, "None of these spares others.")
        _, best = min(sparing, key=itemgetter(0))
        name = shown(POLICIES.get(best.policy, best.policy))
        return PlanAnswer(Level.YES, f"Of those that spare others {name} ends first: {_end(best)}.")
    level = Level.HURTS if hurts(unpaced) or may_hurt(unpaced) else Level.YES
    if unpaced.is_collapse or unpaced.eta_s is None:
        level = Level.NO
    said = f"No pacing: {_end(unpaced)}, and {felt(unpaced, OTHERS)}."
    return PlanAnswer(level, f"{said} {_compared(sides, NONE)}".rstrip())


def hurts(side: Side) -> bool:
    """Whether others notice, in most of the possible worlds."""
    return overload.hurts(side.peak_utilisation, side.slower_by, side.error_share)


def may_hurt(side: Side) -> bool:
    """Whether they do in some of them."""
    return side.hurt_share > 0.0 and not hurts(side)


def felt(side: Side, who: str = "others") -> str:
    """By others, while it lasts; `who` names them."""
    if may_hurt(side):
        high = side.slower_by_high
        how = f"they wait up to {times(high)} longer" if high >= overload.SLOW_FROM else "they notice"
        return f"{who} feel nothing in most cases; in {share(side.hurt_share)} of the possible worlds {how}"
    if not hurts(side):
        return f"{who} feel nothing"
    if side.slower_by >= overload.SLOW_FROM:
        effect = f"{who} wait {times(side.slower_by)} longer"
    else:
        effect = f"the API servers are {share(side.peak_utilisation)} busy"
    if side.error_share >= overload.REFUSING_FROM:
        effect += f", and {share(side.error_share)} of all requests are refused"
    return f"{effect}, for {duration(side.hurt_s)}" if side.hurt_s else effect


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
    unpaced = next((side for side in sides if side.policy == NONE), None)
    paced = next((side for side in sides if side.policy == THROTTLE), None)
    if unpaced is None or paced is None:
        return ""
    if policy == NONE:
        return _with_pacing(paced, unpaced)
    without = f"Without pacing: {_end(unpaced)}, and {felt(unpaced)}"
    if not _is_later(paced, unpaced):
        spares_nobody = not any(hurts(side) or may_hurt(side) for side in (paced, unpaced))
        return "Pacing changes nothing here." if spares_nobody and not _is_later(unpaced, paced) else f"{without}."
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


def _nodes(number: int) -> str:
    return count(number, "node is", "nodes are")
