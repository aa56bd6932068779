"""What single looks do to the window, by numbers that can be checked by hand: a joint of the law at a time."""

from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import (
    CALM_S,
    EQUILIBRIUM,
    NOW_S,
    SETTINGS,
    Loop,
    a_look,
    with_errors,
    with_health,
)
from throttler.joins.joins import Joins
from throttler.law import error_brake, govern, window_control, window_formulas
from throttler.law.join_model import JoinFlow, JoinTime, Load, Slope, committed_at, with_counts
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.server_health import examine
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_formulas import Cuts, Knee
from throttler.signals.reading import Alarm, Reading, Signals, SilentServer


@pytest.mark.parametrize(
    ("window", "growth"),
    [(60.0, 0.16), (69.0, 0.16), (70.0, 0.08), (99.0, 0.08), (100.0, 0.06), (120.0, 0.06)],
)
def test_grows_twice_as_fast_far_below_a_knee_that_was_met_and_slower_beyond_it(window: float, growth: float) -> None:
    facts = a_look(window, joining=round(window), knee=Knee(window=100.0, is_proven=True, at_s=0.0))
    grown = window_control.avoidance(facts)
    assert (grown.memory.window, grown.phase) == (pytest.approx(window * (1 + growth)), Phase.AVOID)


def test_the_time_of_a_look_without_new_readings_is_left_to_the_next_one() -> None:
    after = window_control.avoidance(a_look(is_new=False))
    assert (after.memory.window, after.memory.moved_s) == (100.0, NOW_S - 10.0)


@pytest.mark.parametrize("knee", [Knee(), Knee(window=100.0, at_s=0.0)])
def test_nothing_slows_growth_beyond_a_knee_that_was_never_met(knee: Knee) -> None:
    assert window_control.avoidance(a_look(120.0, joining=120, knee=knee)).memory.window == pytest.approx(120 * 1.08)


def test_room_that_the_cpu_leaves_quickens_growth_and_its_end_stops_it() -> None:
    roomy, full = Load(idle=(0.1,), remembered=0.001), Load(idle=(0.1,), remembered=0.0125)
    # (1.1 - 0.1) / 0.001 = 1,000 joins fill the server: three times the gradient's 8 %.
    assert window_control.avoidance(a_look(load=roomy)).memory.window == pytest.approx(124)
    # 80 joins fill it: 100 x 0.85 are more than that.
    assert window_control.avoidance(a_look(load=full)).memory.window == pytest.approx(100)


def test_where_seats_are_taken_the_cpu_does_not_tell_of_room() -> None:
    roomy = Load(idle=(0.1,), remembered=0.001)
    assert window_control.avoidance(a_look(load=roomy, seats=0.69)).memory.window == pytest.approx(124)
    assert window_control.avoidance(a_look(load=roomy, seats=0.7)).memory.window == pytest.approx(108)


def test_prompt_joins_go_by_delay_alone() -> None:
    full = Load(idle=(0.1,), remembered=0.0125)
    facts = a_look(load=full, join_time=JoinTime(now_s=5.0, least_s=5.0))
    # Their steps last 5 s, so this look makes up for two.
    assert window_control.avoidance(facts).memory.window == pytest.approx(116)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"joining": 111}, ThrottleReason.CROWDED),
        ({"joining": 110}, ThrottleReason.PROBING_UP),
        ({"joining": 60}, ThrottleReason.PROBING_UP),
        ({"joining": 59}, ThrottleReason.NOT_FILLED),
        ({"waiting": 0}, ThrottleReason.NO_DEMAND),
        ({"is_controller_bound": True}, ThrottleReason.CONTROLLER_MANAGER),
        ({"index": (EQUILIBRIUM, EQUILIBRIUM)}, ThrottleReason.AT_EQUILIBRIUM),
        ({"index": (EQUILIBRIUM, 1.5 * EQUILIBRIUM)}, ThrottleReason.AT_EQUILIBRIUM),
        ({"index": (1.0, 1.51 * EQUILIBRIUM)}, ThrottleReason.HIGH_ONCE),
        ({"index": (1.51 * EQUILIBRIUM, 1.0)}, ThrottleReason.HIGH_ONCE),
        ({"index": (1.01 * EQUILIBRIUM, 1.01 * EQUILIBRIUM)}, ThrottleReason.BACKING_OFF),
    ],
)
def test_says_why_the_window_grows_or_does_not(change: dict[str, object], reason: ThrottleReason) -> None:
    after = window_control.avoidance(a_look(**change))  # type: ignore[arg-type]
    assert after.because.reason is reason
    assert ((after.memory.window or 0.0) > 100) is (reason is ThrottleReason.PROBING_UP)


