"""What the HTTP server gives to anybody who asks, and how often that costs anything."""

import asyncio
import shutil
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from balloons.cli.main import main
from balloons.cli.terminal import ExitCode
from balloons.service.metrics import MOST_CONNECTIONS, Page, serve_health
from balloons.service.settings import ListenAddress, MetricsTls, SettingsError
from lab.controlplane.credentials import CertificateAuthority, KeyPair
from tests.unit.throttler.kube.loopback_api import authority


class Counted:
    """A collector that knows how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.asked += 1
        yield GaugeMetricFamily("asked", "How often.", value=self.asked)


async def test_a_thousand_scrapes_within_a_second_write_one_page() -> None:
    registry, counted = CollectorRegistry(), Counted()
    registry.register(counted)
    counted.asked, now_s = 0, [0.0]
    page = Page(registry, lambda: now_s[0])
    first = [page.text("")[1] for _ in range(1_000)]
    assert (counted.asked, len(set(first))) == (1, 1)
    now_s[0] = 1.0
    assert page.text("")[1] != first[0]
    assert counted.asked == 2


async def test_a_page_is_not_written_for_each_format_that_somebody_makes_up() -> None:
    registry, counted = CollectorRegistry(), Counted()
    registry.register(counted)
    page = Page(registry, lambda: 0.0)
    counted.asked = 0
    made_up = [f"application/openmetrics-text; version={number}.0.0; escaping=dots" for number in range(1, 100)]
    kinds = {page.text(accept)[0] for accept in (*made_up, "text/plain; version=7.0.0", "", "nonsense/\xff")}
    assert counted.asked == len(kinds) == 2


async def test_whoever_holds_connections_open_locks_nobody_out() -> None:
    served = serve_health(ListenAddress("127.0.0.1", 0), CollectorRegistry(), lambda: "", lambda: "")
    async with served as address, AsyncExitStack() as stack:
        idle = [await asyncio.open_connection(address.host, address.port) for _ in range(2 * MOST_CONNECTIONS)]
        for _, writer in idle:
            stack.callback(writer.close)
        session = await stack.enter_async_context(ClientSession())
        assert (await session.get(f"http://{address}/healthz")).status == 200
        # The oldest made room, for each that came after.
        async with asyncio.timeout(30):
            assert [await reader.read() for reader, _ in idle[:MOST_CONNECTIONS]] == [b""] * MOST_CONNECTIONS


async def test_probes_and_metrics_are_answered() -> None:
    problem = [""]
    served = serve_health(ListenAddress("127.0.0.1", 0), CollectorRegistry(), lambda: "", lambda: problem[0])
    async with served as address, ClientSession() as session:
        for path, status in (("/metrics", 200), ("/healthz", 200), ("/readyz", 200)):
            assert (await session.get(f"http://{address}{path}")).status == status
        problem[0] = "view incomplete"
        answer = await session.get(f"http://{address}/readyz")
        assert (answer.status, await answer.text()) == (503, "view incomplete\n")


# --- TLS ---


def files(ca: CertificateAuthority, name: str = "serving", clients: CertificateAuthority | None = None) -> MetricsTls:
    pair = ca.issue_server(name)
    known = str(clients.pair.certificate) if clients else None
    return MetricsTls(cert_file=str(pair.certificate), key_file=str(pair.key), client_ca_file=known)


def trusting(ca: CertificateAuthority, client: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.pair.certificate))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


def scraper(ca: CertificateAuthority) -> KeyPair:
    return ca.issue_client("scraper", "prometheus", ())


def serving(tls: MetricsTls) -> AbstractAsyncContextManager[ListenAddress]:
    return serve_health(ListenAddress("127.0.0.1", 0), CollectorRegistry(), lambda: "", lambda: "", tls=tls)


def put(path: str, content: bytes | None) -> None:
    """Overwrite a file, or remove it."""
    Path(path).unlink() if content is None else Path(path).write_bytes(content)


def put_in_place(source: Path, path: str) -> None:
    """As kubelets renew what is mounted: another file under the same name."""
    shutil.copyfile(source, f"{path}.new")
    Path(f"{path}.new").replace(path)


async def statuses(address: ListenAddress, context: ssl.SSLContext) -> list[int]:
    """Of each path, each on a connection of its own."""
    paths = ("/metrics", "/healthz", "/readyz")
    async with ClientSession(connector=TCPConnector(ssl=context, force_close=True)) as session:
        return [(await session.get(f"https://{address}{path}")).status for path in paths]


async def test_with_a_certificate_nothing_is_served_in_clear(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    async with serving(files(ca)) as address, ClientSession() as session:
        assert await statuses(address, trusting(ca)) == [200, 200, 200]
        with pytest.raises(ClientError):
            await session.get(f"http://{address}/metrics")


async def test_probes_need_no_certificate_where_metrics_do(tmp_path: Path) -> None:
    """As kubelets ask: without a certificate, and without a look at ours."""
    ca, clients, strangers = (authority(tmp_path / name) for name in ("ca", "clients", "strangers"))
    kubelet = ssl.create_default_context()
    kubelet.check_hostname, kubelet.verify_mode = False, ssl.CERT_NONE
    async with serving(files(ca, clients=clients)) as address:
        assert await statuses(address, kubelet) == [403, 200, 200]
        assert await statuses(address, trusting(ca, scraper(clients))) == [
            200,
            200,
            200,
        ]
        with pytest.raises(ClientError):
            await statuses(address, trusting(ca, scraper(strangers)))


async def test_files_that_are_rotated_are_read_again(tmp_path: Path) -> None:
    old, new, clients, others = (authority(tmp_path / name) for name in ("old", "new", "clients", "others"))
    tls = files(old, clients=clients)
    async with serving(tls) as address:
        assert await statuses(address, trusting(old)) == [403, 200, 200]
        pair = new.issue_server("serving")
        copies = ((pair.certificate, tls.cert_file), (pair.key, tls.key_file))
        for source, path in (*copies, (others.pair.certificate, tls.client_ca_file)):
            put_in_place(source, str(path))
        assert await statuses(address, trusting(new, scraper(others))) == [
            200,
            200,
            200,
        ]
        with pytest.raises(ClientError):
            await statuses(address, trusting(old))
        with pytest.raises(ClientError):
            await statuses(address, trusting(new, scraper(clients)))


async def test_a_rotation_that_went_wrong_leaves_the_old_certificate(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    tls = files(ca)
    async with serving(tls) as address:
        put(tls.key_file, b"no key")
        assert await statuses(address, trusting(ca)) == [200, 200, 200]
        put(tls.cert_file, None)
        assert await statuses(address, trusting(ca)) == [200, 200, 200]


@pytest.mark.parametrize("option", ["cert_file", "key_file", "client_ca_file"])
@pytest.mark.parametrize("content", [None, "no PEM"])
async def test_files_that_cannot_be_used_are_named_at_the_start(
    tmp_path: Path, option: str, content: str | None
) -> None:
    path = tmp_path / "wrong"
    if content is not None:
        path.write_text(content)
    tls = replace(files(authority(tmp_path / "ca")), **{option: str(path)})
    with pytest.raises(SettingsError, match=f"--metrics-{option.replace('_', '-')}.*accepted are PEM files"):
        async with serving(tls):
            pass


async def test_a_key_with_a_password_asks_nobody_for_it(tmp_path: Path) -> None:
    tls = files(authority(tmp_path))
    secret = serialization.BestAvailableEncryption(b"secret")
    how = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    put(tls.key_file, ec.generate_private_key(ec.SECP256R1()).private_bytes(*how))
    with pytest.raises(SettingsError, match="--metrics-key-file"):
        async with serving(tls):
            pass


@pytest.mark.parametrize("command", ["run", "guard"])
@pytest.mark.parametrize("option", ["cert", "key", "client-ca"])
def test_one_file_alone_is_bad_input(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, f"--metrics-{option}-file", "x", "--kubeconfig", "nowhere.yaml"])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "both or none" in capsys.readouterr().err
