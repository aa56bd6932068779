"""From moments to figures. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    """Everything that was measured; gangs are the waits of their pods."""

    first_decision_s: float
    gangs: dict[str, tuple[float, ...]]
    """By what went on meanwhile: `quiet`, `first list`, `410`."""
    deaf_s: float
    memory_mb: float
    requests_per_s: float
    cpu_share: float
    lags_s: tuple[float, ...]


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
    found = []
    for number, arrived in enumerate(sorted(arrived_at), start=1):
        index = bisect_left(counts, number)
        if index == len(counts):
            raise ValueError(f"{counts[-1]} nodes were counted, and {number} or more had arrived")
        found.append(max(0.0, samples[index].at - arrived))
    return tuple(found)


def figures(measured: Measured) -> Iterator[Figure]:
    """What is judged."""
    yield Figure(
        name="first_decision_s",
        what="from the start of the process to its first write that a watch shows",
        value=measured.first_decision_s,
        unit="s",
        floor=60.0,
        goal=30.0,
    )
    for case in ("first list", "410"):
        yield Figure(
            name="gang_during_list_s",
            case=case,
            what=f"a gang that comes during the list of all pods ({case}): its last pod bound",
            value=max(measured.gangs[case]),
            unit="s",
            floor=15.0,
            goal=5.0,
        )
    yield Figure(
        name="gang_quiet_s",
        what="the same while nothing happens",
        value=max(measured.gangs["quiet"]),
        unit="s",
    )
    yield Figure(
        name="deaf_s",
        what="the longest time without news of pods, a 410 included, five of them a second",
        value=measured.deaf_s,
        unit="s",
        floor=2.0,
        goal=0.5,
    )
    yield Figure(
        name="memory_mb",
        what="the most memory held, the first list included",
        value=measured.memory_mb,
        unit="MB",
        goal=700.0,
    )
    yield Figure(
        name="requests_per_s_idle",
        what="requests of the service while nothing happens, the Lease included",
        value=measured.requests_per_s,
        unit="/s",
        floor=2.0,
        goal=1.0,
    )
    yield Figure(
        name="cpu_share_idle",
        what="its share of a core meanwhile; nodes report their status every five minutes",
        value=measured.cpu_share,
        unit="",
        floor=0.15,
        goal=0.05,
    )
    yield Figure(
        name="arrival_lag_p99_s",
        what="33 nodes a second become Ready: from before each one's creation to counted, p99",
        value=percentile(measured.lags_s, 0.99),
        unit="s",
        floor=3.0,
        goal=1.0,
    )