@pytest.mark.parametrize(
    ("index", "knee"),
    [
        ((0.5 * EQUILIBRIUM, 0.5 * EQUILIBRIUM), 0.9 * 50 + 0.1 * 100),
        ((1.5 * EQUILIBRIUM, 1.5 * EQUILIBRIUM), 0.9 * 50 + 0.1 * 100),
        ((1.4 * EQUILIBRIUM, 9.0 * EQUILIBRIUM), 0.9 * 50 + 0.1 * 100),
        ((1.6 * EQUILIBRIUM, 1.6 * EQUILIBRIUM), 50.0),
        ((0.4 * EQUILIBRIUM, 0.4 * EQUILIBRIUM), 50.0),
    ],
)
def test_a_knee_is_learned_where_delay_is_near_the_equilibrium(index: tuple[float, float], knee: float) -> None:
    """What was in flight, 90 joins at 85 % of the pace, would have filled a window of more than 100: it is bounded."""
    facts = window_control.known_knee(a_look(index=index, knee=Knee(window=50.0, is_proven=True, at_s=NOW_S)))
    assert facts.memory.knee.window == pytest.approx(knee)


@pytest.mark.parametrize(
    "change", [{"is_new": False}, {"joining": 50}, {"joining": 111}, {"waiting": 0}], ids=lambda change: str(change)
)
def test_no_knee_is_learned_from_a_window_that_was_not_judged_or_not_used(change: dict[str, object]) -> None:
    for index in (1.0, EQUILIBRIUM):
        facts = a_look(index=(index, index), knee=Knee(window=50.0, at_s=NOW_S), **change)  # type: ignore[arg-type]
        assert window_control.known_knee(facts) == facts


def test_below_half_of_the_equilibrium_more_joins_only_did_no_harm() -> None:
    for met, window in ((False, 90.0), (True, 50.0)):
        facts = window_control.known_knee(a_look(knee=Knee(window=50.0, is_proven=met, at_s=NOW_S)))
        assert (facts.memory.knee.window, facts.memory.knee.is_proven) == (window, met)


def test_a_cut_has_two_scrapes_or_a_third_of_a_join_to_show() -> None:
    hot = (3 * EQUILIBRIUM, 3 * EQUILIBRIUM)
    assert window_formulas.cut_time_s(10.0, 80.0) == pytest.approx(80 / 3)
    assert window_formulas.cut_time_s(10.0, 30.0) == 20
    for since_s, window in ((26.0, 100.0), (27.0, 90.0)):
        assert window_control.avoidance(a_look(index=hot, cut_s=NOW_S - since_s)).memory.window == pytest.approx(window)


def test_what_cuts_do_not_change_gives_the_window_back() -> None:
    hot = 3 * EQUILIBRIUM
    cuts = Cuts(count=2, joining=106, delay_s=hot * CALM_S, window=120.0)
    given_back = window_control.avoidance(a_look(90.0, index=(hot, hot), cuts=cuts))
    assert (given_back.memory.window, given_back.because.reason) == (120.0, ThrottleReason.DELAY_NOT_OURS)
    # With as many joins as before nothing is proven: cut on.
    cuts = replace(cuts, joining=105)
    assert window_control.avoidance(a_look(90.0, index=(hot, hot), cuts=cuts)).because.reason is (
        ThrottleReason.BACKING_OFF
    )
    # The least window cannot be cut on.
    cuts = replace(cuts, joining=2)
    least = window_control.avoidance(a_look(SETTINGS.window_min, joining=2, index=(hot, hot), cuts=cuts))
    assert (least.memory.window, least.because.reason) == (120.0, ThrottleReason.DELAY_NOT_OURS)


def test_a_delay_of_nothing_grows_the_window_as_a_small_one_does() -> None:
    assert window_formulas.pull(0.0, SETTINGS) == window_formulas.pull(1.0, SETTINGS)
    assert window_formulas.pacing_gain(0.0, SETTINGS) == 1.0


def test_up_to_one_error_in_a_hundred_the_brake_is_mild() -> None:
    assert error_brake.cut(100, 100, 0.01, SETTINGS) == 70
    assert error_brake.cut(100, 100, 0.0101, SETTINGS) == 50


def test_a_waves_few_errors_fall_into_one_reading_and_cut_mildly() -> None:
    assert error_brake.cut(100, 100, 0.05, SETTINGS, has_waves=True) == 70
    assert error_brake.cut(100, 100, 0.0501, SETTINGS, has_waves=True) == 50


