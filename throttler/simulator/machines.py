"""Machines from being wanted to being let in: boots with jitter, the gate, the kill timer. Shared by both grains."""

from collections import deque
from heapq import heappop, heappush
from math import inf

import numpy as np

from throttler.joins.join_memory import Durations
from throttler.joins.joins import Joins
from throttler.simulator.scenario import Scenario

LONG_HOLD_S = 600.0
"""A machine held for longer counts in `Result.held_over_10min`."""
_LATEST = 20


class _Oldest:
    """The earliest of the times that are in it; they are added in order and removed in any."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._left: dict[float, int] = {}

    def add(self, at_s: float, count: int = 1) -> None:
        """Put this time in, so many times."""
        if count:
            if at_s not in self._left:
                self._times.append(at_s)
            self._left[at_s] = self._left.get(at_s, 0) + count

    def remove(self, at_s: float) -> None:
        """Take it out once."""
        self._left[at_s] -= 1
        while self._times and not self._left[self._times[0]]:
            del self._left[self._times.popleft()]

    def first(self, default_s: float) -> float:
        """The earliest; `default_s` where there is none."""
        return self._times[0] if self._times else default_s


class Machines:
    """Counts and clocks of all machines that are not joining yet. Times must never go backwards."""

    def __init__(self, scenario: Scenario, draws: np.random.Generator) -> None:
        self.waiting = 0
        self.lost = 0
        self.held_long = 0
        self._scenario = scenario
        self._draws = draws
        self._demands = deque(sorted(scenario.demands, key=lambda demand: demand.at_s))
        self._booting: list[tuple[float, float]] = []
        """Heap of (arrives or is killed at, asked at)."""
        self._held: list[tuple[float, float]] = []
        """Heap of (asked at, booted at): what nears its kill timer is let in first."""
        self._boots: deque[float] = deque(maxlen=_LATEST)
        self._asked, self._booted = _Oldest(), _Oldest()
        """When those were asked for that are booting, and when those had booted that are held."""

    @property
    def booting(self) -> int:
        """Asked for, and not yet heard of."""
        return len(self._booting)

    @property
    def held(self) -> int:
        """Booted and kept back."""
        return len(self._held)

    @property
    def next_s(self) -> float:
        """When something happens next by itself: a demand, an arrival, a kill; `inf` when nothing will."""
        demand_s = self._demands[0].at_s if self._demands else inf
        arrival_s = self._booting[0][0] if self._booting else inf
        kill_s = self._held[0][0] + self._scenario.kill_timer_s if self._held else inf
        return min(demand_s, arrival_s, kill_s)

    def advance(self, now_s: float) -> int:
        """Let all happen that is due; returns how many machines join by themselves: without a gate, all that boot."""
        while self._demands and self._demands[0].at_s <= now_s:
            self.waiting += self._demands.popleft().nodes
        joining = 0
        while self._booting and self._booting[0][0] <= now_s:
            joining += self._arrive(*heappop(self._booting))
        while self._held and self._held[0][0] + self._scenario.kill_timer_s <= now_s:
            self._leave_gate(now_s)
            self._lose()
        return joining

    def ask(self, count: int, now_s: float) -> None:
        """Ask for `count` machines more, as far as so many are wanted."""
        count = max(0, min(count, self.waiting))
        self.waiting -= count
        deviations = self._scenario.boot_jitter * self._draws.standard_normal(count)
        stretch = np.exp(deviations) if self._scenario.boot_is_skewed else 1.0 + deviations
        boots = self._scenario.boot_s * np.clip(stretch, 0.3, 3.0)
        self._asked.add(now_s, count)
        for boot_s in boots.tolist():
            heappush(self._booting, (now_s + min(boot_s, self._scenario.kill_timer_s), now_s))

    def admit(self, count: int, now_s: float) -> int:
        """Let up to `count` held machines in, the longest asked for first; how many that were."""
        count = max(0, min(count, self.held))
        for _ in range(count):
            self._leave_gate(now_s)
        return count

    def close(self, now_s: float) -> None:
        """The run ends: what has been held for long by now counts too."""
        while self._held:
            self._leave_gate(now_s)

    def joins(self, *, joining: int, joined: int, join_s: float | None, oldest_joining_s: float, now_s: float) -> Joins:
        """What a controller would count now."""
        boots = Durations(tuple(self._boots))
        return Joins(
            waiting=self.waiting,
            booting=self.booting,
            held=self.held,
            joining=joining,
            joined=joined,
            lost=self.lost,
            join_s=join_s,
            boot_s=boots.mean_s,
            boot_spread_s=boots.spread_s,
            oldest_booting_s=now_s - self._asked.first(now_s),
            oldest_held_s=now_s - self._booted.first(now_s),
            oldest_joining_s=oldest_joining_s,
        )

    def _arrive(self, at_s: float, asked_s: float) -> int:
        self._asked.remove(asked_s)
        if at_s >= asked_s + self._scenario.kill_timer_s:
            self._lose()
            return 0
        self._boots.append(at_s - asked_s)
        if not self._scenario.has_gate:
            return 1
        heappush(self._held, (asked_s, at_s))
        self._booted.add(at_s)
        return 0

    def _leave_gate(self, now_s: float) -> None:
        _, booted_s = heappop(self._held)
        self._booted.remove(booted_s)
        self.held_long += now_s - booted_s > LONG_HOLD_S

    def _lose(self) -> None:
        self.lost += 1
        self.waiting += 1
