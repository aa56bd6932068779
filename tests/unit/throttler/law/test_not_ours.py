"""Trouble that joins have no part in does not stop growth; trouble that they cause does, as ever."""

from dataclasses import replace
from functools import cache

import pytest

from tests.unit.throttler.law.looks import CALM_S, NOW_S, SETTINGS, STEP_S, Loop, a_look, begun, reading
from tests.unit.throttler.law.steady_plant import Plant, Trouble, errors, figures
from throttler.joins.joins import Joins
from throttler.law.error_brake import TOLD_S, ForeignErrors, observed
from throttler.law.law_memory import Learned
from throttler.law.verdict import Phase, ThrottleReason
from throttler.signals.reading import Reading, Signals, SilentServer

WARM = Learned(window=300, join_s=60, boot_s=60, age_s=600)
GATES = pytest.mark.parametrize("has_gate", [False, True])


@cache
def calm_run(has_gate: bool = False, learned: Learned | None = None, demand: int = 1000) -> Plant:
    """What a ramp without any trouble comes to; the tests that compare with it share it."""
    return Plant(has_gate=has_gate, learned=learned, demand=demand).run()


@GATES
@pytest.mark.parametrize(
    "trouble",
    [
        errors(0.002),
        errors(0.002, "a"),
        errors(0.01, "c"),
        errors(0.0012, from_s=-2.0, for_s=1.0),
        errors(0.02, from_s=-60.0),
    ],
    ids=["all servers", "one server", "one server, more", "once with nothing in flight", "since a minute ago"],
)
def test_errors_that_nothing_of_ours_can_have_caused_do_not_stop_growth(trouble: Trouble, has_gate: bool) -> None:
    calm = calm_run(has_gate)
    disturbed = Plant(has_gate=has_gate, trouble=trouble).run()
    assert disturbed.took_s <= 1.1 * calm.took_s + 30.0


@GATES
def test_errors_of_a_moment_as_a_warm_ramp_begins_do_not_stop_growth(has_gate: bool) -> None:
    calm = calm_run(has_gate, WARM)
    burst = Plant(has_gate=has_gate, learned=WARM, trouble=errors(0.02, from_s=0.0, for_s=6.0)).run()
    assert burst.took_s <= 1.3 * calm.took_s
    assert "IdleErrors" in burst.reasons()


@pytest.mark.parametrize(("learned", "most"), [(None, 1.6), (WARM, 1.35)], ids=["cold", "warm"])
@pytest.mark.parametrize("from_s", [60.0, 100.0, 150.0])
def test_a_cut_that_came_too_late_to_hold_anything_back_is_taken_back_when_what_came_is_borne(
    from_s: float, learned: Learned | None, most: float
) -> None:
    """With no gate a boot's worth of machines comes all the same; with few joins in flight the cut is the deepest."""
    calm = calm_run(learned=learned)
    burst = Plant(has_gate=False, learned=learned, trouble=errors(0.02, from_s=from_s, for_s=6.0)).run()
    assert burst.took_s <= most * calm.took_s
    assert "Errors" in burst.reasons()


@pytest.mark.parametrize(
    ("arrive", "index", "window"),
    [
        pytest.param(10, 1.0, 70.0, id="borne: those that came before the reading"),
        pytest.param(10, 8.0, 20.0, id="not calm"),
        pytest.param(0, 1.0, 20.0, id="old joins load no more"),
    ],
)
def test_a_crowded_window_grows_to_what_came_lately_and_is_borne(arrive: int, index: float, window: float) -> None:
    loop, joins = begun(joining=100, held=0, has_gate=False)
    joins = replace(joins, waiting=500)
    loop.calm(joins, times=20)
    loop.memory = replace(loop.memory, window=20.0)
    for _ in range(9):
        joins = replace(joins, joining=joins.joining + arrive)
        verdict = loop.calm(joins, latency_s=index * CALM_S)
    assert verdict.window == pytest.approx(window)


def test_errors_of_others_are_said_for_as_long_as_they_last() -> None:
    plant = Plant(trouble=errors(0.002, "b")).run()
    assert plant.verdicts[-1].left_out[0].code == "ErrorsNotOurs"
    assert plant.verdicts[-1].left_out[0].sentence.startswith("429 and 5xx of b ")


def test_errors_of_other_levels_and_resources_are_said_and_change_nothing() -> None:
    plant = Plant(trouble=figures(others_errors=500.0)).run()
    assert plant.took_s == calm_run().took_s
    assert plant.left_out() == {"ErrorsNotOurs"}


def test_nothing_is_left_out_of_a_healthy_cluster() -> None:
    assert calm_run().left_out() == set()


