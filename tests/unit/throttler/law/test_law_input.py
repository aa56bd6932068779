"""What a look goes by, figure by figure: joins of 80 s behind a gate, read every 10 s, unless told otherwise."""

from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import CALM_S, NOW_S, a_look, with_health
from throttler.joins.joins import Joins
from throttler.law.join_model import JoinFlow, JoinTime, Load, with_counts
from throttler.law.law_input import LawInput
from throttler.law.settings import LawSettings
from throttler.law.window_formulas import Cuts, Knee

UNGATED = LawSettings(has_gate=False)
QUICK = JoinTime(now_s=20.0, least_s=20.0)
LONG = with_counts(with_counts(JoinFlow(), Joins(joining=90), NOW_S - 30.0), Joins(joining=90), NOW_S)
"""Something has been joining for half a minute."""


def waves(*joining: tuple[float, int], **more: object) -> LawInput:
    """Machines that nothing holds and that join in 20 s; (how long ago, joins in flight) of each look."""
    flow = JoinFlow()
    for ago_s, count in joining:
        flow = with_counts(flow, Joins(joining=count), NOW_S - ago_s)
    usual: dict[str, object] = {"settings": UNGATED, "join_time": QUICK, "flow": flow}
    return a_look(**{**usual, **more})  # type: ignore[arg-type]


def unread(facts: LawInput) -> LawInput:
    return with_health(facts, fresh=(), new=())


@pytest.mark.parametrize(
    ("settings", "join_time", "has_waves"),
    [
        (UNGATED, JoinTime(now_s=39.9), True),
        (UNGATED, JoinTime(now_s=40.0), False),
        (UNGATED, JoinTime(least_s=39.9), True),
        (UNGATED, JoinTime(), False),
        (LawSettings(has_gate=True), JoinTime(now_s=20.0), False),
    ],
)
def test_machines_come_in_waves_where_joins_that_nothing_holds_end_within_four_looks(
    settings: LawSettings, join_time: JoinTime, *, has_waves: bool
) -> None:
    assert a_look(settings=settings, join_time=join_time).has_waves is has_waves


@pytest.mark.parametrize(
    ("facts", "is_patient"),
    [
        (a_look(settings=UNGATED, join_time=QUICK), True),
        (a_look(settings=UNGATED, join_time=JoinTime(now_s=40.0)), False),
        (a_look(settings=UNGATED, join_time=JoinTime()), True),
        (replace(a_look(settings=UNGATED, join_time=JoinTime()), joins=Joins(joining=9, oldest_joining_s=40.0)), False),
        (a_look(join_time=JoinTime(least_s=5.0)), True),
        (a_look(join_time=QUICK), False),
        (a_look(join_time=JoinTime()), False),
    ],
)
def test_delay_is_borne_of_prompt_joins_and_of_waves_and_of_a_first_wave_that_is_still_under_way(
    facts: LawInput, *, is_patient: bool
) -> None:
    assert facts.is_patient is is_patient


@pytest.mark.parametrize(("least_s", "is_prompt"), [(None, False), (10.0, True), (10.1, False)])
def test_a_join_is_prompt_that_ends_within_two_scrapes_of_ours(least_s: float | None, *, is_prompt: bool) -> None:
    assert a_look(join_time=JoinTime(now_s=5.0, least_s=least_s)).is_prompt is is_prompt


@pytest.mark.parametrize(
    ("facts", "do_queue"),
    [
        (a_look(index=(2.0, 2.0), join_time=JoinTime(now_s=9.0, least_s=4.5)), True),
        (a_look(index=(2.0, 2.0), join_time=JoinTime(now_s=8.9, least_s=4.5)), False),
        (a_look(index=(1.9, 9.0), join_time=JoinTime(now_s=9.0, least_s=4.5)), False),
        (a_look(index=(2.0, 2.0), join_time=JoinTime(now_s=11.0, least_s=5.1)), False),
        (a_look(index=(2.0, 2.0), join_time=JoinTime(least_s=4.5)), False),
        (a_look(index=(2.0, 2.0), join_time=JoinTime(now_s=20.0, least_s=10.0), flow=LONG), True),
        (a_look(index=(2.0, 2.0), join_time=JoinTime(now_s=20.2, least_s=10.1), flow=LONG), False),
        (a_look(index=(2.0, 2.0), settings=UNGATED, join_time=JoinTime(now_s=9.0, least_s=4.5)), False),
    ],
    ids=["twice", "nearly", "requests do not wait", "of before", "none", "longest", "not prompt", "waves"],
)
def test_prompt_joins_queue_that_take_twice_their_least_while_requests_wait(facts: LawInput, *, do_queue: bool) -> None:
    """What is known of the latest joins is of the scale-up before, while this one is younger than that."""
    assert facts.do_joins_queue is do_queue


