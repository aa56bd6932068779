"""How a scraper sees the simulated API servers: now and then, late, with noise, sometimes not at all.

Windows are differences of two successful scrapes of one server. A missed scrape makes the next window longer; after a
gap of more than `MAX_SPAN` scrapes, and after a restart, counting starts anew. While blind, a scrape brings old
numbers: no new window, and the newest reading grows old.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.simulator.scenario_and_faults import Scenario, foreign_errors, is_blind, webhook_s

CLOCK_START_S = 1000.0
"""What a policy sees at the scenario's second 0: a monotonic clock starts anywhere, but never below 0."""
MAX_SPAN = 3.5
_FIGURES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What one server has counted since it started, and two gauges."""

    started_s: float
    """When it started: a new value is a restart, and its counters began at 0."""
    requests: float
    """Ended: answered, rejected or timed out."""
    errors: float
    """Of these, 429 and 5xx."""
    latency_sum_s: float
    latency_count: float
    """Of those that were answered or timed out, their wait in the queue included: a 429 adds nothing."""
    wait_sum_s: float
    wait_count: float
    """Waits in the queue of those that left it to be executed; 0 for those that had not to wait."""
    busy_s: float
    """Seconds of nominal capacity used: 1 per second at full load of an undisturbed server."""
    seats_share: float


class Observer:
    """The scraper of all servers."""

    def __init__(self, scenario: Scenario, draws: np.random.Generator) -> None:
        self._scenario = scenario
        self._draws = draws
        self._before: dict[int, tuple[float, Counters]] = {}
        self._newest: dict[int, Reading] = {}
        self._coming: list[tuple[float, int, Reading | SilentServer]] = []
        self._silent: dict[int, SilentServer] = {}
        self._down_since: dict[int, float] = {}
        self._never_seen = tuple(
            SilentServer(server=f"unseen-{number}", problem="", since_s=CLOCK_START_S - scenario.lead_s, was_seen=False)
            for number in range(1, scenario.never_seen + 1)
        )

    def scrape(self, servers: Sequence[Counters | None], now_s: float) -> None:
        """Look at all servers, once per `scrape_s`; None is one that is down. `now_s` is the scenario's time."""
        missing = self._draws.random(len(servers)) < self._scenario.scrape_missing
        noise = self._scenario.scrape_noise * self._draws.standard_normal((len(servers), _FIGURES))
        factors = np.maximum(1.0 + noise, 0.0).tolist()
        for index, counters in enumerate(servers):
            if counters is None:
                self._before.pop(index, None)
                self._announce(index, self._silence(index, now_s), now_s)
            elif not missing[index] and not is_blind(self._scenario, now_s):
                self._look(index, counters, factors[index], now_s)

    def signals(self, now_s: float) -> Signals:
        """What has arrived by now."""
        while self._coming and self._coming[0][0] <= now_s:
            _, index, news = self._coming.pop(0)
            self._silent.pop(index, None)
            if isinstance(news, SilentServer):
                self._newest.pop(index, None)
                self._silent[index] = news
            else:
                self._newest[index] = news
        return Signals(
            readings=tuple(self._newest[index] for index in sorted(self._newest)),
            silent=(*(self._silent[index] for index in sorted(self._silent)), *self._never_seen),
        )

    def _announce(self, index: int, news: Reading | SilentServer, now_s: float) -> None:
        self._coming.append((now_s + self._scenario.scrape_delay_s, index, news))

    def _silence(self, index: int, now_s: float) -> SilentServer:
        since_s = self._down_since.setdefault(index, now_s + CLOCK_START_S)
        return SilentServer(server=_name(index), problem="no answer", since_s=since_s)

    def _look(self, index: int, counters: Counters, factors: list[float], now_s: float) -> None:
        self._down_since.pop(index, None)
        before = self._before.get(index)
        self._before[index] = (now_s, counters)
        if before is None or before[1].started_s != counters.started_s:
            return
        span_s = now_s - before[0]
        if span_s <= MAX_SPAN * self._scenario.scrape_s:
            window = _window(index, before[1], counters, span_s, factors, now_s)
            self._announce(index, self._with_others(window, index, now_s), now_s)

    def _with_others(self, window: Reading, index: int, now_s: float) -> Reading:
        """The same with what is answered to others, which is no load."""
        if not self._scenario.faults:
            return window
        from_s = now_s - window.span_s
        ours, others = (
            float(self._draws.poisson(mean)) for mean in foreign_errors(self._scenario, index, from_s, now_s)
        )
        latency_s = window.latency_s
        return replace(
            window,
            requests=window.requests + ours + others,
            errors=window.errors + ours,
            others_errors=others,
            latency_s=None if latency_s is None else latency_s + webhook_s(self._scenario, from_s, now_s),
        )


def _window(index: int, old: Counters, new: Counters, span_s: float, factors: list[float], now_s: float) -> Reading:
    requests = (new.requests - old.requests) * factors[0]
    latency_s, wait_s = new.latency_sum_s - old.latency_sum_s, new.wait_sum_s - old.wait_sum_s
    count = new.latency_count - old.latency_count
    return Reading(
        server=_name(index),
        ended_s=now_s + CLOCK_START_S,
        span_s=span_s,
        requests=requests,
        errors=min(requests, (new.errors - old.errors) * factors[1]),
        latency_s=_mean(latency_s, count, factors[2]),
        service_s=_mean(latency_s - wait_s, count, factors[4]),
        queue_wait_s=_mean(wait_s, new.wait_count - old.wait_count, factors[3]),
        seats_share=min(1.0, new.seats_share * factors[5]),
        cpu_share=min(1.0, (new.busy_s - old.busy_s) / span_s * factors[6]),
    )


def _mean(total_s: float, count: float, factor: float) -> float | None:
    return max(0.0, total_s) / count * factor if count > 0 else None


def _name(index: int) -> str:
    return f"server-{index}"
