"""Which schedule holds now.

The question is "is now inside the window", never "when does it fire next": a service that was down at the
firing, a clock that jumps and the nights when clocks change then need no care of their own.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from balloons.api.pool import Schedule
from throttler.kube.duration import parse_duration


def active_schedule(schedules: Sequence[Schedule], wall: datetime) -> Schedule | None:
    """The first schedule, in the order the user wrote them, whose window holds `wall` (aware)."""
    return next((schedule for schedule in schedules if is_inside(schedule, wall)), None)


def is_inside(schedule: Schedule, wall: datetime) -> bool:
    """Whether `wall` is at or after the last firing and before its end, in real elapsed time."""
    start = last_firing(schedule, wall)
    return start is not None and wall < start + timedelta(seconds=parse_duration(schedule.duration))


def last_firing(schedule: Schedule, wall: datetime) -> datetime | None:
    """The newest firing at or before `wall`, in UTC; None where the expression never fires.

    Firings follow Debian's cron where clocks change: a fixed time that the spring night skips fires when the
    hour is over, and one that the autumn night repeats fires once.
    """
    local = wall.astimezone(ZoneInfo(schedule.time_zone))
    # The iterator looks strictly before the moment it is given; a firing at this very second counts.
    fired = next(CronSim(schedule.cron, local + timedelta(seconds=1), reverse=True), None)
    return fired.astimezone(UTC) if fired is not None else None
