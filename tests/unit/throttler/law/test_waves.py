"""Machines that no gate holds back come in waves: those that one look of the autoscaler ordered, together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.law.looks import CALM_S, EQUILIBRIUM, STEP_S, Loop, reading
from throttler.joins.joins import Joins
from throttler.law.admission import Boots, may_ask
from throttler.law.join_model import FlowPoint, JoinFlow, with_counts
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.signals.reading import Signals

PATIENT = LawSettings(has_gate=False).with_patience(CALM_S).equilibrium
"""The index at which the window of waves rests."""


def waves() -> JoinFlow:
    """Every 20 s ten machines come, and join together within 5 s."""
    points = []
    for second in range(121):
        wave, since = divmod(second, 20)
        joined = 10 * (wave + (since >= 5))
        points.append(
            FlowPoint(float(second), 10 if since < 5 else 0, joined, ordered=10 * (wave + 1), arrived=joined, lost=0)
        )
    return JoinFlow(points=tuple(points))


def test_gaps_between_waves_say_nothing_of_what_the_servers_can_do() -> None:
    assert waves().busy_rate_per_s(100.0) == 2.0


def test_no_rate_is_known_of_a_longer_time_than_was_seen() -> None:
    assert waves().busy_rate_per_s(500.0) is None


def test_nothing_under_way_is_a_rate_of_none_and_no_error() -> None:
    quiet = tuple(FlowPoint(float(second), 0, 7, ordered=7, arrived=7, lost=0) for second in range(100))
    assert JoinFlow(points=quiet).busy_rate_per_s(60.0) == 0.0


PROMPT = Boots(mean_s=10.0)
"""Machines that all take as long: those that are ordered together come together."""


def after(*counts: tuple[float, Joins]) -> JoinFlow:
    """What is remembered after these looks."""
    flow = JoinFlow()
    for at_s, joins in counts:
        flow = with_counts(flow, joins, at_s)
    return flow


def test_the_first_order_is_the_whole_window() -> None:
    idle = after((0.0, Joins()))
    assert may_ask(idle, 0, 24.0, PROMPT, join_s=80.0, now_s=0.0) == 24.0


def test_a_first_look_asks_for_the_whole_window() -> None:
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    verdict = loop.calm(Joins(waiting=150))
    assert (verdict.allowance, verdict.spare) == (24, 0)


@pytest.mark.parametrize("join_s", [5, 16], ids=["prompt joins", "joins that take a while"])
def test_a_remembered_first_wave_is_the_crest_that_was_borne(join_s: float) -> None:
    """Not half of it: the lull until the next wave costs a boot, and a gate that opens at once is not what it meets.

    Nor more: all of it comes together.
    """
    taught = Learned(window=60, join_s=join_s, boot_s=5, age_s=60, is_proven=True)
    loop = Loop(settings=LawSettings(has_gate=False), memory=LawMemory.start(taught))
    loop.calm(Joins(), times=10)
    verdict = loop.calm(Joins(waiting=150))
    assert (round(verdict.window), verdict.allowance) == (60, 60)
    assert verdict.phase is Phase.AVOID, "doubling from a limit that was met passes it"


def test_a_remembered_first_wave_is_waited_for() -> None:
    """Real: 41 joins lasted 20 s, and not the 2 s that were remembered as the least: 104 were in flight, 320 errors."""
    taught = Learned(window=41, join_s=2.0, boot_s=8.0, boot_spread_s=1.3, age_s=60, is_proven=True)
    loop = Loop(settings=LawSettings(has_gate=False), memory=LawMemory.start(taught))
    loop.calm(Joins(), times=10)
    assert loop.calm(Joins(waiting=150)).allowance == 41
    coming = Joins(waiting=109, booting=41)
    assert [loop.calm(coming).allowance for _ in range(3)] == [0, 0, 0]
    assert loop.calm(replace(coming, booting=11, joining=30, oldest_joining_s=4.0)).allowance == 0
    ended = Joins(waiting=109, joining=16, joined=25, join_s=9.0, boot_s=8.0, boot_spread_s=1.3)
    assert loop.calm(ended).allowance > 0


def test_a_process_that_is_younger_than_a_minute_knows_its_first_wave_whole() -> None:
    """Real: one join of 24 had ended, after 14 s. The others lasted 40 s, and 15 machines came on top of them."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=3)
    loop.calm(Joins(waiting=150))
    loop.calm(Joins(waiting=126, booting=24), times=2)
    wave = Joins(waiting=126, joining=24, boot_s=9.0, boot_spread_s=2.1)
    for age_s in (0.0, 5.0, 10.0):
        assert loop.calm(replace(wave, oldest_joining_s=age_s), latency_s=0.9).allowance <= 2
    first_ended = replace(wave, joining=23, joined=1, join_s=14.1, oldest_joining_s=15.0)
    assert loop.calm(first_ended, latency_s=0.9).allowance <= 2
    assert loop.calm(replace(first_ended, oldest_joining_s=20.0), latency_s=0.9).allowance <= 2


