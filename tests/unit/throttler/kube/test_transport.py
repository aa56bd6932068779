"""The aiohttp transport over a real socket on loopback."""

import asyncio
import gzip
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web

from tests.unit.throttler.kube.fake_list_and_watch import THINGS, FixedSource
from tests.unit.throttler.kube.frozen_server import BEGINNING, cancelled, frozen_server, left_open_by
from tests.unit.throttler.kube.loopback_api import authority, loopback_api
from throttler.kube.connection import Connection, CredentialKeeper, Credentials
from throttler.kube.decoding import LineFrames
from throttler.kube.errors import ApiError, AttemptTimeoutError, TlsRefusedError, UnreachableError
from throttler.kube.kube_client import Attempt, KubeClient, open_client
from throttler.kube.requests import EVERYTHING
from throttler.kube.transport import EndingConnector, EndingResolver


@asynccontextmanager
async def client_of(
    url: str, *, timeout_s: float = 10.0, observer=lambda attempt: None, impersonation=(), tls=None
) -> AsyncIterator[KubeClient]:
    keeper = CredentialKeeper(FixedSource(), Credentials("Bearer fixed", tls))
    connection = Connection(url, keeper, "default", timeout_s, impersonation)
    async with open_client(connection, "test", observer=observer) as client:
        yield client


async def test_says_who_we_are():
    impersonation = (("Impersonate-User", "u"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2"))
    async with loopback_api() as api, client_of(api.url, impersonation=impersonation) as client:
        await client.patch(THINGS, {"a": 1}, "n 1")
    headers = api.asked[0].headers
    assert headers["User-Agent"].startswith("kube-balloons/")
    assert headers["User-Agent"].endswith("(test)")
    assert headers["Authorization"] == "Bearer fixed"
    assert headers.getall("Impersonate-Group") == ["g1", "g2"]
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert api.asked[0].raw_path == "/api/v1/nodes/n%201"


async def test_a_base_url_with_a_path_is_kept():
    async with loopback_api() as api, client_of(f"{api.url}/k8s/clusters/c-1") as client:
        await client.get(THINGS, "n")
    assert api.asked[0].path == "/k8s/clusters/c-1/api/v1/nodes/n"


async def test_query_values_are_encoded_once():
    async with loopback_api() as api, client_of(api.url) as client:
        await client.apply(THINGS, {}, "n", field_manager="a b+c/ü")
    assert api.asked[0].query["fieldManager"] == "a b+c/ü"


async def test_a_watch_line_of_eight_megabytes_arrives_whole():
    lines = [b'{"type":"ADDED","object":{"x":"' + b"a" * size + b'"}}' for size in (8_000_000, 10, 3_000_000)]

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line + b"\n")
        return response

    frames, found = LineFrames(), []
    async with loopback_api(stream) as api, client_of(api.url) as client:
        watch = client.watch(THINGS, EVERYTHING, resource_version="1", lifetime_s=60)
        async with watch as response:
            while chunk := await response.read_chunk():
                found += frames.feed(chunk)
    assert found == lines


async def test_giving_up_the_wait_for_a_chunk_loses_nothing():
    may_go_on = asyncio.Event()

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        await may_go_on.wait()
        await response.write(b"two")
        return response

    async with loopback_api(stream) as api, client_of(api.url) as client:
        watch = client.watch(THINGS, EVERYTHING, resource_version="1", lifetime_s=60)
        async with watch as response:
            assert await response.read_chunk() == b"one"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await response.read_chunk()
            may_go_on.set()
            assert await response.read_chunk() == b"two"
            assert await response.read_chunk() == b""


async def test_compressed_answers_are_read():
    body = json.dumps({"a": "b" * 1000}).encode()

    async def compressed(request: web.BaseRequest) -> web.Response:
        return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})

    async with loopback_api(compressed) as api, client_of(api.url) as client:
        assert await client.get(THINGS, "n") == body


async def test_redirects_are_not_followed():
    async def redirect(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with loopback_api(redirect) as api, client_of(api.url) as client:
        with pytest.raises(ApiError) as caught:
            await client.get(THINGS, "n")
    assert caught.value.status == 302
    assert len(api.asked) == 1


async def test_nobody_listening_is_unreachable():
    async with loopback_api() as api:
        url = api.url
    seen: list[Attempt] = []
    async with client_of(url, observer=seen.append) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.delete(THINGS, "n")
    assert [attempt.code for attempt in seen] == ["error"]
    assert caught.value.status == 0
    assert caught.value.message == f"{url}: nobody listens at that port (connection refused)"


async def test_a_name_that_is_not_there_is_told_without_the_words_of_a_library():
    async with client_of("http://api.example.invalid:6443") as client:
        with pytest.raises(UnreachableError) as caught:
            await client.delete(THINGS, "n")
    assert caught.value.message == "http://api.example.invalid:6443: its name cannot be resolved"


@asynccontextmanager
async def raw_server(talk):
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer, received)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


