"""When a schedule's window opens: five cron fields, and a time zone's name.

The grammar is the part that Kubernetes CronJobs and cronsim share: numbers, names, `*`, ranges, lists and
steps. The CRD holds the same patterns; what no pattern can tell (a range that runs backwards, the 30th of
February, a zone that does not exist) is judged here alone, in the same words.
"""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_FIELDS = (
    "[0-5]?[0-9]",
    "([01]?[0-9]|2[0-3])",
    "(0?[1-9]|[12][0-9]|3[01])",
    f"(0?[1-9]|1[0-2]|{_MONTHS})",
    "([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)",
)


def _list_of(value: str) -> str:
    item = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON_PATTERN = " ".join(_list_of(value) for value in _FIELDS)
"""Minute, hour, day of the month, month, weekday; upper or lower case, one space between them."""
ZONE_PATTERN = "[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
CRON_ACCEPTED = "minute hour day month weekday, such as 0 8 * * MON-FRI"
ZONE_ACCEPTED = "an IANA name such as Etc/UTC or Europe/Berlin"

_CRON = re.compile(CRON_PATTERN, re.ASCII | re.IGNORECASE)
_ZONE = re.compile(ZONE_PATTERN, re.ASCII)
_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def is_cron(text: str) -> bool:
    """Whether the text is a cron expression that fires at all; cronsim refuses days that never come."""
    if not _CRON.fullmatch(text):
        return False
    try:
        CronSim(text, _ANY_MOMENT)
    except CronSimError:
        return False
    return True


def is_zone(name: str) -> bool:
    """Whether the name is a time zone of the system's database or of the tzdata package."""
    if not _ZONE.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        # ZoneInfoNotFoundError is a KeyError; a name of a folder such as "America" is an OSError or ValueError.
        return False
    return True