def test_a_remembered_wave_that_met_no_limit_may_double() -> None:
    taught = Learned(window=60, join_s=5, boot_s=5, age_s=60, is_proven=False)
    loop = Loop(settings=LawSettings(has_gate=False), memory=LawMemory.start(taught))
    loop.calm(Joins(), times=10)
    assert loop.calm(Joins(waiting=150)).phase is Phase.SLOW_START


def test_what_was_ordered_just_now_fills_the_window() -> None:
    ordered = after((0.0, Joins()), (5.0, Joins(booting=24)))
    assert may_ask(ordered, 0, 24.0, PROMPT, join_s=80.0, now_s=5.0) == 0.0


def test_an_order_leaves_the_window_evenly_over_twice_the_mean_of_its_joins() -> None:
    ordered = after((0.0, Joins()), (10.0, Joins(booting=24)))
    rooms = [may_ask(ordered, 0, 24.0, PROMPT, join_s=4.0, now_s=at_s) for at_s in (10.0, 14.0, 18.0)]
    assert rooms == [0.0, 12.0, 24.0]


def test_joins_of_now_have_ended_when_slow_machines_come() -> None:
    joining = after((0.0, Joins()), (5.0, Joins(joining=24)))
    assert may_ask(joining, 24, 24.0, Boots(mean_s=120.0), join_s=10.0, now_s=6.0) == 24.0
    assert may_ask(joining, 24, 24.0, Boots(mean_s=0.0), join_s=10.0, now_s=6.0) < 3.0


def test_more_may_be_ordered_where_boots_spread_wider_than_joins_last() -> None:
    idle = after((0.0, Joins()))
    spread = Boots(mean_s=60.0, spread_s=20.0)
    assert may_ask(idle, 0, 24.0, spread, join_s=5.0, now_s=0.0) > 48.0
    assert may_ask(idle, 0, 24.0, spread, join_s=300.0, now_s=0.0) < 30.0


@pytest.mark.parametrize(("spread_s", "is_more"), [(0.0, False), (20.0, True)])
def test_a_wave_whose_boots_spread_wider_than_joins_last_is_larger_than_the_window(
    spread_s: float, *, is_more: bool
) -> None:
    loop = Loop(settings=LawSettings(has_gate=False, window_initial=24, window_max=24))
    loop.calm(Joins(), times=10)
    first = Joins(waiting=500, joining=24, joined=20, join_s=5.0, boot_s=60.0, boot_spread_s=spread_s)
    loop.calm(first)
    allowance = loop.calm(replace(first, joining=0, joined=44)).allowance
    assert allowance > 48 if is_more else allowance == 24


def test_a_steady_flow_has_as_many_under_way_as_the_window_lets_join() -> None:
    steady = JoinFlow(points=tuple(FlowPoint(s / 10.0, 0, 0, ordered=s, arrived=0, lost=0) for s in range(1001)))
    room = may_ask(steady, 0, 100.0, Boots(mean_s=200.0), join_s=4.0, now_s=100.0)
    assert room == pytest.approx(100.0 - 10.0 * 4.0, rel=0.02)


