import math
from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import (
    CALM_S,
    EQUILIBRIUM,
    NOW_S,
    SETTINGS,
    STEP_S,
    Loop,
    a_look,
    begun,
    reading,
    with_health,
)
from throttler.joins.joins import Joins
from throttler.law import window_control
from throttler.law.govern import govern, observed
from throttler.law.join_model import JoinFlow, Load, with_counts
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.law.window_formulas import Knee
from throttler.signals.reading import Alarm, Signals, SilentServer

HOT_S = 3.0 * EQUILIBRIUM * CALM_S


def test_idles_and_learns_its_baseline_while_nothing_is_wanted() -> None:
    loop = Loop()
    verdict = loop.calm(Joins(), times=10)
    assert verdict.phase is Phase.IDLE
    assert learned_of(loop.memory, loop.now_s).baseline_s == pytest.approx(CALM_S)


def test_begins_cold_in_slow_start_with_the_initial_window() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    verdict = loop.calm(Joins(waiting=500))
    assert (verdict.phase, verdict.window) == (Phase.SLOW_START, 24)
    assert 0 < verdict.allowance <= 500


def test_begins_warm_near_the_knee_that_was_learned() -> None:
    loop = Loop(memory=LawMemory.start(Learned(window=200, join_s=80, age_s=3600)))
    verdict = loop.calm(Joins(waiting=500))
    assert verdict.phase is Phase.AVOID
    assert 225 < verdict.window <= 1.15 * 200


def test_age_of_what_was_learned_does_not_depend_on_where_the_clock_starts() -> None:
    windows = set()
    for start_s in (0.0, 1e7):
        loop = Loop(memory=LawMemory.start(Learned(window=200, age_s=60)), now_s=start_s)
        windows.add(round(loop.calm(Joins(waiting=500)).window, 6))
    assert len(windows) == 1


def test_one_high_sample_is_no_equilibrium_and_says_so() -> None:
    loop, joins = begun()
    loop.calm(joins, times=3)
    window = loop.memory.window or 0.0
    once = loop.calm(joins, latency_s=HOT_S)
    assert once.because.code == ThrottleReason.HIGH_ONCE.code
    assert (f"{HOT_S / CALM_S:.1f}" in once.because.sentence, once.window) == (True, window)
    assert loop.calm(joins, latency_s=HOT_S).because.code == ThrottleReason.BACKING_OFF.code
    assert loop.calm(joins).window < window


def test_samples_on_both_sides_of_the_equilibrium_are_the_equilibrium() -> None:
    loop, joins = begun()
    loop.calm(joins, times=2, latency_s=0.8 * EQUILIBRIUM * CALM_S)
    verdict = loop.calm(joins, latency_s=1.2 * EQUILIBRIUM * CALM_S)
    assert verdict.because.code == ThrottleReason.AT_EQUILIBRIUM.code


def test_doubles_after_half_a_join_and_not_before() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=500, held=100, joining=24, join_s=80.0, joined=1)
    windows = [loop.calm(joins).window for _ in range(9)]
    assert windows[:7] == [24] * 7
    assert windows[8] == 48


def test_doubles_after_two_scrapes_where_joins_are_quick() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=500, held=100, joining=24, join_s=8.0, joined=1)
    windows = [loop.calm(joins, span_s=5.0).window for _ in range(3)]
    assert windows[0] == 24
    assert windows[2] == 48


def test_grows_while_calm_and_cuts_when_two_samples_are_hot() -> None:
    loop, joins = begun()
    assert loop.calm(joins).window > 100
    grown = loop.calm(joins).window
    assert loop.calm(joins, latency_s=HOT_S).window == grown
    cut = loop.calm(joins, latency_s=HOT_S)
    # 10 % below what would have let in the 90 that are in flight.
    assert cut.window == pytest.approx(0.9 * 90 / LawSettings().pacing)
    assert cut.because.reason is ThrottleReason.BACKING_OFF


def test_waits_for_a_cut_to_show_before_the_next() -> None:
    loop, joins = begun()
    loop.calm(joins, times=2, latency_s=HOT_S)
    after_cut = loop.memory.window
    assert loop.calm(joins, latency_s=HOT_S).window == after_cut
    assert loop.calm(joins, times=5, latency_s=HOT_S).window < (after_cut or 0)


def test_lets_fewer_in_while_delay_is_up() -> None:
    calm, joins = begun(joining=50)
    hot, _ = begun(joining=50)
    for _ in range(4):
        calm_admit = calm.calm(joins).admit
        hot_admit = hot.calm(joins, latency_s=HOT_S).admit
    assert hot_admit < calm_admit