@pytest.mark.parametrize("figure", [float("inf"), float("nan"), 0.0, -1.0])
def test_a_duration_that_makes_no_sense_is_none(figure: float) -> None:
    sane = govern.sane(Joins(join_s=figure, boot_s=figure, boot_spread_s=figure, oldest_held_s=figure))
    assert (sane.join_s, sane.boot_s, sane.boot_spread_s, sane.oldest_held_s) == (None, None, 0.0, 0.0)


def test_durations_between_a_tenth_of_a_second_and_a_day_are_believed() -> None:
    sane = govern.sane(Joins(join_s=0.01, boot_s=1e9, oldest_joining_s=7.0, oldest_booting_s=8.0, boot_spread_s=9.0))
    assert (sane.join_s, sane.boot_s, sane.oldest_joining_s) == (0.1, 86_400.0, 7.0)
    assert (sane.oldest_booting_s, sane.boot_spread_s) == (8.0, 9.0)


def test_counts_below_zero_are_none_and_late_machines_are_lost() -> None:
    joins = Joins(
        waiting=-1, urgent=-1, booting=5, late_booting=2, held=-1, joining=4, late_joining=9, joined=-1, lost=1
    )
    sane = govern.sane(joins)
    assert (sane.waiting, sane.urgent, sane.held, sane.joined) == (0, 0, 0, 0)
    assert (sane.booting, sane.joining, sane.lost) == (3, 0, 7)


# --- before the ordinary law ------------------------------------------------------------------------------------------


LOST = SilentServer(server="b", problem="away", since_s=NOW_S - 60.0)


@pytest.mark.parametrize(("servers", "window"), [(1, 50.0), (2, 50.0), (3, 200 / 3), (10, 90.0)])
def test_a_server_that_falls_silent_takes_its_share_once_and_never_more_than_half(servers: int, window: float) -> None:
    after = window_control.silent(with_health(a_look(), silent=LOST, servers=servers))
    assert after is not None
    assert (after.memory.window, after.memory.silent) == (pytest.approx(window), {"b"})
    again = window_control.silent(with_health(a_look(silent=frozenset({"b"})), silent=LOST, servers=servers))
    assert again is not None
    assert (again.memory.window, again.because.reason) == (100.0, ThrottleReason.SERVER_SILENT)


def test_a_server_that_falls_silent_while_others_are_slow_takes_no_more_than_half() -> None:
    hot = with_health(a_look(index=(3 * EQUILIBRIUM, 3 * EQUILIBRIUM)), silent=LOST, servers=2)
    after = window_control.silent(hot)
    assert after is not None
    assert after.memory.window == 50.0


def test_a_silent_server_excuses_no_delay_of_the_others() -> None:
    hot = with_health(a_look(index=(3 * EQUILIBRIUM, 3 * EQUILIBRIUM), silent=frozenset({"b"})), silent=LOST, servers=2)
    after = window_control.silent(hot)
    assert after is not None
    assert after.memory.window == pytest.approx(90)


def test_an_alarm_cuts_by_the_most_and_ends_slow_start() -> None:
    alarm = Alarm(name="etcd", value=2.0, threshold=1.0)
    after = window_control.alarmed(with_health(a_look(is_slow_start=True), alarm=alarm))
    assert after is not None
    assert (after.memory.window, after.memory.cut_s, after.memory.is_slow_start) == (pytest.approx(85), NOW_S, False)
    again = window_control.alarmed(with_health(a_look(cut_s=NOW_S - 10.0), alarm=alarm))
    assert again is not None
    assert (again.memory.window, again.memory.cut_s) == (100.0, NOW_S - 10.0)


def test_errors_cut_what_was_in_flight_once_and_pause() -> None:
    after = window_control.braked(with_errors(a_look(is_slow_start=True), 10.0))
    assert after is not None
    assert (after.memory.window, after.phase, after.memory.is_slow_start) == (pytest.approx(63), Phase.BRAKE, False)
    assert (after.memory.brake.pulled_s, after.memory.brake.joining, after.memory.brake.pulls) == (NOW_S, 90, 1)


@pytest.mark.parametrize(
    ("errors", "requests", "brakes"), [(5.0, 4000.0, True), (4.9, 100.0, False), (5.0, 5000.0, False)]
)
def test_five_errors_and_more_than_one_in_a_thousand_brake(errors: float, requests: float, *, brakes: bool) -> None:
    after = window_control.braked(with_errors(a_look(), errors, requests))
    assert (after is not None) is brakes


