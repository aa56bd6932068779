"""What the user says about signals, and what is refused."""

import pytest

from tests.unit.throttler.scraping.metrics_server import connection_to
from throttler.api.throttle import AlarmQuery, Prometheus, Scrape, SignalSources
from throttler.kube.errors import ConfigError
from throttler.scraping.promql_client import PromqlClient
from throttler.scraping.scrape_watch import configured_targets
from throttler.scraping.settings import AlarmSetting, SourceSettings, source_settings


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
