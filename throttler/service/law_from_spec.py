"""Between a JoinThrottle and the law: settings from its spec and preset, what was learned to and from its status. Pure.

The spec's own figures count, and its preset's where it gives none. Status holds whole numbers in small units; 0 is
"never learned". What cannot be right (somebody edited it, another version wrote it) counts as never learned: losing
memory costs time, never correctness.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import msgspec

from throttler.api.throttle import MAX_JOINS, LearnedStatus, Preset, ThrottleSpec, Window
from throttler.kube.quantities_and_durations import rfc3339
from throttler.law.law_memory import Learned
from throttler.law.settings import LawSettings

UNLIMITED = 100_000
"""More machines in flight than any cluster has nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Joins in flight."""

    initial: int
    min: int
    max: int


PRESETS: Mapping[Preset, Bounds] = MappingProxyType(
    {
        Preset.GENERIC: Bounds(initial=24, min=2, max=5000),
        # Ultra clusters were measured at 33 ready nodes per second; at joins of 60 s that is 2,000 in flight.
        Preset.EKS: Bounds(initial=24, min=2, max=2000),
        # Above 1,000 nodes: steps of 500 to 700, then a pause.
        Preset.AKS: Bounds(initial=24, min=2, max=700),
        # Batches of 50; one small server is the rule.
        Preset.K3S: Bounds(initial=8, min=2, max=50),
    }
)
"""Provider -> bounds."""


def law_settings(spec: ThrottleSpec) -> LawSettings:
    """What the user bounds; never raises for a spec that keeps the rules of `throttler.api.throttle_rules`."""
    bounds = window_bounds(spec.window, PRESETS[spec.preset])
    levers = spec.levers
    # Where the user says how a cold start begins, idle CPU does not make it more.
    guess_trust = LawSettings().guess_trust if spec.window.initial is None else 0.0
    return LawSettings(
        guess_trust=guess_trust,
        window_initial=bounds.initial,
        window_min=bounds.min,
        window_max=bounds.max,
        max_in_flight=spec.max_in_flight or UNLIMITED,
        has_gate=any((levers.startup_taint, levers.daemon_set_label)),
        registers_freely=True,
        max_wait_s=spec.max_wait_s,
        kill_timer_s=spec.kill_timer_s,
        reserved_nodes=spec.reserved.nodes,
        safe_per_min=spec.pace.safe_per_minute,
        max_per_min=spec.pace.max_per_minute,
    )


def window_bounds(window: Window, preset: Bounds) -> Bounds:
    """The preset's figures give way to those that are given: `max: 10` alone also lowers where a scale-up begins."""
    asked = [bound for bound in (window.min, window.initial, window.max) if bound is not None]
    low = window.min or min([preset.min, *asked])
    high = window.max or max([preset.max, *asked])
    return Bounds(initial=window.initial or min(max(preset.initial, low), high), min=low, max=high)


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
    age_s = learned.age_s if math.isfinite(learned.age_s) else _LONGEST_AGE_S
    learned_at = wall.astimezone(UTC) - timedelta(seconds=min(max(age_s, 0.0), _LONGEST_AGE_S))
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
