"""What single looks do to the window, by numbers that can be checked by hand: a joint of the law at a time."""

from dataclasses import replace

import pytest

from throttler.joins.joins import Joins
from throttler.law import error_brake, govern, window_control, window_steps
from throttler.law.join_flow import JoinFlow, JoinTime, seen
from throttler.law.join_load import Load
from throttler.law.law_input import LawInput
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, ServerTrace
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_steps import Cuts, Knee
from throttler.signals.reading import Reading

NOW_S = 1000.0
BASELINE_S = 0.04
SETTINGS = LawSettings(has_gate=True)
TARGET = SETTINGS.equilibrium


def a_look(
    window: float = 100.0,
    *,
    index: tuple[float, float] = (1.0, 1.0),
    joining: int = 90,
    waiting: int = 500,
    seats: float = 0.0,
    settings: LawSettings = SETTINGS,
    is_new: bool = True,
    is_controller_bound: bool = False,
    **memory: object,
) -> LawInput:
    """A look in avoidance, one adaptation time (10 s) after the last; `index` is of the two newest windows."""
    before, newest = (BASELINE_S * each for each in index)
    reading = Reading(
        server="a", ended_s=NOW_S, span_s=10.0, requests=100.0, errors=0.0, latency_s=newest, seats_share=seats
    )
    joins = Joins(
        held=waiting, joining=joining, joined=100, join_s=80.0, boot_s=120.0, is_controller_bound=is_controller_bound
    )
    usual = LawMemory(
        window=window,
        is_slow_start=False,
        is_idle=False,
        moved_s=NOW_S - 10.0,
        flow=seen(seen(JoinFlow(), joins, NOW_S - 10.0), joins, NOW_S),
        join_time=JoinTime(now_s=80.0, least_s=80.0),
        boot_s=120.0,
    )
    usual = replace(usual, baseline=replace(usual.baseline, remembered_s=BASELINE_S))
    return LawInput(
        memory=replace(usual, **memory),  # type: ignore[arg-type]
        health=Health(
            fresh=(reading,),
            new=(reading,) if is_new else (),
            own=(),
            new_own=(),
            traces=(ServerTrace(server="a", ended_s=NOW_S, delay_s=newest, before_s=before),),
            silent=None,
            never_seen=(),
            servers=1,
            alarm=None,
        ),
        joins=joins,
        settings=settings,
        now_s=NOW_S,
        elapsed_s=5.0,
    )


@pytest.mark.parametrize(
    ("window", "growth"),
    [(60.0, 0.16), (69.0, 0.16), (70.0, 0.08), (99.0, 0.08), (100.0, 0.06), (120.0, 0.06)],
)
def test_grows_twice_as_fast_far_below_a_knee_that_was_met_and_slower_beyond_it(window: float, growth: float) -> None:
    facts = a_look(window, joining=round(window), knee=Knee(window=100.0, is_proven=True, at_s=0.0))
    grown = window_control.avoidance(facts)
    assert (grown.memory.window, grown.phase) == (pytest.approx(window * (1 + growth)), Phase.AVOID)


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
        ({"index": (TARGET, TARGET)}, ThrottleReason.AT_EQUILIBRIUM),
        ({"index": (TARGET, 1.5 * TARGET)}, ThrottleReason.AT_EQUILIBRIUM),
        ({"index": (1.0, 1.51 * TARGET)}, ThrottleReason.HIGH_ONCE),
        ({"index": (1.51 * TARGET, 1.0)}, ThrottleReason.HIGH_ONCE),
        ({"index": (1.01 * TARGET, 1.01 * TARGET)}, ThrottleReason.BACKING_OFF),
    ],
)
def test_says_why_the_window_grows_or_does_not(change: dict[str, object], reason: ThrottleReason) -> None:
    after = window_control.avoidance(a_look(**change))  # type: ignore[arg-type]
    assert after.because.reason is reason
    assert ((after.memory.window or 0.0) > 100) is (reason is ThrottleReason.PROBING_UP)