@pytest.mark.parametrize(
    ("pulled_ago_s", "errors", "reason", "left_s"),
    [
        (10.0, 0.0, ThrottleReason.RECOVERING, 5.0),
        (15.0, 0.0, None, 0.0),
        (20.0, 10.0, ThrottleReason.RECOVERING, 0.0),
        (30.0, 10.0, ThrottleReason.ERRORS, 0.0),
    ],
)
def test_after_a_brake_nothing_goes_in_for_15_s_and_none_is_pulled_for_30(
    pulled_ago_s: float, errors: float, reason: ThrottleReason | None, left_s: float
) -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - pulled_ago_s, pulls=1, joining=90, errors_per_s=1.0)
    after = window_control.braked(with_errors(a_look(brake=brake), errors))
    assert (after.because.reason if after else None) is reason
    if reason is ThrottleReason.RECOVERING:
        assert after is not None
        assert (after.memory.window, after.because.detail["left_s"]) == (100.0, left_s)


def test_of_a_crowd_the_window_is_not_cut_again() -> None:
    after = window_control.braked(with_errors(a_look(joining=111), 10.0))
    assert after is not None
    assert (after.memory.window, after.phase) == (100.0, Phase.BRAKE)


@pytest.mark.parametrize(
    ("pulls", "joining", "per_s", "index", "is_unmoved"),
    [
        (2, 180, 1.0, 1.0, True),
        (2, 180, 1.25, 1.0, True),
        (2, 180, 1.26, 1.0, False),
        (2, 179, 1.0, 1.0, False),
        (1, 180, 1.0, 1.0, False),
        (2, 180, 1.0, 6.0, False),
    ],
)
def test_errors_that_two_brakes_left_as_they_were_on_calm_servers_are_others(
    pulls: int, joining: int, per_s: float, index: float, is_unmoved: bool
) -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - 40.0, pulls=pulls, joining=joining, errors_per_s=per_s)
    after = window_control.braked(with_errors(a_look(index=(index, index), brake=brake), 10.0))
    assert after is not None
    assert after.because.reason is (ThrottleReason.ERRORS_UNMOVED if is_unmoved else ThrottleReason.ERRORS)
    assert (after.memory.foreign.unmoved_per_s, after.memory.brake.pulls) == (
        (1.0, 0) if is_unmoved else (0.0, pulls + 1)
    )


def test_two_brakes_of_a_scale_up_long_ago_excuse_no_errors_of_this_one() -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - 3600.0, pulls=2, joining=180, errors_per_s=1.0)
    after = window_control.braked(with_errors(a_look(index=(1.0, 1.0), brake=brake), 10.0))
    assert after is not None
    assert (after.because.reason, after.memory.brake.pulls) == (ThrottleReason.ERRORS, 1)


def test_at_the_least_window_errors_pause_it_and_let_it_go_on() -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - 20.0, pulls=1, joining=2, errors_per_s=1.0)
    paused = replace(brake, pulled_s=NOW_S - 14.5)
    still = window_control.braked(with_errors(a_look(2.0, joining=2, brake=paused), 10.0))
    assert still is not None
    assert still.because.reason is ThrottleReason.RECOVERING, "half a second of the pause is left"
    for window, reason in ((2.0, ThrottleReason.FLOOR_PACE), (2.1, ThrottleReason.RECOVERING)):
        after = window_control.braked(with_errors(a_look(window, joining=2, brake=brake), 10.0))
        assert after is not None
        assert (after.because.reason, after.memory.window) == (reason, window)


@pytest.mark.parametrize(("pulled_ago_s", "left_s"), [(None, 15.0), (30.0, 15.0), (10.0, 5.0), (20.0, None)])
def test_with_nothing_in_flight_errors_pause_once_and_cut_nothing(
    pulled_ago_s: float | None, left_s: float | None
) -> None:
    brake = error_brake.Brake(pulled_s=None if pulled_ago_s is None else NOW_S - pulled_ago_s)
    after = window_control.braked(with_errors(a_look(joining=0, brake=brake), 10.0))
    if left_s is None:
        assert after is None
    else:
        assert after is not None
        assert (after.memory.window, after.because.reason) == (100.0, ThrottleReason.IDLE_ERRORS)
        assert after.because.detail["left_s"] == left_s


# --- slow start -------------------------------------------------------------------------------------------------------

ROOMY = Load(idle=(0.1,), remembered=0.001)


