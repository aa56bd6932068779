"""What `balloons status --wait --for` can wait for, and what is still missing. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from balloons.cli.pool_rows import Pool
from balloons.cli.status_text import Seen
from throttler.api.throttle_decode import StoredThrottle
from throttler.law.verdict import Phase

ABNORMAL = ("Reconciling", "Stalled")
"""Written only while they are true (kstatus)."""
OF_ALL = ("Ready", *ABNORMAL)
OF_THROTTLES = ("SignalsFresh", "LeversConfirmed")
STATUSES = ("True", "False", "Unknown")
PHASES = (*(phase.value for phase in Phase), "Paused", "Invalid")
MOST_DIGITS = 7
"""Of a number of nodes."""
ACCEPTED = f"condition={'|'.join((*OF_ALL, *OF_THROTTLES))}[=STATUS], warm=N, idle, phase={'|'.join(PHASES)}"

Missing = Callable[[Seen], list[str]]
"""What is not as awaited, one sentence each; none when all is."""


class AwaitedError(ValueError):
    """Nothing that can be waited for; the message says what can."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """One `--for`. `needs_throttles`: nobody who cannot see them can tell."""

    text: str
    missing: Missing
    needs_throttles: bool = False


def awaited(text: str) -> Awaited:
    """Reads one `--for`; raises AwaitedError."""
    kind, _, rest = text.partition("=")
    name, _, status = rest.partition("=")
    if kind == "condition" and name in (*OF_ALL, *OF_THROTTLES) and (status or "True") in STATUSES:
        return Awaited(text, _condition(name, status or "True"), needs_throttles=name in OF_THROTTLES)
    if kind == "warm" and rest.isascii() and rest.isdecimal() and len(rest) <= MOST_DIGITS:
        return Awaited(text, _warm(int(rest)))
    if text == "idle":
        return Awaited(text, _idle, needs_throttles=True)
    if kind == "phase" and rest in PHASES:
        return Awaited(text, _phase(rest), needs_throttles=True)
    raise AwaitedError(f"{text[:80]!r} cannot be waited for; accepted: {ACCEPTED}")


def missing(wanted: Sequence[Awaited], seen: Seen, names: Sequence[str]) -> list[str]:
    """All that is missing; an object that is not there, or whose status is of an older spec, cannot tell."""
    there = {each.metadata.name for each in (*seen.throttles, *seen.pools)}
    gone = [f"{name} is not there" for name in names if name not in there]
    old = [
        f"{_called(each)}: its change has not been seen yet"
        for each in (*seen.throttles, *seen.pools)
        if each.status.observed_generation < each.metadata.generation
    ]
    return gone + (old or [text for each in wanted for text in each.missing(seen)])


def _condition(name: str, status: str) -> Missing:
    def look(seen: Seen) -> list[str]:
        pools: Sequence[Pool | StoredThrottle] = seen.pools if name in OF_ALL else ()
        objects = [*seen.throttles, *pools]
        found = [(each, _status(each, name)) for each in objects]
        unlike = [f"{_called(each)}: {name} is {is_now}" for each, is_now in found if is_now != status]
        return unlike if objects else ["nothing is there that could have it"]

    return look


def _status(of: Pool | StoredThrottle, name: str) -> str:
    absent = "False" if name in ABNORMAL else "Unknown"
    return next((each.status for each in of.status.conditions if each.type == name), absent)


def _warm(nodes: int) -> Missing:
    def look(seen: Seen) -> list[str]:
        warm = sum(pool.status.warm for pool in seen.pools)
        return [] if warm >= nodes else [f"{warm:,} of {nodes:,} nodes are warm"]

    return look


def _idle(seen: Seen) -> list[str]:
    return [
        f"{_called(each)}: {each.status.in_flight:,} nodes in flight, {each.status.waiting:,} waiting"
        for each in seen.throttles
        if each.status.in_flight or each.status.waiting
    ] + ([] if seen.throttles else ["there is no throttle"])


def _phase(name: str) -> Missing:
    def look(seen: Seen) -> list[str]:
        unlike = [f"{_called(each)}: {each.status.phase or 'no phase yet'}" for each in seen.throttles]
        wrong = [text for text, each in zip(unlike, seen.throttles, strict=True) if each.status.phase != name]
        return wrong if seen.throttles else ["there is no throttle"]

    return look


def _called(of: Pool | StoredThrottle) -> str:
    space = of.metadata.namespace
    return f"{space}/{of.metadata.name}" if space else of.metadata.name