def test_same_reading_counts_once() -> None:
    loop, joins = begun()
    signals = Signals(readings=(reading(loop.now_s + STEP_S),))
    grown = loop.look(signals, joins).window
    assert [loop.look(signals, joins).window for _ in range(3)] == [grown] * 3


def test_does_not_grow_without_demand_or_with_an_unused_window() -> None:
    loop, joins = begun()
    assert loop.calm(replace(joins, held=0)).window == 100
    loop, joins = begun(joining=30)
    assert loop.calm(joins, times=4).window == 100


def test_errors_halve_what_was_in_flight_and_stop_admissions() -> None:
    loop, joins = begun(joining=60)
    verdict = loop.calm(joins, errors=6.0)
    assert (verdict.phase, verdict.window, verdict.admit, verdict.allowance) == (Phase.BRAKE, 30, 0, 0)
    assert loop.calm(joins).admit == 0


def test_brakes_once_per_30_s_and_only_when_the_window_let_something_in() -> None:
    loop, joins = begun(joining=60)
    windows = [loop.calm(replace(joins, joining=20), errors=20.0).window for _ in range(8)]
    assert windows[0] == 12
    crowded, joins = begun(joining=60)
    windows = [crowded.calm(joins, errors=20.0).window for _ in range(20)]
    assert set(windows) == {30.0}


def test_few_errors_or_a_small_share_do_not_brake() -> None:
    loop, joins = begun()
    assert loop.calm(joins, errors=4.0).phase is not Phase.BRAKE
    assert loop.calm(joins, requests=10_000.0, errors=9.0).phase is not Phase.BRAKE


def test_holds_for_a_minute_when_blind_then_falls_to_half() -> None:
    loop, joins = begun(joining=90)
    held = loop.blind(joins, times=13)
    assert (held.phase, held.window, held.because.reason) == (Phase.STALE, 90, ThrottleReason.SIGNALS_LOST)
    falling = loop.blind(joins)
    assert (falling.window < 90, falling.because.reason) == (True, ThrottleReason.SIGNALS_STALE)
    assert loop.blind(joins, times=42).window == pytest.approx(45)


def test_who_is_blind_says_since_when_no_server_was_heard() -> None:
    """It said 0 s at first: the last reading had been used until it was half a minute old."""
    loop, joins = begun()
    last = Signals(readings=(reading(loop.now_s),))
    loop.now_s += 30.0
    assert loop.look(last, joins).because.detail["age_s"] == 35.0
    assert loop.blind(joins).because.detail["age_s"] == 40.0


def test_delays_of_five_minutes_are_remembered_one_for_each_look_with_a_new_reading() -> None:
    loop = Loop()
    loop.calm(Joins(waiting=5), times=80)
    ages_s = [loop.now_s - at_s for at_s, _ in loop.memory.delays]
    assert ages_s == [5.0 * look for look in range(60, -1, -1)]
    loop.look(Signals(readings=(reading(loop.now_s),)), Joins(waiting=5))
    assert loop.memory.delays[-1][0] == loop.now_s - STEP_S, "the same reading again"


def test_the_baseline_is_learned_from_readings_that_began_after_the_last_join() -> None:
    """Of 10 s each: those of the first two looks after it began before."""
    loop, joins = begun()
    before = loop.memory.baseline
    loop.calm(replace(joins, held=0, joining=1), times=2, latency_s=0.2)
    loop.calm(Joins(), times=2, latency_s=0.2)
    assert loop.memory.baseline == before
    loop.calm(Joins(), latency_s=0.2)
    assert loop.memory.baseline.samples[-1][0] == loop.now_s


def test_reading_older_than_30_s_is_no_reading() -> None:
    loop, joins = begun()
    old = Signals(readings=(reading(loop.now_s - 31),))
    assert loop.look(old, joins).phase is Phase.STALE


def test_blind_from_the_start_still_lets_some_in() -> None:
    loop = Loop()
    verdict = loop.blind(Joins(waiting=100, held=10))
    assert verdict.phase is Phase.STALE
    assert verdict.admit >= 1


def test_silent_server_costs_its_share_once_and_stops_growth() -> None:
    loop, joins = begun()
    silent = (SilentServer(server="b", problem="no answer", since_s=loop.now_s),)
    windows = [
        loop.look(Signals(readings=(reading(loop.now_s + STEP_S),), silent=silent), joins).window for _ in range(5)
    ]
    assert windows == [50.0] * 5


