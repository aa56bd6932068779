"""Every API server is found, and scraped at its own moments."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest

from tests.unit.throttler.scraping.fake_api_servers import FakeClient, FakeScraper, lease, slice_of
from tests.unit.throttler.scraping.metrics_server import connection_to
from throttler.scraping.scrape_watch import (
    ScrapeTarget,
    ScrapeWatch,
    count_leases,
    find_targets,
    slice_targets,
    url_target,
)
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.signals.reading import ReadError, ReadOutcome

ONLY = ScrapeTarget("only:443", "https://only")


def test_every_address_is_a_target_with_the_name_of_the_certificate() -> None:
    assert slice_targets([slice_of("10.0.0.2", "10.0.0.1"), slice_of("fd12::1", port=443)]) == (
        ScrapeTarget("10.0.0.1:6443", "https://10.0.0.1:6443", "kubernetes"),
        ScrapeTarget("10.0.0.2:6443", "https://10.0.0.2:6443", "kubernetes"),
        ScrapeTarget("[fd12::1]:443", "https://[fd12::1]:443", "kubernetes"),
    )


def test_unready_addresses_and_other_ports_are_left_out() -> None:
    assert slice_targets([slice_of("10.0.0.1", ready=False), slice_of("10.0.0.2", name="metrics")]) == ()
    assert len(slice_targets([slice_of("10.0.0.1", ready=None)])) == 1


async def test_the_one_known_address_stands_in_where_there_are_no_slices() -> None:
    assert await find_targets(FakeClient(), ONLY) == (ONLY,)
    assert len(await find_targets(FakeClient([slice_of("10.0.0.1")]), ONLY)) == 1


async def test_leases_that_nobody_renews_do_not_count() -> None:
    assert await count_leases(FakeClient(leases=[lease(), lease(12), lease(600)])) == 2


def test_an_address_is_named_by_host_and_port() -> None:
    assert url_target("https://api.example/").name == "api.example:443"
    assert url_target("https://[fd12::1]:6443").name == "[fd12::1]:6443"
    assert url_target("http://127.0.0.1:8001").base_url == "http://127.0.0.1:8001"


pytestmark = pytest.mark.virtual_time

THREE = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
NAMES = [f"{address}:6443" for address in THREE]
GONE = ReadError(ReadOutcome.UNREACHABLE, "cannot be reached (ClientConnectorError)")


@asynccontextmanager
async def watching(client: FakeClient, scraper: FakeScraper, **settings):
    connection = connection_to("https://api.example:6443")
    watch = ScrapeWatch(connection, SourceSettings(**settings), scraper, Random(1))
    task = asyncio.create_task(watch.run(client))
    try:
        yield watch
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def now_s() -> float:
    return asyncio.get_running_loop().time()


def silent(watch: ScrapeWatch) -> dict[str, str]:
    return {server.server: server.problem for server in watch.servers.silent(now_s())}


async def test_all_servers_have_a_window_after_two_intervals() -> None:
    async with watching(FakeClient([slice_of(*THREE)], [lease()] * 3), FakeScraper()) as watch:
        await asyncio.sleep(10.1)
        assert sorted(reading.server for reading in watch.servers.readings()) == NAMES
        assert silent(watch) == {}
        assert watch.problems(now_s()) == ()


async def test_servers_are_scraped_at_the_interval_and_not_all_at_once() -> None:
    scraper = FakeScraper()
    async with watching(FakeClient([slice_of(*THREE)]), scraper):
        await asyncio.sleep(60)
    moments = {name: [at_s for at_s, asked in scraper.asked if asked == name] for name in NAMES}
    for at in moments.values():
        steps = [later - earlier for earlier, later in pairwise(at[1:])]
        assert steps == pytest.approx([5.0] * len(steps))
    phases = sorted(at[1] % 5 for at in moments.values())
    assert phases[1] - phases[0] > 0.2
    assert phases[2] - phases[1] > 0.2


async def test_one_that_fails_is_silent_and_the_others_go_on() -> None:
    scraper = FakeScraper()
    async with watching(FakeClient([slice_of(*THREE)]), scraper) as watch:
        await asyncio.sleep(11)
        scraper.broken[NAMES[1]] = GONE
        await asyncio.sleep(6)
        assert silent(watch) == {NAMES[1]: GONE.problem}
        assert len(watch.servers.readings()) == 3
        del scraper.broken[NAMES[1]]
        await asyncio.sleep(6)
        assert silent(watch) == {}


async def test_an_unexpected_error_is_silence_of_that_server_only() -> None:
    scraper = FakeScraper()
    scraper.broken[NAMES[0]] = ZeroDivisionError()  # type: ignore[assignment]
    async with watching(FakeClient([slice_of(*THREE)]), scraper) as watch:
        await asyncio.sleep(11)
        assert silent(watch) == {NAMES[0]: "cannot be read (ZeroDivisionError)"}


async def test_a_server_that_leaves_the_slices_is_forgotten_and_a_new_one_followed() -> None:
    client, scraper = FakeClient([slice_of(*THREE)]), FakeScraper()
    async with watching(client, scraper) as watch:
        await asyncio.sleep(11)
        client.slices = [slice_of("10.0.0.1", "10.0.0.9")]
        await asyncio.sleep(85)
        assert set(watch.servers.addresses) == {"10.0.0.1:6443", "10.0.0.9:6443"}
        assert silent(watch) == {}
        scraper.asked.clear()
        await asyncio.sleep(10)
        assert {name for _, name in scraper.asked} == {"10.0.0.1:6443", "10.0.0.9:6443"}


async def test_a_server_that_was_replaced_is_not_waited_for() -> None:
    """A cloud replaces the servers of a cluster that grows: growth stands still while one is silent."""
    client, scraper = FakeClient([slice_of(*THREE)], [lease()] * 3), FakeScraper()
    async with watching(client, scraper) as watch:
        await asyncio.sleep(61)
        scraper.broken[NAMES[0]] = GONE
        client.slices, client.leases = [slice_of("10.0.0.9", *THREE[1:])], [lease()] * 4
        await asyncio.sleep(25)
        assert set(silent(watch)) == {"unseen-1"}, "its Lease is still alive"
        client.leases = [lease()] * 3
        await asyncio.sleep(15)
        assert silent(watch) == {}


async def test_servers_are_looked_for_once_a_minute_while_nothing_has_just_happened() -> None:
    client, scraper = FakeClient([slice_of(*THREE)], [lease()] * 4), FakeScraper()
    async with watching(client, scraper):
        await asyncio.sleep(61)
        scraper.broken[NAMES[0]] = GONE
        await asyncio.sleep(140)
        client.asked.clear()
        await asyncio.sleep(600)
    assert 8 <= client.asked.count("endpointslices") <= 13


async def test_a_failure_to_look_again_keeps_what_is_known_and_says_so() -> None:
    client = FakeClient([slice_of(*THREE)], [lease()] * 3)
    async with watching(client, FakeScraper()) as watch:
        await asyncio.sleep(11)
        client.slices, client.leases = None, None
        await asyncio.sleep(80)
        assert len(watch.servers.readings()) == 3
        assert watch.servers.expected == 3
        assert [problem.split(":")[0] for problem in watch.problems(now_s())] == [
            "EndpointSlices of default/kubernetes cannot be read",
            "identity Leases in kube-system cannot be read",
        ]
        client.slices, client.leases = [slice_of(*THREE)], [lease()] * 3
        await asyncio.sleep(13)
        assert watch.problems(now_s()) == ()


async def test_the_one_known_address_is_read_when_slices_may_not_be() -> None:
    async with watching(FakeClient(None, None), FakeScraper()) as watch:
        await asyncio.sleep(11)
        assert [reading.server for reading in watch.servers.readings()] == ["api.example:6443"]


async def test_addresses_out_of_reach_are_given_up_for_the_one_that_works() -> None:
    client, scraper = FakeClient([slice_of(*THREE)], [lease()] * 3), FakeScraper()
    scraper.broken = dict.fromkeys(NAMES, GONE)
    async with watching(client, scraper) as watch:
        await asyncio.sleep(30)
        assert [reading.server for reading in watch.servers.readings()] == ["api.example:6443"]
        assert set(silent(watch)) == {"unseen-1", "unseen-2"}
        assert "cannot be reached" in watch.problems(now_s())[0]
        await asyncio.sleep(200)
        assert set(watch.servers.addresses) == {"api.example:6443"}


async def test_addresses_that_were_reached_once_are_never_given_up() -> None:
    scraper = FakeScraper()
    async with watching(FakeClient([slice_of(*THREE)]), scraper) as watch:
        await asyncio.sleep(11)
        scraper.broken = dict.fromkeys(NAMES, GONE)
        await asyncio.sleep(200)
        assert set(silent(watch)) == set(NAMES)


async def test_configured_servers_win() -> None:
    client = FakeClient([slice_of(*THREE)])
    async with watching(client, FakeScraper(), servers=("https://a.example:6443", "https://b.example")) as watch:
        await asyncio.sleep(11)
        assert {reading.server for reading in watch.servers.readings()} == {"a.example:6443", "b.example:443"}
        assert "endpointslices" not in client.asked


async def test_servers_that_all_forbid_it_are_a_missing_right() -> None:
    scraper = FakeScraper()
    scraper.broken = dict.fromkeys(NAMES, ReadError(ReadOutcome.FORBIDDEN, "answered /metrics with status 403"))
    async with watching(FakeClient([slice_of(*THREE)]), scraper) as watch:
        await asyncio.sleep(6)
        assert watch.is_forbidden
        assert set(silent(watch)) == set(NAMES)


async def test_a_scrape_that_takes_longer_than_the_interval_is_not_doubled() -> None:
    scraper = FakeScraper()
    scraper.seconds = 7.9
    async with watching(FakeClient([slice_of("10.0.0.1")]), scraper) as watch:
        await asyncio.sleep(70)
        moments = [at_s for at_s, _ in scraper.asked]
        assert min(later - earlier for earlier, later in pairwise(moments)) == pytest.approx(7.9)
        assert watch.servers.readings()


async def test_an_address_that_hides_several_servers_is_scraped_as_often_as_all_of_them() -> None:
    scraper = FakeScraper()
    async with watching(FakeClient([], [lease()] * 3), scraper):
        await asyncio.sleep(62)
    moments = [at_s for at_s, _ in scraper.asked]
    assert moments[-1] - moments[-2] == pytest.approx(5 / 3)
    assert {name for _, name in scraper.asked} == {"api.example:6443"}
