"""The rules of `spec.schedules`."""

from collections.abc import Iterator

from balloons.api.cron import CRON_ACCEPTED, ZONE_ACCEPTED, is_cron, is_zone
from balloons.api.pool import PoolSpec, Schedule
from throttler.kube import quantity
from throttler.kube.decoding import Problem


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
