"""Pacing policies as the simulator asks them: the law, an oracle as yardstick, and the laws that ours is held against.

A policy sees the same that the service's loop sees of a cluster, only the oracle is told the truth. The others are each
as small as their idea, and none of them remembers an earlier scale-up: fixed limits as an operator would set them;
additive increase and multiplicative decrease (Chiu and Jain 1989), on late and on leading signals; Gradient2 of
Netflix's concurrency-limits, our own few lines after its description.
"""

import statistics
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.signals.reading import Reading, Signals
from throttler.simulator.requests_and_machines import JOIN, join_cost, spare
from throttler.simulator.scenario_and_faults import Scenario
from throttler.simulator.simulated_scrape import CLOCK_START_S


@dataclass(frozen=True, slots=True)
class Permit:
    """What may happen until the next step: `ask` for so many more machines, let `admit` of the held ones in.

    `window` is what the policy aims at, for pictures only; None where it has none.
    """

    ask: int
    admit: int
    window: float | None = None


class Policy(Protocol):
    """Asked once per control step (`Scenario.step_s`); keeps its own state between steps."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Decide from what a real controller would see: late, noisy readings and counts of objects."""


class Oracle(ABC):
    """A policy that is told the truth: the yardstick."""

    @abstractmethod
    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        """`spare` seat-seconds per second are free now in all servers together; a join costs `join_cost` of them."""


def permit(
    policy: Policy | Oracle, scenario: Scenario, signals: Signals, joins: Joins, background: float, now_s: float
) -> Permit:
    """What may happen until the next step; `background` is the true share now, for the oracle's eyes only."""
    if isinstance(policy, Oracle):
        free = spare(scenario, background, joins.joined, now_s)
        cost = join_cost(scenario, joins.joining + joins.joined)
        return policy.step_knowing(free, cost, joins, now_s + CLOCK_START_S)
    return policy.step(signals, joins, now_s + CLOCK_START_S)


class LawPolicy:
    """`learned` is what an earlier scale-up left behind; None is a cold start."""

    def __init__(self, scenario: Scenario, learned: Learned | None = None, settings: LawSettings | None = None) -> None:
        self._settings = settings or law_settings(scenario)
        self._memory = LawMemory.start(learned)
        self._now_s = 0.0
        self.verdict: Verdict | None = None
        """The latest, for pictures."""

    @property
    def learned(self) -> Learned:
        """What would stand on the JoinThrottle's status now."""
        return learned_of(self._memory, self._now_s)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Govern once."""
        self._now_s = now_s
        self.verdict, self._memory = govern(signals, joins, self._memory, self._settings, now_s)
        return Permit(ask=self.verdict.allowance, admit=self.verdict.admit, window=self.verdict.window)


def law_settings(scenario: Scenario) -> LawSettings:
    """What the user of that cluster would have said: nothing but the kill timer and whether there is a gate.

    The simulated gate holds a machine before its kubelet registers, so that no part of a join goes past it.
    """
    return LawSettings(has_gate=scenario.has_gate, registers_freely=False, kill_timer_s=scenario.kill_timer_s)


@dataclass
class Drip:
    """Adds up what a rate allows; what is not used within `burst_s` seconds is gone."""

    burst_s: float = 10.0
    credit: float = 0.0
    last_s: float | None = None

    def due(self, per_s: float, now_s: float) -> int:
        """How many whole ones have become due since the call before; at most one burst."""
        passed_s = 0.0 if self.last_s is None else now_s - self.last_s
        self.last_s = now_s
        self.credit = min(self.credit + per_s * passed_s, max(1.0, per_s * self.burst_s))
        whole = int(self.credit)
        self.credit -= whole
        return whole


BOOT_PRIOR_S = 180.0
"""A machine's boot before the first has been seen; clouds take 0.5 to 12 min."""
JOIN_PRIOR_S = 80.0
"""A join before the first has been seen: 60 to 90 s."""
SMALLEST = 4


