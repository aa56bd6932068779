"""What the user says about signals, what of it is refused, and which hosts a user's URL may lead to."""

import socket

import pytest
from aiohttp.abc import AbstractResolver

from tests.unit.throttler.scraping.metrics_server import connection_to
from throttler.api.throttle import AlarmQuery, Prometheus, Scrape, SignalSources
from throttler.kube.errors import ConfigError
from throttler.scraping.promql_client import PromqlClient
from throttler.scraping.scrape_watch import configured_targets
from throttler.scraping.settings_and_allowed_hosts import (
    AlarmSetting,
    ForbiddenHostError,
    JudgingResolver,
    SourceSettings,
    check_addresses,
    check_literal,
    is_loopback,
    source_settings,
)

FORBIDDEN = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "168.63.129.16",
    "100.100.100.200",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "0.0.0.0",
    "::",
    "224.0.0.1",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_link_local_and_metadata_addresses_are_refused_in_every_spelling(address: str) -> None:
    with pytest.raises(ForbiddenHostError):
        check_addresses([address])
    with pytest.raises(ForbiddenHostError):
        check_literal(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.5", "8.8.8.8", "fd12::1"])
def test_addresses_of_a_cluster_are_allowed(address: str) -> None:
    check_addresses([address])
    check_literal(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_our_own_host_is_refused_unless_the_api_server_is_there_too(address: str) -> None:
    with pytest.raises(ForbiddenHostError, match="own host"):
        check_literal(address)
    check_literal(address, allows_loopback=True)


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://localhost:6443", True),
        ("https://[::1]:6443", True),
        ("https://10.96.0.1", False),
        ("https://localhost.attacker.example", False),
    ],
)
def test_where_the_api_server_is(url: str, is_here: bool) -> None:
    assert is_loopback(url) is is_here


def test_names_are_left_to_the_resolver() -> None:
    check_literal("metadata.google.internal")


class FixedDns(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
            for address in self.addresses
        ]

    async def close(self) -> None:
        return None


async def test_a_name_is_refused_when_any_of_its_addresses_is() -> None:
    with pytest.raises(ForbiddenHostError):
        await JudgingResolver(FixedDns("10.0.0.1", "169.254.169.254")).resolve("innocent.example", 443)
    assert len(await JudgingResolver(FixedDns("10.0.0.1")).resolve("innocent.example", 443)) == 1


async def test_an_address_written_as_one_number_is_judged_after_resolution() -> None:
    with pytest.raises(ForbiddenHostError):
        await JudgingResolver().resolve("2852039166", 80)


def test_a_spec_becomes_settings() -> None:
    spec = SignalSources(
        scrape=Scrape(enabled=False, servers=("https://10.0.0.1:6443",)),
        prometheus=Prometheus(url="http://prometheus.monitoring:9090"),
        alarms=(AlarmQuery(name="cni", query="up", threshold="1500m"),),
    )
    assert source_settings(spec) == SourceSettings(
        scrapes=False,
        servers=("https://10.0.0.1:6443",),
        prometheus_url="http://prometheus.monitoring:9090",
        alarms=(AlarmSetting(name="cni", query="up", threshold=1.5),),
    )


@pytest.mark.parametrize(("threshold", "value"), [("100u", 1e-4), ("0.0025", 0.0025), ("-100u", -1e-4)])
def test_a_threshold_is_not_rounded_to_thousandths(threshold: str, value: float) -> None:
    alarm = AlarmQuery(name="cni", query="up", threshold=threshold)
    spec = SignalSources(prometheus=Prometheus("http://prometheus:9090"), alarms=(alarm,))
    assert [setting.threshold for setting in source_settings(spec).alarms] == [value]


BAD_URLS = [
    "ftp://10.0.0.1",
    "10.0.0.1:6443",
    "https://",
    "https://user:secret@10.0.0.1",
    "https://10.0.0.1/?a=b",
    "https://10.0.0.1/#x",
    "https://10.0.0.1:99999",
    "https://10.0.0.1\r\nX: y",
    "https://[fe80::1",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_what_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="signals"):
        SourceSettings(servers=(url,))
    with pytest.raises(ConfigError, match="signals"):
        SourceSettings(prometheus_url=url)


def test_alarms_without_a_prometheus_are_refused() -> None:
    with pytest.raises(ConfigError, match="alarms"):
        SourceSettings(alarms=(AlarmSetting(name="a", query="up", threshold=1.0),))


@pytest.mark.parametrize("interval_s", [0.0, 0.1, 61.0, float("nan")])
def test_an_interval_out_of_range_is_refused(interval_s: float) -> None:
    with pytest.raises(ConfigError, match="interval"):
        SourceSettings(interval_s=interval_s)


async def test_credentials_never_go_out_in_clear() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        configured_targets(("http://10.0.0.1:8080",), connection_to("https://10.0.0.1:6443"))
    assert configured_targets(("http://127.0.0.1:8080",), connection_to("http://127.0.0.1:8001"))[0].name


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"])
async def test_a_metadata_address_is_refused_at_once(host: str) -> None:
    with pytest.raises(ConfigError, match="link-local"):
        configured_targets((f"https://{host}:443",), connection_to("https://10.0.0.1:6443"))
    with pytest.raises(ConfigError, match="link-local"):
        PromqlClient(f"http://{host}:80")


async def test_the_certificate_must_be_an_api_servers_whatever_host_the_user_writes() -> None:
    """Every kubelet has a certificate of the cluster's CA for its own address: that must not be worth our token."""
    (target,) = configured_targets(("https://10.0.0.7:10250",), connection_to("https://10.96.0.1"))
    assert target.tls_name == "kubernetes"


async def test_our_own_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="own host"):
        configured_targets(("https://127.0.0.1:8443",), connection_to("https://10.96.0.1"))
    with pytest.raises(ConfigError, match="own host"):
        PromqlClient("http://127.0.0.1:9090")


async def test_the_same_server_twice_is_one() -> None:
    targets = configured_targets(("https://a:6443", "https://a:6443/"), connection_to("https://a:6443"))
    assert [target.name for target in targets] == ["a:6443"]
