"""EndpointSlices to targets."""

from tests.unit.throttler.sources.fake_cluster import FakeClient, lease, slice_of
from throttler.sources.endpoints import count_leases, find_targets, slice_targets, url_target
from throttler.sources.scraper import ScrapeTarget

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