def test_what_boots_when_a_new_leader_begins_to_count_was_ordered_just_now() -> None:
    begun = JoinFlow(points=(FlowPoint(0.0, 3, 40, ordered=67, arrived=43, lost=0),))
    assert begun.booting() == ((0.0, 24),)
    assert may_ask(begun, 0, 24.0, PROMPT, join_s=4.0, now_s=2.0) == 6.0
    assert may_ask(JoinFlow(), 0, 24.0, PROMPT, join_s=4.0, now_s=2.0) == 24.0


steps = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=30)
"""Per look: ordered, come and joined since the last one, as far as there are such machines."""


@given(steps, st.floats(1.0, 500.0), st.floats(0.0, 300.0), st.floats(0.0, 60.0), st.floats(1.0, 300.0))
def test_an_order_never_passes_the_window_and_none_is_negative(
    looks: list[tuple[int, int, int]], window: float, boot_s: float, spread_s: float, join_s: float
) -> None:
    flow, booting, joining, joined = JoinFlow(), 0, 0, 0
    for number, (ordered, came, ended) in enumerate(looks):
        came, ended = min(came, booting), min(ended, joining)
        booting, joining, joined = booting + ordered - came, joining + came - ended, joined + ended
        flow = with_counts(flow, Joins(booting=booting, joining=joining, joined=joined), 5.0 * number)
    now_s = 5.0 * len(looks)
    assert sum(count for _, count in flow.booting()) == booting
    assert 0.0 <= may_ask(flow, joining, window, Boots(mean_s=boot_s), join_s, now_s) <= window
    assert may_ask(flow, joining, window, Boots(mean_s=boot_s, spread_s=spread_s), join_s, now_s) >= 0.0


def test_a_wave_is_judged_by_the_worst_of_its_cycle() -> None:
    """A lull between two waves proves nothing: the window grows neither in it nor for it."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    crowd = Joins(waiting=200, joining=24, joined=20, join_s=20.0, boot_s=5.0)
    loop.calm(crowd, latency_s=0.9 * PATIENT * CALM_S)
    window = loop.calm(replace(crowd, joining=0, joined=44), times=5).window
    assert window == 24.0


def test_a_wave_that_filled_the_window_counts_after_it_has_ended() -> None:
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    crowd = Joins(waiting=200, joining=24, joined=20, join_s=20.0, boot_s=5.0)
    loop.calm(crowd, times=4)
    assert loop.calm(replace(crowd, joining=4, joined=44)).window > 24.0


def second_wave(window: float = 24.0) -> tuple[Loop, Joins]:
    """In congestion avoidance with this window, filled by a wave of joins that end within 20 s."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    crowd = Joins(waiting=200, joining=24, joined=20, join_s=20.0, boot_s=5.0)
    loop.calm(crowd)
    loop.memory = replace(loop.memory, window=window, is_slow_start=False)
    return loop, crowd


def test_the_delay_that_any_wave_makes_does_not_cut_the_window() -> None:
    """Real, half a core: 24 joins at a time made 1.4 s of delay, as 45 did, and took a third longer in all."""
    loop, crowd = second_wave()
    borne = loop.calm(crowd, times=6, latency_s=1.5 * EQUILIBRIUM * CALM_S).window
    assert borne >= 24.0
    assert loop.calm(crowd, times=6, latency_s=1.5 * PATIENT * CALM_S).window < borne