@dataclass(kw_only=True)
class Stock:
    """Machines asked for and not let in yet, counted in seconds of admissions that they will last.

    Without a gate there is no stock: machines are asked for at the pace at which they shall join, a boot ahead.
    """

    wait_s: float = 150.0
    """How long a booted machine may wait at the gate."""
    kill_share: float = 0.6
    """Share of the kill timer that the last machine's way to the gate may take at the present pace."""
    kill_timer_s: float = 900.0
    has_gate: bool = True
    drip: Drip = field(default_factory=Drip)

    @classmethod
    def of(cls, scenario: Scenario) -> "Stock":
        """As the operator of that cluster would set it."""
        return cls(kill_timer_s=scenario.kill_timer_s, has_gate=scenario.has_gate)

    def to_ask(self, joins: Joins, pace_per_s: float, now_s: float, boot_s: float | None = None) -> int:
        """How many more may be asked for while `pace_per_s` are let in; `boot_s` where it is known beforehand."""
        boot_s = boot_s or joins.boot_s or BOOT_PRIOR_S
        if not self.has_gate:
            room = min(self.drip.due(pace_per_s, now_s), self._room(joins, pace_per_s, 1.3 * boot_s))
        else:
            wait_s = min(boot_s + self.wait_s, self.kill_share * self.kill_timer_s)
            room = self._room(joins, pace_per_s, max(1.1 * boot_s, wait_s))
        return max(0, min(joins.waiting, room))

    def _room(self, joins: Joins, pace_per_s: float, ahead_s: float) -> int:
        return max(SMALLEST, int(pace_per_s * ahead_s)) - joins.booting - joins.held


def pace_of(window: float, joins: Joins) -> float:
    """What a window means in joins per second while joins take as long as they do now (Little's law)."""
    return window / (joins.join_s or JOIN_PRIOR_S)


BASELINE_WINDOWS = 18
"""About three minutes of windows of 10 s."""
BASELINE_FLOOR_S = 0.004
"""An idle server answers in less than a millisecond; a ratio to that is noise."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The newest windows of all servers as one: the largest of each figure."""

    error_share: float
    index: float
    """Latency and queue wait over the baseline; 1 while nothing is known."""


@dataclass
class WorstServer:
    """Remembers the baseline and which windows were seen already."""

    idle: deque[float] = field(default_factory=lambda: deque(maxlen=BASELINE_WINDOWS))
    seen_s: float = -inf

    def fresh(self, signals: Signals, joins: Joins) -> Worst | None:
        """None when no window has ended since the call before. While nothing joins, the windows are the baseline."""
        readings = [reading for reading in signals.readings if reading.ended_s > self.seen_s]
        if not readings:
            return None
        self.seen_s = max(reading.ended_s for reading in readings)
        delay_s = max(map(_delay_s, readings))
        if not joins.joining:
            self.idle.append(delay_s)
        share = max(reading.errors / reading.requests if reading.requests else 0.0 for reading in readings)
        return Worst(error_share=share, index=delay_s / self.baseline_s)

    @property
    def baseline_s(self) -> float:
        """The idle servers' median, or the floor under it."""
        return max(BASELINE_FLOOR_S, statistics.median(self.idle) if self.idle else 0.0)


def _delay_s(reading: Reading) -> float:
    return (reading.latency_s or 0.0) + (reading.queue_wait_s or 0.0)


class AtOnce:
    """Ask for everything that waits, let in everything that has booted."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Never looks at the servers."""
        return Permit(ask=joins.waiting, admit=joins.held)


@dataclass
class FixedRate:
    """So many joins per second, whatever happens."""

    per_s: float
    stock: Stock = field(default_factory=Stock)
    drip: Drip = field(default_factory=Drip)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Never looks at the servers."""
        due = self.drip.due(self.per_s, now_s)
        return Permit(ask=self.stock.to_ask(joins, self.per_s, now_s), admit=min(due, joins.held))


@dataclass
class FixedWindow:
    """So many joins in flight, whatever happens."""

    window: float
    stock: Stock = field(default_factory=Stock)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Let in as many as have ended."""
        return in_window(self.window, self.stock, joins, now_s)


def in_window(window: float, stock: Stock, joins: Joins, now_s: float) -> Permit:
    """Fill the window up, and keep the stock that its pace needs."""
    room = max(0, int(window) - joins.joining)
    pace = pace_of(window, joins) if stock.has_gate or room else 0.0
    return Permit(ask=stock.to_ask(joins, pace, now_s), admit=min(room, joins.held), window=window)