def test_durations_are_guessed_until_a_join_has_ended() -> None:
    facts = a_look(join_time=JoinTime())
    assert (facts.join_s, facts.latest_join_s) == (30.0, 30.0)
    facts = replace(facts, joins=replace(facts.joins, oldest_joining_s=50.0))
    assert (facts.join_s, facts.latest_join_s) == (50.0, 50.0)
    facts = a_look(join_time=JoinTime(now_s=15.0, least_s=8.0))
    assert (facts.join_s, facts.latest_join_s) == (8.0, 20.0), "nothing ends sooner than two scrapes show it"


@pytest.mark.parametrize(("span_s", "scrape_s"), [(5.0, 5.0), (60.0, 60.0), (90.0, 60.0)])
def test_no_scrape_counts_as_longer_than_a_minute(span_s: float, scrape_s: float) -> None:
    facts = a_look()
    read = tuple(replace(reading, span_s=span_s) for reading in facts.health.fresh)
    assert with_health(facts, fresh=read).scrape_s == scrape_s
    assert unread(facts).scrape_s == 10.0


def test_a_cycle_is_two_scrapes_or_a_join_and_a_look() -> None:
    assert waves().cycle_s == 30.0
    assert a_look(join_time=JoinTime(now_s=5.0)).cycle_s == 30.0


def test_the_crest_of_a_wave_is_that_of_its_cycle_as_far_as_readings_go() -> None:
    facts = waves((31.0, 70), (30.0, 60), (12.0, 5), (3.0, 50))
    assert facts.peak == 60
    old = tuple(replace(reading, ended_s=NOW_S - 4.0) for reading in facts.health.fresh)
    assert with_health(waves((15.0, 5), (3.0, 50)), fresh=old).peak == 5
    assert unread(waves((15.0, 5), (3.0, 50))).peak == 50
    steady = waves((21.0, 60), (20.0, 20), (0.0, 5), settings=LawSettings(has_gate=True))
    assert steady.peak == 20, "behind a gate, of two scrapes"


def test_the_latest_wave_is_remembered_through_any_lull() -> None:
    facts = waves((300.0, 90), (270.0, 0), (240.0, 60), (220.0, 7), (200.0, 0), (100.0, 0), (3.0, 50))
    old = tuple(replace(reading, ended_s=NOW_S - 4.0) for reading in facts.health.fresh)
    assert with_health(facts, fresh=old).crest == 60, "no reading has felt the 50"
    assert facts.crest == 50
    assert waves((30.0, 0)).crest == 0


def test_before_the_first_wave_the_crest_is_what_was_learned() -> None:
    learned = Knee(window=40.4, age_s=100.0)
    assert waves((30.0, 0), knee=learned).crest == 40
    assert waves((30.0, 20), knee=learned).crest == 20
    assert not waves((30.0, 0), knee=learned, doubled_s=NOW_S).is_untried(66.0)
    assert waves((30.0, 0), knee=learned, doubled_s=NOW_S).is_untried(67.0)


def test_delay_tells_of_the_crest_of_a_wave_and_else_of_what_joins_now() -> None:
    assert waves((15.0, 60), joining=7).loading == 60
    assert a_look(joining=7).loading == 7


def test_a_step_shows_in_waves_after_a_boot_and_a_join() -> None:
    assert waves().effect_s == 140.0
    assert waves(boot_s=None).effect_s == 20.0
    assert a_look().effect_s == 0.0


@pytest.mark.parametrize(
    ("doubled_ago_s", "crest", "is_untried"),
    [(None, 10, False), (150.0, 10, True), (150.1, 10, False), (20.0, 60, False), (20.0, 59, True)],
)
def test_a_doubled_window_is_untried_until_a_wave_has_filled_it_or_a_boot_and_a_cycle_have_passed(
    doubled_ago_s: float | None, crest: int, *, is_untried: bool
) -> None:
    doubled_s = None if doubled_ago_s is None else NOW_S - doubled_ago_s
    assert waves((15.0, crest), doubled_s=doubled_s).is_untried(100.0) is is_untried
    assert not waves((15.0, 10), doubled_s=NOW_S - 31.0, boot_s=None).is_untried(100.0)


