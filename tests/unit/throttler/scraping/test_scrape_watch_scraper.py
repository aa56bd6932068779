"""One scrape over a real socket: what is asked for, and every way in which it can go wrong."""

import asyncio
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterable

import pytest
from aiohttp import web

from tests.recorded_metrics import recorded, small_body
from tests.unit.throttler.kube.frozen_server import cancelled, frozen_server, left_open_by
from tests.unit.throttler.kube.loopback_api import authority, loopback_api
from tests.unit.throttler.scraping.metrics_server import answering, connection_to, gzipped, stall, trickle
from throttler.scraping.scrape_watch import MAX_INFLATED_BYTES, STEP_BYTES, MetricsBody, Scraper, ScrapeTarget
from throttler.signals.metric_families import Row, parse_rows
from throttler.signals.reading import Read, ReadError, ReadOutcome


async def scrape(url: str, *, limit_s: float = 8.0, reads: list[Read] | None = None, **target):
    with Scraper(connection_to(url), limit_s=limit_s, observer=(reads if reads is not None else []).append) as scraper:
        return await scraper.scrape(ScrapeTarget("a", url, **target))


async def failure(handler, **options) -> ReadError:
    async with loopback_api(handler) as api:
        with pytest.raises(ReadError) as caught:
            await scrape(api.url, **options)
        # A busy machine may take longer than a short limit to let the server see a request at all.
        least = 0 if caught.value.outcome is ReadOutcome.TIMEOUT else 1
        assert least <= len(api.asked) <= 1
        return caught.value


async def test_a_body_is_asked_for_and_read_as_a_sample() -> None:
    reads: list[Read] = []
    async with loopback_api(gzipped(recorded("herd-1"))) as api:
        sample = await scrape(api.url, reads=reads)
        request = api.asked[0]
    assert sample.seats_share == 1.0
    assert sample.wall_s == pytest.approx(time.time(), abs=60)
    assert sample.asked_s <= sample.taken_s <= asyncio.get_running_loop().time()
    assert request.path == "/metrics"
    assert "apiserver_request_total" in request.query.getall("name[]")
    assert request.headers["Authorization"] == "Bearer fixed"
    assert request.headers["Impersonate-User"] == "somebody"
    assert request.headers["Accept-Encoding"] == "gzip"
    assert request.headers["User-Agent"].startswith("kube-balloons/")
    assert [(read.outcome, read.server, read.source) for read in reads] == [(ReadOutcome.GOOD, "a", "scrape")]
    assert 5000 < reads[0].size_bytes < 10_000


async def test_a_server_that_does_not_compress_is_read_as_well() -> None:
    async with loopback_api(answering(recorded("herd-1"))) as api:
        assert (await scrape(api.url)).seats_share == 1.0


async def test_every_scrape_has_a_connection_of_its_own() -> None:
    ports = []

    async def note(request: web.BaseRequest) -> web.Response:
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response(body=small_body())

    async with loopback_api(note) as api:
        with Scraper(connection_to(api.url)) as scraper:
            for _ in range(3):
                await scraper.scrape(ScrapeTarget("a", api.url))
    assert len(set(ports)) == 3


async def test_a_certificate_is_checked_for_the_name_that_was_given(tmp_path) -> None:
    ca = authority(tmp_path)
    pair = ca.issue_server("server")
    async with loopback_api(answering(small_body()), pair) as api:
        context = ssl.create_default_context(cafile=ca.pair.certificate)
        with Scraper(connection_to(api.url, tls=context)) as scraper:
            assert (await scraper.scrape(ScrapeTarget("a", api.url, "kubernetes"))).requests == 100
            with pytest.raises(ReadError, match="certificate"):
                await scraper.scrape(ScrapeTarget("a", api.url, "elsewhere.example"))


HTML = b"<html><body>all is well</body></html>\n"


@pytest.mark.parametrize(
    ("handler", "outcome", "words"),
    [
        (answering(HTML), ReadOutcome.UNREADABLE, "not an API server"),
        (answering(b"\x00\xff\xfe" * 5000), ReadOutcome.UNREADABLE, "not an API server"),
        (answering(b""), ReadOutcome.UNREADABLE, "not an API server"),
        (answering(b"x" * 200_000), ReadOutcome.UNREADABLE, "a line of more than"),
        (
            answering(small_body(extra='apiserver_request_total{code="1"} NaN')),
            ReadOutcome.UNREADABLE,
            "has the value NaN",
        ),
        (answering(small_body() + small_body()), ReadOutcome.UNREADABLE, "is there twice"),
        (answering(b"no gzip", encoding="gzip"), ReadOutcome.UNREADABLE, "broken gzip"),
        (answering(gzip.compress(small_body())[:-20], encoding="gzip"), ReadOutcome.UNREADABLE, "breaks off"),
        (answering(gzip.compress(small_body()) * 2, encoding="gzip"), ReadOutcome.UNREADABLE, "after the end"),
        (answering(small_body(), encoding="br"), ReadOutcome.UNREADABLE, "encoding"),
        (answering(b"", status=302, headers={"Location": "/elsewhere"}), ReadOutcome.REFUSED, "status 302"),
        (answering(b"", status=503), ReadOutcome.REFUSED, "status 503"),
        (answering(b"", status=401), ReadOutcome.FORBIDDEN, "status 401"),
        (answering(b"secret words", status=403), ReadOutcome.FORBIDDEN, "status 403"),
    ],
)
async def test_what_is_no_usable_answer_is_said_in_our_own_words(handler, outcome, words) -> None:
    error = await failure(handler)
    assert error.outcome is outcome
    assert words in error.problem
    assert "secret" not in error.problem


