"""What may be done now to fill the window: let held machines in, ask for more.

How many may be asked for follows from a virtual queue over the boot time, which is dead time. Without a gate no more
than a window may be joining when they come: what nothing holds back after it was asked for comes one boot time later
and joins at once. So an order is bounded at the time of its arrival: by the joins of now that are still under way then,
and by the machines ordered before. Each of those comes when its boot ends, which is known by mean and spread, and
leaves as joins end: servers work through a batch one machine after the other, so joins that take `join_s` in the mean
end evenly over twice that time, and a steady flow has as many under way as Little's law says. Where machines were lost
lately, as many more are ordered.

With a gate, machines boot in advance and are metered at the join. Each machine that is asked for now comes after the
boot time and is let in when those before it are; it must be let in well before its time limit even if the pace turns
out to be half of what it seems (`stock_pace`), because a machine that misses its kill timer is lost, and most are asked
for before anything is proven.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from throttler.joins.joins import Joins
from throttler.law import window_formulas
from throttler.law.join_model import JoinFlow
from throttler.law.law_input import LawInput, WindowUpdate
from throttler.law.law_memory import Order
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase

OVERDUE_WINDOW = 1.25
"""Machines that near their time limit may fill the window so far."""
PROOF_S = 60.0
"""The shortest time over which joins that ended prove a pace: a wave ends together, and then there is nothing."""
PROOF_SLACK = 1.5
"""While the window is not full, what is asked for may be so many times the proven pace, or it could hardly rise."""
ORDERED_WITHIN_S = 15.0
"""What may be ordered collects for so long: an autoscaler looks every ten seconds, and later on a busy server."""
AT_ONCE_S = 5.0
"""So many seconds of a user's pace may be let in at once."""
AT_ONCE_SPREADS = math.sqrt(2.0 * math.pi) / 2.0
"""Machines ordered together come over their boots' spread: at the crest as many per second as if all came evenly within
2.5 of its standard deviations (the height of the normal density). Half of that may be ordered at once; the other half
of the pace at that crest belongs to what is ordered until then."""
FIRST_SHARE = 0.5
"""Of a window by the cost of joins, which no server has been too small for yet: what a scale-up orders first where
nothing holds machines back. They come together, and a join's first seconds are its busiest."""
LEAST_ORDER = 0.25
"""Of a window: few full orders are less work for everybody than an order for each join that ends. By turns behind gates
(history of decision 0009) a node cost the server 6 to 10 % less; with halves it had nothing to do at times."""
REGISTRATIONS = 2.0
"""Windows' worth of machines that may arrive within one join's time where they register before they are held. Of a join
with 8 DaemonSets the kubelet's own part is some 50 of 130 requests: all load is below 1.4 windows."""
MARGIN_S = 60.0
"""Well before: kept clear of every time limit."""
OUT_OF_TURN_S = 40.0
"""Who was asked for first goes in first, and may have arrived so much later than the next (jitter of the boots)."""
PARTS = 7
"""An order is taken for so many equal parts, each with the boot time in the middle of its share of all boots."""
OLDEST = 1.5
"""Means of a join's time after which it is not taken to end any sooner for having lasted so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A token bucket: one token lets one join in. It fills at the pace, up to a burst."""

    per_s: float
    burst: float

    def filled(self, tokens: float | None, elapsed_s: float) -> float:
        """The tokens after `elapsed_s` more; None is a bucket that nothing was taken from yet."""
        return self.burst if tokens is None else min(self.burst, tokens + self.per_s * max(0.0, elapsed_s))


def bucket(window: float, join_s: float, gain: float, per_min: float | None, settings: LawSettings) -> Bucket:
    """The pace at which a full window renews itself, as far as `gain` and a bound allow.

    A small window may fill by half at once: a cold start must see something.
    """
    per_s = settings.pacing * gain * window / join_s
    if per_min is not None:
        per_s = min(per_s, per_min / 60.0)
    burst = max(settings.burst_s * per_s, gain * min(window, settings.window_initial) / 2.0, 1.0)
    return Bucket(per_s=per_s, burst=burst if per_min is None else max(1.0, min(burst, per_min / (60.0 / AT_ONCE_S))))


