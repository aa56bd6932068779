"""What the law has learned, to and from the JoinThrottle's status. Pure.

Status holds whole numbers in small units; 0 is "never learned". What cannot be right (somebody edited it, another
version wrote it) counts as never learned: losing memory costs time, never correctness.
"""

import math
from datetime import UTC, datetime, timedelta

import msgspec

from throttler.api.throttle import MAX_JOINS, LearnedStatus
from throttler.law.learned import Learned

NEWS = 0.05
"""Figures that differ by less say the same: an idle cluster's status is not written over and over."""
RENEWED_S = 600.0
"""The same figures, learned again so much later, are news."""
_DAY_S = 86_400.0


def learned_of_status(status: LearnedStatus, wall: datetime) -> Learned:
    """What the status remembers, with its age at `wall`; without a readable time nothing is remembered."""
    learned_at = _time(status.learned_at)
    if learned_at is None:
        return Learned()
    return Learned(
        window=_figure(status.window, 1, MAX_JOINS),
        is_proven=status.window_proven,
        baseline_s=_figure(status.baseline_microseconds, 1e6, 60),
        join_s=_figure(status.join_milliseconds, 1e3, _DAY_S),
        boot_s=_figure(status.boot_milliseconds, 1e3, _DAY_S),
        load_per_join=_figure(status.load_per_join_millionths, 1e6, 1),
        age_s=max(0.0, (wall - learned_at).total_seconds()),
    )


def learned_status_of(learned: Learned, stored: LearnedStatus, wall: datetime) -> LearnedStatus:
    """What to write: `stored` while it still says the same."""
    wanted = LearnedStatus(
        window=_whole(learned.window, 1, MAX_JOINS),
        window_proven=learned.is_proven,
        baseline_microseconds=_whole(learned.baseline_s, 1e6, 60),
        join_milliseconds=_whole(learned.join_s, 1e3, _DAY_S),
        boot_milliseconds=_whole(learned.boot_s, 1e3, _DAY_S),
        load_per_join_millionths=_whole(learned.load_per_join, 1e6, 1),
    )
    if wanted == LearnedStatus():
        return wanted
    learned_at = _before(wall, learned.age_s)
    if _is_same(wanted, stored) and not _is_renewed(stored.learned_at, learned_at):
        return stored
    return msgspec.structs.replace(wanted, learned_at=learned_at.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _figure(stored: int, per_unit: float, most: float) -> float | None:
    return stored / per_unit if 0 < stored <= most * per_unit else None


def _whole(figure: float | None, per_unit: float, most: float) -> int:
    """0 also for what is not finite or out of range; never 0 for what was learned and is tiny."""
    if figure is None or not math.isfinite(figure) or figure <= 0:
        return 0
    return max(1, round(min(figure, most) * per_unit))


def _is_same(wanted: LearnedStatus, stored: LearnedStatus) -> bool:
    if wanted.window_proven != stored.window_proven:
        return False
    pairs = zip(_figures(wanted), _figures(stored), strict=True)
    return all(abs(now - before) <= NEWS * max(now, before) for now, before in pairs)


def _figures(status: LearnedStatus) -> tuple[int, ...]:
    return (
        status.window,
        status.baseline_microseconds,
        status.join_milliseconds,
        status.boot_milliseconds,
        status.load_per_join_millionths,
    )


def _is_renewed(stored: str, learned_at: datetime) -> bool:
    before = _time(stored)
    return before is None or abs((learned_at - before).total_seconds()) > RENEWED_S


def _before(wall: datetime, age_s: float) -> datetime:
    age = timedelta(seconds=min(max(age_s, 0.0), 3650 * _DAY_S)) if math.isfinite(age_s) else timedelta(days=3650)
    return wall.astimezone(UTC) - age


def _time(text: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