@dataclass
class AimdOnErrors:
    """A rate that grows until servers reject: half of it when over 1 % of a window's requests were errors."""

    per_s: float = 0.2
    step_per_s: float = 0.05
    bad_share: float = 0.01
    least_per_s: float = 0.05
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)
    drip: Drip = field(default_factory=Drip)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts."""
        worst = self.worst.fresh(signals, joins)
        if worst is not None and worst.error_share > self.bad_share:
            self.per_s = max(self.least_per_s, self.per_s / 2)
        elif worst is not None and joins.joining:
            self.per_s += self.step_per_s
        due = self.drip.due(self.per_s, now_s)
        return Permit(ask=self.stock.to_ask(joins, self.per_s, now_s), admit=min(due, joins.held))


@dataclass
class AimdOnWindow:
    """A window that grows by a fixed number of joins, and shrinks when latency or queueing rises."""

    window: float = 8.0
    rise: float = 2.0
    cut: float = 0.8
    bad_index: float = 5.0
    """Latency and queue wait over the idle servers'."""
    least: float = 2.0
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)

    def next_window(self, index: float, error_share: float, joining: int) -> float:
        """The next window."""
        if error_share > 0.001 or index > self.bad_index:
            return max(self.least, self.cut * self.window)
        return self.window + self.rise if joining >= 0.6 * self.window else self.window

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts; grow only while the window is used."""
        worst = self.worst.fresh(signals, joins)
        if worst is not None:
            self.window = self.next_window(worst.index, worst.error_share, joins.joining)
        return in_window(self.window, self.stock, joins, now_s)


@dataclass
class Gradient2:
    """Tuned: the long average is the idle servers' latency, and four times that is tolerated."""

    window: float = 16.0
    tolerance: float = 4.0
    smoothing: float = 0.2
    queue_share: float = 0.4
    """What is added for a queue, as a share of the window (the original adds a constant number)."""
    least: float = 2.0
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts; a window that is not used to half stays as it is."""
        worst = self.worst.fresh(signals, joins)
        if worst is not None and joins.joining >= 0.5 * self.window:
            self.window = self.next_window(worst.index, worst.error_share)
        return in_window(self.window, self.stock, joins, now_s)

    def next_window(self, index: float, error_share: float) -> float:
        """The original's update; errors count as the steepest gradient."""
        gradient = 0.5 if error_share > 0.001 else max(0.5, self.tolerance / max(self.tolerance, index))
        aim = self.window * (gradient + self.queue_share)
        return max(self.least, (1 - self.smoothing) * self.window + self.smoothing * aim)


USED_SHARE = 0.95
"""Of the true spare capacity: what is left of it bears the swings of others."""
LONGEST_JOIN_S = 1.2 * JOIN.alone_s
"""When joins take longer than this, the servers have more than they can do: a rate alone would keep them there."""


LONGEST_WAIT_S = 60.0
"""A machine may wait so long at the gate."""
KILL_SHARE = 0.75
"""Of the kill timer, for the last machine's way to the gate."""
AHEAD_S = 20.0
"""Step of the look ahead."""


@dataclass
class FullKnowledge(Oracle):
    """Lets in what fits into 95 % of what is free now, and asks early enough that the gate never runs dry.

    It asks for what it knows that it can let in: faults are foreseen, the background is taken to be as usual.
    """

    scenario: Scenario
    drip: Drip = field(default_factory=Drip)
    asking: Drip = field(default_factory=Drip)

    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        """See `throttler.simulator.pacing_policies.Oracle`."""
        per_s = USED_SHARE * spare / join_cost
        room = max(0, int(LONGEST_JOIN_S * per_s) - joins.joining)
        admit = min(self.drip.due(per_s, now_s), room, joins.held)
        ask = self._room(join_cost, joins, now_s) if room or self.scenario.has_gate else 0
        return Permit(ask=max(0, min(joins.waiting, ask)), admit=admit)

    def _room(self, join_cost: float, joins: Joins, now_s: float) -> int:
        """Machines that may be asked for now: as many as join in time, or as fit when they have booted."""
        boot_s, at_s = self.scenario.boot_s, now_s - CLOCK_START_S
        if self.scenario.has_gate:
            ahead_s = max(1.1 * boot_s, min(boot_s + LONGEST_WAIT_S, KILL_SHARE * self.scenario.kill_timer_s))
            return max(SMALLEST, int(self._fitting(join_cost, joins, at_s, ahead_s))) - joins.booting - joins.held
        then_per_s = min(
            self._pace(join_cost, joins, at_s + boot_s + later_s) for later_s in (0.0, AHEAD_S, 2 * AHEAD_S)
        )
        return self.asking.due(then_per_s, now_s)

    def _fitting(self, join_cost: float, joins: Joins, from_s: float, for_s: float) -> float:
        """Joins that can be let in from then on for so long."""
        if not self.scenario.faults:
            return for_s * self._pace(join_cost, joins, from_s)
        looks = max(1, round(for_s / AHEAD_S))
        return for_s / looks * sum(self._pace(join_cost, joins, from_s + look * AHEAD_S) for look in range(looks))

    def _pace(self, join_cost: float, joins: Joins, at_s: float) -> float:
        return USED_SHARE * spare(self.scenario, self.scenario.background, joins.joined, at_s) / join_cost
