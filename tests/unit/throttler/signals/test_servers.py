"""API servers behind addresses: processes, leases, news and how old it is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.signals.process_samples import EPOCH, FIRST, SECOND, sample
from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.signals.sample import Sample
from throttler.signals.servers import (
    FORGOTTEN_AFTER_S,
    OWN_REQUESTS,
    SLOW_AFTER_S,
    Address,
    Servers,
    State,
    alive_leases,
    server_states,
)


def address(*samples: Sample) -> Address:
    found = Address(name="a:6443", known_since_s=0.0)
    for each in samples:
        found = found.asked(each.asked_s).answered(each)
    return found


def problem(found: Address, now_s: float) -> str:
    silent = found.silent(now_s)
    return silent.problem if silent else ""


def test_one_sample_is_no_window_yet_and_not_nothing() -> None:
    found = address(sample(10, 100))
    assert found.readings() == ()
    assert problem(found, 11) == "no complete window yet"


def test_two_samples_are_a_window() -> None:
    found = address(sample(10, 100), sample(15, 150))
    assert [(r.server, r.requests, r.ended_s) for r in found.readings()] == [("a:6443", 50.0, 15.0)]
    assert found.silent(16) is None


def test_a_failure_is_silence_and_keeps_the_older_window() -> None:
    found = address(sample(10, 100), sample(15, 150)).asked(20.0).failed("no answer", 28.0)
    assert found.silent(29) == SilentServer(server="a:6443", problem="no answer", since_s=20.0)
    assert found.readings()[0].ended_s == 15.0


def test_silence_lasts_since_its_first_failure() -> None:
    found = address(sample(10, 100)).failed("one", 20.0).asked(25.0).failed("two", 33.0)
    assert found.silent(40) == SilentServer(server="a:6443", problem="two", since_s=20.0)


def test_what_never_answered_was_never_seen_since_it_is_known() -> None:
    found = address().asked(5.0).failed("no route", 13.0).asked(15.0)
    assert found.silent(40) == SilentServer(server="a:6443", problem="no route", since_s=0.0, was_seen=False)
    assert found.answered(sample(45, 100)).failed("no answer", 50.0).silent(51) == SilentServer(
        server="a:6443", problem="no answer", since_s=50.0
    )


def test_an_answer_ends_the_silence() -> None:
    found = address(sample(10, 100), sample(15, 150)).failed("no answer", 20.0).answered(sample(25, 200))
    assert found.silent(26) is None
    assert found.readings()[0].span_s == 10.0


def test_a_scrape_that_waits_is_silence_before_it_fails() -> None:
    found = address(sample(10, 100), sample(15, 150)).asked(20.0)
    assert found.silent(20.0 + SLOW_AFTER_S - 0.1) is None
    assert "no answer for 4 s" in problem(found, 20.0 + SLOW_AFTER_S + 0.1)


def test_an_address_that_was_never_asked_is_silent() -> None:
    assert problem(address(), 1.0) == "not scraped yet"


def test_a_restart_is_one_server_and_no_window_over_it() -> None:
    found = address(sample(10, 100), sample(15, 150), sample(20, 30, started_at=EPOCH + 17))
    assert found.count == 1
    assert found.readings() == ()
    assert problem(found, 21) == "no complete window yet"
    assert found.answered(sample(25, 50, started_at=EPOCH + 17)).readings()[0].requests == 20.0


def test_several_behind_one_address_are_told_apart() -> None:
    found = address(
        sample(10, 100), sample(15, 9000, SECOND), sample(20, 150), sample(25, 9100, SECOND), sample(30, 151)
    )
    assert found.count == 2
    assert {r.server: r.requests for r in found.readings()} == {
        f"a:6443@{FIRST:.2f}": 1.0,
        f"a:6443@{SECOND:.2f}": 100.0,
    }


def test_several_that_began_within_seconds_are_told_apart() -> None:
    """As all servers of a control plane do that is started anew."""
    assert address(sample(10, 100), sample(15, 9000, FIRST + 1.5)).count == 2


def test_an_answer_without_a_date_is_told_by_its_start_time() -> None:
    undated = (replace(sample(15, 110, started_at), wall_s=None) for started_at in (FIRST, SECOND))
    assert [address(sample(10, 100), other).count for other in undated] == [1, 2]


@pytest.mark.parametrize(("set_by_s", "off_s"), [(-600.0, 0.0), (-5.0, 0.0), (5.0, 0.0), (600.0, 0.0), (600.0, 2.0)])
def test_a_server_whose_clock_is_set_is_still_one(set_by_s: float, off_s: float) -> None:
    """Its start time moves with its clock. As another one it would go silent in the end, and growth would stop."""
    there = (sample(at_s, 100 + at_s) for at_s in (10, 15))
    began_at = FIRST + set_by_s + off_s
    moved = (sample(at_s, 100 + at_s, began_at, EPOCH + set_by_s + at_s) for at_s in (20, 25))
    found = address(*there, *moved)
    assert [(r.server, r.requests) for r in found.readings()] == [("a:6443", 5.0)]
    assert found.silent(26) is None


def test_of_several_one_with_a_window_is_enough_and_without_any_the_first_sample_counts() -> None:
    found = address(sample(10, 100), sample(15, 9000, SECOND))
    assert found.silent(16) == SilentServer(server="a:6443", problem="no complete window yet", since_s=10.0)
    assert found.answered(sample(20, 150)).silent(21) is None


def test_one_of_several_that_shows_no_more_is_forgotten() -> None:
    found = address(sample(10, 100), sample(15, 9000, SECOND))
    later = found.answered(sample(15.1 + FORGOTTEN_AFTER_S, 150))
    assert later.count == 1


@pytest.mark.parametrize(
    ("later", "count"),
    [
        (sample(15, 1, SECOND), 2),
        (sample(15, 1, EPOCH + 7.9), 2),
        (sample(15, 1, EPOCH + 8), 1),
        (sample(15, 1, None), 1),
        (sample(10 + 90, 1, SECOND), 2),
        (sample(10.1 + 90, 1, SECOND), 1),
    ],
)
def test_a_process_is_replaced_by_one_that_began_after_its_last_answer_or_cannot_be_told_from_it(
    later: Sample, count: int
) -> None:
    """The first answered ten seconds after EPOCH; clocks differ by two seconds at most."""
    assert address(sample(10, 100), later).count == count


def test_a_process_that_told_no_time_is_replaced_by_any_other() -> None:
    assert address(sample(10, 100, None), sample(15, 1, SECOND)).count == 1
    timeless = replace(sample(10, 100), wall_s=None)
    assert address(timeless, sample(15, 1, SECOND)).count == 1


def test_metrics_that_stand_still_do_not_get_younger() -> None:
    found = address(sample(10, 100), sample(15, 150), sample(20, 150), sample(25, 150))
    assert found.readings()[0].ended_s == 15.0
    assert found.processes[0].frozen_since_s == 15.0
    moved = found.answered(sample(30, 151))
    assert moved.readings()[0].ended_s == 30.0
    assert moved.readings()[0].span_s == 15.0
    assert moved.processes[0].frozen_since_s is None


def test_metrics_that_fell_after_they_stood_still_have_moved() -> None:
    still = address(sample(10, 100), sample(15, 150), sample(20, 150), sample(25, 150))
    assert still.answered(sample(30, 20)).processes[0].frozen_since_s is None


def test_counters_that_fell_start_a_new_window_and_no_growth() -> None:
    found = address(sample(10, 100), sample(15, 150), sample(20, 20))
    assert found.readings()[0].ended_s == 15.0
    assert found.answered(sample(25, 30)).readings()[0].requests == 10.0


def test_a_process_from_the_future_is_silence() -> None:
    found = address(sample(10, 100), sample(15, 150), sample(20, 5, started_at=EPOCH + 9000))
    assert "future" in problem(found, 21)
    assert found.count == 1


def test_servers_that_tell_no_start_time_are_one() -> None:
    found = address(sample(10, 100, None), sample(15, 150, None))
    assert found.count == 1
    assert found.readings()[0].requests == 50.0


STEPS = st.tuples(
    st.floats(0.1, 120),
    st.sampled_from([FIRST, SECOND, EPOCH + 50, EPOCH + 1e6]),
    st.integers(0, 10_000),
    st.booleans(),
)


@given(st.lists(STEPS, max_size=12))
def test_whatever_comes_readings_stay_sound_and_never_get_older(
    steps: list[tuple[float, float, int, bool]],
) -> None:
    found, at_s, ended = address(), 0.0, {}
    for wait_s, started_at, requests, has_failed in steps:
        at_s += wait_s
        failed = found.asked(at_s).failed("away", at_s)
        found = failed if has_failed else found.asked(at_s).answered(sample(at_s, requests, started_at))
        assert found.readings() or found.silent(at_s)
        for reading in found.readings():
            assert 0 <= reading.errors <= reading.requests <= 10_000
            assert reading.ended_s <= at_s
        for process in found.processes:
            if process.reading:
                assert process.reading.ended_s >= ended.get(process.latest.started_at, 0.0)
                ended[process.latest.started_at] = process.reading.ended_s


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def scraped(servers: Servers, name: str, *samples: Sample) -> Servers:
    for each in samples:
        servers = servers.with_address(servers.addresses[name].answered(each), each.asked_s)
    return servers


def test_a_server_that_was_found_and_not_scraped_is_silent() -> None:
    servers = Servers().found(["a", "b"], 0, 5.0)
    assert {silent.server for silent in servers.silent(6.0)} == {"a", "b"}


def test_a_server_that_is_gone_is_forgotten() -> None:
    servers = scraped(Servers().found(["a", "b"], 0, 5.0), "a", sample(5, 1), sample(10, 2)).found(["b"], 0, 12.0)
    assert servers.readings() == ()
    assert {silent.server for silent in servers.silent(13.0)} == {"b"}


def test_finding_again_keeps_what_is_known() -> None:
    servers = scraped(Servers().found(["a"], 0, 5.0), "a", sample(5, 1), sample(10, 2)).found(["a", "b"], 0, 12.0)
    assert len(servers.readings()) == 1


def test_leases_without_a_server_are_servers_never_seen() -> None:
    servers = Servers().found(["a"], 3, 5.0)
    unseen = [silent for silent in servers.silent(9.0) if silent.server != "a"]
    assert not any(silent.was_seen for silent in unseen)
    assert [(silent.server, silent.since_s) for silent in unseen] == [("unseen-1", 5.0), ("unseen-2", 5.0)]
    assert unseen[0].problem == "3 identity Leases, 1 servers found"


def test_a_second_server_behind_the_address_is_one_unseen_less() -> None:
    servers = scraped(Servers().found(["a"], 3, 5.0), "a", sample(5, 1), sample(10, 2, SECOND))
    assert servers.unseen == 1


def test_more_servers_than_leases_are_all_there() -> None:
    assert Servers().found(["a", "b"], 1, 5.0).unseen == 0


def test_news_of_a_server_that_is_gone_changes_nothing() -> None:
    before = Servers().found(["a"], 0, 5.0)
    after = before.found([], 0, 6.0)
    assert after.with_address(before.addresses["a"], 7.0) == after


def test_frozen_metrics_are_named() -> None:
    servers = scraped(Servers().found(["a"], 0, 5.0), "a", sample(5, 1), sample(10, 2), sample(15, 2))
    assert servers.frozen(22.0) == ("a: its metrics have not moved for 12 s",)


def test_a_lease_counts_while_it_is_renewed_with_the_others() -> None:
    ages = (0, 9, 55, 120, 3000)
    assert alive_leases([*(NOW - timedelta(seconds=age) for age in ages), None]) == 3
    assert alive_leases([]) == 0


def test_states_go_from_fresh_to_stale_and_silence_goes_first() -> None:
    def reading(name: str, ended_s: float) -> Reading:
        return Reading(server=name, ended_s=ended_s, span_s=5.0, requests=1.0, errors=0.0)

    signals = Signals(
        readings=(reading("c", 60.0), reading("a", 95.0), reading("b", 98.0), reading(OWN_REQUESTS, 99.0)),
        silent=(SilentServer(server="b", problem="gone", since_s=99.0),),
    )
    states = server_states(signals, 100.0)
    assert [(state.name, state.state, state.age_s) for state in states] == [
        ("a", State.FRESH, 5.0),
        ("b", State.SILENT, 2.0),
        ("c", State.STALE, 40.0),
    ]
    assert states[1].message == "gone"


@pytest.mark.parametrize(
    ("span_s", "fresh_for_s"), [(5.0, 30.0), (20.0, 30.0), (30.0, 45.0), (60.0, 90.0), (300.0, 90.0)]
)
def test_a_window_is_news_for_half_a_minute_or_one_and_a_half_of_its_spans(span_s: float, fresh_for_s: float) -> None:
    reading = Reading(server="a", ended_s=100.0, span_s=span_s, requests=1.0, errors=0.0)
    (state,) = server_states(Signals(readings=(reading,)), 100.0 + fresh_for_s)
    assert (state.state, state.age_s, state.message) == (State.FRESH, fresh_for_s, "")
    (state,) = server_states(Signals(readings=(reading,)), 100.1 + fresh_for_s)
    assert (state.state, state.age_s) == (State.STALE, pytest.approx(fresh_for_s + 0.1))


def test_an_answer_that_takes_long_is_told_while_it_is_waited_for() -> None:
    found = address(sample(10, 100), sample(15, 150)).asked(20.0)
    assert found.silent(20.0 + SLOW_AFTER_S) is None
    silent = found.silent(20.1 + SLOW_AFTER_S)
    assert silent is not None
    assert (silent.since_s, silent.was_seen) == (20.0, True)
    assert silent.problem == f"no answer for {SLOW_AFTER_S:.0f} s so far"


@pytest.mark.parametrize(("ago_s", "alive"), [(60.0, 2), (60.1, 1)])
def test_a_lease_is_alive_for_a_minute_after_the_newest(ago_s: float, alive: int) -> None:
    newest = datetime(2026, 1, 1, tzinfo=UTC)
    assert alive_leases([newest, newest - timedelta(seconds=ago_s), None]) == alive
    assert alive_leases([None]) == 0


def test_servers_that_only_leases_tell_of_are_silent_since_they_were_first_missed() -> None:
    servers = Servers().found(["a:6443"], 3, 10.0)
    assert servers.unseen == 2
    quiet = [each for each in servers.silent(50.0) if each.server.startswith("unseen")]
    assert [(each.server, each.since_s, each.was_seen) for each in quiet] == [
        ("unseen-1", 10.0, False),
        ("unseen-2", 10.0, False),
    ]
    assert quiet[0].problem == "3 identity Leases, 1 servers found"
    again = servers.found(["a:6443"], 2, 30.0)
    assert [each.since_s for each in again.silent(50.0) if each.server.startswith("unseen")] == [10.0]
    found = again.found(["a:6443", "b:6443"], 2, 40.0)
    assert (found.unseen, found.unseen_since_s) == (0, None)
    assert found.found(["a:6443"], 2, 60.0).unseen_since_s == 60.0


def test_news_of_an_address_that_is_gone_is_left_alone() -> None:
    servers = Servers().found(["b:6443"], 1, 0.0)
    assert servers.with_address(address(sample(10, 100)), 11.0) is servers