def test_of_waves_the_highest_delay_of_the_cycle_counts() -> None:
    delays = ((NOW_S - 30.1, 90.0), (NOW_S - 30.0, 4 * CALM_S), (NOW_S, CALM_S))
    assert waves(delays=delays).high_index == pytest.approx(4.0)
    assert waves(delays=delays, index=(5.0, 2.0)).high_index == pytest.approx(5.0)
    assert waves().high_index == pytest.approx(1.0)
    assert a_look(delays=delays).high_index == pytest.approx(1.0)
    assert with_health(waves(delays=delays), traces=()).high_index is None


def test_delay_that_cuts_do_not_change_slows_nothing() -> None:
    assert a_look(index=(1.0, 3.0)).newest_index == pytest.approx(3.0)
    useless = Cuts(count=2, joining=90, delay_s=3 * CALM_S, window=100.0, useless_since_s=NOW_S - 1.0)
    assert a_look(index=(3.0, 3.0), cuts=useless).newest_index is None
    assert a_look(index=(3.0, 9.0), cuts=replace(useless, useless_since_s=None)).newest_index == pytest.approx(9.0)
    assert with_health(a_look(), traces=()).newest_index is None


@pytest.mark.parametrize(
    ("change", "steps"), [({}, 1.0), ({"is_new": False}, 0.0), ({"moved_s": None}, 0.0), ({"moved_s": NOW_S - 5}, 0.5)]
)
def test_the_gradient_takes_a_step_per_ten_seconds_with_new_readings(change: dict[str, object], steps: float) -> None:
    assert a_look(**change).steps == steps  # type: ignore[arg-type]


def test_what_flows_and_nothing_holds_is_bounded_by_the_cpu_alone() -> None:
    load, flowing = Load(idle=(0.1,), remembered=0.01), {"settings": UNGATED, "joining": 85}
    # (1.0 - 0.1) / 0.01 = 90 joins, which 90 / 0.85 in the window are.
    assert a_look(load=load, **flowing).committed_window == pytest.approx(90 / 0.85)  # type: ignore[arg-type]
    assert a_look(**flowing).committed_window is None  # type: ignore[arg-type]
    assert a_look(load=load).committed_window is None, "a gate holds back"
    assert waves((0.0, 85), load=load).committed_window is None, "waves are judged one by one"
    assert a_look(load=load, join_time=JoinTime(now_s=80.0, least_s=5.0), **flowing).committed_window is None  # type: ignore[arg-type]


def test_prompt_joins_use_the_window_that_their_readings_felt() -> None:
    flow = JoinFlow()
    for ago_s, count in ((9.0, 90), (6.0, 10), (3.0, 10), (0.0, 10)):
        flow = with_counts(flow, Joins(joining=count), NOW_S - ago_s)
    prompt = JoinTime(now_s=5.0, least_s=5.0)
    assert a_look(flow=flow, join_time=prompt).felt == 30.0
    assert not a_look(flow=flow, join_time=prompt).is_used
    assert a_look(flow=flow).is_used, "slower ones by the most that there were"
    assert a_look(40.0, flow=flow, join_time=prompt, joining=10).is_used
    assert a_look(flow=flow, join_time=prompt, settings=UNGATED).is_used, "waves as well"
    assert a_look(flow=JoinFlow(), join_time=prompt).felt == 0


@pytest.mark.parametrize(("joining", "used"), [(0, 1.0), (17, 20.0), (85, 100.0), (110, 100.0)])
def test_the_used_window_is_what_would_have_let_in_what_joins(joining: int, used: float) -> None:
    assert a_look(joining=joining).used_window == pytest.approx(used)


def test_a_window_is_crowded_by_more_than_a_tenth_and_used_where_a_single_machine_is_to_come() -> None:
    assert [a_look(10.0, joining=joining).is_crowded for joining in (11, 12)] == [False, True]
    assert [a_look(waiting=waiting).is_used for waiting in (0, 1)] == [False, True]


def test_of_waves_that_were_not_seen_a_window_of_one_is_left() -> None:
    assert waves().steady_window == 1.0