@pytest.mark.parametrize(
    ("since_s", "joining", "load", "window", "reason"),
    [
        (39.0, 90, Load(), 100.0, ThrottleReason.WARMING_UP),
        (40.0, 90, Load(), 200.0, ThrottleReason.DOUBLING),
        (40.0, 61, Load(), 152.5, ThrottleReason.DOUBLING),
        (39.0, 90, ROOMY, 540.0, ThrottleReason.UTILISATION),
        (40.0, 90, Load(idle=(0.1,), remembered=0.006), 1.0 / 0.006, ThrottleReason.DOUBLING),
    ],
)
def test_doubles_on_the_joins_own_clock_and_jumps_where_the_cpu_shows_the_way(
    since_s: float, joining: int, load: Load, window: float, reason: ThrottleReason
) -> None:
    """With 0.6 % of a server a join, 117 joins bring it to 80 %, and 167 fill it: doubling ends there."""
    facts = a_look(joining=joining, is_slow_start=True, doubled_s=NOW_S - since_s, load=load)
    after = window_control.slow_start(facts)
    assert after is not None
    assert (after.memory.window, after.because.reason) == (pytest.approx(window), reason)
    assert after.memory.doubled_s == (NOW_S if window > 100 else NOW_S - since_s)
    assert reason is not ThrottleReason.UTILISATION or after.because.detail["load"] == 0.001


@pytest.mark.parametrize(
    "change",
    [
        {"is_slow_start": False},
        {"index": (0.4 * EQUILIBRIUM, 0.4 * EQUILIBRIUM)},
        {"load": Load(idle=(0.1,), remembered=0.7 / 111)},
    ],
    ids=["avoidance", "warm", "filled"],
)
def test_slow_start_ends_where_servers_are_warm_or_filled(change: dict[str, object]) -> None:
    usual: dict[str, object] = {"is_slow_start": True, "doubled_s": 0.0}
    assert window_control.slow_start(a_look(**usual)) is not None  # type: ignore[arg-type]
    assert window_control.slow_start(a_look(**{**usual, **change})) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("cpu", "full_cpu", "is_over"), [(0.79, 1.0, False), (0.8, 1.0, True), (0.4, 0.5, True)])
def test_slow_start_ends_at_four_fifths_of_what_the_busiest_server_has(
    cpu: float, full_cpu: float, *, is_over: bool
) -> None:
    facts = a_look(is_slow_start=True, doubled_s=0.0)
    busy = replace(facts.health.traces[0], cpu=(cpu,), full_cpu=full_cpu)
    calm = replace(busy, server="b", cpu=(0.0,))
    after = window_control.slow_start(replace(facts, health=replace(facts.health, traces=(busy, calm))))
    assert (after is None) is is_over


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"joining": 59}, ThrottleReason.NOT_FILLED),
        ({"waiting": 0}, ThrottleReason.NO_DEMAND),
        ({"is_controller_bound": True}, ThrottleReason.WARMING_UP),
        ({"is_new": False}, ThrottleReason.WARMING_UP),
        ({"joining": 0, "join_time": JoinTime()}, ThrottleReason.STARTING),
        ({"joining": 0, "join_time": JoinTime(), "knee": Knee(window=50.0, at_s=0.0)}, ThrottleReason.REMEMBERED),
    ],
)
def test_slow_start_waits_for_demand_for_a_filled_window_and_for_news(
    change: dict[str, object], reason: ThrottleReason
) -> None:
    after = window_control.slow_start(a_look(**{"is_slow_start": True, "doubled_s": 0.0, **change}))  # type: ignore[arg-type]
    assert after is not None
    assert (after.memory.window, after.because.reason) == (100.0, reason)


@pytest.mark.parametrize(
    ("memory", "window", "is_slow_start"),
    [
        ({}, 24.0, True),
        ({"knee": Knee(window=100.0, at_s=NOW_S, is_proven=True)}, 115.0, False),
        ({"knee": Knee(window=100.0, at_s=NOW_S), "load": ROOMY}, 600.0, True),
        ({"knee": Knee(window=200.0, at_s=NOW_S), "load": ROOMY}, 700.0, False),
        ({"knee": Knee(window=100.0, at_s=NOW_S, is_proven=True), "load": ROOMY}, 115.0, True),
        ({"knee": Knee(window=10.0, at_s=NOW_S)}, 24.0, False),
    ],
)
def test_a_scale_up_begins_with_what_was_learned(memory: dict[str, object], window: float, is_slow_start: bool) -> None:
    """Up to six times what did no harm where the CPU has room; a knee that was met is the limit."""
    facts = a_look(joining=0, is_idle=True, join_time=JoinTime(least_s=80.0), **memory)  # type: ignore[arg-type]
    begun = window_control.steered(facts).memory
    assert (begun.window, begun.is_idle, begun.doubled_s) == (pytest.approx(window), False, NOW_S)
    assert begun.is_slow_start is is_slow_start


