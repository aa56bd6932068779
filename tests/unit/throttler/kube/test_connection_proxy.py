"""Which way requests go where the environment names a proxy: the same as those of kubectl, which is Go's."""

import json
from pathlib import Path

import pytest

from tests.unit.throttler.kube.loopback_api import loopback_api
from throttler.kube.connection import Connection, ConnectionOptions, load_connection
from throttler.kube.errors import ConfigError, UnreachableError
from throttler.kube.kube_client import open_client

PROXY = "http://proxy.example:3128"
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def no_proxy_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def connection_to(server: str, folder: Path, **cluster: str) -> Connection:
    path = folder / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(document))
    return await load_connection(ConnectionOptions(kubeconfig=str(path)))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.9.10"])
async def test_a_cluster_on_this_machine_is_never_asked_through_a_proxy(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    assert (await connection_to(f"https://{host}:6443", tmp_path)).proxy is None


@pytest.mark.parametrize(
    ("host", "proxy"),
    [
        ("172.30.0.1", None),
        ("[fd00:1::1]", None),
        ("172.31.0.1", PROXY),
        ("10.0.0.7", None),
        ("10.0.0.8", None),
        ("10.0.0.9", PROXY),
        ("a.cluster.example", None),
        ("b.example", None),
        ("c.example", PROXY),
        ("api.example.com", PROXY),
    ],
)
async def test_networks_and_names_in_no_proxy_count(
    host: str, proxy: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    named = "10.0.0.7,.cluster.example, 10.0.0.8:6443,10.0.0.9:443,b.example:6443,c.example:443"
    monkeypatch.setenv("NO_PROXY", f"172.30.0.0/16, fd00:1::/64,nonsense/99,{named}")
    assert (await connection_to(f"https://{host}:6443", tmp_path)).proxy == proxy


async def test_a_proxy_without_a_scheme_is_one_of_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert (await connection_to("https://api.example.com", tmp_path)).proxy == PROXY


async def test_a_proxy_that_we_do_not_speak_to_is_named_without_its_password(tmp_path: Path) -> None:
    named = {"proxy-url": "socks5://somebody:secret@proxy.example:1080"}
    with pytest.raises(ConfigError, match=r"^proxy socks5://proxy\.example:1080: accepted are http:// and https://$"):
        await connection_to("https://api.example.com", tmp_path, **named)


async def test_a_proxy_that_is_away_is_named_and_not_the_server(tmp_path: Path) -> None:
    async with loopback_api() as api:
        gone = api.url
    named = {"proxy-url": gone.replace("http://", "http://somebody:secret@")}
    connection = await connection_to("https://api.example.com", tmp_path, **named)
    async with open_client(connection, "test") as client:
        with pytest.raises(UnreachableError) as caught:
            await client.get_raw("/version")
    proxy = gone.removeprefix("http://")
    words = "nobody listens at that port (connection refused)"
    assert caught.value.message == f"https://api.example.com: its proxy {proxy}: {words}"
