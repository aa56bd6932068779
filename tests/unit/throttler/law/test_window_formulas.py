"""The steps of the window by numbers that can be checked by hand."""

from dataclasses import replace

import pytest

from throttler.law import window_formulas
from throttler.law.settings import LawSettings

DEFAULTS = LawSettings()


def test_gradient_rests_at_the_equilibrium() -> None:
    assert window_formulas.pull(1.0, DEFAULTS) == pytest.approx(0.08)
    assert window_formulas.pull(DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(0.0)
    assert window_formulas.pull(1000.0, DEFAULTS) == pytest.approx(-0.02)


def test_growth_slows_as_the_room_that_utilisation_leaves_shrinks() -> None:
    assert window_formulas.grown(100, 1.0, None, 1.0, DEFAULTS) == pytest.approx(108)
    assert window_formulas.grown(100, 1.0, 2.0, 1.0, DEFAULTS) == pytest.approx(124)
    assert window_formulas.grown(100, 1.0, 0.2, 1.0, DEFAULTS) == pytest.approx(105)
    assert window_formulas.grown(100, 1.0, -0.5, 1.0, DEFAULTS) == 100


def test_cut_grows_with_the_excess_up_to_its_limit() -> None:
    assert window_formulas.shrunk(100, 2 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(95)
    assert window_formulas.shrunk(100, 50 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(85)
    assert window_formulas.pacing_gain(2 * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(0.25)


def test_a_delay_next_to_nothing_slows_nothing() -> None:
    assert window_formulas.pacing_gain(5e-294, DEFAULTS) == 1.0


def test_knee_is_half_forgotten_after_three_days() -> None:
    learned = window_formulas.Knee(window=205.2, at_s=0.0, is_proven=True)
    assert window_formulas.start_window(learned, 0.0, DEFAULTS) == pytest.approx(1.15 * 205.2)
    assert window_formulas.start_window(learned, 3 * 86_400.0, DEFAULTS) == pytest.approx(24 + (1.15 * 205.2 - 24) / 2)
    assert window_formulas.near_equilibrium(learned, 105.2, 5.0, DEFAULTS).window == pytest.approx(195.2)


def test_unproven_knee_is_only_raised() -> None:
    assert window_formulas.borne(window_formulas.Knee(window=50.0), 40, 9.0).window == 50
    assert window_formulas.borne(window_formulas.Knee(window=50.0), 60, 9.0).window == 60


def test_slow_start_doubles_within_what_was_really_in_flight() -> None:
    ramp = window_formulas.Ramp(
        window=40, joining=12, index=1.0, since_doubling_s=50, scrape_s=10, join_s=80, by_load=100, full=None
    )
    assert window_formulas.doubled(ramp, DEFAULTS) == 40
    assert window_formulas.fed_forward(ramp, DEFAULTS) == 72
    assert window_formulas.doubling_time_s(10, 80) == 40
    assert window_formulas.doubling_time_s(5, 2) == 10


def test_what_nothing_holds_back_is_asked_for_at_half_the_pace_at_least() -> None:
    ungated = replace(DEFAULTS, has_gate=False)
    assert window_formulas.pacing_gain(1.25 * DEFAULTS.equilibrium, ungated) == pytest.approx(0.8)
    assert window_formulas.pacing_gain(50 * DEFAULTS.equilibrium, ungated) == 0.5


def test_one_look_makes_up_for_three_steps_at_most() -> None:
    assert window_formulas.grown(100, 1.0, None, 3.0, DEFAULTS) == pytest.approx(124)
    assert window_formulas.grown(100, 1.0, None, 9.0, DEFAULTS) == pytest.approx(124)


@pytest.mark.parametrize(("join_s", "step_s"), [(8.0, 5.0), (28.0, 7.0), (80.0, 10.0)])
def test_a_step_of_the_gradient_is_a_quarter_of_a_join_between_five_and_ten_seconds(
    join_s: float, step_s: float
) -> None:
    assert window_formulas.adaptation_time_s(join_s) == step_s


def test_a_first_equilibrium_is_the_knee_and_later_ones_move_it_by_a_tenth() -> None:
    met = window_formulas.near_equilibrium(window_formulas.Knee(window=50.0), 90.0, 7.0, DEFAULTS)
    assert met == window_formulas.Knee(window=90.0, at_s=7.0, is_proven=True)
    assert window_formulas.near_equilibrium(window_formulas.Knee(), 90.0, 7.0, DEFAULTS) == met
    moved = window_formulas.near_equilibrium(met, 50.0, 9.0, DEFAULTS)
    assert (moved.window, moved.at_s, moved.is_proven) == (pytest.approx(86), 9.0, True)


def test_what_did_no_harm_is_no_less_than_a_cold_start_tries() -> None:
    assert window_formulas.start_window(window_formulas.Knee(window=10.0, at_s=0.0), 0.0, DEFAULTS) == 24
    met = window_formulas.Knee(window=10.0, at_s=0.0, is_proven=True)
    assert window_formulas.start_window(met, 0.0, DEFAULTS) == pytest.approx(11.5)
    assert window_formulas.start_window(met, 0.0, replace(DEFAULTS, forget_s=0.0)) == 24
    assert window_formulas.Knee(at_s=9.0).age_at(5.0) == 0.0
    assert window_formulas.borne(window_formulas.Knee(window=50.0, at_s=1.0), 50, 9.0).at_s == 1.0


def test_a_knee_that_was_met_stands_until_twice_as_many_are_borne() -> None:
    met = window_formulas.Knee(window=50.0, at_s=0.0, is_proven=True)
    assert window_formulas.borne(met, 100, 9.0) == met
    assert window_formulas.borne(met, 101, 9.0) == window_formulas.Knee(window=101.0, at_s=9.0)


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
    cuts = window_formulas.Cuts(count=count, joining=100, delay_s=1.0, window=50.0)
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
    cuts = window_formulas.Cuts(count=2, joining=9, delay_s=1.0, window=50.0, useless_since_s=0.0)
    assert cuts.is_useless(delay_s, now_s) is is_useless
    assert not replace(cuts, useless_since_s=None).is_useless(delay_s, now_s)


def test_a_quick_join_lets_a_window_double_no_sooner_than_two_scrapes() -> None:
    ramp = window_formulas.Ramp(
        window=40, joining=40, index=1.0, since_doubling_s=40, scrape_s=10, join_s=80, by_load=None, full=None
    )
    assert window_formulas.doubled(ramp, DEFAULTS) == 80
    assert window_formulas.doubled(replace(ramp, since_doubling_s=39.9), DEFAULTS) == 40
    assert window_formulas.doubled(replace(ramp, index=DEFAULTS.calm_below), DEFAULTS) == 40
    assert window_formulas.doubled(replace(ramp, full=60.0), DEFAULTS) == 60
    assert window_formulas.doubled(replace(ramp, full=30.0), DEFAULTS) == 40, "never smaller"
    assert window_formulas.fed_forward(ramp, DEFAULTS) == 40
    assert window_formulas.fed_forward(replace(ramp, by_load=90.0, index=DEFAULTS.calm_below), DEFAULTS) == 40
    assert window_formulas.fed_forward(replace(ramp, by_load=90.0), DEFAULTS) == 90
    assert window_formulas.fed_forward(replace(ramp, by_load=30.0), DEFAULTS) == 40
    assert window_formulas.cut_time_s(10.0, 90.0) == 30.0
    assert window_formulas.cut_time_s(10.0, 30.0) == 20.0


@pytest.mark.parametrize(("times", "window"), [(0.0, 100), (0.5, 100), (1.0, 100), (1.2, 99), (4.0, 85), (4.1, 85)])
def test_below_the_equilibrium_a_cut_takes_nothing(times: float, window: float) -> None:
    assert window_formulas.shrunk(100, times * DEFAULTS.equilibrium, DEFAULTS) == pytest.approx(window)


def test_a_first_join_that_did_no_harm_is_the_first_lower_bound() -> None:
    nothing = window_formulas.Knee()
    assert window_formulas.borne(nothing, 0, 9.0) is nothing
    assert window_formulas.borne(nothing, 1, 9.0) == window_formulas.Knee(window=1.0, at_s=9.0)


def test_doubling_ends_at_two_and_a_half_times_what_was_in_flight() -> None:
    ramp = window_formulas.Ramp(
        window=40, joining=20, index=1.0, since_doubling_s=40, scrape_s=10, join_s=80, by_load=None, full=None
    )
    assert window_formulas.doubled(ramp, DEFAULTS) == 50
