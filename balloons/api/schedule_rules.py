"""The rules of `spec.schedules`, and when a schedule's window opens: five cron fields, and a time zone's name.

The grammar is the part that Kubernetes CronJobs and cronsim share: numbers, names, `*`, ranges, lists and
steps. The CRD holds the same patterns; what no pattern can tell (a range that runs backwards, the 30th of
February, a zone that does not exist) is judged here alone, in the same words.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from balloons.api.pool import PoolSpec, Schedule
from throttler.kube import quantity
from throttler.kube.decoding import Problem

_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_FIELDS = (
    "[0-5]?[0-9]",
    "([01]?[0-9]|2[0-3])",
    "(0?[1-9]|[12][0-9]|3[01])",
    f"(0?[1-9]|1[0-2]|{_MONTHS})",
    "([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)",
)
ZONE_PATTERN = "[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
CRON_ACCEPTED = "minute hour day month weekday, such as 0 8 * * MON-FRI"
ZONE_ACCEPTED = "an IANA name such as Etc/UTC or Europe/Berlin"
_ZONE = re.compile(ZONE_PATTERN, re.ASCII)
_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def schedule_problems(spec: PoolSpec) -> Iterator[Problem]:
    """What is wrong with the schedules, alone and against `maxSize`."""
    yield from _limit_problems(spec)
    for index, schedule in enumerate(spec.schedules):
        path = f"spec.schedules[{index}]"
        yield from _time_problems(schedule, path)
        yield from _size_problems(schedule, path)


def _limit_problems(spec: PoolSpec) -> Iterator[Problem]:
    """The first schedule that breaks each limit, as the CRD tells it."""
    if spec.max_size is None:
        percents = ((s.cron, s.size_percent) for s in spec.schedules if s.size_percent is not None)
        for cron, percent in list(percents)[:1]:
            yield Problem(
                "spec.schedules",
                f'schedule "{cron}" has sizePercent {percent}, a share of maxSize, which is not set; '
                "accepted: sizePercent together with maxSize",
            )
        return
    sizes = [(s.cron, s.size) for s in spec.schedules if s.size is not None and s.size > spec.max_size]
    for cron, size in sizes[:1]:
        yield Problem(
            "spec.schedules",
            f'schedule "{cron}" has size {size}, above maxSize {spec.max_size}; accepted: 0 to maxSize',
        )


def _time_problems(schedule: Schedule, path: str) -> Iterator[Problem]:
    if not is_cron(schedule.cron):
        yield Problem(f"{path}.cron", f'cron "{schedule.cron}" is not accepted; accepted: {CRON_ACCEPTED}')
    if not is_zone(schedule.time_zone):
        yield Problem(f"{path}.timeZone", f'timeZone "{schedule.time_zone}" is not accepted; accepted: {ZONE_ACCEPTED}')
    try:
        quantity.parse_duration(schedule.duration)
    except quantity.DurationError as error:
        yield Problem(f"{path}.duration", str(error))


def _size_problems(schedule: Schedule, path: str) -> Iterator[Problem]:
    size, percent = schedule.size, schedule.size_percent
    if size is not None and percent is not None:
        yield Problem(
            path,
            f"size {size} and sizePercent {percent} are both set; accepted: exactly one of them in a schedule",
        )
    if size is None and percent is None:
        yield Problem(
            path,
            f'schedule "{schedule.cron}" has no size; accepted: exactly one of size and sizePercent in a schedule',
        )


def _list_of(value: str) -> str:
    item = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON_PATTERN = " ".join(_list_of(value) for value in _FIELDS)
"""Minute, hour, day of the month, month, weekday; upper or lower case, one space between them."""


_CRON = re.compile(CRON_PATTERN, re.ASCII | re.IGNORECASE)


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