def test_prompt_joins_begin_with_half_of_what_was_learned() -> None:
    for knee, window in ((100.0, 57.5), (30.0, 24.0)):
        known = Knee(window=knee, at_s=NOW_S, is_proven=True)
        facts = a_look(joining=0, is_idle=True, join_time=JoinTime(least_s=5.0), knee=known)
        assert window_control.steered(facts).memory.window == pytest.approx(window)


def test_between_two_scale_ups_the_window_is_what_the_next_one_begins_with() -> None:
    facts = a_look(joining=0, waiting=0, knee=Knee(window=100.0, at_s=NOW_S, is_proven=True), blind_since_s=1.0)
    idle = window_control.steered(facts)
    assert (idle.memory.window, idle.phase, idle.memory.is_idle) == (pytest.approx(115), Phase.IDLE, True)
    assert idle.memory.blind_since_s is None


def test_pods_that_fit_nowhere_are_told_while_nothing_else_is_wanted() -> None:
    facts = a_look(joining=0, waiting=0)
    assert window_control.steered(facts).because.reason is ThrottleReason.IDLE
    lost = replace(facts, joins=replace(facts.joins, hopeless_pods=2))
    assert window_control.steered(lost).because.detail["pods"] == 2


def test_a_scale_up_whose_joins_are_known_does_not_begin_a_second_time() -> None:
    after = window_control.slow_start(a_look(joining=0, is_slow_start=True, doubled_s=0.0))
    assert after is not None
    assert after.because.reason is ThrottleReason.NOT_FILLED


def test_of_waves_the_crest_that_was_felt_is_what_the_next_one_begins_with() -> None:
    flow = JoinFlow()
    for at_s, joining in ((NOW_S - 21.0, 60), (NOW_S - 14.0, 30), (NOW_S - 7.0, 30), (NOW_S, 0)):
        flow = with_counts(flow, Joins(joining=joining), at_s)
    waves = LawSettings(has_gate=False)
    facts = a_look(joining=0, settings=waves, flow=flow, join_time=JoinTime(now_s=20.0, least_s=20.0))
    assert facts.has_waves
    assert facts.steady_window == 60, "not the 30 of the mean: a wave of 30 would begin at half of what was borne"
    assert replace(facts, memory=replace(facts.memory, window=20.0)).steady_window == 20
    assert a_look(joining=17, waiting=1).steady_window == pytest.approx(20), "with a gate, what was let in"


@pytest.mark.parametrize(("idle_per_s", "unmoved_per_s"), [(1.0, 0.0), (0.0, 1.0), (0.5, 1.0)])
def test_errors_that_others_may_be_expected_to_cause_are_none_of_joins(idle_per_s: float, unmoved_per_s: float) -> None:
    """Ten are expected in ten seconds, and 9.5 more are still their scatter."""
    idle = error_brake.IdleErrors(samples=((NOW_S - 100.0, idle_per_s),))
    foreign = error_brake.ForeignErrors(servers=idle, unmoved_per_s=unmoved_per_s)
    (ours,) = foreign.ours(with_errors(a_look(), 25.0).health, NOW_S)
    assert ours.errors == pytest.approx(25 - 10 - 3 * 10**0.5)
    (none,) = foreign.ours(with_errors(a_look(), 19.0).health, NOW_S)
    assert none.errors == 0


def test_what_others_swing_by_bounds_what_is_ordered_for_good() -> None:
    swinging = Load(idle=(0.1, 0.3), remembered=0.01)
    assert committed_at(swinging, 1.0, 0.0, 0) == pytest.approx(80)
    assert committed_at(swinging, 1.0, 0.0, 10) == pytest.approx(40)
    assert committed_at(Load(), 1.0, 0.0, 10) is None


def test_a_night_without_joins_forgets_nothing_of_how_quick_they_are() -> None:
    """The last ones of yesterday queued. The first of today would go in as if joins were slow, all at once."""
    loop = Loop()
    quick = Joins(joining=5, joined=20, join_s=8.0)
    loop.calm(quick, times=3)
    loop.calm(replace(quick, join_s=30.0), times=12)
    known_s = loop.memory.join_time.least_s or 0.0
    assert known_s < 9.0
    # An hour of it: each look would forget a little.
    loop.calm(Joins(joined=40, join_s=30.0), times=720)
    assert loop.memory.join_time.least_s == known_s


def test_the_least_join_time_drifts_with_the_time_between_two_looks() -> None:
    facts = a_look(looked_s=NOW_S - 360.0)
    joins = replace(facts.joins, join_s=120.0)
    after = govern.observed(facts.memory, facts.health, joins, SETTINGS, NOW_S)
    assert after.join_time == JoinTime(now_s=120.0, least_s=pytest.approx(88))