@pytest.mark.parametrize(
    ("index", "knee"),
    [
        ((0.5 * TARGET, 0.5 * TARGET), 0.9 * 50 + 0.1 * 100),
        ((1.5 * TARGET, 1.5 * TARGET), 0.9 * 50 + 0.1 * 100),
        ((1.4 * TARGET, 9.0 * TARGET), 0.9 * 50 + 0.1 * 100),
        ((1.6 * TARGET, 1.6 * TARGET), 50.0),
        ((0.4 * TARGET, 0.4 * TARGET), 50.0),
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
    for index in (1.0, TARGET):
        facts = a_look(index=(index, index), knee=Knee(window=50.0, at_s=NOW_S), **change)  # type: ignore[arg-type]
        assert window_control.known_knee(facts) == facts


def test_below_half_of_the_equilibrium_more_joins_only_did_no_harm() -> None:
    for met, window in ((False, 90.0), (True, 50.0)):
        facts = window_control.known_knee(a_look(knee=Knee(window=50.0, is_proven=met, at_s=NOW_S)))
        assert (facts.memory.knee.window, facts.memory.knee.is_proven) == (window, met)


def test_a_cut_has_two_scrapes_or_a_third_of_a_join_to_show() -> None:
    hot = (3 * TARGET, 3 * TARGET)
    assert window_steps.cut_time_s(10.0, 80.0) == pytest.approx(80 / 3)
    assert window_steps.cut_time_s(10.0, 30.0) == 20
    for since_s, window in ((26.0, 100.0), (27.0, 90.0)):
        assert window_control.avoidance(a_look(index=hot, cut_s=NOW_S - since_s)).memory.window == pytest.approx(window)


def test_what_cuts_do_not_change_gives_the_window_back() -> None:
    hot = 3 * TARGET
    cuts = Cuts(count=2, joining=106, delay_s=hot * BASELINE_S, window=120.0)
    given_back = window_control.avoidance(a_look(90.0, index=(hot, hot), cuts=cuts))
    assert (given_back.memory.window, given_back.because.reason) == (120.0, ThrottleReason.DELAY_NOT_OURS)
    # With as many joins as before nothing is proven: cut on.
    cuts = replace(cuts, joining=105)
    assert window_control.avoidance(a_look(90.0, index=(hot, hot), cuts=cuts)).because.reason is (
        ThrottleReason.BACKING_OFF
    )


def test_a_delay_of_nothing_grows_the_window_as_a_small_one_does() -> None:
    assert window_steps.pull(0.0, SETTINGS) == window_steps.pull(1.0, SETTINGS)
    assert window_steps.pacing_gain(0.0, SETTINGS) == 1.0


def test_up_to_one_error_in_a_hundred_the_brake_is_mild() -> None:
    assert error_brake.cut(100, 100, 0.01, SETTINGS) == 70
    assert error_brake.cut(100, 100, 0.0101, SETTINGS) == 50


@pytest.mark.parametrize("figure", [float("inf"), float("nan"), 0.0, -1.0])
def test_a_duration_that_makes_no_sense_is_none(figure: float) -> None:
    sane = govern.sane(Joins(join_s=figure, boot_s=figure, boot_spread_s=figure, oldest_held_s=figure))
    assert (sane.join_s, sane.boot_s, sane.boot_spread_s, sane.oldest_held_s) == (None, None, 0.0, 0.0)


def test_durations_between_a_tenth_of_a_second_and_a_day_are_believed() -> None:
    sane = govern.sane(Joins(join_s=0.01, boot_s=1e9, oldest_joining_s=7.0))
    assert (sane.join_s, sane.boot_s, sane.oldest_joining_s) == (0.1, 86_400.0, 7.0)


def test_counts_below_zero_are_none_and_late_machines_are_lost() -> None:
    joins = Joins(
        waiting=-1, urgent=-1, booting=5, late_booting=2, held=-1, joining=4, late_joining=9, joined=-1, lost=1
    )
    sane = govern.sane(joins)
    assert (sane.waiting, sane.urgent, sane.held, sane.joined) == (0, 0, 0, 0)
    assert (sane.booting, sane.joining, sane.lost) == (3, 0, 7)
