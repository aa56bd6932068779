"""Who goes in and what may be asked for at one look, by numbers that can be checked by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.law.looks import NOW_S, SETTINGS, a_look, with_health
from throttler.joins.joins import Joins
from throttler.kube.reasons_and_events import because
from throttler.law import admission, join_model
from throttler.law.admission import Boots, Filling, Outlook, filled
from throttler.law.join_model import JoinFlow, JoinTime, Load
from throttler.law.law_input import LawInput, update
from throttler.law.law_memory import Order
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, ThrottleReason
from throttler.law.window_formulas import Knee

WHY = because(ThrottleReason.NO_DEMAND, window=100.0)


EARLY_GATE = replace(SETTINGS, registers_freely=False)
"""Of a gate before registration: time limits alone bound how many machines may wait at it."""


def fill(facts: LawInput, phase: Phase = Phase.AVOID) -> Filling:
    return filled(facts, update(facts, facts.window, phase, WHY))


def with_joins(facts: LawInput, **changes: object) -> LawInput:
    return replace(facts, joins=replace(facts.joins, **changes))  # type: ignore[arg-type]


def test_held_machines_go_in_as_far_as_window_and_tokens_reach() -> None:
    # 0.85 x 100 joins in 80 s: 1.0625 per second, 5.3 in the 5 s since the last look.
    assert fill(a_look(tokens=0.0)).admit == 5
    assert fill(a_look(tokens=0.0)).tokens == pytest.approx(0.3125)
    assert fill(a_look(joining=97, tokens=100.0)).admit == 3
    assert fill(a_look(joining=101, tokens=100.0)).admit == 0
    assert fill(a_look(joining=50, waiting=2, tokens=100.0)).admit == 2
    assert fill(a_look(joining=50)).admit == 12, "half of what a cold start tries goes in at once"
    mute = with_health(a_look(tokens=0.0), traces=())
    assert fill(mute).admit + fill(mute).tokens == pytest.approx(5.3125), "where delay is not known it slows nothing"


def test_nothing_goes_in_and_no_place_is_free_in_a_brake() -> None:
    braked = fill(with_joins(a_look(), waiting=50), Phase.BRAKE)
    assert (braked.admit, braked.allowance, braked.spare) == (0, 0, 0)


def test_delay_slows_what_goes_in_by_the_square_of_what_it_is_too_much() -> None:
    slow = a_look(index=(2 * SETTINGS.equilibrium,) * 2, tokens=0.0)
    assert fill(slow).tokens + fill(slow).admit == pytest.approx(5.3125 / 4)


def test_pace_is_a_full_window_per_join() -> None:
    assert fill(a_look(120.0)).pace_per_min == pytest.approx(90)


@pytest.mark.parametrize(("phase", "per_min"), [(Phase.AVOID, 6.0), (Phase.STALE, 3.0)])
def test_the_users_bounds_hold_and_one_of_them_only_while_blind(phase: Phase, per_min: float) -> None:
    bounded = replace(SETTINGS, max_per_min=6.0, safe_per_min=3.0)
    facts = with_joins(a_look(settings=bounded, tokens=0.0, ask_tokens=0.0), waiting=100)
    spent = fill(facts, phase)
    assert spent.tokens + spent.admit == pytest.approx(5.0 * per_min / 60.0)
    assert (spent.allowance, spent.spare) == (0, 0)


def test_what_is_free_beyond_what_waits_is_spare() -> None:
    facts = with_joins(a_look(waiting=20, settings=EARLY_GATE), waiting=30)
    after = fill(facts)
    assert after.allowance == 30
    # Stock: 10 places of the window, and half the pace of 100 in 80 s for 410 s of holding and 120 s of boot.
    assert after.allowance + after.spare == 10 + 331 - 20


def test_no_more_is_in_flight_than_the_user_allows() -> None:
    facts = with_joins(a_look(waiting=20, settings=replace(SETTINGS, max_in_flight=115)), waiting=30)
    assert fill(facts).allowance == 5
    assert fill(with_joins(facts, late_joining=3)).allowance == 2
    assert fill(with_joins(facts, urgent=30, waiting=30)).allowance == 5


@pytest.mark.parametrize(
    ("oldest_held_s", "elapsed_s", "overdue"),
    [(409.0, 5.0, 0), (410.0, 5.0, 6), (410.0, 0.1, 2), (410.0, 90.0, 100), (410.0, 500.0, 100)],
)
def test_machines_near_their_limit_go_in_spread_over_what_is_left(
    oldest_held_s: float, elapsed_s: float, overdue: int
) -> None:
    """A machine may be held for 600 s; 100 s before the reserve of those it becomes one of 90 s of going first."""
    flow = join_model.with_counts(JoinFlow(), Joins(held=100), 0.0)
    joins = Joins(held=100, oldest_held_s=oldest_held_s)
    assert admission.overdue_now(joins, flow, 120.0, elapsed_s, 410.0, SETTINGS) == overdue


def test_one_machine_goes_in_at_a_step_that_is_older_than_all_that_is_remembered() -> None:
    joins = Joins(held=5, oldest_held_s=590.0)
    assert [admission.overdue_now(joins, JoinFlow(), 120.0, s, 1000.0, SETTINGS) for s in (5.0, 500.0)] == [1, 1]


def test_a_short_kill_timer_is_the_nearer_limit() -> None:
    flow = join_model.with_counts(JoinFlow(), Joins(held=90), 0.0)
    quick = replace(SETTINGS, kill_timer_s=300.0)
    # 300 - 120 - 60 = 120 s of holding, the last 90 s of them going first.
    assert admission.overdue_now(Joins(held=90, oldest_held_s=29.0), flow, 120.0, 1.0, 29.0, quick) == 0
    assert admission.overdue_now(Joins(held=90, oldest_held_s=30.0), flow, 120.0, 1.0, 30.0, quick) == 1
    assert admission.overdue_now(Joins(held=90, oldest_held_s=120.0), flow, 120.0, 1.0, 120.0, quick) == 90


@pytest.mark.parametrize(
    ("window", "per_min", "per_s", "burst"),
    [
        (80.0, None, 0.85, 12.0),
        (800.0, None, 8.5, 51.0),
        (4.0, None, 0.0425, 2.0),
        (1.0, None, 0.010625, 1.0),
        (80.0, 12.0, 0.2, 1.0),
        (800.0, 120.0, 2.0, 10.0),
    ],
)
def test_a_bucket_holds_a_few_seconds_of_the_pace_or_half_a_cold_start(
    window: float, per_min: float | None, per_s: float, burst: float
) -> None:
    bucket = admission.bucket(window, 80.0, 1.0, per_min, SETTINGS)
    assert (bucket.per_s, bucket.burst) == (pytest.approx(per_s), pytest.approx(burst))
    assert bucket.filled(None, 0.0) == bucket.burst
    assert bucket.filled(0.0, -5.0) == 0.0


@pytest.mark.parametrize(
    ("joins", "remembered_s", "boot_s"),
    [
        (Joins(boot_s=50.0, oldest_booting_s=90.0), 70.0, 50.0),
        (Joins(oldest_booting_s=60.0), 70.0, 70.0),
        (Joins(oldest_booting_s=90.0), 70.0, 90.0),
        (Joins(), None, 120.0),
    ],
)
def test_boots_last_as_measured_else_as_remembered_and_no_less_than_one_has_lasted(
    joins: Joins, remembered_s: float | None, boot_s: float
) -> None:
    assert admission.boot_time_s(joins, remembered_s, SETTINGS) == boot_s


@pytest.mark.parametrize(
    ("boot_s", "settings", "hold_s"),
    [
        (120.0, SETTINGS, 410.0),
        (500.0, SETTINGS, 340.0),
        (900.0, SETTINGS, 0.0),
        (120.0, replace(SETTINGS, max_wait_s=200.0), 10.0),
    ],
)
def test_nobody_is_planned_to_wait_until_it_goes_first_for_its_age(
    boot_s: float, settings: LawSettings, hold_s: float
) -> None:
    assert admission.longest_wait_s(boot_s, settings) == hold_s


def test_stock_counts_no_place_of_the_window_twice_and_no_time_in_which_none_goes_in() -> None:
    outlook = Outlook(window=80.0, pace_per_s=2.0, boot_s=100.0)
    assert admission.gated_stock(outlook, Joins(held=1, joining=30), SETTINGS) == 50 + 510
    assert admission.gated_stock(outlook, Joins(joining=90, oldest_booting_s=40.0), SETTINGS) == 450
    assert admission.gated_stock(outlook, Joins(oldest_booting_s=140.0), SETTINGS) == 80 + 510


def test_parts_of_boots_stand_for_equal_shares() -> None:
    assert Boots(mean_s=100.0).parts == (100.0,)
    parts = Boots(mean_s=100.0, spread_s=10.0).parts
    assert (len(parts), parts[3]) == (7, 100.0)
    assert parts[0] == pytest.approx(100 - 14.65, abs=0.01)
    assert sum(parts) == pytest.approx(700)
    assert min(Boots(mean_s=1.0, spread_s=10.0).parts) == 0.0


@given(window=st.integers(1, 500), joining=st.integers(0, 500), join_s=st.floats(1.0, 100.0))
def test_with_nothing_under_way_a_whole_window_may_be_asked_for_and_joins_take_their_part(
    window: int, joining: int, join_s: float
) -> None:
    boots = Boots(mean_s=300.0)
    assert admission.may_ask(JoinFlow(), 0, float(window), boots, join_s, 0.0) == window
    flow = join_model.with_counts(JoinFlow(), Joins(joining=joining), 0.0)
    # They have all ended by the time at which what is asked for now comes.
    assert admission.may_ask(flow, joining, float(window), boots, join_s, 0.0) == pytest.approx(window)
    soon = Boots(mean_s=join_s)
    asked = admission.may_ask(flow, joining, float(window), soon, join_s, 0.0)
    assert asked == pytest.approx(max(0.0, window - joining / 2))


def test_what_came_lately_or_boots_will_still_join_when_the_next_come() -> None:
    flow = join_model.with_counts(JoinFlow(), Joins(), 0.0)
    flow = join_model.with_counts(flow, Joins(booting=10), 10.0)
    assert admission.arrivals(flow, Boots(mean_s=60.0), 80.0, 10.0) == pytest.approx(10)
    assert admission.arrivals(flow, Boots(mean_s=60.0), 80.0, 50.0) == pytest.approx(10 * 0.75)
    came = join_model.with_counts(flow, Joins(joining=10), 70.0)
    # They came when they were 60 s old: 160 s is the longest that a join lasts.
    assert admission.arrivals(came, Boots(mean_s=60.0), 80.0, 70.0) == pytest.approx(10 * (1 - 60 / 160))
    assert admission.arrivals(came, Boots(mean_s=60.0), 80.0, 171.0) == 0.0


def test_a_first_look_without_a_gate_asks_for_a_cold_start_and_no_more() -> None:
    ungated = LawSettings(has_gate=False)
    facts = a_look(joining=0, waiting=0, settings=ungated, flow=JoinFlow())
    facts = with_joins(facts, waiting=500, join_s=None, boot_s=None)
    facts = replace(facts, memory=replace(facts.memory, looked_s=NOW_S))
    assert fill(facts).allowance == 24
    assert fill(facts).admit == 0


@pytest.mark.parametrize(("load", "is_proven", "allowance"), [(None, False, 24), (0.001, False, 50), (0.001, True, 24)])
def test_half_a_window_by_the_cost_of_joins_is_asked_for_first_unless_a_limit_was_met(
    load: float | None, allowance: int, *, is_proven: bool
) -> None:
    knee = Knee(window=100.0, at_s=NOW_S, is_proven=is_proven)
    known = Load(idle=(0.1,), remembered=load)
    facts = a_look(joining=0, waiting=0, settings=LawSettings(has_gate=False), flow=JoinFlow(), load=known, knee=knee)
    facts = with_joins(facts, waiting=500, join_s=None, boot_s=None)
    facts = replace(facts, memory=replace(facts.memory, looked_s=NOW_S), elapsed_s=0.0)
    assert fill(facts).allowance == allowance


def test_a_pace_by_known_joins_is_the_one_at_which_they_are_let_in() -> None:
    facts = with_joins(a_look(waiting=20, settings=EARLY_GATE, load=Load(idle=(0.1,), remembered=0.001)), waiting=30)
    after = fill(facts)
    # 0.85 of the pace while the cost of a join is known: 530 s of half of that, and 10 places of the window.
    assert after.allowance + after.spare == 10 + 281 - 20


def test_a_pace_by_nothing_but_the_window_is_that_of_joins_of_its_size() -> None:
    after = fill(with_joins(a_look(40.0, waiting=20, joining=30, settings=EARLY_GATE), waiting=500))
    # 40 in 80 s: 530 s of half of that, and 10 places of the window.
    assert after.allowance == 10 + 132 - 20


def ungated(joins: Joins, flow: JoinFlow) -> LawInput:
    """Joins of 80 s after boots of 120 s, which nothing holds back once they are ordered, in a window of 100."""
    joins = replace(joins, waiting=500, joined=100, join_s=80.0, boot_s=120.0)
    settings = LawSettings(has_gate=False, max_in_flight=1000)
    facts = a_look(settings=settings, flow=flow, ask_tokens=1000.0)
    return replace(facts, joins=joins)


@pytest.mark.parametrize(
    ("joins", "allowance"),
    [
        # 80 boot, and 11.9 of those that join will still do so when the next come.
        (Joins(joining=90, booting=80), 8),
        # In all 100, and 0.85 x 100 in 80 s for the 120 s of a boot: 227, of which 220 are under way.
        (Joins(joining=90, booting=50, held=80), 7),
        (Joins(joining=90, booting=50, held=90), 0),
    ],
)
def test_without_a_gate_what_comes_while_the_next_boot_is_taken_off(joins: Joins, allowance: int) -> None:
    flow = join_model.with_counts(join_model.with_counts(JoinFlow(), joins, NOW_S - 10.0), joins, NOW_S)
    assert fill(ungated(joins, flow)).allowance == allowance


@pytest.mark.parametrize(("booting", "allowance"), [(100, 89), (190, 5), (200, 0)])
def test_where_machines_register_freely_two_windows_of_them_may_come(booting: int, allowance: int) -> None:
    """A gate holds them once they have registered: 200, less those that boot and joins that have not ended by then."""
    joins = Joins(joining=90, booting=booting)
    flow = join_model.with_counts(join_model.with_counts(JoinFlow(), joins, NOW_S - 10.0), joins, NOW_S)
    late_gate = LawSettings(has_gate=True, max_in_flight=1000)
    assert fill(replace(ungated(joins, flow), settings=late_gate)).allowance == allowance


def test_where_most_machines_never_come_more_may_be_asked_for() -> None:
    joins = Joins(joining=90, booting=50, held=400)
    flow = join_model.with_counts(JoinFlow(), joins, NOW_S - 400.0)
    for ago_s in (200.0, 0.0):
        flow = join_model.with_counts(flow, replace(joins, lost=100), NOW_S - ago_s)
    assert flow.coming_share == pytest.approx(0.3)
    # 227 in all, of which 90 join and 0.3 x 450 come: 2.5 more, for which 8.3 are asked.
    facts = ungated(joins, flow)
    assert fill(facts).allowance == 8
    # What never comes costs no join, and a user's bound counts every machine.
    few = replace(facts, memory=replace(facts.memory, ask_tokens=2.0), elapsed_s=0.0)
    assert fill(few).allowance == 6
    assert fill(replace(few, settings=replace(few.settings, max_per_min=60.0))).allowance == 2


@pytest.mark.parametrize(
    ("joining", "held", "seconds", "allowance"),
    [
        # A join every two seconds: a window that is not full may be half as quick again, so joins last 133 s in it.
        (50, 120, 200, 6),
        # In a full one they last 200 s.
        (60, 80, 200, 11),
        # Until joins have ended for as long as one takes nothing is proven; what may be ordered at once bounds it.
        (50, 120, 150, 19),
        (50, 120, 160, 6),
    ],
)
def test_no_more_are_taken_to_end_than_really_ended(joining: int, held: int, seconds: int, allowance: int) -> None:
    flow, step_s = JoinFlow(), 10
    for passed_s in range(0, seconds + step_s, step_s):
        now = Joins(joining=joining, held=held, joined=passed_s // 2)
        flow = join_model.with_counts(flow, now, NOW_S - seconds + passed_s)
    assert fill(ungated(Joins(joining=joining, held=held), flow)).allowance == allowance


def in_waves(joins: Joins, flow: JoinFlow, **memory: object) -> LawInput:
    """Joins of 20 s after boots of 10 s, which nothing holds back once they are ordered, in a window of 100."""
    facts = ungated(joins, flow)
    known = replace(facts.memory, join_time=JoinTime(now_s=20.0, least_s=20.0), boot_s=10.0)
    facts = replace(facts, memory=replace(known, **memory))  # type: ignore[arg-type]
    return with_joins(facts, join_s=20.0, boot_s=10.0)


def test_a_pace_of_waves_is_proven_whatever_the_lulls_between_them() -> None:
    flow = JoinFlow()
    for passed_s in range(0, 185, 5):
        wave, since_s = divmod(passed_s, 60)
        now = Joins(joining=100, joined=100 * wave) if since_s < 40 else Joins(joined=100 * wave + 100)
        flow = join_model.with_counts(flow, now, NOW_S - 180 + passed_s)
    # 100 in 40 s: of those that have just come an eighth will have joined when the next come, and not a quarter.
    assert fill(in_waves(Joins(joining=100), flow)).allowance == 12


def wave_of(joining: int, *, newly_ordered: int = 0, **memory: object) -> LawInput:
    """So many machines have just come, and the order before began 20 s ago."""
    joins = Joins(joining=joining)
    flow = join_model.with_counts(JoinFlow(), joins, NOW_S)
    order = Order(began_s=NOW_S - 20.0)
    return in_waves(joins, replace(flow, newly_ordered=newly_ordered), **{"order": order, **memory})


def test_of_waves_a_quarter_of_the_window_is_ordered_at_least() -> None:
    begun = fill(wave_of(100))
    assert (begun.allowance, begun.order) == (25, Order(left=25, began_s=NOW_S)), "of 100 joins 75 are left in 10 s"
    small = fill(wave_of(102))
    assert (small.allowance, small.spare) == (0, 0), "what nobody waits for yet would be ordered one by one"
    assert fill(with_joins(wave_of(102), waiting=20)).allowance == 20, "all that waits is no small order"
    bounded = wave_of(31)
    bounded = replace(bounded, settings=replace(bounded.settings, max_in_flight=40))
    assert fill(bounded).allowance == 0
    assert fill(with_joins(bounded, joining=30)).allowance == 10, "a quarter of what the user's bound leaves"


def test_an_order_of_a_wave_stands_until_all_of_it_is_asked_for() -> None:
    order = Order(left=30, began_s=NOW_S - 20.0)
    rest = fill(wave_of(102, newly_ordered=24, order=order))
    assert (rest.allowance, rest.order) == (6, replace(order, left=6))
    assert fill(wave_of(102, newly_ordered=30, order=order)).allowance == 0
    more = fill(wave_of(20, newly_ordered=24, order=order))
    assert (more.allowance, more.order) == (81, Order(left=81, began_s=NOW_S)), "of 20 joins 19 are left in 10 s"


def test_machines_that_stay_late_hold_the_next_order_back_for_a_boot_and_a_cycle() -> None:
    due_s = 10.0 + wave_of(102).cycle_s
    assert fill(wave_of(102, order=Order(began_s=NOW_S - due_s + 1.0))).allowance == 0
    assert fill(wave_of(102, order=Order(began_s=NOW_S - due_s))).allowance == 23
    full = fill(wave_of(200, order=Order(began_s=NOW_S - due_s)))
    assert (full.allowance, full.order.began_s) == (0, NOW_S - due_s), "no order is made of nothing"


def test_a_users_pace_of_waves_is_even() -> None:
    facts = wave_of(102)
    assert fill(replace(facts, settings=replace(facts.settings, max_per_min=6.0))).allowance == 1


def test_the_next_scale_up_begins_with_a_full_bucket() -> None:
    assert fill(a_look(joining=0, waiting=0, is_idle=True)).ask_tokens is None
    assert fill(a_look(ask_tokens=0.0)).ask_tokens is not None


def test_where_nothing_holds_machines_back_none_is_let_in() -> None:
    held = Joins(joining=50, held=50, oldest_held_s=590.0)
    assert fill(ungated(held, JoinFlow())).admit == 0


def test_a_pace_by_what_requests_cost_counts_where_it_is_the_higher() -> None:
    """Six tenths of a server are free: 2.5 joins a second at 250 requests of 0.96 ms, where 100 in 80 s are 1.25."""
    facts = a_look(waiting=20, settings=EARLY_GATE, load=Load(idle=(0.2,), per_request=(0.00096,)))
    after = fill(with_joins(facts, waiting=30))
    assert after.allowance + after.spare == 10 + 662 - 20


@pytest.mark.parametrize(
    ("per_join", "index", "allowance"),
    [
        # At 40 s instead of 20 an eighth of the fifty has joined when the next ones come.
        pytest.param(None, 1.0, 56, id="what a join costs is not known"),
        pytest.param(0.02, 1.0, 56, id="servers have room for 35 joins"),
        pytest.param(0.002, 9.0, 56, id="there is room by CPU, but requests wait"),
        # At 20 s a quarter.
        pytest.param(0.002, 1.0, 62, id="servers have room for more than the window"),
    ],
)
def test_in_a_window_that_no_wave_filled_yet_joins_are_taken_to_last_longer_unless_it_is_known_to_fit(
    per_join: float | None, index: float, allowance: int
) -> None:
    """Fifty of a window of 100 have just come."""
    flow = JoinFlow()
    for ago_s, joining in ((40.0, 0), (0.0, 50)):
        flow = join_model.with_counts(flow, Joins(joining=joining), NOW_S - ago_s)
    facts = ungated(Joins(joining=50), flow)
    facts = replace(facts, joins=replace(facts.joins, join_s=20.0, boot_s=10.0))
    load = Load(idle=(0.1,), remembered=per_join)
    quick = replace(facts.memory, join_time=JoinTime(now_s=20.0, least_s=20.0), load=load)
    facts = replace(facts, memory=quick, health=a_look(index=(index, index)).health)
    assert fill(facts).allowance == allowance


def test_what_is_under_way_has_the_rest_of_its_time_before_it() -> None:
    begun = join_model.with_counts(JoinFlow(), Joins(), 0.0)
    joining = join_model.with_counts(begun, Joins(joining=24), 10.0)
    # Of those that have joined for 10 s of up to 40 s, two thirds will still do so in 10 s.
    assert admission.may_ask(joining, 24, 48.0, Boots(mean_s=10.0), 20.0, 20.0) == pytest.approx(32.0)
    late = join_model.with_counts(begun, Joins(booting=10), 10.0)
    # Machines that ought to be there come at any moment: 10 s later a quarter of them has joined.
    assert admission.may_ask(late, 0, 24.0, Boots(mean_s=10.0), 20.0, 100.0) == pytest.approx(24.0 - 7.5)