@pytest.mark.parametrize(("learned", "least_s"), [(None, 120.0), (Learned(join_s=80.0), 80.0)])
def test_the_first_look_of_a_process_lets_no_join_time_drift(learned: Learned | None, least_s: float) -> None:
    facts = a_look()
    joins = replace(facts.joins, join_s=120.0)
    first = govern.observed(LawMemory.start(learned), facts.health, joins, SETTINGS, NOW_S)
    assert first.join_time == JoinTime(now_s=120.0, least_s=least_s)


def test_a_pause_for_errors_of_others_is_no_brake_in_a_row() -> None:
    after = window_control.braked(with_errors(a_look(joining=0), 10.0))
    assert after is not None
    paused = after.memory.brake
    again = paused.pulled(NOW_S + 40.0, 90, 1.0)
    assert (paused.pulls, again) == (0, error_brake.Brake(pulled_s=NOW_S + 40.0, pulls=1, joining=90, errors_per_s=1.0))


def test_a_silent_server_says_what_is_wrong_with_it() -> None:
    good = Reading(server="a", ended_s=NOW_S - 60.0, span_s=10.0, requests=100.0, errors=0.0)
    odd = replace(good, ended_s=NOW_S, errors=float("nan"))
    for reading, problem in ((good, "its newest reading is 60 s old"), (odd, "its figures make no sense")):
        lost = examine(Signals(readings=(reading,)), (), NOW_S).silent
        assert lost is not None
        assert lost.problem == problem


def test_a_brake_does_not_keep_a_knee_from_being_learned_nor_does_blindness_that_is_over_last() -> None:
    facts = a_look(
        index=(EQUILIBRIUM, EQUILIBRIUM), knee=Knee(window=50.0, is_proven=True, at_s=NOW_S), blind_since_s=1.0
    )
    after = window_control.steered(with_errors(facts, 10.0))
    assert after.because.reason is ThrottleReason.ERRORS
    assert (after.memory.knee.window, after.memory.blind_since_s) == (pytest.approx(55), None)


@pytest.mark.parametrize(
    ("per_request", "window"), [(0.00096, 100.0), (0.0048, 24.0), (0.0096, 20.0), (0.032, 6.0), (0.096, 4.0)]
)
def test_a_cold_start_tries_no_more_than_joins_may_cost_and_at_least_four(per_request: float, window: float) -> None:
    """A server that is idle to 80 % and may be used to 80 %; joins of 250 requests and 80 s."""
    load = Load(idle=(0.2,), per_request=(per_request,))
    begun = window_control.steered(a_look(joining=0, is_idle=True, join_time=JoinTime(), load=load))
    assert begun.memory.window == pytest.approx(window)


def test_without_new_readings_the_window_does_not_move() -> None:
    for index in (1.0, 3 * EQUILIBRIUM):
        assert window_control.avoidance(a_look(index=(index, index), is_new=False)).memory.window == 100.0


@pytest.mark.parametrize("change", [{}, {"is_slow_start": True, "doubled_s": 0.0}], ids=["avoidance", "slow start"])
def test_a_window_at_its_maximum_says_so_and_grows_no_further(change: dict[str, object]) -> None:
    for maximum, reason in ((100.0, ThrottleReason.AT_MAXIMUM), (100.5, None)):
        facts = a_look(settings=replace(SETTINGS, window_max=maximum), **change)  # type: ignore[arg-type]
        after = window_control.steered(facts)
        assert after.memory.window == maximum
        assert after.because.reason in ({reason} if reason else {ThrottleReason.PROBING_UP, ThrottleReason.DOUBLING})


def test_what_calm_servers_bear_of_a_crowd_is_no_more_than_the_maximum() -> None:
    flow = with_counts(with_counts(JoinFlow(), Joins(), NOW_S - 70.0), Joins(joining=150), NOW_S - 60.0)
    facts = a_look(settings=replace(SETTINGS, window_max=120.0), joining=150, flow=flow)
    assert facts.borne == 150
    after = window_control.avoidance(facts)
    assert (after.memory.window, after.because.reason) == (120.0, ThrottleReason.PROBING_UP)
    assert after.because.detail["window"] == 120.0