def test_alarm_counts_as_congestion() -> None:
    loop, joins = begun()
    alarms = (Alarm(name="cni", value=0.9, threshold=0.8),)
    signals = Signals(readings=(reading(loop.now_s + STEP_S),), alarms=alarms)
    verdict = loop.look(signals, joins)
    assert verdict.window == pytest.approx(85)
    assert verdict.because.reason is ThrottleReason.ALARM


def test_names_the_controller_manager_and_does_not_grow_into_it() -> None:
    loop, joins = begun()
    verdict = loop.calm(replace(joins, is_controller_bound=True))
    assert verdict.window == 100
    assert verdict.because.reason is ThrottleReason.CONTROLLER_MANAGER


def test_held_machine_near_its_limit_goes_in_whatever_delay_says() -> None:
    loop, joins = begun(joining=100)
    near = replace(joins, held=10, oldest_held_s=590.0)
    for verdict in (loop.blind(near), loop.calm(near, latency_s=HOT_S)):
        assert verdict.admit >= 1
        assert verdict.because.reason is ThrottleReason.DEADLINE


def test_held_machine_near_its_limit_waits_while_servers_answer_with_errors() -> None:
    loop, joins = begun(joining=100)
    verdict = loop.calm(replace(joins, held=10, oldest_held_s=590.0), errors=50.0)
    assert verdict.admit == 0
    assert verdict.because.reason is ThrottleReason.ERRORS


def full_stock(max_in_flight: int = 100_000, max_per_min: float = 6000.0) -> tuple[Loop, Joins]:
    """A window at its bound, and as many machines asked for as the law allows."""
    loop, _ = begun(window_max=100, max_in_flight=max_in_flight, max_per_min=max_per_min)
    joins = Joins(waiting=900, joining=90, joined=100, join_s=80.0)
    while more := loop.calm(joins).allowance:
        joins = replace(joins, booting=joins.booting + more)
    return loop, joins


def test_urgent_demand_has_its_own_lane_beyond_a_full_stock() -> None:
    loop, full = full_stock()
    assert loop.calm(full).allowance == 0
    assert loop.calm(replace(full, urgent=5)).allowance == 2


@pytest.mark.parametrize("has_gate", [False, True])
def test_a_cluster_of_small_jobs_has_no_more_on_the_way_than_fit_beside_the_reserve(*, has_gate: bool) -> None:
    """Where no lever acts at the join, the lane opened by the reserve at each look: 300 machines were on their way."""
    flights = []
    for urgent in (0, 300):
        loop, booting = Loop(settings=replace(SETTINGS, reserved_nodes=2, has_gate=has_gate)), 0
        loop.calm(Joins(), times=10)
        for _ in range(100):
            booting += loop.calm(Joins(waiting=300, urgent=urgent, booting=booting)).allowance
        flights.append(booting)
    assert flights[0] < flights[1] <= (flights[0] + 2 if has_gate else 1.1 * flights[0])


def test_urgent_demand_keeps_to_the_users_bound_on_what_is_in_flight() -> None:
    loop, full = full_stock(max_in_flight=101)
    assert loop.calm(replace(full, urgent=5)).allowance == 0
    assert loop.calm(replace(full, urgent=5, booting=full.booting - 1)).allowance == 1


def test_urgent_demand_keeps_to_the_users_pace() -> None:
    loop, full = full_stock(max_per_min=6.0)
    assert sum(loop.calm(replace(full, booting=900, urgent=5)).allowance for _ in range(12)) <= 6


def test_a_ceiling_stands_open_for_demand_that_is_not_seen_yet() -> None:
    verdicts = []
    for waiting in (3, 500):
        loop = Loop()
        loop.calm(Joins(), times=10)
        verdicts.append(loop.calm(Joins(waiting=waiting)))
    few, many = verdicts
    assert (few.allowance, many.spare) == (3, 0)
    assert few.allowance + few.spare == many.allowance


def test_nothing_is_spare_under_the_users_pace() -> None:
    loop = Loop(settings=LawSettings(max_per_min=6.0))
    loop.calm(Joins(), times=10)
    assert loop.calm(Joins(waiting=3)).spare == 0


