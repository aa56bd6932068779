"""A Prometheus behind a private CA, a token or mTLS: files of the operator, for one URL, over real TLS on loopback."""

import asyncio
import io
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from balloons.service.logs import set_up_logs
from lab.controlplane.credentials import CertificateAuthority
from tests.unit.throttler.kube.loopback_api import LoopbackApi, accepting, authority, loopback_api
from tests.unit.throttler.scraping.fake_prometheus import ALARM, answer, element
from tests.unit.throttler.scraping.metrics_server import answering, connection_to
from tests.unit.throttler.scraping.test_signal_watch import eventually
from throttler.kube.errors import ConfigError
from throttler.scraping import prometheus_watch
from throttler.scraping.promql_client import AccessFiles, Point, PrometheusAccess, PromqlClient, prometheus_access
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.scraping.signal_watch import SignalWatch
from throttler.signals.reading import ReadError, ReadOutcome

URL = "https://prometheus.monitoring:9091/prom"
TOKEN = "sekret-of-the-operator-1"
ONE = answering(answer(element(1)))


@pytest.fixture
def ca(tmp_path: Path) -> CertificateAuthority:
    return authority(tmp_path / "ca")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def rotate(path: Path) -> None:
    path.write_text("rotated")


async def ask(api: LoopbackApi, *, url: str | None = None, **files: Any) -> tuple[Point, ...]:
    """One query to `url`, of a service that was given the files for the API's own URL."""
    paths = {f"{name}_file": str(path) for name, path in files.items()}
    access = PrometheusAccess(url=api.url, **paths) if paths else None
    points, _ = await PromqlClient(url or api.url, access=access, allows_loopback=True).query("up")
    return points


async def failure(api: LoopbackApi, **given: Any) -> str:
    with pytest.raises(ReadError) as caught:
        await ask(api, **given)
    assert caught.value.outcome is ReadOutcome.UNREACHABLE
    return caught.value.problem


# --- authorities ---


async def test_a_private_authority_is_trusted_where_it_is_named(ca: CertificateAuthority) -> None:
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        assert [point.value for point in await ask(api, ca=ca.pair.certificate)] == [1.0]
        problem = await failure(api)
    assert "certificate is refused" in problem
    assert "--prometheus-ca-file names" in problem


async def test_a_wrong_authority_is_named_and_nothing_is_sent(
    ca: CertificateAuthority, token_file: Path, tmp_path: Path
) -> None:
    other = authority(tmp_path / "other").pair.certificate
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        problem = await failure(api, ca=other, token=token_file)
    assert f'--prometheus-ca-file "{other}"' in problem
    assert api.asked == []


