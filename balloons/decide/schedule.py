"""Which schedule holds now.

The question is "is now inside the window", never "when does it fire next": a service that was down at the
firing, a clock that jumps and the nights when clocks change then need no care of their own.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from balloons.api.pool import Schedule
from throttler.kube.quantity import parse_duration

REMEMBERED = 4096
"""Firings that are remembered: those of some namespaces' schedules, for this minute and the last ones."""


def active_schedule(schedules: Sequence[Schedule], wall: datetime) -> Schedule | None:
    """The first schedule, in the order the user wrote them, whose window holds `wall` (aware)."""
    return next((schedule for schedule in schedules if is_inside(schedule, wall)), None)


def is_inside(schedule: Schedule, wall: datetime) -> bool:
    """Whether `wall` is at or after the last firing and before its end, in real elapsed time."""
    start = last_firing(schedule, wall)
    return start is not None and wall < start + timedelta(seconds=parse_duration(schedule.duration))


def last_firing(schedule: Schedule, wall: datetime) -> datetime | None:
    """The newest firing at or before `wall`, in UTC; None where the expression never fires."""
    return _last_firing(schedule.cron, schedule.time_zone, wall.astimezone(UTC).replace(second=0, microsecond=0))


@lru_cache(maxsize=REMEMBERED)
def _last_firing(cron: str, zone: str, minute: datetime) -> datetime | None:
    """The same for a whole minute: cron fires at no other moment, and a day that comes every 28 years is far to seek.

    Firings follow Debian's cron where clocks change: a fixed time that the spring night skips fires when the
    hour is over, and one that the autumn night repeats fires once.
    """
    local = minute.astimezone(ZoneInfo(zone))
    # The iterator looks strictly before the moment it is given; a firing at this very second counts.
    fired = next(CronSim(cron, local + timedelta(seconds=1), reverse=True), None)
    return fired.astimezone(UTC) if fired is not None else None