def test_prompt_joins_begin_warm_with_half_the_knee_and_double_to_it() -> None:
    loop = Loop(memory=LawMemory.start(Learned(window=200, join_s=5, age_s=60, is_proven=True)))
    loop.calm(Joins(), times=10)
    verdict = loop.calm(Joins(held=500))
    assert 110 < verdict.window < 120
    windows = [loop.calm(Joins(held=500, joining=115, joined=10, join_s=5.0)).window for _ in range(6)]
    assert max(windows) > 200


def test_a_first_look_at_nothing_does_not_lose_what_was_learned() -> None:
    loop = Loop(memory=LawMemory.start(Learned(window=200, join_s=80, age_s=3600, is_proven=True)))
    assert loop.blind(Joins(waiting=500), times=3).window <= 2
    verdict = loop.calm(Joins(waiting=500))
    assert verdict.window > 200


@pytest.mark.parametrize(
    ("arrive", "index", "is_passed"),
    [
        pytest.param(10, 1.0, True, id="felt and calm"),
        pytest.param(6, 1.0, False, id="no more than a swing around it"),
        pytest.param(10, 0.6 * EQUILIBRIUM, False, id="not calm"),
        pytest.param(0, 1.0, False, id="old joins load no more"),
    ],
)
def test_a_knee_that_calm_servers_have_left_far_behind_limits_no_later_scale_up(
    arrive: int, index: float, *, is_passed: bool
) -> None:
    loop, joins = begun(joining=160)
    loop.calm(joins, times=20)
    loop.memory = replace(loop.memory, window=250.0, knee=Knee(window=50.0, at_s=loop.now_s, is_proven=True))
    for _ in range(14):
        joins = replace(joins, joining=joins.joining + arrive)
        loop.calm(joins, latency_s=index * CALM_S)
    assert learned_of(loop.memory, loop.now_s).is_proven is not is_passed


def test_calm_after_a_burst_of_prompt_joins_is_no_leave_to_double() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    burst = Joins(waiting=100, joining=24, joined=3, join_s=2.0)
    loop.calm(burst, latency_s=HOT_S)
    over = replace(burst, joining=1, joined=26)
    window = loop.calm(over, times=3).window
    assert window == 24
    assert loop.calm(replace(burst, joined=27), times=6).window > 24, "under load the calm is a proof"


def test_machines_that_register_before_they_are_held_are_not_all_asked_for_at_once() -> None:
    asked = {}
    for freely in (True, False):
        loop = Loop(settings=LawSettings(registers_freely=freely))
        loop.calm(Joins(), times=10)
        asked[freely] = loop.calm(Joins(waiting=500)).allowance
    assert asked[True] == 2 * LawSettings().window_initial < asked[False]


@pytest.mark.parametrize("stage", ["booting", "joining"])
def test_late_machines_are_lost_as_far_as_the_window_goes(stage: str) -> None:
    """They hold no room and are no use of the window: all is as if their timer had ended."""
    told: list[Verdict] = []
    for end in ({stage: 24, f"late_{stage}": 24}, {"lost": 24}):
        loop = Loop(settings=LawSettings(has_gate=False))
        loop.calm(Joins(), times=10)
        usual = Joins(waiting=500, join_s=60.0, boot_s=60.0)
        loop.calm(replace(usual, **{stage: 24}), times=40)
        told.append(loop.calm(replace(usual, **end), times=10))
    assert told[0].allowance > 0
    assert told[0] == told[1]


def test_late_machines_count_for_the_hard_bound() -> None:
    loop = Loop(settings=LawSettings(has_gate=False, max_in_flight=30))
    loop.calm(Joins(), times=10)
    dead = Joins(waiting=500, urgent=2, booting=28, late_booting=28, joined=10, join_s=60.0, boot_s=60.0)
    assert loop.calm(dead, times=5).allowance == 2
    assert loop.calm(replace(dead, booting=30, late_booting=30), times=5).allowance == 0


def test_without_a_gate_nothing_is_admitted_and_asks_are_spread() -> None:
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    asked = 0
    for _ in range(16):
        verdict = loop.calm(Joins(waiting=500 - asked, booting=asked))
        assert verdict.admit == 0
        asked += verdict.allowance
    assert 12 <= asked <= 72


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("field", ["latency_s", "cpu_share", "requests", "errors", "queue_wait_s"])
def test_figure_that_makes_no_sense_is_a_silent_server(field: str, figure: float) -> None:
    loop, joins = begun()
    verdict = loop.calm(joins, times=8, **{field: figure})
    assert verdict.phase is Phase.STALE
    assert verdict.window <= 100


