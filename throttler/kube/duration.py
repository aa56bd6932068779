"""Lengths of time as users write them: Go's notation, without signs and without units below a second.

The same pattern stands in the CRD's validation of `spec.schedules[].duration`. Its digit counts keep every
sum far from the 64-bit overflow of Go's own parser, so that both sides judge alike.
"""

import re

PATTERN = r"([0-9]{1,3}(\.[0-9]{1,3})?h|[0-9]{1,5}(\.[0-9]{1,3})?m|[0-9]{1,7}(\.[0-9]{1,3})?s)+"
"""One or more numbers with a unit: 744h, 44640m and 2678400s are the longest that a schedule may need."""
ACCEPTED = "above 0 and at most 744h (31 days), such as 45m, 8h or 1h30m"
LONGEST_S = 31 * 24 * 3600.0
"""The longest window of a schedule in seconds: the longest month."""

_GRAMMAR = re.compile(PATTERN, re.ASCII)
_PART = re.compile(r"([0-9.]+)([hms])", re.ASCII)
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000}


class DurationError(ValueError):
    """The text is no duration; the message repeats it and says what is accepted."""


def parse_duration(text: str) -> float:
    """Seconds of `text`, above 0 and at most 31 days; raises DurationError."""
    if not _GRAMMAR.fullmatch(text):
        raise DurationError(sentence(text))
    # Thousandths of a unit in whole numbers: a float sum of 0.1h would not be exactly 360 s.
    parts = ((_thousandths(number), _MILLISECONDS[unit]) for number, unit in _PART.findall(text))
    seconds = sum(amount * milliseconds for amount, milliseconds in parts) / 1_000_000
    if not 0 < seconds <= LONGEST_S:
        raise DurationError(sentence(text))
    return seconds


def sentence(text: str) -> str:
    """What is said about a duration that is not accepted; the CRD says the same."""
    return f'duration "{text}" is not accepted; accepted: {ACCEPTED}'


def _thousandths(number: str) -> int:
    whole, _, decimals = number.partition(".")
    return int(whole + decimals.ljust(3, "0"))