@GATES
def test_errors_that_go_on_from_the_middle_of_a_ramp_do_not_stop_it_for_ever(has_gate: bool) -> None:
    """They may well be ours, so they brake; once nothing joins and as many are still there, they are not."""
    plant = Plant(demand=2000, has_gate=has_gate, trouble=errors(0.05, from_s=150.0)).run()
    assert plant.took_s <= 2.5 * calm_run(has_gate, demand=2000).took_s
    assert "Errors" in plant.reasons()


def test_errors_that_two_brakes_leave_as_they_were_are_not_of_joins() -> None:
    loop, joins = begun(window=400.0, joining=400)
    verdicts = []
    for _ in range(40):
        joining = int(loop.memory.window or 0)
        verdicts.append(loop.calm(replace(joins, joining=joining), errors=20.0))
    codes = [verdict.because.code for verdict in verdicts]
    assert codes.count("Errors") == 2
    assert codes.count("ErrorsUnmoved") == 1
    assert verdicts[-1].window > verdicts[codes.index("ErrorsUnmoved")].window >= 100
    assert loop.calm(joins, errors=60.0).because.reason is ThrottleReason.ERRORS, "more of them brake as ever"


def test_errors_of_an_odd_hour_excuse_none_of_joins_a_week_later() -> None:
    """In a fleet of spot nodes something always joins: servers are never idle, and so never tell."""
    loop, joins = begun(window=400.0, joining=400)
    for _ in range(40):
        loop.calm(replace(joins, joining=int(loop.memory.window or 0)), errors=20.0)
    assert loop.memory.foreign.unmoved_per_s == 2.0
    loop.calm(joins, times=int(TOLD_S / STEP_S) + 1, others_errors=20.0)
    assert loop.calm(joins, errors=20.0).because.reason is ThrottleReason.ERRORS, "those of other levels go on"


def test_errors_of_idle_servers_excuse_none_of_joins_once_they_have_ended() -> None:
    loop = Loop()
    loop.calm(Joins(), times=40, errors=20.0)
    joins = Joins(held=500, joining=90, joined=100, join_s=80.0, boot_s=120.0)
    loop.calm(joins, times=120, errors=20.0)
    assert loop.calm(joins, errors=20.0).phase is not Phase.BRAKE, "for as long as they last"
    loop.calm(joins, times=int(TOLD_S / STEP_S) - 1)
    assert loop.calm(joins, errors=20.0).phase is not Phase.BRAKE, "nor are they over at once"
    loop.calm(joins, times=int(TOLD_S / STEP_S) + 1)
    assert loop.calm(joins, errors=20.0).because.reason is ThrottleReason.ERRORS


def test_what_idle_servers_told_before_an_hour_without_readings_excuses_nothing() -> None:
    loop = Loop()
    loop.calm(Joins(), times=40, errors=20.0)
    loop.blind(Joins(), times=720)
    joins = Joins(held=500, joining=90, joined=100, join_s=80.0, boot_s=120.0)
    assert loop.calm(joins, errors=20.0).because.reason is ThrottleReason.ERRORS


def test_what_brakes_left_as_it_was_counts_until_idle_servers_tell() -> None:
    foreign = ForeignErrors(unmoved_per_s=3.0, left_out_s=NOW_S)
    told = reading(NOW_S, errors=5.0)
    known = replace(a_look().health, fresh=(told,), new=())
    after = observed(foreign, known, NOW_S, SETTINGS, is_idle=True)
    assert (after.servers, after.unmoved_per_s) == (foreign.servers, 3.0), "what was read before tells nothing anew"
    after = observed(foreign, replace(known, new=(told,)), NOW_S, SETTINGS, is_idle=False)
    assert after.unmoved_per_s == 3.0, "joins have their part in it"
    after = observed(foreign, replace(known, new=(told,)), NOW_S, SETTINGS, is_idle=True)
    assert (after.servers.samples, after.unmoved_per_s) == (((NOW_S, 0.5),), 0.0)


@pytest.mark.parametrize("is_long_first", [False, True])
def test_servers_are_idle_where_no_window_of_any_goes_back_to_joins(is_long_first: bool) -> None:
    loop = Loop()
    loop.calm(Joins(joining=5, joined=1))
    loop.look(Signals(), Joins(joined=6))
    for looks, samples in ((1, 0), (2, 1)):
        ended_s = loop.now_s + STEP_S
        two = [reading(ended_s, server="a", span_s=10.0), reading(ended_s, server="b", span_s=4.0)]
        loop.look(Signals(readings=tuple(two if is_long_first else two[::-1])), Joins(joined=6))
        assert len(loop.memory.foreign.servers.samples) == samples, looks