def test_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="now_s"):
        govern(Signals(), Joins(), LawMemory.start(), LawSettings(), math.nan)


def test_clock_that_goes_back_changes_nothing() -> None:
    loop, joins = begun()
    window = loop.calm(joins).window
    verdict, _ = govern(Signals(readings=(reading(loop.now_s),)), joins, loop.memory, loop.settings, loop.now_s - 500)
    assert verdict.window == window


def test_learns_the_knee_and_gives_it_away() -> None:
    loop, joins = begun()
    loop.calm(joins, times=5, latency_s=0.8 * EQUILIBRIUM * CALM_S)
    learned = learned_of(loop.memory, loop.now_s)
    assert learned.window is not None
    assert 100 <= learned.window < 120
    assert (learned.join_s, learned.boot_s) == (80.0, 120.0)


def test_a_cold_start_tries_half_of_what_idle_servers_seem_to_bear() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10, requests=400.0, cpu_share=0.1)
    # 0.7 of the CPU is free, a request takes 2.5 ms, a join 250 requests and 80 s: 90 joins at a time.
    assert loop.calm(Joins(waiting=500), requests=400.0, cpu_share=0.1).window == pytest.approx(45, rel=0.02)


@pytest.mark.parametrize(
    ("cpu", "most", "has_gate", "window"),
    [
        pytest.param(0.02, 5000, True, 48.0, id="quiet, behind a gate"),
        pytest.param(0.02, 5000, False, 24.0, id="quiet, and nothing holds back what comes"),
        pytest.param(0.02, 30, True, 30.0, id="the user's bound"),
        pytest.param(None, 5000, True, 24.0, id="the CPU is not told"),
    ],
)
def test_a_cold_start_behind_a_gate_tries_twice_as_much_on_quiet_servers(
    cpu: float | None, most: float, *, has_gate: bool, window: float
) -> None:
    """Fewer than 20 requests a second tell nothing of what one costs. Real: twice as much at once only met errors."""
    loop = Loop(settings=LawSettings(has_gate=has_gate, window_max=most))
    loop.calm(Joins(), times=10, requests=100.0, cpu_share=cpu)
    assert loop.calm(Joins(waiting=500), requests=100.0, cpu_share=cpu).window == window


def test_waves_rest_at_less_delay_than_what_a_gate_lets_in() -> None:
    patient = {has_gate: LawSettings(has_gate=has_gate).with_patience(0.02).equilibrium for has_gate in (True, False)}
    assert patient == pytest.approx({True: 60.0, False: 45.0})


def test_a_day_of_looks_is_remembered_in_no_more_than_its_latest_part() -> None:
    loop, joins = Loop(), Joins(held=500, joining=20, joined=100, join_s=80.0, boot_s=120.0)
    loop.calm(Joins(), times=200)
    loop.calm(joins, times=400)
    memory = loop.memory
    assert len(memory.delays) == 300 // 5 + 1
    assert len(memory.flow.points) == 900 // 5 + 1
    assert len(memory.baseline.samples) == len(memory.foreign.servers.samples) == 180 // 5 + 1
    assert len(memory.load.idle) <= 20


def test_what_only_our_own_requests_met_tells_nothing_of_idle_servers() -> None:
    facts = a_look(joining=0, quiet_since_s=0.0, load=Load(idle=(0.1,)))
    busy = tuple(replace(trace, cpu=(0.6,)) for trace in facts.health.traces)
    for new, idle in ((facts.health.new, (0.1, 0.6)), ((), (0.1,))):
        health = replace(facts.health, new=new, new_own=facts.health.new, traces=busy)
        after = observed(facts.memory, health, facts.joins, SETTINGS, NOW_S)
        assert after.load.idle == idle
        assert (after.baseline == facts.memory.baseline) is not new


@pytest.mark.parametrize(
    ("is_slow_start", "joining", "phase", "reason"),
    [
        (True, 0, Phase.SLOW_START, ThrottleReason.STARTING),
        (True, 5, Phase.SLOW_START, ThrottleReason.UNKNOWN_LOAD),
        (False, 5, Phase.AVOID, ThrottleReason.UNKNOWN_LOAD),
    ],
)
def test_while_no_request_tells_of_the_load_the_window_stays(
    *, is_slow_start: bool, joining: int, phase: Phase, reason: ThrottleReason
) -> None:
    assert window_control.unknown(a_look(is_slow_start=is_slow_start, joining=joining)) is None
    facts = with_health(a_look(is_slow_start=is_slow_start, joining=joining), traces=())
    after = window_control.unknown(facts)
    assert after is not None
    assert (after.phase, after.because.reason) == (phase, reason)
    assert (after.memory.window, after.memory.moved_s) == (100.0, NOW_S)


