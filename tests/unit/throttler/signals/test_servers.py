"""Addresses, identity Leases and scrapes reconciled."""

from datetime import UTC, datetime, timedelta

from tests.unit.throttler.signals.process_samples import SECOND, sample
from throttler.signals.freshness import State, server_states
from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.signals.sample import Sample
from throttler.signals.servers import OWN_REQUESTS, Servers, alive_leases

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