async def test_a_good_certificate_of_another_host_is_refused(
    ca: CertificateAuthority, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile DNS, or a Service that somebody else answers for, gets no token."""

    def leads_here(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with loopback_api(ONE, ca.issue_server("server")) as api:
        monkeypatch.setattr(socket, "getaddrinfo", leads_here)
        api.url = api.url.replace("127.0.0.1", "prometheus.monitoring")
        assert "Hostname mismatch" in await failure(api, ca=ca.pair.certificate, token=token_file)
    assert api.asked == []


# --- tokens ---


async def test_the_token_of_the_file_is_sent_and_read_again_when_it_changes(
    ca: CertificateAuthority, token_file: Path
) -> None:
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        access = PrometheusAccess(url=api.url, ca_file=str(ca.pair.certificate), token_file=str(token_file))
        client = PromqlClient(api.url, access=access, allows_loopback=True)
        await client.query("up")
        rotate(token_file)
        await client.query("up")
    assert api.tokens == [f"Bearer {TOKEN}", "Bearer rotated"]


async def test_a_token_that_is_not_accepted_is_named_by_its_file(ca: CertificateAuthority, token_file: Path) -> None:
    async with loopback_api(accepting("Bearer other"), ca.issue_server("server")) as api:
        with pytest.raises(ReadError, match=f'status 401 to the token of --prometheus-token-file "{token_file}"') as no:
            await ask(api, ca=ca.pair.certificate, token=token_file)
    assert no.value.outcome is ReadOutcome.FORBIDDEN


@pytest.mark.parametrize("elsewhere", ["/other", "/prom/..", "/prom/more"])
async def test_another_url_gets_no_token_also_on_the_same_host(
    ca: CertificateAuthority, token_file: Path, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = ssl.create_default_context(cafile=ca.pair.certificate)
    monkeypatch.setattr(AccessFiles, "context", lambda _: trust)
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        paths = {"ca_file": str(ca.pair.certificate), "token_file": str(token_file)}
        access = PrometheusAccess(url=f"{api.url}/prom", **paths)
        for url in (api.url, f"{api.url}{elsewhere}"):
            await PromqlClient(url, access=access, allows_loopback=True).query("up")
        assert api.tokens == [None, None]
        await PromqlClient(f"{api.url}/prom/", access=access, allows_loopback=True).query("up")
    assert api.tokens[-1] == f"Bearer {TOKEN}"


async def test_a_redirect_carries_the_token_nowhere(ca: CertificateAuthority, token_file: Path) -> None:
    async with loopback_api(ONE) as elsewhere:
        away = answering(b"", status=307, headers={"Location": f"{elsewhere.url}/api/v1/query"})
        async with loopback_api(away, ca.issue_server("server")) as api:
            with pytest.raises(ReadError, match="status 307"):
                await ask(api, ca=ca.pair.certificate, token=token_file)
    assert (len(api.asked), elsewhere.asked) == (1, [])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "one token"),
        (b" \n", "one token"),
        (b"a b", "one token"),
        (b"a\r\nX: y", "one token"),
        (b"\xff" * 9, "one token"),
        (b"x" * 20_000, "at most 16384 bytes"),
        (None, "No such file"),
    ],
)
async def test_a_token_that_cannot_be_one_is_not_sent_and_not_repeated(
    ca: CertificateAuthority, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "odd"
    if content is not None:
        path.write_bytes(content)
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        problem = await failure(api, ca=ca.pair.certificate, token=path)
    assert problem.startswith(f'Prometheus is not asked: --prometheus-token-file "{path}"')
    assert says in problem
    assert len(problem) < 300
    assert api.asked == []


# --- mTLS ---


async def test_a_prometheus_that_asks_for_a_certificate_gets_ours(ca: CertificateAuthority, tmp_path: Path) -> None:
    ours = ca.issue_client("ours", "kube-balloons", ())
    stranger = authority(tmp_path / "stranger").issue_client("theirs", "kube-balloons", ())
    async with loopback_api(ONE, ca.issue_server("server"), ca.pair.certificate) as api:
        assert await ask(api, ca=ca.pair.certificate, cert=ours.certificate, key=ours.key)
        assert "--prometheus-cert-file names one" in await failure(api, ca=ca.pair.certificate)
        problem = await failure(api, ca=ca.pair.certificate, cert=stranger.certificate, key=stranger.key)
        assert f'it was offered --prometheus-cert-file "{stranger.certificate}"' in problem


async def test_a_certificate_is_read_again_when_it_changes(ca: CertificateAuthority, tmp_path: Path) -> None:
    """As the kubelet does it: a link to a folder is turned to the next one, all files at once."""
    shown = tmp_path / "shown"
    old, new = authority(tmp_path / "old"), ca
    for name, made_by in (("1", old), ("2", new)):
        pair = made_by.issue_client("client", "kube-balloons", ())
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (tmp_path / name / "tls.key").write_bytes(pair.key.read_bytes())
    shown.symlink_to(tmp_path / "1")
    async with loopback_api(ONE, ca.issue_server("server"), ca.pair.certificate) as api:
        paths = {"cert_file": str(shown / "tls.crt"), "key_file": str(shown / "tls.key")}
        access = PrometheusAccess(url=api.url, ca_file=str(ca.pair.certificate), **paths)
        client = PromqlClient(api.url, access=access, allows_loopback=True)
        with pytest.raises(ReadError, match="it was offered"):
            await client.query("up")
        (tmp_path / "next").symlink_to(tmp_path / "2")
        os.replace(tmp_path / "next", shown)
        assert await client.query("up")


async def test_files_that_are_no_certificates_are_named(ca: CertificateAuthority, tmp_path: Path) -> None:
    ours, other = ca.issue_client("ours", "a", ()), ca.issue_client("other", "a", ())
    locked, text = tmp_path / "locked", tmp_path / "text"
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"password")))
    text.write_text("hello")
    good = {"ca": ca.pair.certificate, "cert": ours.certificate, "key": ours.key}
    async with loopback_api(ONE, ca.issue_server("server")) as api:
        for wrong, named in (
            ({"ca": text}, f'--prometheus-ca-file "{text}"'),
            ({"ca": tmp_path}, f'--prometheus-ca-file "{tmp_path}": Is a directory'),
            ({"cert": text}, f'--prometheus-cert-file "{text}"'),
            ({"key": locked}, "a key without a password"),
            ({"key": other.key}, "that belongs to the certificate"),
            ({"key": tmp_path / "away"}, f'--prometheus-key-file "{tmp_path / "away"}": No such file'),
        ):
            problem = await failure(api, **{**good, **wrong})
            assert named in problem
            assert "PRIVATE" not in problem
    assert api.asked == []


# --- the whole source ---


async def test_no_log_line_and_no_problem_has_the_token(
    ca: CertificateAuthority, token_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the watch, with debug logs: accepted, refused, echoed in the body, and the server gone in the middle."""
    monkeypatch.setattr(prometheus_watch, "PROMETHEUS_INTERVAL_S", 0.05)
    lines = io.StringIO()
    set_up_logs("json", is_debug=True, stream=lines)
    statuses = iter([200, 401, 500, 307])

    async def echo(request: web.BaseRequest) -> web.Response:
        told = request.headers["Authorization"]
        status = next(statuses, 0)
        if not status:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=told.encode(), status=status or 200, headers={"Location": f"http://x/{told}"})

    problems: set[str] = set()

    def is_gone(signals: Any) -> bool:
        problems.update(signals.problems)
        return any("closed the connection" in problem for problem in problems)

    try:
        async with loopback_api(echo, ca.issue_server("server")) as api:
            paths = {"ca_file": str(ca.pair.certificate), "token_file": str(token_file)}
            settings = SourceSettings(scrapes=False, prometheus_url=api.url, alarms=(ALARM,))
            access = PrometheusAccess(url=api.url, **paths)
            watch = SignalWatch(connection_to(api.url), settings, access=access)
            task = asyncio.create_task(watch.run())
            try:
                await eventually(watch, is_gone)
            finally:
                task.cancel()
    finally:
        structlog.reset_defaults()
    assert set(api.tokens) == {f"Bearer {TOKEN}"}
    assert TOKEN not in lines.getvalue()
    assert TOKEN not in str(problems)