def test_nobody_waits_in_the_end_for_a_name_that_is_not_resolved(monkeypatch):
    """A kubelet kills after 30 s, and DNS that is away takes longer than that."""
    may_end, ended = threading.Event(), []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.append(may_end.wait(10)))

    async def ask() -> None:
        async with client_of("http://api.example:6443", timeout_s=0.1) as client:
            with pytest.raises(AttemptTimeoutError):
                await client.create(THINGS, {})

    asyncio.run(ask())
    assert ended == []
    may_end.set()


async def test_an_address_of_one_link_keeps_its_interface(monkeypatch):
    """Nobody can be reached at fe80::1 alone."""
    info = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 6443, 0, 1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info])
    (address,) = await EndingResolver().resolve("api.local", 6443)
    assert address["host"] == f"fe80::1%{socket.if_indextoname(1)}"


async def test_a_name_that_no_thread_can_look_up_is_an_error_of_the_network(monkeypatch):
    """And no end of everything: at a limit of threads the next attempt may find one."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match=r"no thread to look up api\.local: can't start"):
        await EndingResolver().resolve("api.local")


async def test_a_server_that_never_answers_is_given_up_and_hung_up_on():
    async def talk(reader, writer, received) -> None:
        # On a busy machine the time may be over before anything was sent.
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            received.append(await reader.read())

    async with raw_server(talk) as (url, received), client_of(url, timeout_s=0.05) as client:
        while b'{"b":"body"}' not in received:
            with pytest.raises(AttemptTimeoutError):
                await client.create(THINGS, {"b": "body"})


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this system has other names for it")
async def test_a_machine_that_is_gone_without_a_goodbye_is_noticed_by_the_kernel():
    """Within 30 s. A watch would else show an old world as the present one until 70 s of silence are over."""
    tcp, connector = socket.IPPROTO_TCP, EndingConnector()
    async with loopback_api() as api, aiohttp.ClientSession(connector=connector) as session:
        await session.get(api.url)
        (opened,) = connector._opened
        probes_s = opened.getsockopt(tcp, socket.TCP_KEEPINTVL) * opened.getsockopt(tcp, socket.TCP_KEEPCNT)
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert opened.getsockopt(tcp, socket.TCP_KEEPIDLE) + probes_s <= 30


async def test_an_answer_cut_short_is_no_answer():
    async def talk(reader, writer, received) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"metadata":')
        await writer.drain()

    async with raw_server(talk) as (url, received), client_of(url) as client:
        with pytest.raises(UnreachableError):
            await client.delete(THINGS, "n")
    assert len(received) == 1


async def test_a_kept_connection_that_breaks_is_not_used_for_a_hidden_second_attempt():
    async def talk(reader, writer, received) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        received.append(await reader.readuntil(b"\r\n\r\n"))

    seen: list[Attempt] = []
    async with raw_server(talk) as (url, received), client_of(url, observer=seen.append) as client:
        await client.get(THINGS, "first")
        with pytest.raises(UnreachableError):
            await client.delete(THINGS, "second")
    assert [head.split()[0] for head in received] == [b"GET", b"DELETE"]
    assert [attempt.code for attempt in seen] == ["200", "error"]


async def test_a_stranger_with_a_certificate_of_his_own_is_refused(tmp_path):
    pair = authority(tmp_path).issue_server("server")
    async with loopback_api(pair=pair) as api, client_of(api.url) as client:
        with pytest.raises(TlsRefusedError):
            await client.get(THINGS, "n")
    assert api.asked == []


def test_hanging_up_on_a_frozen_server_waits_for_nothing_and_leaves_nothing_open(tmp_path):
    ca = authority(tmp_path)
    trust = ssl.create_default_context(cafile=str(ca.pair.certificate))

    async def give_up_a_watch(url: str) -> None:
        async with client_of(url, tls=trust) as client:
            watch = client.watch(THINGS, EVERYTHING, resource_version="1", lifetime_s=60)
            async with watch as response:
                assert await response.read_chunk() == b"one"

    with frozen_server(ca.issue_server("server"), BEGINNING) as (url, _):
        assert left_open_by(give_up_a_watch(url)) == []


def test_a_request_that_was_cancelled_before_its_answer_leaves_nothing_open(tmp_path):
    ca = authority(tmp_path)
    trust = ssl.create_default_context(cafile=str(ca.pair.certificate))

    async def give_up_a_request(url: str, is_frozen: threading.Event) -> None:
        async with client_of(url, tls=trust) as client:
            await cancelled(client.get(THINGS, "n"), is_frozen)

    with frozen_server(ca.issue_server("server")) as server:
        assert left_open_by(give_up_a_request(*server)) == []