@pytest.mark.whole
async def test_a_gzip_bomb_is_given_up_at_the_limit() -> None:
    bomb = gzip.compress((b"#" * 4095 + b"\n") * (MAX_INFLATED_BYTES // 4096 + 256), 1)
    assert len(bomb) < 2_000_000
    # A busy machine may take longer than the limit on time to inflate so much; here it is the size that counts.
    error = await failure(answering(bomb, encoding="gzip"), limit_s=60.0)
    assert (error.outcome, error.problem) == (ReadOutcome.TOO_LARGE, "more than 100 MB of metrics")


@pytest.mark.parametrize("handler", [trickle, stall])
async def test_a_slow_answer_is_given_up(handler) -> None:
    reads: list[Read] = []
    error = await failure(handler, limit_s=0.3, reads=reads)
    assert (error.outcome, error.problem) == (ReadOutcome.TIMEOUT, "no whole answer within 0.3 s")
    assert reads[0].outcome is ReadOutcome.TIMEOUT
    assert reads[0].seconds >= 0.3


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ReadError, match="cannot be reached") as caught:
            await scrape(f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert caught.value.outcome is ReadOutcome.UNREACHABLE


async def test_an_answer_that_breaks_off_is_unreachable() -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100000"})
        await response.prepare(request)
        await response.write(small_body())
        request.transport.abort()
        return response

    assert (await failure(half)).outcome is ReadOutcome.UNREACHABLE


def large_body(megabytes: int) -> bytes:
    """A body as a cluster with thousands of custom resources has it: every series different, mostly buckets."""
    kinds = [recorded("herd-1")]
    size, number = len(kinds[0]), 0
    while size < megabytes * 1024 * 1024:
        name = f'group="g{number}.example.com",resource="r{number}"'
        lines = [f'apiserver_request_total{{code="{code}",verb="GET",{name}}} 5' for code in (200, 404)]
        buckets = [f'apiserver_request_duration_seconds_bucket{{verb="GET",{name},le="{le}"}} 5' for le in range(120)]
        sums = [f'apiserver_request_duration_seconds_{part}{{verb="GET",{name}}} 5' for part in ("sum", "count")]
        kinds.append(("\n".join([*lines, *buckets, *sums]) + "\n").encode())
        size, number = size + len(kinds[-1]), number + 1
    return b"".join(kinds)


def test_few_lines_of_a_large_body_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing is what costs: seconds of CPU per megabyte of a large cluster's metrics, if all of them were parsed."""
    text = large_body(8)
    body = gzip.compress(text, 1)
    parsed: list[bytes] = []

    def noting(lines: Iterable[bytes]) -> list[Row]:
        parsed.extend(lines)
        return parse_rows(parsed)

    monkeypatch.setattr("throttler.scraping.scrape_watch.parse_rows", noting)
    reader = MetricsBody("gzip")
    for at in range(0, len(body), STEP_BYTES):
        reader.feed(body[at : at + STEP_BYTES])
    sample = reader.finish(asked_s=0.0, taken_s=0.0, wall_s=None)
    assert sum(map(len, parsed)) < 0.05 * len(text)
    assert sample.seats_share == 1.0
    assert sample.requests > 3_000


@pytest.mark.whole
async def test_the_loop_goes_on_while_a_large_body_is_read() -> None:
    async with loopback_api(gzipped(large_body(20))) as api:
        lags, task = [], asyncio.ensure_future(scrape(api.url))
        while not task.done():
            before_s = time.perf_counter()
            await asyncio.sleep(0.001)
            lags.append(time.perf_counter() - before_s)
        assert (await task).seats_share == 1.0
    assert len(lags) > 20


def test_a_scrape_that_was_cancelled_before_its_answer_leaves_nothing_open(tmp_path) -> None:
    ca = authority(tmp_path)
    trust = ssl.create_default_context(cafile=ca.pair.certificate)

    async def give_up_a_scrape(url: str, is_frozen: threading.Event) -> None:
        with Scraper(connection_to(url, tls=trust)) as scraper:
            await cancelled(scraper.scrape(ScrapeTarget("a", url)), is_frozen)

    with frozen_server(ca.issue_server("server")) as server:
        assert left_open_by(give_up_a_scrape(*server)) == []
