"""Amounts as Kubernetes writes them: quantities, resource lists, and lengths of time; moments; numbers before a noun.

Every quantity is held in *milli-units* (thousandths of a core, of a byte, of a GPU): integers
compare exactly, and milli is the finest step a resource request can have. The grammar is the one of
`resource.Quantity` in k8s.io/apimachinery: a signed decimal number followed by a binary suffix
(Ki ... Ei), a decimal suffix (n, u, m, none, k ... E) or an exponent (e3, E3).

The same pattern stands in the CRD's validation of `spec.schedules[].duration`. Its digit counts keep every
sum far from the 64-bit overflow of Go's own parser, so that both sides judge alike.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

MAX_MILLI = (2**63 - 1) * 1000
"""Largest accepted amount: the API server keeps quantities within a signed 64-bit integer."""

_GRAMMAR = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE]?)")
_BINARY: dict[str, int] = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_ACCEPTED = "accepted: a number with an optional suffix, such as 250m, 4, 1.5, 64Gi or 2e3"
_LONGEST = 64


class QuantityError(ValueError):
    """The text is no Kubernetes quantity; the message repeats it and says what is accepted."""


@lru_cache(maxsize=65_536)
def parse_quantity(text: str) -> int:
    """Milli-units of `text`, rounded up as the scheduler does; raises QuantityError."""
    milli = _rounded_up(*_number_and_suffix(text))
    if abs(milli) > MAX_MILLI:
        raise QuantityError(f"{text!r} is out of range; {_ACCEPTED}, up to 2^63 - 1")
    return milli


def milli_or_none(value: object) -> int | None:
    """Milli-units of what stands in an object, a text or a number; None where it is no quantity."""
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return None


def exact_value(text: str) -> float:
    """The number that `text` stands for, not rounded to milli-units: thresholds may be 100u; raises QuantityError."""
    number, suffix = _number_and_suffix(text)
    return float(Fraction(number) * _BINARY.get(suffix, 1) * Fraction(10) ** _exponent(suffix))


def _number_and_suffix(text: str) -> tuple[str, str]:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:_LONGEST]!r} is not a quantity; {_ACCEPTED}")
    return match[1], match[2]


def _rounded_up(number: str, suffix: str) -> int:
    """Whole milli-units, in integers throughout: decimals of a fixed precision would lose the last digits."""
    whole, _, decimals = number.partition(".")
    unscaled = int(whole + decimals) * _BINARY.get(suffix, 1) * 1000
    exponent = _exponent(suffix) - len(decimals)
    power: int = 10 ** abs(exponent)
    return unscaled * power if exponent >= 0 else -(-unscaled // power)


def _exponent(suffix: str) -> int:
    """The power of ten that a decimal suffix or an exponent stands for; 0 for a binary suffix."""
    if suffix in _BINARY:
        return 0
    return _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])


def format_milli(milli: int) -> str:
    """The canonical text of an amount: whole numbers without suffix, all others in milli."""
    whole, rest = divmod(milli, 1000)
    return f"{milli}m" if rest else str(whole)


def format_bytes(milli: int) -> str:
    """The canonical text of an amount of bytes: the largest binary suffix that loses nothing."""
    whole, rest = divmod(milli, 1000)
    if rest or not whole:
        return format_milli(milli)
    for suffix, factor in sorted(_BINARY.items(), key=lambda item: -item[1]):
        if whole % factor == 0:
            return f"{whole // factor}{suffix}"
    return str(whole)


Resources = Mapping[str, int]
"""Resource name -> amount in milli-units (cpu, memory, nvidia.com/gpu, pods, ...)."""

BYTES = frozenset({"memory", "ephemeral-storage"})


def parse_resources(texts: Mapping[str, str]) -> dict[str, int]:
    """Every quantity of a resource list; raises QuantityError, which names the resource, at the first bad one."""
    name = ""
    try:
        return {(name := key): parse_quantity(text) for key, text in texts.items()}
    except QuantityError as error:
        raise QuantityError(f"{name} {error}") from None


def format_resources(amounts: Resources) -> dict[str, str]:
    """The texts the API server would echo: canonical, sorted by name."""
    return {name: _format(name, amounts[name]) for name in sorted(amounts)}


def _format(name: str, milli: int) -> str:
    is_bytes = name in BYTES or name.startswith("hugepages-")
    return format_bytes(milli) if is_bytes else format_milli(milli)


def total(lists: Iterable[Resources]) -> dict[str, int]:
    """The sum of several lists, name by name."""
    result: dict[str, int] = {}
    for amounts in lists:
        for name, milli in amounts.items():
            result[name] = result.get(name, 0) + milli
    return result


def minus(left: Resources, right: Resources) -> dict[str, int]:
    """What is left of `left`; never below zero, and names that only `right` has are dropped."""
    return {name: max(0, milli - right.get(name, 0)) for name, milli in left.items()}


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount of each name: what sequential init containers cost."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def fits(request: Resources, room: Resources) -> bool:
    """Whether each requested amount is there; a resource that `room` does not name is zero."""
    return all(milli <= room.get(name, 0) for name, milli in request.items())


DURATION_PATTERN = r"([0-9]{1,3}(\.[0-9]{1,3})?h|[0-9]{1,5}(\.[0-9]{1,3})?m|[0-9]{1,7}(\.[0-9]{1,3})?s)+"
"""One or more numbers with a unit: 744h, 44640m and 2678400s are the longest that a schedule may need."""
ACCEPTED_DURATIONS = "above 0 and at most 744h (31 days), such as 45m, 8h or 1h30m"
LONGEST_DURATION_S = 31 * 24 * 3600.0
"""The longest window of a schedule in seconds: the longest month."""

_DURATION = re.compile(DURATION_PATTERN, re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)([hms])", re.ASCII)
_ZERO = re.compile(r"0+(\.0+)?[hms]?", re.ASCII)
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000}


class DurationError(ValueError):
    """The text is no duration; the message repeats it and says what is accepted."""


def parse_duration(text: str) -> float:
    """Seconds of `text`, above 0 and at most 31 days; raises DurationError."""
    if not _DURATION.fullmatch(text):
        raise DurationError(duration_sentence(text))
    # Thousandths of a unit in whole numbers: a float sum of 0.1h would not be exactly 360 s.
    parts = ((_thousandths(number), _MILLISECONDS[unit]) for number, unit in _DURATION_PART.findall(text))
    seconds = sum(amount * milliseconds for amount, milliseconds in parts) / 1_000_000
    if not 0 < seconds <= LONGEST_DURATION_S:
        raise DurationError(duration_sentence(text))
    return seconds


def parse_time(text: str) -> float:
    """As `parse_duration`; also 0, in any unit or in none."""
    return 0.0 if _ZERO.fullmatch(text) else parse_duration(text)


def duration_sentence(text: str) -> str:
    """What is said about a duration that is not accepted; the CRD says the same."""
    return f'duration "{text}" is not accepted; accepted: {ACCEPTED_DURATIONS}'


def _thousandths(number: str) -> int:
    whole, _, decimals = number.partition(".")
    return int(whole + decimals.ljust(3, "0"))


def plural(number: float, one: str, many: str = "") -> str:
    """The word that goes with the number; without `many` the plural ends in s."""
    return one if round(number) == 1 else many or f"{one}s"


def count(number: float, one: str, many: str = "") -> str:
    """`1 node`, `2,000 nodes`; `1 node is`, `2,000 nodes are`."""
    return f"{number:,.0f} {plural(number, one, many)}"


def rfc3339(at: datetime) -> str:
    """A time as the API writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
