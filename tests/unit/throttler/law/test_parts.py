"""Each part of the law by numbers that can be checked by hand."""

from dataclasses import fields

import pytest

from throttler.joins.joins import Joins
from throttler.law import admission, join_model, window_control, window_formulas
from throttler.law.join_model import (
    JoinFlow,
    JoinTime,
    Load,
    Slope,
    guessed_pace_per_s,
    window_at,
    with_idle_cpu,
    with_join_cpu,
)
from throttler.law.law_memory import LawMemory, learned_of
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading

DEFAULTS = LawSettings()


def _flow(*points: tuple[float, int, int]) -> JoinFlow:
    """(time, joining, joined) of each point."""
    seen = JoinFlow()
    for at_s, joining, done in points:
        seen = join_model.with_counts(seen, Joins(joining=joining, joined=done), at_s)
    return seen


def test_baseline_is_the_median_of_three_idle_minutes_between_floor_and_ceiling() -> None:
    known = join_model.Baseline(remembered_s=0.05)
    assert known.within(DEFAULTS) == 0.05
    for at_s, delay_s in ((0.0, 9.0), (100.0, 0.06), (150.0, 0.07), (250.0, 0.08)):
        known = join_model.with_idle_delay(known, delay_s, at_s, DEFAULTS)
    assert known.within(DEFAULTS) == 0.07
    assert join_model.Baseline(remembered_s=0.001).within(DEFAULTS) == DEFAULTS.baseline_floor_s
    assert join_model.Baseline(remembered_s=5.0).within(DEFAULTS) == DEFAULTS.baseline_ceiling_s


def test_blind_window_falls_to_half_between_one_minute_and_three() -> None:
    assert window_control.drifted(100, 60, 60, DEFAULTS) == 100
    assert window_control.drifted(100, 180, 180, DEFAULTS) == pytest.approx(50)
    assert window_control.drifted(100, 1000, 5, DEFAULTS) == 100


def test_slope_is_fitted_through_the_idle_level_with_its_error_on_top() -> None:
    slope = Slope().with_sample(10, 0.1, 1.0, 0.02).with_sample(20, 0.2, 1.0, 0.02)
    assert slope.per_join(None) == pytest.approx(0.01 + 0.02 / 500**0.5)
    assert slope.per_join(0.005) == pytest.approx(0.01)


def test_late_machines_overfill_the_window_by_a_quarter_at_most() -> None:
    assert admission.bearable(20.0, Joins(joining=18)) == 7
    assert admission.bearable(20.0, Joins(joining=30)) == 0


def test_a_cluster_whose_load_swings_keeps_that_much_free() -> None:
    calm = Load(idle=(0.2, 0.2), remembered=0.01)
    swinging = Load(idle=(0.1, 0.3), remembered=0.01)
    assert window_at(calm, 0.8, swings=1.0) == pytest.approx(60)
    assert window_at(swinging, 0.8, swings=1.0) == pytest.approx(50)


def test_a_knee_that_was_met_is_still_met_after_a_restart() -> None:
    memory = LawMemory(knee=window_formulas.Knee(window=7.0, at_s=0.0, is_proven=True))
    again = LawMemory.start(learned_of(memory, 60.0))
    assert window_formulas.start_window(again.knee, 0.0, DEFAULTS) < 9


def test_window_at_a_utilisation_leaves_the_idle_level_out() -> None:
    reading = Reading(server="a", ended_s=10, span_s=10, requests=200, errors=0, cpu_share=0.2)
    load = with_join_cpu(with_idle_cpu(Load(), 0.2, (reading,)), 0.4, 20, 1.0)
    assert window_at(load, 0.8) == pytest.approx(60)
    # One request per second takes 1 % of a server: 60 % of two servers are 120 requests/s, 0.6 joins/s of 200.
    assert guessed_pace_per_s(load, 2, 0.8, 200) == pytest.approx(0.6)


def test_rate_follows_from_joins_that_ended() -> None:
    seen = _flow((0, 10, 0), (10, 10, 5), (20, 10, 20))
    assert seen.busy_rate_per_s(10) == pytest.approx(1.5)
    assert seen.busy_rate_per_s(20) == pytest.approx(1.0)
    assert seen.busy_rate_per_s(30) is None


