"""Kubernetes quantities as integers.

Every quantity is held in *milli-units* (thousandths of a core, of a byte, of a GPU): integers
compare exactly, and milli is the finest step a resource request can have. The grammar is the one of
`resource.Quantity` in k8s.io/apimachinery: a signed decimal number followed by a binary suffix
(Ki ... Ei), a decimal suffix (n, u, m, none, k ... E) or an exponent (e3, E3).
"""

import re
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
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:_LONGEST]!r} is not a quantity; {_ACCEPTED}")
    milli = _rounded_up(*match.groups())
    if abs(milli) > MAX_MILLI:
        raise QuantityError(f"{text!r} is out of range; {_ACCEPTED}, up to 2^63 - 1")
    return milli


def exact_value(text: str) -> float:
    """The number that `text` stands for, not rounded to milli-units: thresholds may be 100u; raises QuantityError."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:_LONGEST]!r} is not a quantity; {_ACCEPTED}")
    number, suffix = match.groups()
    return float(Fraction(number) * _BINARY.get(suffix, 1) * Fraction(10) ** _exponent(suffix))


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
