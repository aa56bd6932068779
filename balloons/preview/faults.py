"""Faults to try a scale-up under, in the short form of the command line: `loss@3m+2m`, `slow@5m+10m=0.5`."""

import re

from throttler.kube.quantity import DurationError, parse_duration
from throttler.simulator.scenario import Blindness, Disturbance, ListBurst, ServerLoss, Slowdown

ACCEPTED = (
    "loss@AT+FOR (one API server is down), slow@AT+FOR=SHARE (all have this share of their capacity), "
    "blind@AT+FOR (metrics stand still), lists@AT+FOR=PER_SECOND (somebody lists); AT and FOR such as 90s or 3m"
)
KINDS = ("loss", "slow", "blind", "lists")
_GRAMMAR = re.compile(rf"({'|'.join(KINDS)})@([0-9.hms]+)\+([0-9.hms]+)(?:=([0-9.]+))?")


class FaultError(ValueError):
    """No such fault; the message says what is accepted."""


def fault_of(text: str) -> Disturbance:
    """One fault; raises FaultError."""
    match = _GRAMMAR.fullmatch(text[:80])
    if match is None:
        raise FaultError(f"fault {text[:80]!r} is not accepted; accepted: {ACCEPTED}")
    kind, at, length, amount = match.groups()
    try:
        return _made(kind, _seconds(at), _seconds(length), None if amount is None else float(amount))
    except (DurationError, ValueError) as error:
        raise FaultError(f"fault {text[:80]!r}: {error}") from error


def _seconds(text: str) -> float:
    return 0.0 if text.strip("0s.") == "" else parse_duration(text)


def _made(kind: str, at_s: float, for_s: float, amount: float | None) -> Disturbance:
    if (amount is not None) != (kind in ("slow", "lists")):
        raise ValueError(f"accepted: {ACCEPTED}")
    match kind:
        case "loss":
            return ServerLoss(at_s=at_s, for_s=for_s)
        case "blind":
            return Blindness(at_s=at_s, for_s=for_s)
        case "slow":
            return Slowdown(at_s=at_s, for_s=for_s, factor=_within(amount, 0.01, 1.0))
    return ListBurst(at_s=at_s, for_s=for_s, per_s=_within(amount, 0.01, 10_000.0))


def _within(amount: float | None, low: float, high: float) -> float:
    if amount is None or not low <= amount <= high:
        raise ValueError(f"{amount}: accepted are {low:g} to {high:g}")
    return amount