def test_least_join_time_drifts_up_slowly() -> None:
    time = join_model.with_duration(JoinTime(), 80.0, 0.0)
    time = join_model.with_duration(time, 120.0, 360.0)
    assert (time.now_s, time.least_s) == (120.0, pytest.approx(88))


def test_stock_lets_the_last_machine_in_before_its_limit_at_half_the_pace() -> None:
    outlook = admission.Outlook(window=80, pace_per_s=1.0, boot_s=120)
    # 410 s of holding at 0.5 per second, and 80 that go in at once.
    assert admission.gated_stock(outlook, Joins(waiting=1000), DEFAULTS) == pytest.approx(80 + 205)
    # The first come after 60 s: 60 s more in which none goes in.
    booting = Joins(booting=100, oldest_booting_s=60)
    assert admission.gated_stock(outlook, booting, DEFAULTS) == pytest.approx(80 + 0.5 * (410 + 60))
    assert admission.longest_wait_s(800, DEFAULTS) == 40


def test_tokens_fill_a_bit_slower_than_a_full_window_renews_itself() -> None:
    bucket = admission.bucket(800, 80, 1.0, None, DEFAULTS)
    assert bucket.per_s == pytest.approx(8.5)
    assert bucket.filled(0.0, 5.0) == pytest.approx(42.5)
    assert bucket.filled(0.0, 100.0) == pytest.approx(51)
    assert admission.bucket(800, 80, 1.0, 60.0, DEFAULTS).per_s == 1.0


def test_machines_near_their_limit_are_counted_from_their_arrival() -> None:
    joins = Joins(held=100, joining=0, oldest_held_s=500)
    seen = join_model.with_counts(JoinFlow(), Joins(held=18), 0.0)
    seen = join_model.with_counts(seen, Joins(held=100), 400.0)
    # 18 arrived 450 s ago; they have 90 s from second 410 on, and a step of 5 s takes its share of them.
    assert admission.overdue_now(joins, seen, 120, 5.0, 450.0, DEFAULTS) == 1
    assert admission.overdue_now(joins, seen, 120, 5.0, 501.0, DEFAULTS) == 18
    assert admission.overdue_now(Joins(held=100, oldest_held_s=100), seen, 120, 5.0, 100.0, DEFAULTS) == 0


@pytest.mark.parametrize("wrong", [{"window_min": 25}, {"gain": float("nan")}, {"queue": 1.0}, {"cut": -1.0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="accepted are"):
        LawSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [each.name for each in fields(LawSettings) if isinstance(each.default, float)])
@pytest.mark.parametrize("figure", [-0.1, float("nan"), float("inf")])
def test_no_constant_may_be_negative_or_no_number(name: str, figure: float) -> None:
    with pytest.raises(ValueError, match=f"{name} .*: accepted are finite numbers, 0 or more"):
        LawSettings(**{name: figure})  # type: ignore[arg-type]


def test_joins_that_seem_to_cost_nothing_cost_the_swing_of_idle_servers() -> None:
    slope = Slope().with_sample(10, -0.1, 1.0, 0.02)
    assert slope.per_join(None) == pytest.approx(0.002)
    assert slope.per_join(0.001) == pytest.approx(0.001)
    assert Slope().per_join(0.001) is None
    older = Slope().with_sample(10, 0.1, 1.0, 0.0).with_sample(10, 0.3, 0.5, 0.0)
    assert older.per_join(None) == pytest.approx((0.5 * 1.0 + 3.0) / (0.5 * 100 + 100)), "an older sample counts half"


def test_what_cannot_be_taken_back_leaves_room_for_the_swing_of_others() -> None:
    load = Load(idle=(0.1, 0.3), remembered=0.01)
    assert join_model.committed_at(load, 0.8, 0.0, 0) == pytest.approx(60)
    assert join_model.committed_at(load, 0.8, 0.0, 10) == pytest.approx(60 * 0.01 / (0.01 + 0.1 / 10))
    assert join_model.committed_at(Load(), 0.8, 0.0, 10) is None
    assert window_at(load, 0.1) == 0.0, "nothing is free"