def test_of_waves_the_window_grows_to_a_quarter_more_than_the_highest_crest() -> None:
    flow = with_counts(JoinFlow(), Joins(joining=82), NOW_S - 15.0)
    facts = a_look(settings=LawSettings(has_gate=False), flow=flow, join_time=JoinTime(now_s=20.0, least_s=20.0))
    assert facts.has_waves
    # 20 s joins adapt in 5 s: two steps of 8 %.
    assert window_control.avoidance(facts).memory.window == pytest.approx(82 * 1.25)
    lower = replace(facts, memory=replace(facts.memory, flow=with_counts(JoinFlow(), Joins(joining=70), NOW_S - 15.0)))
    assert window_control.avoidance(lower).memory.window == 100.0, "and is not cut to it"


def test_a_pause_of_the_service_counts_as_half_a_minute() -> None:
    memory = LawMemory(window=100.0, is_idle=False, looked_s=NOW_S - 100.0, blind_since_s=NOW_S - 100.0)
    _, after = govern.govern(Signals(), Joins(waiting=9, joining=90), memory, SETTINGS, NOW_S)
    assert after.window == pytest.approx(100 * 0.5 ** (30 / 120))


def test_delays_are_kept_for_five_minutes() -> None:
    facts = a_look(index=(1.0, 2.0), delays=((NOW_S - 300.1, 9.0), (NOW_S - 300.0, 7.0)))
    after = govern.observed(facts.memory, facts.health, facts.joins, SETTINGS, NOW_S)
    assert after.delays == ((NOW_S - 300.0, 7.0), (NOW_S, 2 * CALM_S))
    unseen = with_health(facts, new=())
    assert govern.observed(facts.memory, unseen.health, facts.joins, SETTINGS, NOW_S).delays == ((NOW_S - 300.0, 7.0),)


def test_what_a_join_takes_is_forgotten_with_half_a_join() -> None:
    """A look 40 s after the last: e^-1 of what 50 joins told is left when 90 joins are seen to take half a server."""
    slope = Slope(sum_xy=50 * 0.2, sum_xx=50 * 50.0)
    facts = a_look(load=Load(idle=(0.1,), slope=slope), looked_s=NOW_S - 40.0)
    flow = JoinFlow()
    for ago_s in (40.0, 30.0, 20.0, 10.0):
        flow = with_counts(flow, Joins(joining=90), NOW_S - ago_s)
    facts = replace(facts, memory=replace(facts.memory, flow=flow))
    busy = with_health(facts, traces=tuple(replace(trace, cpu=(0.6,)) for trace in facts.health.traces))
    after = govern.observed(facts.memory, busy.health, facts.joins, SETTINGS, NOW_S).load.slope
    kept = 2.718281828**-1
    assert after.sum_xx == pytest.approx(kept * 2500 + 8100)
    assert after.sum_xy == pytest.approx(kept * 10 + 90 * 0.5)
    full = with_health(facts, traces=tuple(replace(trace, cpu=(0.98,)) for trace in facts.health.traces))
    assert govern.observed(facts.memory, full.health, facts.joins, SETTINGS, NOW_S).load.slope == slope, "saturated"


def test_errors_on_servers_whose_delay_is_not_known_are_taken_for_ours() -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - 40.0, pulls=2, joining=180, errors_per_s=1.0)
    after = window_control.braked(with_health(with_errors(a_look(brake=brake), 10.0), traces=()))
    assert after is not None
    assert after.because.reason is ThrottleReason.ERRORS


@pytest.mark.parametrize(("blind_s", "window"), [(59.9, 100.0), (60.0, 50.0), (64.9, 50.0), (65.0, 100.0)])
def test_without_a_time_to_fall_in_the_window_halves_as_the_hold_ends(blind_s: float, window: float) -> None:
    at_once = replace(SETTINGS, stale_drift_s=0.0)
    assert window_control.drifted(100.0, blind_s, 5.0, at_once) == window


def test_of_joins_that_were_not_seen_long_enough_nothing_is_learned() -> None:
    facts = with_health(a_look(load=Load(idle=(0.1,)), flow=JoinFlow(), looked_s=NOW_S - 5.0))
    busy = with_health(facts, traces=tuple(replace(trace, cpu=(0.6,)) for trace in facts.health.traces))
    after = govern.observed(facts.memory, busy.health, facts.joins, SETTINGS, NOW_S)
    assert after.load == facts.memory.load


def test_no_machine_is_late_where_a_count_is_below_zero() -> None:
    sane = govern.sane(Joins(booting=5, late_booting=-1, joining=4, late_joining=-1, released=-1, lost=-1))
    assert (sane.booting, sane.joining, sane.released, sane.lost) == (5, 4, 0, 0)
    assert govern.sane(Joins(booting=-1, late_booting=1, joining=-1, late_joining=1)) == Joins()