def test_errors_that_fall_with_the_joins_are_ours_and_brake_further() -> None:
    loop, joins = begun(window=400.0, joining=400)
    reasons = set()
    for _ in range(60):
        joining = int(loop.memory.window or 0)
        reasons.add(loop.calm(replace(joins, joining=joining), errors=joining / 5.0).because.code)
    assert "Errors" in reasons
    assert "ErrorsUnmoved" not in reasons


def test_errors_that_stay_are_no_proof_while_servers_are_slow() -> None:
    loop, joins = begun(window=400.0, joining=400)
    verdicts = []
    for _ in range(60):
        joining = int(loop.memory.window or 0)
        verdicts.append(loop.calm(replace(joins, joining=joining), errors=20.0, latency_s=0.5 * hot_s(1.0)))
    assert "ErrorsUnmoved" not in {verdict.because.code for verdict in verdicts}
    assert verdicts[-1].window <= 4


def test_errors_at_the_least_window_pause_joins_and_let_them_go_on() -> None:
    loop, joins = begun(window=2.0, joining=1)
    assert loop.calm(joins, errors=20.0).because.reason is ThrottleReason.ERRORS
    verdicts = [loop.calm(joins, errors=20.0) for _ in range(24)]
    assert {verdict.window for verdict in verdicts} == {2}
    assert sum(verdict.admit for verdict in verdicts) >= 2
    assert "FloorPace" in {verdict.because.code for verdict in verdicts}


def test_errors_beyond_those_of_idle_servers_brake() -> None:
    loop = Loop()
    loop.calm(Joins(), times=20, requests=5000.0, errors=10.0)
    joins = Joins(held=500, joining=90, joined=100, join_s=80.0, boot_s=120.0)
    loop.calm(joins, times=3, requests=5000.0, errors=10.0)
    loop.memory = replace(loop.memory, window=100.0, is_slow_start=False)
    assert loop.calm(joins, requests=5000.0, errors=18.0).phase is not Phase.BRAKE
    verdict = loop.calm(joins, requests=5000.0, errors=30.0)
    assert (verdict.phase, verdict.window) == (Phase.BRAKE, pytest.approx(63.0))


def test_a_burst_on_idle_servers_excuses_no_errors_of_joins() -> None:
    loop = Loop()
    loop.calm(Joins(), times=20)
    loop.calm(Joins(), times=2, errors=20.0)
    joins = Joins(held=500, joining=60, joined=100, join_s=80.0, boot_s=120.0)
    loop.calm(joins, times=4)
    assert loop.calm(joins, errors=20.0).phase is Phase.BRAKE


def test_with_nothing_in_flight_errors_pause_and_keep_the_window() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=150)
    window = loop.calm(joins).window
    verdict = loop.calm(joins, requests=5000.0, errors=6.0)
    assert (verdict.phase, verdict.window, verdict.allowance) == (Phase.BRAKE, window, 0)
    assert verdict.because.reason is ThrottleReason.IDLE_ERRORS
    loop.calm(joins, times=2)
    assert loop.calm(joins).allowance > 0, "the pause is over"


def test_errors_that_grow_with_nothing_in_flight_pause_once() -> None:
    loop = Loop()
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=150)
    window = loop.calm(joins).window
    verdicts = [loop.calm(joins, requests=5000.0, errors=10.0 * 3**step) for step in range(5)]
    assert [verdict.phase is Phase.BRAKE for verdict in verdicts] == [True, True, True, False, False]
    assert verdicts[-1].allowance > 0
    assert verdicts[-1].window >= window


@GATES
def test_a_slow_webhook_is_no_slow_server(has_gate: bool) -> None:
    calm = calm_run(has_gate)
    slow = Plant(has_gate=has_gate, trouble=figures(latency_s=3.0)).run()
    assert slow.took_s == calm.took_s


@GATES
def test_delay_that_cuts_do_not_change_is_cut_twice_and_then_left_out(has_gate: bool) -> None:
    plant = Plant(has_gate=has_gate, trouble=figures(latency_s=3.0, service_s=3.0)).run(limit_s=1200.0)
    assert plant.verdicts[-1].window == 24, "what the cuts took is given back"
    assert plant.verdicts[-1].because.reason is ThrottleReason.DELAY_NOT_OURS
    assert plant.left_out() == {"DelayNotOurs"}
    assert plant.joined > 100, "nor is what goes in slowed for it"


def hot_s(times: float) -> float:
    return times * 15.0 * CALM_S