def test_the_very_first_wave_is_given_the_time_of_one_before_its_delay_cuts_the_window() -> None:
    """Real: the first 24 of 150 cut a window of 48 to 28 before one of them had ended, and it stayed there."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    first = Joins(waiting=126, joining=24, oldest_joining_s=9.0, boot_s=8.0)
    begun = loop.calm(first)
    borne = loop.calm(first, times=3, latency_s=1.5 * EQUILIBRIUM * CALM_S)
    assert borne.window >= begun.window
    slow = replace(first, oldest_joining_s=40.0)
    assert loop.calm(slow, times=3, latency_s=1.5 * EQUILIBRIUM * CALM_S).window < borne.window


def test_after_errors_of_a_wave_the_next_one_is_ordered_in_time() -> None:
    """Real: a pause of 12 s and then a boot of 8 s left the servers idle, twice in a scale-up of 189 s."""
    loop, crowd = second_wave()
    slow_s = 1.5 * EQUILIBRIUM * CALM_S
    cut = loop.calm(crowd, errors=10.0, latency_s=slow_s)
    assert (cut.phase, cut.because.reason, round(cut.window)) == (Phase.BRAKE, ThrottleReason.ERRORS, 12)
    assert loop.calm(crowd, latency_s=slow_s).allowance == 0, "the wave still fills the smaller window"
    ended = loop.calm(replace(crowd, joining=0, joined=44))
    assert (ended.phase, ended.allowance) == (Phase.AVOID, int(ended.window))


def test_errors_that_go_on_cut_again_once_the_former_cut_has_shown() -> None:
    loop, crowd = second_wave()
    loop.calm(crowd, errors=10.0)
    again = [loop.calm(replace(crowd, joining=12), errors=10.0) for _ in range(7)]
    assert [round(verdict.window) for verdict in again[:4]] == [12, 12, 12, 12]
    assert [verdict.phase for verdict in again[:4]] == [Phase.AVOID] * 4
    assert again[-1].window < 12


def test_readings_from_before_a_wave_prove_nothing_for_it() -> None:
    """Real: 24 joins came after the newest reading; its calm doubled the window, and the next wave was 112."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    loop.calm(Joins(waiting=200, booting=24, joined=20, join_s=20.0, boot_s=5.0), times=6)
    crowd = Joins(waiting=200, joining=24, joined=20, join_s=20.0, boot_s=5.0)
    before = reading(loop.now_s + STEP_S - 1.0)
    assert loop.look(Signals(readings=(before,)), crowd).window == 24.0
    assert loop.calm(crowd, times=2).window > 24.0


