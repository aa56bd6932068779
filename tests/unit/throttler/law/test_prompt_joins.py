"""Joins that end within seconds, behind a gate: more at a time than the servers work on only wait for each other."""

import statistics
from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_input import QUEUED
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading, Signals

LEAD_S = 30
SCRAPE_S = 5
IDLE_S = 0.003
"""Delay of idle servers."""
WAITS_S = 0.1
"""The same while joins wait for each other: far from where delay alone ends growth."""
RECENT = 20
MACHINES = 400


@dataclass(kw_only=True)
class Line:
    """One server that works on `works_on` joins at a time, each for `least_s`; what is more waits in line."""

    works_on: float
    least_s: float
    waits_s: float = WAITS_S
    learned: Learned | None = None
    windows: list[float] = field(default_factory=list)

    def run(self) -> "Line":
        memory, clock = LawMemory.start(self.learned), 0
        in_line: deque[tuple[float, int]] = deque()
        """(when it ends, when it began)"""
        recent: deque[float] = deque(maxlen=RECENT)
        held, joined, free_s, most, newest = 0, 0, 0.0, 0, reading(0, IDLE_S)
        while joined < MACHINES:
            clock += 1
            held = MACHINES if clock == LEAD_S else held
            while in_line and in_line[0][0] <= clock:
                ended_s, began_s = in_line.popleft()
                recent.append(ended_s - began_s)
                joined += 1
            most = max(most, len(in_line))
            if clock % SCRAPE_S == 0:
                newest, most = reading(clock, self.waits_s if most > self.works_on else IDLE_S), 0
            joins = Joins(
                held=held,
                joining=len(in_line),
                joined=joined,
                join_s=statistics.fmean(recent) if recent else None,
                oldest_held_s=float(clock - LEAD_S) if held else 0.0,
            )
            verdict, memory = govern(Signals(readings=(newest,)), joins, memory, LawSettings(), float(clock))
            self.windows += [verdict.window] if joins.in_flight else []
            for _ in range(min(verdict.admit, held)):
                free_s = max(clock + self.least_s, free_s + self.least_s / self.works_on)
                in_line.append((free_s, clock))
                held -= 1
        self.took_s, self.left = clock - LEAD_S, learned_of(memory, float(clock))
        return self


def reading(ended_s: float, delay_s: float) -> Reading:
    return Reading(server="a", ended_s=ended_s, span_s=float(SCRAPE_S), requests=500.0, errors=0.0, latency_s=delay_s)


SERVERS = {"works_on": st.floats(12, 25), "least_s": st.floats(2.0, 4.0)}


@given(**SERVERS)
@settings(max_examples=25, deadline=None)
def test_the_window_does_not_grow_far_beyond_what_the_servers_work_on(works_on: float, least_s: float) -> None:
    """What waits is known when it has joined: of two doublings the first may not be known before the second."""
    cold = Line(works_on=works_on, least_s=least_s).run()
    warm = Line(works_on=works_on, least_s=least_s, learned=cold.left).run()
    for one in (cold, warm):
        assert max(one.windows) <= 4.0 * QUEUED * works_on * 1.15


@given(**SERVERS)
@settings(max_examples=25, deadline=None)
def test_a_window_that_stays_keeps_the_servers_at_work(works_on: float, least_s: float) -> None:
    cold = Line(works_on=works_on, least_s=least_s).run()
    warm = Line(works_on=works_on, least_s=least_s, learned=cold.left).run()
    at_once_s = MACHINES / works_on * least_s
    assert max(cold.took_s, warm.took_s) <= 1.2 * at_once_s + 5.0


@given(**SERVERS)
@settings(max_examples=25, deadline=None)
def test_joins_that_are_slow_while_requests_are_quick_stop_no_growth(works_on: float, least_s: float) -> None:
    """It is not the servers that they wait for."""
    cold = Line(works_on=works_on, least_s=least_s, waits_s=IDLE_S).run()
    assert max(cold.windows) >= 96.0
