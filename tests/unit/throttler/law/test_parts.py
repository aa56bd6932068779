"""Each part of the law by numbers that can be checked by hand."""

from dataclasses import fields, replace

import pytest

from throttler.joins.joins import Joins
from throttler.law import admission, error_brake, join_model, window_control, window_steps
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


def test_gradient_rests_at_the_equilibrium() -> None:
    assert window_steps.pull(1.0, DEFAULTS) == pytest.approx(0.08)
    assert window_steps.pull(DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(0.0)
    assert window_steps.pull(1000.0, DEFAULTS) == pytest.approx(-0.02)


def test_growth_slows_as_the_room_that_utilisation_leaves_shrinks() -> None:
    assert window_steps.grown(100, 1.0, None, 1.0, DEFAULTS) == pytest.approx(108)
    assert window_steps.grown(100, 1.0, 2.0, 1.0, DEFAULTS) == pytest.approx(124)
    assert window_steps.grown(100, 1.0, 0.2, 1.0, DEFAULTS) == pytest.approx(105)
    assert window_steps.grown(100, 1.0, -0.5, 1.0, DEFAULTS) == 100


def test_cut_grows_with_the_excess_up_to_its_limit() -> None:
    assert window_steps.shrunk(100, 2 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(95)
    assert window_steps.shrunk(100, 50 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(85)
    assert window_steps.pacing_gain(2 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(0.25)


def test_a_delay_next_to_nothing_slows_nothing() -> None:
    assert window_steps.pacing_gain(5e-294, DEFAULTS) == 1.0


def test_brake_takes_half_of_what_was_in_flight() -> None:
    assert error_brake.cut(100, 60, 0.5, DEFAULTS) == 30
    assert error_brake.cut(100, 300, 0.5, DEFAULTS) == 50


def test_brake_leaves_half_of_a_cold_start_where_next_to_nothing_was_in_flight() -> None:
    assert error_brake.cut(100, 2, 0.5, DEFAULTS) == 12
    assert error_brake.cut(8, 2, 0.5, DEFAULTS) == 4


def test_a_few_errors_cut_less() -> None:
    assert error_brake.cut(100, 100, 0.005, DEFAULTS) == 70


def test_brake_pauses_for_half_a_join_and_at_most_a_quarter_of_a_minute() -> None:
    pulled = error_brake.Brake(pulled_s=100.0)
    assert pulled.left_s(102.0, 10.0) == 3.0
    assert pulled.left_s(102.0, 80.0) == 13.0
    assert not pulled.may_pull(115.0, 10.0)
    assert pulled.may_pull(120.0, 10.0)
    assert not pulled.may_pull(120.0, 80.0)


def test_blind_window_falls_to_half_between_one_minute_and_three() -> None:
    assert window_control.drifted(100, 60, 60, DEFAULTS) == 100
    assert window_control.drifted(100, 180, 180, DEFAULTS) == pytest.approx(50)
    assert window_control.drifted(100, 1000, 5, DEFAULTS) == 100


def test_knee_is_half_forgotten_after_three_days() -> None:
    learned = window_steps.Knee(window=205.2, at_s=0.0, is_proven=True)
    assert window_steps.start_window(learned, 0.0, DEFAULTS) == pytest.approx(1.15 * 205.2)
    assert window_steps.start_window(learned, 3 * 86_400.0, DEFAULTS) == pytest.approx(24 + (1.15 * 205.2 - 24) / 2)
    assert window_steps.near_equilibrium(learned, 105.2, 5.0, DEFAULTS).window == pytest.approx(195.2)


def test_unproven_knee_is_only_raised() -> None:
    assert window_steps.borne(window_steps.Knee(window=50.0), 40, 9.0).window == 50
    assert window_steps.borne(window_steps.Knee(window=50.0), 60, 9.0).window == 60


def test_slow_start_doubles_within_what_was_really_in_flight() -> None:
    ramp = window_steps.Ramp(
        window=40, joining=12, index=1.0, since_doubling_s=50, scrape_s=10, join_s=80, by_load=100, full=None
    )
    assert window_steps.doubled(ramp, DEFAULTS) == 40
    assert window_steps.fed_forward(ramp, DEFAULTS) == 72
    assert window_steps.doubling_time_s(10, 80) == 40
    assert window_steps.doubling_time_s(5, 2) == 10


def test_slope_is_fitted_through_the_idle_level_with_its_error_on_top() -> None:
    slope = Slope().with_sample(10, 0.1, 1.0, 0.02).with_sample(20, 0.2, 1.0, 0.02)
    assert slope.per_join(None) == pytest.approx(0.01 + 0.02 / 500**0.5)
    assert slope.per_join(0.005) == pytest.approx(0.01)


def test_what_nothing_holds_back_is_asked_for_at_half_the_pace_at_least() -> None:
    ungated = replace(DEFAULTS, has_gate=False)
    assert window_steps.pacing_gain(1.25 * DEFAULTS.equilibrium, ungated) == pytest.approx(0.8)
    assert window_steps.pacing_gain(50 * DEFAULTS.equilibrium, ungated) == 0.5


def test_late_machines_overfill_the_window_by_a_quarter_at_most() -> None:
    assert admission.bearable(20.0, Joins(joining=18)) == 7
    assert admission.bearable(20.0, Joins(joining=30)) == 0


def test_a_cluster_whose_load_swings_keeps_that_much_free() -> None:
    calm = Load(idle=(0.2, 0.2), remembered=0.01)
    swinging = Load(idle=(0.1, 0.3), remembered=0.01)
    assert window_at(calm, 0.8, swings=1.0) == pytest.approx(60)
    assert window_at(swinging, 0.8, swings=1.0) == pytest.approx(50)


def test_a_knee_that_was_met_is_still_met_after_a_restart() -> None:
    memory = LawMemory(knee=window_steps.Knee(window=7.0, at_s=0.0, is_proven=True))
    again = LawMemory.start(learned_of(memory, 60.0))
    assert window_steps.start_window(again.knee, 0.0, DEFAULTS) < 9


def test_window_at_a_utilisation_leaves_the_idle_level_out() -> None:
    reading = Reading(server="a", ended_s=10, span_s=10, requests=200, errors=0, cpu_share=0.2)
    load = with_join_cpu(with_idle_cpu(Load(), 0.2, (reading,)), 0.4, 20, 1.0)
    assert window_at(load, 0.8) == pytest.approx(60)
    # One request per second takes 1 % of a server: 60 % of two servers are 120 requests/s, 0.6 joins/s of 200.
    assert guessed_pace_per_s(load, 2, 0.8, 200) == pytest.approx(0.6)


def test_rate_follows_from_joins_that_ended() -> None:
    seen = _flow((0, 10, 0), (10, 10, 5), (20, 10, 20))
    assert seen.rate_per_s(10) == pytest.approx(1.5)
    assert seen.rate_per_s(20) == pytest.approx(1.0)
    assert seen.rate_per_s(30) is None


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
    assert admission.longest_hold_s(800, DEFAULTS) == 40


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


def test_urgent_lane_opens_beyond_the_limit_and_no_further() -> None:
    assert admission.urgent_ask(Joins(waiting=9, urgent=5, joining=100), 100, 2) == 2
    assert admission.urgent_ask(Joins(waiting=9, urgent=5, joining=102), 100, 2) == 0


@pytest.mark.parametrize("wrong", [{"window_min": 25}, {"gain": float("nan")}, {"queue": 1.0}, {"cut": -1.0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="accepted are"):
        LawSettings(**wrong)  # type: ignore[arg-type]


def test_one_look_makes_up_for_three_steps_at_most() -> None:
    assert window_steps.grown(100, 1.0, None, 3.0, DEFAULTS) == pytest.approx(124)
    assert window_steps.grown(100, 1.0, None, 9.0, DEFAULTS) == pytest.approx(124)


@pytest.mark.parametrize(("join_s", "step_s"), [(8.0, 5.0), (28.0, 7.0), (80.0, 10.0)])
def test_a_step_of_the_gradient_is_a_quarter_of_a_join_between_five_and_ten_seconds(
    join_s: float, step_s: float
) -> None:
    assert window_steps.adaptation_time_s(join_s) == step_s


def test_a_first_equilibrium_is_the_knee_and_later_ones_move_it_by_a_tenth() -> None:
    met = window_steps.near_equilibrium(window_steps.Knee(window=50.0), 90.0, 7.0, DEFAULTS)
    assert met == window_steps.Knee(window=90.0, at_s=7.0, is_proven=True)
    assert window_steps.near_equilibrium(window_steps.Knee(), 90.0, 7.0, DEFAULTS) == met
    assert window_steps.near_equilibrium(met, 50.0, 9.0, DEFAULTS).window == pytest.approx(86)


def test_what_did_no_harm_is_no_less_than_a_cold_start_tries() -> None:
    assert window_steps.start_window(window_steps.Knee(window=10.0, at_s=0.0), 0.0, DEFAULTS) == 24
    met = window_steps.Knee(window=10.0, at_s=0.0, is_proven=True)
    assert window_steps.start_window(met, 0.0, DEFAULTS) == pytest.approx(11.5)
    assert window_steps.start_window(met, 0.0, replace(DEFAULTS, forget_s=0.0)) == 24
    assert window_steps.Knee(at_s=9.0).age_at(5.0) == 0.0
    assert window_steps.borne(window_steps.Knee(window=50.0, at_s=1.0), 50, 9.0).at_s == 1.0


@pytest.mark.parametrize(
    ("count", "joining", "delay_s", "is_least", "outcome"),
    [
        (2, 85, 0.95, False, "useless"),
        (2, 85, 0.94, False, "helped"),
        (2, 86, 0.95, False, "open"),
        (2, 86, 0.95, True, "useless"),
        (1, 10, 0.95, True, "open"),
    ],
)
def test_two_cuts_and_fewer_joins_tell_whether_delay_is_of_joins(
    count: int, joining: int, delay_s: float, *, is_least: bool, outcome: str
) -> None:
    cuts = window_steps.Cuts(count=count, joining=100, delay_s=1.0, window=50.0)
    after = cuts.judged(joining, delay_s, 7.0, is_least=is_least)
    useless = replace(cuts, useless_since_s=7.0)
    assert after == {"useless": useless, "helped": None, "open": cuts}[outcome]


@pytest.mark.parametrize(
    ("delay_s", "now_s", "is_useless"),
    [(1.0, 300.0, True), (1.0, 300.1, False), (0.75, 0.0, True), (0.74, 0.0, False), (1.25, 0.0, True),
     (1.26, 0.0, False), (None, 0.0, False)],
)  # fmt: skip
def test_cuts_are_useless_for_five_minutes_while_delay_stays_where_it_was(
    delay_s: float | None, now_s: float, *, is_useless: bool
) -> None:
    cuts = window_steps.Cuts(count=2, joining=9, delay_s=1.0, window=50.0, useless_since_s=0.0)
    assert cuts.is_useless(delay_s, now_s) is is_useless
    assert not replace(cuts, useless_since_s=None).is_useless(delay_s, now_s)


def test_errors_of_idle_servers_are_their_mean_or_what_goes_on() -> None:
    rates = ((0.0, 0.0), (10.0, 6.0), (20.0, 6.0), (30.0, 6.0))
    assert error_brake.IdleErrors(samples=rates[:3]).per_s(99.0) == 4.0
    assert error_brake.IdleErrors(samples=rates).per_s(99.0) == 6.0, "three in a row go on"
    assert error_brake.IdleErrors(samples=rates).per_s(30.0) == 4.0, "what is being judged does not count"
    assert error_brake.IdleErrors().per_s(99.0) == 0.0


@pytest.mark.parametrize(("again_s", "pulls"), [(300.0, 2), (300.1, 1)])
def test_a_brake_is_in_a_row_for_ten_times_the_shortest_distance(again_s: float, pulls: int) -> None:
    first = error_brake.Brake().pulled(0.0, 90, 2.0)
    again = first.pulled(again_s, 40, 3.0)
    assert (again.pulls, again.joining) == (pulls, 90 if pulls == 2 else 40)


def test_errors_that_were_left_out_are_told_for_five_minutes() -> None:
    foreign = error_brake.ForeignErrors(left_out_s=0.0)
    assert (foreign.are_told(300.0), foreign.are_told(300.1)) == (True, False)
    assert not error_brake.ForeignErrors().are_told(0.0)


@pytest.mark.parametrize("name", [each.name for each in fields(LawSettings) if isinstance(each.default, float)])
@pytest.mark.parametrize("figure", [-0.1, float("nan"), float("inf")])
def test_no_constant_may_be_negative_or_no_number(name: str, figure: float) -> None:
    with pytest.raises(ValueError, match=f"{name} .*: accepted are finite numbers, 0 or more"):
        LawSettings(**{name: figure})  # type: ignore[arg-type]


def test_a_quick_join_lets_a_window_double_no_sooner_than_two_scrapes() -> None:
    ramp = window_steps.Ramp(
        window=40, joining=40, index=1.0, since_doubling_s=40, scrape_s=10, join_s=80, by_load=None, full=None
    )
    assert window_steps.doubled(ramp, DEFAULTS) == 80
    assert window_steps.doubled(replace(ramp, since_doubling_s=39.9), DEFAULTS) == 40
    assert window_steps.doubled(replace(ramp, index=DEFAULTS.calm_below), DEFAULTS) == 40
    assert window_steps.doubled(replace(ramp, full=60.0), DEFAULTS) == 60
    assert window_steps.doubled(replace(ramp, full=30.0), DEFAULTS) == 40, "never smaller"
    assert window_steps.fed_forward(ramp, DEFAULTS) == 40
    assert window_steps.fed_forward(replace(ramp, by_load=90.0, index=DEFAULTS.calm_below), DEFAULTS) == 40
    assert window_steps.fed_forward(replace(ramp, by_load=90.0), DEFAULTS) == 90
    assert window_steps.fed_forward(replace(ramp, by_load=30.0), DEFAULTS) == 40
    assert window_steps.cut_time_s(10.0, 90.0) == 30.0
    assert window_steps.cut_time_s(10.0, 30.0) == 20.0


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