def doubled(booting: int) -> tuple[Loop, Joins]:
    """The first wave of 24 has ended well, and so many of the next are on their way."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    loop.calm(Joins(waiting=200, joining=24, joined=20, join_s=4.0, boot_s=5.0), times=5)
    assert loop.memory.window == 48.0
    return loop, Joins(waiting=200 - booting, booting=booting, joined=44, join_s=4.0, boot_s=5.0)


def test_a_doubled_window_is_ordered_once_and_its_first_wave_waited_for() -> None:
    """Real: joins that took 6 s in a window of 24 took 20 s in one of 48, and 79 were in flight."""
    loop, second = doubled(36)
    assert loop.calm(second).allowance == 12
    coming = replace(second, waiting=152, booting=24, joining=24, oldest_joining_s=4.0)
    assert loop.calm(coming).allowance == 0
    assert loop.calm(replace(coming, booting=0, joining=20, joined=72)).allowance == 28


def test_a_wave_that_comes_bit_by_bit_is_not_waited_for_for_ever() -> None:
    loop, second = doubled(28)
    trickle = replace(second, joining=20, waiting=152)
    assert loop.calm(trickle).allowance == 0
    later = [loop.calm(replace(trickle, joined=44 + 10 * more)).allowance for more in range(1, 13)]
    assert later == [0] * 6 + [4] + [0] * 5, "the first wave had its time by then"


def ten_at_most() -> tuple[Loop, Joins]:
    """Ten have joined in two seconds, all that the user lets in, and the next ten were ordered a lull later."""
    loop = Loop(settings=LawSettings(has_gate=False, window_initial=10, window_max=10))
    loop.calm(Joins(), times=10)
    first = Joins(waiting=50, joining=10, joined=20, join_s=2.0, boot_s=10.0)
    loop.calm(first)
    loop.calm(replace(first, joining=0, joined=30), times=8)
    second = replace(first, waiting=40, joining=0, joined=30)
    loop.calm(replace(second, booting=10), times=2)
    return loop, second


def test_the_next_wave_is_ordered_while_one_joins_however_long_the_lull_before_it_was() -> None:
    """Real: the look that came while ten joined ordered none, so the next lull was longer, and so on: 98 s, not 44."""
    loop, second = ten_at_most()
    before = Signals(readings=(reading(loop.now_s),))
    assert loop.look(before, replace(second, joining=10, oldest_joining_s=1.0)).allowance == 10


def test_a_window_at_its_bound_does_not_double() -> None:
    """It said so, and the next wave was waited for as if it were larger than any before."""
    loop = Loop(settings=LawSettings(has_gate=False, window_initial=10, window_max=10))
    loop.calm(Joins(), times=10)
    first = Joins(waiting=50, joining=10, joined=20, join_s=2.0, boot_s=10.0)
    began_s = loop.now_s + STEP_S
    for _ in range(12):
        assert loop.calm(first).because.reason is not ThrottleReason.DOUBLING
    assert loop.memory.doubled_s == began_s


@pytest.mark.parametrize("busy", [0, 1], ids=["the busy one first", "the busy one second"])
@pytest.mark.parametrize(("cpu", "doubles"), [(0.5, True), (0.85, False)], ids=["room", "full"])
def test_prompt_waves_double_until_a_server_is_full(busy: int, cpu: float, *, doubles: bool) -> None:
    """Real: delay was low with 43 joins on a full server; the window doubled to 96, and 335 requests were refused."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=200, joining=24, joined=20, join_s=4.0, boot_s=5.0)
    for _ in range(5):
        shares = (cpu, 0.1) if busy == 0 else (0.1, cpu)
        now_s = loop.now_s + STEP_S
        pair = (reading(now_s, server=name, cpu_share=share) for name, share in zip("ab", shares, strict=True))
        verdict = loop.look(Signals(readings=tuple(pair)), joins)
    assert (verdict.window >= 48.0) is doubles
    assert (verdict.phase is Phase.SLOW_START) is doubles


def test_waves_do_not_double_on_a_server_that_gets_no_more_cpu() -> None:
    """Real, at half a core: 0.5 with 24 joins as with 74, so joins seemed ever cheaper and the window doubled."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10, cpu_share=0.05)
    joins = Joins(waiting=200, joining=48, joined=20, join_s=4.0, boot_s=5.0)
    for _ in range(6):
        verdict = loop.calm(joins, cpu_share=0.5, latency_s=0.3, queue_wait_s=0.3)
    assert verdict.phase is Phase.AVOID
    assert verdict.window < 96.0


def test_a_full_server_in_one_window_of_a_wave_counts_in_the_lull_too() -> None:
    """A mean over the wave and the lull says that there is room."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    joins = Joins(waiting=200, joining=24, joined=20, join_s=4.0, boot_s=5.0)
    loop.calm(joins, cpu_share=0.1)
    loop.calm(joins, cpu_share=0.9)
    assert loop.calm(replace(joins, joining=2, joined=42), cpu_share=0.1).phase is Phase.AVOID


@pytest.mark.parametrize(("oldest_s", "most"), [(2.0, 48), (18.0, 24)])
def test_joins_are_taken_to_last_for_as_long_as_those_under_way(oldest_s: float, most: int) -> None:
    """The latest that ended took 6 s; where those under way have lasted 18 s, they will be there when the next come."""
    loop = Loop(settings=LawSettings(has_gate=False))
    loop.calm(Joins(), times=10)
    crest = Joins(waiting=200, joining=40, joined=80, join_s=6.0, boot_s=5.0, oldest_joining_s=oldest_s)
    loop.calm(crest)
    loop.memory = replace(loop.memory, window=48.0)
    assert (loop.calm(crest).allowance <= 24) is (most == 24)
