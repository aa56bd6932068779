"""What the law remembers from one look to the next. Losing it costs time, never correctness.

What one scale-up taught is kept on the JoinThrottle's status for the next one and for the next process. Status holds
whole numbers in small units; 0 is "never learned". What cannot be right (somebody edited it, another version wrote it)
counts as never learned.
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

import msgspec

from throttler.api.throttle import MAX_JOINS, LearnedStatus
from throttler.kube.quantities_and_durations import rfc3339
from throttler.law.error_brake import Brake, ForeignErrors
from throttler.law.join_model import Baseline, JoinFlow, JoinTime, Load
from throttler.law.server_health import ServerTrace
from throttler.law.window_formulas import Cuts, Knee


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Figures of the cluster as last seen; None is "never learned". Losing them costs time, never correctness."""

    window: float | None = None
    """The knee: joins in flight at which the servers were just well used."""
    is_proven: bool = False
    """Whether the knee was met; otherwise so many joins only did no harm."""
    baseline_s: float | None = None
    """Latency plus queue wait while nothing joined."""
    join_s: float | None = None
    """How long a join takes below the knee."""
    boot_s: float | None = None
    """How long a machine takes from being asked for to being heard of."""
    boot_spread_s: float | None = None
    """Standard deviation of that."""
    load_per_join: float | None = None
    """Share of the worst server's capacity (CPU or seats) that one join in flight takes."""
    age_s: float = 0.0
    """How long ago the window was learned, by the wall clock at start-up and monotonic from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Machines that may be asked for together, so that they come in one wave."""

    left: int = 0
    """Nobody has asked for these yet."""
    began_s: float = -math.inf
    """When it was last made or made larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawMemory:
    """State between two calls of `govern`; all times monotonic."""

    window: float | None = None
    """W; None before the first look."""
    is_slow_start: bool = True
    """Mode: slow start, else avoid."""
    is_idle: bool = True
    """Whether nothing waited and nothing was in flight at the last look."""
    looked_s: float | None = None
    """The last look."""
    moved_s: float | None = None
    """When the gradient last looked at new readings."""
    doubled_s: float | None = None
    """When slow start last grew the window."""
    blind_since_s: float | None = None
    quiet_since_s: float | None = None
    """Since when nothing has been joining."""
    silent: frozenset[str] = frozenset()
    """Servers whose loss has already been taken off the window."""
    tokens: float | None = None
    """What is in the bucket that lets joins in; None: full."""
    ask_tokens: float | None = None
    """The same of the bucket that pays for machines that are ordered."""
    order: Order = field(default_factory=Order)
    """The latest one; it binds where machines come in waves."""
    own_until_s: float = -math.inf
    """Until when our own requests were judged: each window of them once, as each reading of a server."""
    cut_s: float | None = None
    """When delay last cut the window."""
    cuts: Cuts | None = None
    """The latest cuts by delay, while it is open whether they help or known that they do not."""
    foreign: ForeignErrors = field(default_factory=ForeignErrors)
    traces: tuple[ServerTrace, ...] = ()
    delays: tuple[tuple[float, float], ...] = ()
    """(when, delay that no server's newest window exceeded), oldest first, as long as one cycle of orders may last."""
    baseline: Baseline = field(default_factory=Baseline)
    load: Load = field(default_factory=Load)
    flow: JoinFlow = field(default_factory=JoinFlow)
    join_time: JoinTime = field(default_factory=JoinTime)
    boot_s: float | None = None
    boot_spread_s: float | None = None
    """Standard deviation of the boots; None while unknown."""
    knee: Knee = field(default_factory=Knee)
    brake: Brake = field(default_factory=Brake)

    @classmethod
    def start(cls, learned: Learned | None = None) -> Self:
        """The memory of a new process; `learned` is what an earlier one wrote down."""
        if learned is None:
            return cls()
        return cls(
            baseline=Baseline(remembered_s=learned.baseline_s),
            load=Load(remembered=learned.load_per_join),
            join_time=JoinTime(least_s=learned.join_s),
            boot_s=learned.boot_s,
            boot_spread_s=learned.boot_spread_s,
            knee=Knee(window=learned.window, age_s=learned.age_s, is_proven=learned.is_proven),
        )


def learned_of(memory: LawMemory, now_s: float) -> Learned:
    """What is worth writing down on the JoinThrottle's status."""
    return Learned(
        window=memory.knee.window,
        is_proven=memory.knee.is_proven,
        baseline_s=memory.baseline.measured_s,
        join_s=memory.join_time.least_s,
        boot_s=memory.boot_s,
        boot_spread_s=memory.boot_spread_s,
        load_per_join=memory.load.per_join,
        age_s=memory.knee.age_at(now_s),
    )


NEWS = 0.05
"""Figures that differ by less say the same: an idle cluster's status is not written over and over."""
RENEWED_S = 600.0
"""The same figures, learned again so much later, are news."""
_DAY_S = 86_400.0
_LONGEST_AGE_S = 3650 * _DAY_S


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
        boot_spread_s=_figure(status.boot_spread_milliseconds, 1e3, _DAY_S),
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
        boot_spread_milliseconds=_whole(learned.boot_spread_s, 1e3, _DAY_S),
        load_per_join_millionths=_whole(learned.load_per_join, 1e6, 1),
    )
    if wanted == LearnedStatus():
        return wanted
    learned_at = wall.astimezone(UTC) - timedelta(seconds=min(max(0.0, learned.age_s), _LONGEST_AGE_S))
    before = _time(stored.learned_at)
    is_recent = before is not None and abs((learned_at - before).total_seconds()) <= RENEWED_S
    if is_recent and _is_same(wanted, stored):
        return stored
    return msgspec.structs.replace(wanted, learned_at=rfc3339(learned_at))


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
        status.boot_spread_milliseconds,
        status.load_per_join_millionths,
    )


def _time(text: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