# --- what is accepted at start ---


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "http://prometheus:9090", "token_file": "/t"}, "--prometheus-url .*accepted: https"),
        ({"url": "https://user:pw@prometheus", "token_file": "/t"}, "--prometheus-url: .*is not accepted"),
        ({"url": "https://169.254.169.254", "token_file": "/t"}, "--prometheus-url: .*link-local"),
        ({"url": "https://prometheus"}, "--prometheus-url .*alone; accepted: with --prometheus-ca-file"),
        ({"url": None, "token_file": "/t"}, "--prometheus-url is not given"),
        ({"url": URL, "cert_file": "/c"}, '--prometheus-cert-file "/c" alone'),
        ({"url": URL, "key_file": "/k"}, '--prometheus-key-file "/k" alone'),
        ({"url": URL, "token_file": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "another account"),
        ({"url": URL, "token_file": "/run/x/../secrets/kubernetes.io/serviceaccount/token"}, "another account"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_start(options: dict[str, str | None], says: str) -> None:
    given = {"ca_file": None, "token_file": None, "cert_file": None, "key_file": None, **options}
    with pytest.raises(ConfigError, match=says):
        prometheus_access(given.pop("url"), **given)  # type: ignore[arg-type]


def test_nothing_said_is_nothing_given() -> None:
    nothing = {"ca_file": None, "token_file": None, "cert_file": None, "key_file": None}
    assert prometheus_access(None, **nothing) is None


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        (URL, True),
        (f"{URL}/", True),
        ("https://Prometheus.Monitoring:9091/prom", True),
        ("http://prometheus.monitoring:9091/prom", False),
        ("https://prometheus.monitoring:9091", False),
        ("https://prometheus.monitoring:9091/prom/x", False),
        ("https://prometheus.monitoring:9091/a/../prom", False),
        ("https://prometheus.monitoring.:9091/prom", False),
        ("https://prometheus.monitoring.evil:9091/prom", False),
        ("https://prometheus.monitoring/prom", False),
    ],
)
def test_the_files_are_for_one_url(url: str, is_same: bool) -> None:
    assert PrometheusAccess(url=URL, token_file="/t").is_for(url) is is_same