def cut_at(loop: Loop, joins: Joins, delays_s: list[float]) -> list[str]:
    """Reasons while delay goes through these values, each for a cut's time; what is in flight follows the window."""
    reasons = []
    for delay_s in delays_s:
        for _ in range(6):
            window = loop.memory.window or 0.0
            verdict = loop.calm(replace(joins, joining=int(0.85 * window)), latency_s=delay_s)
        reasons.append(verdict.because.code)
    return reasons


def test_delay_that_falls_as_joins_do_is_ours_and_cut_further() -> None:
    loop, joins = begun(joining=85)
    reasons = cut_at(loop, joins, [hot_s(6.0) * 0.9**step for step in range(10)])
    assert set(reasons) == {"BackingOff"}
    assert (loop.memory.window or 0.0) < 50


def test_delay_that_rises_is_cut_further() -> None:
    loop, joins = begun(joining=85)
    assert set(cut_at(loop, joins, [hot_s(2.0) * 1.3**step for step in range(10)])) == {"BackingOff"}


def test_what_was_left_out_is_cut_on_trial_after_five_minutes() -> None:
    loop, joins = begun(joining=85)
    reasons = cut_at(loop, joins, [hot_s(3.0)] * 20)
    assert set(reasons[3:10]) == {"DelayNotOurs"}
    assert "BackingOff" in reasons[10:15]


def test_what_was_left_out_is_cut_again_once_it_moves() -> None:
    loop, joins = begun(joining=85)
    assert cut_at(loop, joins, [hot_s(3.0)] * 6)[-1] == "DelayNotOurs"
    window = loop.memory.window or 0.0
    assert cut_at(loop, joins, [hot_s(6.0)] * 2) == ["BackingOff"] * 2
    assert (loop.memory.window or 0.0) < window
    assert loop.calm(replace(joins, joining=int(window)), times=3).left_out == ()


def test_cuts_of_a_scale_up_long_ago_do_not_excuse_the_delay_of_this_one() -> None:
    loop, joins = begun(window=400.0, joining=400)
    assert cut_at(loop, joins, [hot_s(3.0)] * 2) == ["BackingOff"] * 2
    loop.calm(Joins(joined=500), times=720)
    loop.memory = replace(loop.memory, knee=replace(loop.memory.knee, window=None))
    joins = replace(joins, joining=24, joined=500)
    assert loop.calm(joins, times=3).phase is Phase.SLOW_START
    verdict = loop.calm(joins, times=2, latency_s=hot_s(3.0))
    assert (verdict.because.reason, verdict.window <= 24) == (ThrottleReason.BACKING_OFF, True)


@GATES
def test_servers_that_were_never_seen_stop_growth_for_five_minutes_only(has_gate: bool) -> None:
    calm = calm_run(has_gate)
    blind = Plant(has_gate=has_gate, never_seen=4).run()
    assert blind.took_s <= calm.took_s + 300.0
    assert "ServerSilent" in blind.reasons()
    assert blind.left_out() == {"NeverSeen"}
    assert "unseen-1, unseen-2" in blind.verdicts[-1].left_out[0].sentence


def test_a_server_that_was_seen_and_fell_silent_stops_growth_for_as_long_as_it_is() -> None:
    loop, joins = begun()
    silent = (SilentServer(server="b", problem="no answer", since_s=loop.now_s),)
    for _ in range(100):
        verdict = loop.look(Signals(readings=(reading(loop.now_s + STEP_S),), silent=silent), joins)
    assert verdict.because.reason is ThrottleReason.SERVER_SILENT
    assert verdict.window <= 50
    assert verdict.left_out == ()


@GATES
def test_readings_every_half_minute_make_no_slow_join_prompt(has_gate: bool) -> None:
    """Prompt joins may queue four times as long: for 1.2 s, where 0.3 s is the equilibrium of others."""

    def hot(told: Reading, at_s: float) -> Reading:
        return replace(told, latency_s=0.8, service_s=0.8) if at_s > 60 else told

    plant = Plant(has_gate=has_gate, scrape_s=30.0, join_s=55.0, trouble=hot).run(limit_s=600.0)
    assert plant.joined > 0
    assert plant.verdicts[-1].window < 30
    assert not plant.reasons() & {"SignalsLost", "SignalsStale"}


@GATES
def test_readings_every_half_minute_cost_less_than_half_of_the_pace(has_gate: bool) -> None:
    calm = calm_run(has_gate, demand=300)
    assert Plant(demand=300, has_gate=has_gate, scrape_s=30.0).run().took_s <= 2.0 * calm.took_s


def test_a_wait_in_the_queues_counts_beside_a_slow_webhook() -> None:
    loop = Loop()
    loop.calm(Joins(), times=4, latency_s=3.0, service_s=0.004, queue_wait_s=0.1)
    assert loop.memory.baseline.measured_s == pytest.approx(0.104)