def test_idle_servers_that_answer_no_such_request_tell_their_cpu_and_no_baseline() -> None:
    facts = a_look(joining=0, quiet_since_s=0.0)
    mute = tuple(replace(trace, delay_s=None, before_s=None, cpu=(0.3,)) for trace in facts.health.traces)
    after = observed(facts.memory, with_health(facts, traces=mute).health, facts.joins, SETTINGS, NOW_S)
    assert (after.load.idle, after.baseline) == ((0.3,), facts.memory.baseline)


def test_a_look_tells_the_delay_that_two_windows_agree_on_and_the_worst_share_of_errors() -> None:
    """With one window it is that one's; the baseline is 0.04 s."""
    memory, told = LawMemory.start(Learned(baseline_s=CALM_S)), []
    for second, latency_s, errors in ((10.0, 2.0, 0.0), (20.0, 3.0, 1.0), (30.0, 3.0, 4.0)):
        signals = Signals(readings=(reading(second, latency_s=latency_s * CALM_S, errors=errors),))
        verdict, memory = govern(signals, Joins(waiting=5, joining=1), memory, LawSettings(), second)
        told.append((verdict.index, verdict.error_share))
    assert told == [(pytest.approx(2.0), 0.0), (pytest.approx(2.0), 0.01), (pytest.approx(3.0), 0.04)]
    blind, _ = govern(Signals(), Joins(waiting=5), memory, LawSettings(), 99.0)
    assert blind.error_share == 0.0


def test_what_was_learned_ages_from_the_first_look_on() -> None:
    for knee, at_s in ((Knee(window=50.0, age_s=60.0), NOW_S - 60.0), (Knee(window=50.0, at_s=7.0), 7.0)):
        facts = a_look(knee=knee)
        assert observed(facts.memory, facts.health, facts.joins, SETTINGS, NOW_S).knee.at_s == at_s


def test_what_a_look_does_not_tell_stays_as_it_was_known() -> None:
    facts = a_look(boot_s=70.0, boot_spread_s=9.0)
    after = observed(facts.memory, facts.health, replace(facts.joins, boot_s=50.0, boot_spread_s=4.0), SETTINGS, NOW_S)
    assert (after.boot_s, after.boot_spread_s, after.traces) == (50.0, 4.0, facts.health.traces)
    mute = with_health(facts, fresh=(), new=(), traces=())
    kept = observed(after, mute.health, replace(facts.joins, boot_s=None), SETTINGS, NOW_S)
    assert (kept.boot_s, kept.boot_spread_s, kept.traces) == (50.0, 4.0, facts.health.traces)


def test_a_window_that_tells_no_delay_is_none_of_those_that_are_kept() -> None:
    facts = a_look()
    mute = tuple(replace(trace, delay_s=None) for trace in facts.health.traces)
    assert observed(facts.memory, with_health(facts, traces=mute).health, facts.joins, SETTINGS, NOW_S).delays == ()


@pytest.mark.parametrize(
    ("before", "cpu", "full_cpu", "waiting", "is_learned"),
    [
        (90, 0.6, 1.0, 1, True),
        (54, 0.6, 1.0, 1, True),
        (53, 0.6, 1.0, 1, False),
        (90, 0.6, 1.0, 0, False),
        (90, 0.48, 0.5, 1, True),
        (90, 0.49, 0.5, 1, False),
    ],
)
def test_what_a_join_takes_is_learned_where_joins_were_there_throughout_and_the_server_had_more_to_give(
    before: int, cpu: float, full_cpu: float, waiting: int, *, is_learned: bool
) -> None:
    """A reading of 10 s tells of the joins of 16 s before; so many were there when that time began."""
    flow = JoinFlow()
    for ago_s, joining in ((30.0, before), (20.0, 90), (10.0, 90)):
        flow = with_counts(flow, Joins(joining=joining), NOW_S - ago_s)
    facts = a_look(waiting=waiting, load=Load(idle=(0.1,)), flow=flow)
    busy = tuple(replace(trace, cpu=(cpu,), full_cpu=full_cpu) for trace in facts.health.traces)
    after = observed(facts.memory, with_health(facts, traces=busy).health, facts.joins, SETTINGS, NOW_S)
    assert (after.load.per_join is not None) is is_learned
