"""Where one part of the law ends and the next begins, by numbers that can be checked by hand."""

from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import (
    CALM_S,
    EQUILIBRIUM,
    NOW_S,
    SETTINGS,
    a_look,
    with_errors,
    with_health,
)
from throttler.joins.joins import Joins
from throttler.law import error_brake, window_control
from throttler.law.error_brake import ForeignErrors
from throttler.law.join_model import JoinFlow, JoinTime, Load, with_counts
from throttler.law.law_input import LawInput
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_formulas import Cuts, Knee
from throttler.signals.reading import SilentServer

UNGATED = LawSettings(has_gate=False)
QUICK, PROMPT = JoinTime(now_s=20.0, least_s=20.0), JoinTime(now_s=5.0, least_s=5.0)
HOT = 3 * EQUILIBRIUM


def starting(window: float = 100.0, **more: object) -> LawInput:
    """In slow start, and long after the last doubling."""
    return a_look(window, **{"is_slow_start": True, "doubled_s": 0.0, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("blind_since_s", [None, NOW_S - 100.0])
def test_a_window_at_its_least_does_not_fall_while_nothing_is_seen(blind_since_s: float | None) -> None:
    facts = with_health(a_look(window=2.0, joining=0, blind_since_s=blind_since_s), fresh=(), traces=())
    after = window_control.blind(facts)
    assert after is not None
    assert (after.memory.window, after.because.reason) == (2.0, ThrottleReason.SIGNALS_LOST)


@pytest.mark.parametrize(("joining", "window"), [(0, 2.0), (1, 2.0), (7, 7.0), (200, 100.0)])
def test_who_goes_blind_holds_what_is_in_flight_and_no_more_than_the_window(joining: int, window: float) -> None:
    after = window_control.blind(with_health(a_look(joining=joining), fresh=(), traces=()))
    assert after is not None
    assert (after.memory.window, after.phase, after.memory.blind_since_s) == (window, Phase.STALE, NOW_S)
    assert after.because.reason is (ThrottleReason.SIGNALS_LOST if window == 100 else ThrottleReason.SIGNALS_STALE)


def test_where_no_request_tells_of_the_load_the_window_stays() -> None:
    mute = window_control.steered(with_health(a_look(), traces=()))
    assert (mute.memory.window, mute.because.reason) == (100.0, ThrottleReason.UNKNOWN_LOAD)


def test_what_waits_is_not_held_against_what_is_in_flight() -> None:
    facts = replace(a_look(), joins=Joins(waiting=5, joining=5, joined=100, join_s=80.0, boot_s=120.0))
    assert window_control.steered(facts).phase is Phase.AVOID


# --- the brake ---


@pytest.mark.parametrize(
    ("pulled_ago_s", "errors", "window", "phase"),
    [(140.0, 10.0, 63.0, Phase.BRAKE), (139.9, 10.0, 100.0, Phase.AVOID), (5.0, 0.0, None, None)],
)
def test_of_waves_a_brake_pauses_nothing_and_has_a_boot_and_a_join_to_show(
    pulled_ago_s: float, errors: float, window: float | None, phase: Phase | None
) -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - pulled_ago_s, pulls=1, joining=90, errors_per_s=1.0)
    after = window_control.braked(with_errors(a_look(settings=UNGATED, join_time=QUICK, brake=brake), errors))
    found = (None, None) if after is None else (after.memory.window, after.phase)
    assert found == (window if window is None else pytest.approx(window), phase)


@pytest.mark.parametrize(("spans_s", "per_s"), [((1.0, 0.0), 10.0), ((10.0, 5.0), 2.0), ((0.0, 0.0), 0.0)])
def test_a_brake_remembers_the_errors_of_the_worst_server(spans_s: tuple[float, float], per_s: float) -> None:
    """A window of no length tells no rate."""
    facts = with_errors(a_look(), 10.0)
    (told,) = facts.health.fresh
    two = tuple(replace(told, server=name, span_s=span_s) for name, span_s in zip("ab", spans_s, strict=True))
    after = window_control.braked(with_health(facts, fresh=two, new=two))
    assert after is not None
    assert (after.because.reason, after.memory.brake.errors_per_s) == (ThrottleReason.ERRORS, per_s)


@pytest.mark.parametrize(("joining", "reason"), [(90, ThrottleReason.ERRORS), (0, ThrottleReason.IDLE_ERRORS)])
def test_where_nothing_is_known_of_a_readings_time_errors_are_held_against_the_joins_of_now(
    joining: int, reason: ThrottleReason
) -> None:
    after = window_control.braked(with_errors(a_look(joining=joining, flow=JoinFlow()), 10.0))
    assert after is not None
    assert after.because.reason is reason


def test_a_pause_for_errors_of_others_lasts_to_its_last_moment() -> None:
    brake = error_brake.Brake(pulled_s=NOW_S - 14.5)
    after = window_control.braked(with_errors(a_look(joining=0, brake=brake), 10.0))
    assert after is not None
    assert after.because.detail["left_s"] == 0.5


# --- cuts ---


def test_delay_cuts_nothing_while_nothing_joins() -> None:
    for joining, cut_s in ((0, None), (1, NOW_S)):
        after = window_control.avoidance(a_look(joining=joining, index=(HOT, HOT)))
        assert (after.memory.cut_s, after.because.reason) == (cut_s, ThrottleReason.BACKING_OFF)


def test_a_delay_at_the_equilibrium_is_no_cut() -> None:
    facts = a_look()
    assert window_control.cut(facts, EQUILIBRIUM) == (facts, 100.0)


@pytest.mark.parametrize(
    "cuts",
    [
        Cuts(count=2, joining=106, delay_s=HOT * CALM_S, window=120.0, useless_since_s=NOW_S - 300.1),
        Cuts(count=2, joining=106, delay_s=HOT * CALM_S / 1.3, window=120.0),
    ],
    ids=["left out for five minutes", "delay has moved"],
)
def test_cuts_are_counted_anew_where_the_former_prove_nothing_any_more(cuts: Cuts) -> None:
    after = window_control.avoidance(a_look(90.0, index=(HOT, HOT), cuts=cuts))
    assert after.because.reason is ThrottleReason.BACKING_OFF
    assert after.memory.cuts == Cuts(count=1, joining=90, delay_s=pytest.approx(HOT * CALM_S), window=90.0)


def test_what_does_not_count_is_told() -> None:
    usual = a_look(index=(HOT, HOT), cuts=Cuts(count=2, joining=90, delay_s=HOT * CALM_S, window=120.0))
    assert window_control.left_out(usual.health, usual.memory, NOW_S) == ()
    useless = Cuts(count=2, joining=90, delay_s=HOT * CALM_S, window=120.0, useless_since_s=NOW_S)
    facts = a_look(index=(HOT, HOT), cuts=useless, foreign=ForeignErrors(server="b", left_out_s=NOW_S))
    never = tuple(SilentServer(server=name, problem="", since_s=0.0, was_seen=False) for name in "cd")
    told = window_control.left_out(with_health(facts, never_seen=never).health, facts.memory, NOW_S)
    assert [(why.reason, why.detail.get("server", why.detail.get("servers"))) for why in told] == [
        (ThrottleReason.ERRORS_NOT_OURS, "b"),
        (ThrottleReason.DELAY_NOT_OURS, "a"),
        (ThrottleReason.NEVER_SEEN, "c, d"),
    ]


def test_no_more_is_given_back_than_the_user_allows_by_now() -> None:
    useless = Cuts(count=2, joining=90, delay_s=HOT * CALM_S, window=120.0, useless_since_s=NOW_S)
    facts = a_look(50.0, index=(HOT, HOT), cuts=useless)
    after = window_control.avoidance(replace(facts, settings=replace(facts.settings, window_max=60)))
    assert (after.memory.window, after.because.detail["window"]) == (60.0, 60.0)
    (told,) = window_control.left_out(facts.health, after.memory, NOW_S)
    assert told.detail["window"] == 60.0


# --- slow start ---


def test_a_first_look_of_slow_start_waits_for_the_first_doubling() -> None:
    after = window_control.slow_start(starting(doubled_s=None))
    assert after is not None
    assert (after.memory.window, after.because.reason) == (100.0, ThrottleReason.WARMING_UP)


def test_joins_that_are_there_begin_no_scale_up_though_none_has_ended() -> None:
    after = window_control.slow_start(starting(join_time=JoinTime()))
    assert after is not None
    assert (after.memory.window, after.because.reason) == (200.0, ThrottleReason.DOUBLING)


@pytest.mark.parametrize(
    ("settings", "cpu", "is_over"),
    [(UNGATED, (0.8, 0.0), True), (UNGATED, (0.79, 0.0), False), (SETTINGS, (0.9, 0.0), False)],
)
def test_of_waves_one_window_that_fills_a_server_ends_slow_start(
    settings: LawSettings, cpu: tuple[float, ...], *, is_over: bool
) -> None:
    facts = starting(settings=settings, join_time=QUICK)
    busy = tuple(replace(trace, cpu=cpu) for trace in facts.health.traces)
    assert (window_control.slow_start(with_health(facts, traces=busy)) is None) is is_over


def test_prompt_joins_double_beyond_what_the_cpu_seems_to_bear() -> None:
    """56 joins bring the server to four fifths by its CPU, and 80 fill it: delay tells at once whether they do."""
    after = window_control.slow_start(starting(join_time=PROMPT, load=Load(idle=(0.1,), remembered=0.0125)))
    assert after is not None
    assert (after.memory.window, after.because.reason) == (200.0, ThrottleReason.DOUBLING)


def test_prompt_joins_that_wait_for_each_other_end_slow_start_and_stop_growth() -> None:
    for is_slow_start in (True, False):
        waiting = JoinTime(now_s=10.0, least_s=5.0)
        after = window_control.steered(
            a_look(index=(2.0, 2.0), join_time=waiting, is_slow_start=is_slow_start, doubled_s=0.0)
        )
        assert (after.memory.window, after.because.reason) == (100.0, ThrottleReason.AT_EQUILIBRIUM)
        assert not after.memory.is_slow_start


def test_a_doubled_wave_is_to_fit_where_slow_start_aims() -> None:
    """112 joins bring the server to four fifths, and 160 fill it."""
    load = Load(idle=(0.1,), remembered=0.00625)
    for settings, window in ((UNGATED, 112.0), (SETTINGS, 120.0)):
        after = window_control.slow_start(starting(60.0, joining=55, settings=settings, join_time=QUICK, load=load))
        assert after is not None
        assert after.memory.window == pytest.approx(window)


# --- growth ---


def test_where_nothing_holds_back_what_is_ordered_the_cpu_bounds_growth_and_cuts_nothing() -> None:
    """90 joins fill the server, which a window of 105.9 lets in; seats are taken, so the CPU tells of no other room."""
    for remembered, window in ((0.01, 90 / 0.85), (0.02, 100.0)):
        load = Load(idle=(0.1,), remembered=remembered)
        after = window_control.avoidance(a_look(joining=85, settings=UNGATED, load=load, seats=0.8))
        assert after.memory.window == pytest.approx(window)


def test_a_little_room_is_used_by_a_quarter() -> None:
    """100 joins fill the server, and 85 are let in: the window may grow by 3/17 in all."""
    after = window_control.avoidance(a_look(load=Load(idle=(0.1,), remembered=0.01)))
    assert after.memory.window == pytest.approx(100 * (1 + 0.25 * 3 / 17))


def test_a_crowd_that_came_with_no_more_than_the_window_proves_no_more() -> None:
    flow = JoinFlow()
    for ago_s, joining in ((95.0, 0), (60.0, 100)):
        flow = with_counts(flow, Joins(joining=joining), NOW_S - ago_s)
    facts = a_look(joining=150, flow=flow)
    assert facts.borne == 100
    assert window_control.avoidance(facts).because.reason is ThrottleReason.CROWDED


@pytest.mark.parametrize(("is_proven", "is_slow_start"), [(True, False), (False, True)])
def test_waves_that_begin_at_a_limit_that_was_met_double_no_more(*, is_proven: bool, is_slow_start: bool) -> None:
    knee = Knee(window=60.0, at_s=NOW_S, is_proven=is_proven)
    facts = a_look(joining=0, is_idle=True, settings=UNGATED, join_time=PROMPT, knee=knee)
    assert window_control.steered(facts).memory.is_slow_start is is_slow_start