def overdue_now(
    joins: Joins, flow: JoinFlow, boot_s: float, elapsed_s: float, now_s: float, settings: LawSettings
) -> int:
    """Held machines that want to go in whatever delay says, because their time limit is near.

    Who nears it follows from when how many arrived; those are spread over what is left of their time. Should the
    oldest be older than that history says, one goes in at each step.
    """
    limit_s = min(settings.max_wait_s - OUT_OF_TURN_S, settings.kill_timer_s - boot_s) - MARGIN_S
    from_s = max(0.0, limit_s - settings.deadline_s)
    if joins.oldest_held_s < from_s or not joins.held:
        return 0
    near = max(1, flow.held_since(now_s - from_s))
    share = min(1.0, max(elapsed_s, 1.0) / settings.deadline_s)
    late = flow.held_since(now_s - limit_s)
    return min(joins.held, max(late, math.ceil(near * share)))


def bearable(window: float, joins: Joins) -> int:
    """Overdue machines that may go in, beyond the window too, but not all that are late together.

    A machine that is lost to its timer is asked for again; in an overload no join ends at all.
    """
    return max(0, math.floor(OVERDUE_WINDOW * window) - joins.joining)


def admitted(tokens: float, window: float, joins: Joins) -> int:
    """Held machines to let in: what the window has room for, and the tokens pay."""
    return max(0, min(joins.held, math.floor(min(window - joins.joining, tokens))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Counts of machines, and the tokens that are left of each bucket."""

    admit: int
    overdue: int
    allowance: int
    spare: int
    pace_per_min: float
    tokens: float
    ask_tokens: float | None
    """None while nothing waits and nothing is in flight: the next scale-up begins with a full bucket."""
    order: Order
    """Where machines come in waves, `allowance` and `spare` are of it."""


def filled(facts: LawInput, update: WindowUpdate) -> Filling:
    """Spend what the window allows. Held machines that near their limit go first.

    In waves, no less than `LEAST_ORDER` is ordered at a time, and machines that stay late hold that back for no longer
    than a boot and a cycle. A pace of the user's is kept evenly.
    """
    memory, joins, settings = facts.memory, facts.joins, facts.settings
    window, per_min = update.memory.window or settings.window_initial, _per_min(facts, update)
    pace = bucket(window, facts.join_s, _gain(facts), per_min, settings)
    tokens = pace.filled(memory.tokens, facts.elapsed_s)
    # Who is held pays when it is let in; what is asked for meanwhile keeps to a bound of the user's by itself.
    ask_tokens = _ask_tokens(facts, update, window, pace)
    payable = math.floor(ask_tokens / _cost(facts, update))
    limit = _limit(facts, window)
    admit, overdue = _admit(facts, update, window, tokens)
    # Places for machines that are not asked for yet; by tokens too under a bound of the user's, or where they flow.
    free = 0 if update.phase is Phase.BRAKE else max(0, limit - joins.in_flight)
    if per_min is not None or not (settings.has_gate or facts.has_waves):
        free = min(free, payable)
    order = replace(memory.order, left=max(0, memory.order.left - memory.flow.newly_ordered))
    least = min(joins.waiting, LEAST_ORDER * min(_gain(facts) * window, settings.max_in_flight - joins.late))
    is_due = facts.now_s - order.began_s >= facts.boot_and_cycle_s
    if free and (free >= least or is_due or per_min is not None):
        order = Order(left=max(order.left, free), began_s=facts.now_s)
    if facts.has_waves:
        free = min(free, order.left)
    allowance = max(min(joins.waiting, free), _urgent(facts, update, window, limit, payable))
    return Filling(
        admit=admit,
        overdue=overdue,
        allowance=allowance,
        spare=0 if per_min is not None else max(0, free - allowance),
        pace_per_min=60.0 * window / facts.join_s,
        tokens=max(0.0, tokens - admit),
        ask_tokens=None if update.memory.is_idle else ask_tokens,
        order=order,
    )


def _ask_tokens(facts: LawInput, update: WindowUpdate, window: float, pace: Bucket) -> float:
    """How many may be asked for now by the pace: at the beginning of a scale-up a cold start's whole window.

    Orders pay when they are seen: what may be ordered stands until the autoscaler looks, and is told anew at each look
    of ours.
    """
    left = facts.memory.ask_tokens
    within_s = max(ORDERED_WITHIN_S, AT_ONCE_SPREADS * (facts.memory.boot_spread_s or 0.0))
    orders = replace(pace, burst=max(pace.burst, within_s * pace.per_s))
    tokens = orders.filled(left, facts.elapsed_s)
    if _per_min(facts, update) is None:
        # What a scale-up begins with stays until it is ordered, also when the first look comes in a brake.
        first = min(window, facts.settings.window_initial)
        if facts.memory.load.per_join is not None and not facts.memory.knee.is_proven:
            first = max(first, FIRST_SHARE * window)
        tokens = max(tokens, first if left is None else min(left, first))
    return max(0.0, tokens - _cost(facts, update) * facts.memory.flow.newly_ordered)


def _cost(facts: LawInput, update: WindowUpdate) -> float:
    """Tokens that an order takes: what is not expected to come costs no join. A user's bound counts every machine."""
    return 1.0 if _per_min(facts, update) is not None else facts.memory.flow.coming_share


def _gain(facts: LawInput) -> float:
    """Share of the window that is filled while delay is up."""
    return 1.0 if facts.newest_index is None else window_formulas.pacing_gain(facts.newest_index, facts.settings)


def _per_min(facts: LawInput, update: WindowUpdate) -> float | None:
    """The user's bounds on the pace; the safe one while no server is read, whatever our own requests meet."""
    safe = facts.settings.safe_per_min if update.phase is Phase.STALE or facts.health.is_by_own_requests else None
    return min((bound for bound in (safe, facts.settings.max_per_min) if bound is not None), default=None)


def _admit(facts: LawInput, update: WindowUpdate, window: float, tokens: float) -> tuple[int, int]:
    """By the window, and of these or beyond them the overdue ones."""
    if not facts.settings.has_gate:
        return 0, 0
    boot_s = boot_time_s(facts.joins, facts.memory.boot_s, facts.settings)
    overdue = overdue_now(facts.joins, facts.memory.flow, boot_s, facts.elapsed_s, facts.now_s, facts.settings)
    if update.phase is Phase.BRAKE:
        return 0, 0
    overdue = min(overdue, bearable(window, facts.joins))
    return max(admitted(tokens, window, facts.joins), overdue), overdue


def _limit(facts: LawInput, window: float) -> int:
    """The most machines that may be in flight, within the user's bound."""
    boot_s = boot_time_s(facts.joins, facts.memory.boot_s, facts.settings)
    if not facts.settings.has_gate:
        stocked = facts.joins.booting + facts.joins.held + _forecast(facts, window, boot_s)
    else:
        outlook = Outlook(window=window, pace_per_s=_pace_per_s(facts, window), boot_s=boot_s)
        stocked = gated_stock(outlook, facts.joins, facts.settings)
        if facts.settings.registers_freely:
            stocked = min(stocked, facts.joins.held + facts.joins.booting + _registrations(facts, window, boot_s))
    return min(math.floor(facts.joins.joining + stocked), max(0, facts.settings.max_in_flight - facts.joins.late))


def _forecast(facts: LawInput, window: float, boot_s: float) -> float:
    """Machines that may be asked for where nothing holds them back when they come.

    While the window grows, joins still last as long as they did in the smaller one, and end sooner in the forecast than
    they will. So no more are taken to end per second than really ended, and some; in a window larger than any crest
    seen so far, joins are taken to last longer in proportion (Little's law, where the servers are what binds); never
    for less than those under way have lasted already. A wave that the servers bear by what a join is known to cost, and
    while delay is calm, lengthens no join: a small crest would else keep the next one small. Of waves the first that
    fills a doubled window is waited for: how long its joins last nobody knows before they end. So is the first of a
    process that remembers: what it knows is the least time of a join, which those of a full window pass many times
    (real: 2 s became 20, and 104 machines were in flight in a window of 41).
    """
    join_s = facts.memory.join_time.or_guess(max(facts.settings.join_guess_s, facts.joins.oldest_joining_s))
    proof_s = max(facts.latest_join_s, PROOF_S)
    rate_per_s = facts.memory.flow.busy_rate_per_s(proof_s)
    if not facts.has_waves and facts.memory.flow.busy_s < join_s + proof_s:
        # No join ends before one has lasted its time: a rate that spans the beginning says too little.
        rate_per_s = None
    slowest_s = join_s
    fits = facts.has_waves and (facts.warm_window or 0.0) >= window
    if not fits or (facts.high_index or 0.0) >= facts.settings.calm_below:
        if facts.joins.joined and rate_per_s:
            is_full = facts.joins.joining >= facts.settings.used_share * window
            slowest_s = max(join_s, window / (rate_per_s * (1.0 if is_full else PROOF_SLACK)))
        if facts.has_waves:
            slowest_s = max(slowest_s, join_s * window / max(1.0, min(window, float(facts.crest))))
    if facts.has_waves:
        slowest_s = max(slowest_s, facts.joins.oldest_joining_s)
        boots = Boots(mean_s=boot_s, spread_s=facts.joins.boot_spread_s)
        room = _gain(facts) * window
        if facts.is_untried(window):
            in_flight = facts.joins.joining + facts.memory.flow.coming_share * facts.joins.booting
            return max(0.0, room - in_flight)
        return may_ask(facts.memory.flow, facts.joins.joining, room, boots, slowest_s, facts.now_s)
    share = facts.memory.flow.coming_share
    lately = arrivals(facts.memory.flow, Boots(mean_s=boot_s), join_s, facts.now_s)
    in_all = window + facts.settings.pacing * window / slowest_s * boot_s
    coming = facts.joins.joining + share * (facts.joins.booting + facts.joins.held)
    return max(0.0, min(window - lately, in_all - coming) / share)


def _registrations(facts: LawInput, window: float, boot_s: float) -> float:
    """Machines that may be asked for where a gate holds them only once they have registered."""
    join_s = facts.memory.join_time.or_guess(facts.join_s)
    boots = Boots(mean_s=boot_s)
    return max(0.0, REGISTRATIONS * window - arrivals(facts.memory.flow, boots, join_s, facts.now_s))


def _pace_per_s(facts: LawInput, window: float) -> float:
    """Joins per second: by Little's law once joins have ended; before, by what the requests of a join may cost."""
    guessed_s = max(facts.settings.join_guess_s, facts.joins.oldest_joining_s)
    by_window = window / facts.memory.join_time.or_guess(guessed_s)
    if facts.memory.load.per_join is not None:
        return facts.settings.pacing * by_window
    return max(by_window, facts.prior_pace_per_s or 0.0)


def _urgent(facts: LawInput, update: WindowUpdate, window: float, limit: int, payable: int) -> int:
    """What urgent demand may ask for in its own lane, which passes the window and no bound of the user's.

    Behind a gate that is as many as are reserved beyond everybody's stock. Without one everybody's `limit` rises with
    what is on its way, and in a cluster of small jobs all demand is urgent: then it is what anybody might ask for if
    the window were as much larger.
    """
    joins, reserved = facts.joins, facts.settings.reserved_nodes
    if not joins.urgent:
        return 0
    room = (limit + reserved if facts.settings.has_gate else _limit(facts, window + reserved)) - joins.in_flight
    if _per_min(facts, update) is not None:
        room = min(room, payable)
    most = facts.settings.max_in_flight - joins.late - joins.in_flight
    return max(0, min(joins.urgent, joins.waiting, reserved, room, most))


DEVIATIONS = tuple(NormalDist().inv_cdf((part + 0.5) / PARTS) for part in range(PARTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """How long machines take from being asked for until they join, in seconds."""

    mean_s: float
    spread_s: float = 0.0
    """Standard deviation; 0 while unknown, when all that is asked for together is taken to come together."""

    @property
    def parts(self) -> tuple[float, ...]:
        """Times that stand for equal shares of all boots, shortest first."""
        if not self.spread_s:
            return (self.mean_s,)
        return tuple(max(0.0, self.mean_s + deviation * self.spread_s) for deviation in DEVIATIONS)


def may_ask(flow: JoinFlow, joining: int, window: float, boots: Boots, join_s: float, now_s: float) -> float:
    """Machines that may be asked for now; not negative."""
    parts = boots.parts
    under_way = [(now_s - at_s, count) for at_s, count in flow.arrived(joining)]
    share = flow.coming_share
    coming = [(_left(now_s - at_s, parts), share * count) for at_s, count in flow.booting()]
    rooms = []
    for later_s in parts:
        there = sum(count * _lasts(age_s, later_s, join_s) for age_s, count in under_way)
        there += sum(count * _joining(left, later_s, join_s) for left, count in coming)
        rooms.append((window - there) / (share * _joining(parts, later_s, join_s)))
    return max(0.0, min(rooms))


def arrivals(flow: JoinFlow, boots: Boots, join_s: float, now_s: float) -> float:
    """Machines that came lately or are on their way and will not have joined when those asked for now come.

    Where a gate holds them once they have registered, this is what their registrations load the servers with.
    """
    joined_before_s = 2.0 * join_s - boots.mean_s
    came = ((now_s - at_s + boots.mean_s, count) for at_s, count in flow.arrived(since_s=now_s - joined_before_s))
    share = flow.coming_share
    ordered = ((now_s - at_s, share * count) for at_s, count in flow.booting())
    return sum(count * _share(age_s, join_s) for steps in (came, ordered) for age_s, count in steps)


def _left(age_s: float, parts: Iterable[float]) -> tuple[float, ...]:
    """When machines of this age that have not come yet come, in seconds from now: those that are late at any moment."""
    return tuple(part - age_s for part in parts if part > age_s) or (0.0,)


def _joining(arrive: Sequence[float], later_s: float, join_s: float) -> float:
    """Share of machines with these arrivals that is joining `later_s` from now."""
    return math.fsum(_share(later_s - at_s, join_s) for at_s in arrive if at_s <= later_s) / len(arrive)


def _lasts(age_s: float, later_s: float, join_s: float) -> float:
    """Share of the joins of this age that is still under way `later_s` from now."""
    age_s = min(age_s, OLDEST * join_s)
    return _share(age_s + later_s, join_s) / _share(age_s, join_s)


def _share(age_s: float, join_s: float) -> float:
    """Share of all joins that lasts longer than this."""
    return max(0.0, 1.0 - age_s / (2.0 * join_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the virtual queue runs on."""

    window: float
    pace_per_s: float
    """Joins per second that will be let in, as far as is known."""
    boot_s: float


def longest_wait_s(boot_s: float, settings: LawSettings) -> float:
    """How long a machine may be planned to wait at the gate: not so long that it would go first for its age alone."""
    by_timer = settings.kill_timer_s - boot_s - MARGIN_S
    return max(0.0, min(by_timer, settings.max_wait_s - MARGIN_S - OUT_OF_TURN_S - settings.deadline_s))


def gated_stock(outlook: Outlook, joins: Joins, settings: LawSettings) -> float:
    """Machines that may be booting and held so that the last one asked for now is let in in time."""
    pace_per_s = settings.stock_pace * outlook.pace_per_s
    gate_idle_s = 0.0 if joins.held else max(0.0, outlook.boot_s - joins.oldest_booting_s)
    horizon_s = longest_wait_s(outlook.boot_s, settings) + outlook.boot_s - gate_idle_s
    free = max(0.0, outlook.window - joins.joining)
    return free + pace_per_s * max(0.0, horizon_s)


def boot_time_s(joins: Joins, remembered_s: float | None, settings: LawSettings) -> float:
    """Boot time as measured, else as remembered or guessed, and never less than a machine has been booting already."""
    if joins.boot_s is not None:
        return joins.boot_s
    return max(remembered_s or settings.boot_guess_s, joins.oldest_booting_s)
