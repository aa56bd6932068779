"""From moments to figures. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.report import Figure
from lab.percentile import percentile


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted at a moment."""

    at: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured, None where that part was not run; gangs are the waits of their pods."""

    first_decision_s: float | None = None
    gangs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """By what went on meanwhile: `quiet`, `first list`, `410`."""
    deaf_s: float | None = None
    memory_mb: float | None = None
    requests_per_s: float | None = None
    cpu_share: float | None = None
    lags_s: tuple[float, ...] = ()


def longest_gap(moments: Iterable[float], since: float, until: float) -> float:
    """The longest time between two moments, from `since` to `until`, whose ends count as moments."""
    within = sorted(moment for moment in moments if since < moment < until)
    ends = [since, *within, until]
    return max(later - earlier for earlier, later in pairwise(ends))


def lags(arrived_at: Iterable[float], samples: Sequence[Sample]) -> tuple[float, ...]:
    """How long after each arrival as many had been counted as had arrived by then: nodes are alike.

    Samples are in order, and begin before the first arrival, with what had been counted before. Raises ValueError when
    some arrival was never counted.
    """
    before, highest = samples[0].count, 0
    counts: list[int] = []
    for sample in samples:
        highest = max(highest, sample.count - before)
        counts.append(highest)
    delays_s = []
    for number, arrived in enumerate(sorted(arrived_at), start=1):
        index = bisect_left(counts, number)
        if index == len(counts):
            raise ValueError(f"{counts[-1]} nodes were counted, and {number} or more had arrived")
        delays_s.append(max(0.0, samples[index].at - arrived))
    return tuple(delays_s)


def figures(measured: Measured) -> Iterator[Figure]:
    """What is judged, of what was measured."""
    gangs = {case: max(waits_s) for case, waits_s in measured.gangs.items()}
    during = "a gang that comes during the list of all pods"
    for value, name, case, what, unit, floor, goal in (
        (
            measured.first_decision_s,
            "first_decision_s",
            "",
            "until the first write that a watch shows",
            "s",
            60.0,
            30.0,
        ),
        (gangs.get("first list"), "gang_during_list_s", "first list", f"{during}: its last pod bound", "s", 15.0, 5.0),
        (gangs.get("410"), "gang_during_list_s", "410", f"{during}, after a 410: the same", "s", 15.0, 5.0),
        (gangs.get("quiet"), "gang_quiet_s", "", "the same while nothing happens", "s", None, None),
        (measured.deaf_s, "deaf_s", "", "the longest time without news of pods, 410 included", "s", 2.0, 0.5),
        (measured.memory_mb, "memory_mb", "", "the most memory held, the first list included", "MB", None, 700.0),
        (
            measured.requests_per_s,
            "requests_per_s_idle",
            "",
            "while nothing happens, the Lease included",
            "/s",
            2.0,
            1.0,
        ),
        (measured.cpu_share, "cpu_share_idle", "", "of a core; nodes report every five minutes", "", 0.15, 0.05),
        (_p99(measured.lags_s), "arrival_lag_p99_s", "", "from before a node's creation to counted", "s", 3.0, 1.0),
    ):
        if value is not None:
            yield Figure(name=name, case=case, what=what, value=value, unit=unit, floor=floor, goal=goal)


def _p99(lags_s: Sequence[float]) -> float | None:
    return percentile(lags_s, 0.99) if lags_s else None
