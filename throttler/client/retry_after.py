"""Reading `Retry-After`: whatever a server or a proxy writes becomes a wait within bounds, or nothing."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

SHORTEST_S = 0.5
"""Never a hot loop: 0 and negative values mean "soon", not "now"."""
LONGEST_S = 60.0
"""Never asleep for an hour on one header; the next answer may say the same again."""


def parse_retry_after(text: str | None, now: datetime | None) -> float | None:
    """Seconds to wait, clamped to [0.5, 60]; None when the header is absent or cannot be read.

    `now` is aware UTC wall-clock time and serves the date form; with None a date cannot be read.
    """
    if text is None:
        return None
    seconds = _seconds(text.strip(), now)
    return None if seconds is None else clamp_wait(seconds)


def clamp_wait(seconds: float) -> float:
    """The wait brought into [0.5, 60] s."""
    return min(LONGEST_S, max(SHORTEST_S, seconds))


def _seconds(text: str, now: datetime | None) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return _seconds_until(text, now)
    return seconds if math.isfinite(seconds) else None


def _seconds_until(text: str, now: datetime | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if now is None:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - now).total_seconds()
