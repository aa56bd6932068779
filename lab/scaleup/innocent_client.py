"""An innocent client: asks for one small object ten times a second, and never waits for the answer to ask for the next.

A request that is refused is asked again when the server says, as client-go does it (rest/with_retry.go), and its
latency goes on: to leave refusals out would make a server look the quicker, the more it refuses.

As a program (`python -m lab.scaleup.innocent_client ACCESSES`) it asks until its standard input ends, and then prints
what it met. The machines' hundreds of requests a second would keep an event loop that they share too busy to measure.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aiohttp

from lab.controlplane.credentials import ApiAccess, KeyPair
from throttler.kube.transport import EndingConnector

EVERY_S = 0.1
TIMEOUT_S = 30.0
AGAIN_S = 1.0
"""After a refusal that says no Retry-After, as after a broken connection."""
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""A small object that every cluster has; one GET of it is as cheap as a request can be."""


@dataclass(slots=True)
class Met:
    """Seconds until each was answered well, refusals and waits between included; `TIMEOUT_S` if it never was."""

    latencies_s: list[float] = field(default_factory=list)
    refusals: int = 0
    failures: int = 0
    """Requests that were not answered well in time."""


@contextlib.asynccontextmanager
async def asking(*accesses: ApiAccess) -> AsyncIterator[Met]:
    """Ask the servers in turn until left, and wait for what is open then; an error inside ends it at once."""
    met = Met()
    async with contextlib.AsyncExitStack() as stack:
        sessions = [
            (await stack.enter_async_context(_session(access)), access.url.rstrip("/") + PATH) for access in accesses
        ]
        is_over = asyncio.Event()
        asking = asyncio.create_task(_ask_until(is_over, sessions, met))
        try:
            yield met
            is_over.set()
            await asking
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking


def _session(access: ApiAccess) -> aiohttp.ClientSession:
    connector = EndingConnector(ssl=access.ssl_context(), limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))


async def _ask_until(is_over: asyncio.Event, sessions: list[tuple[aiohttp.ClientSession, str]], met: Met) -> None:
    turn = 0
    async with asyncio.TaskGroup() as group:
        while not is_over.is_set():
            group.create_task(_ask(*sessions[turn % len(sessions)], met))
            turn += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), EVERY_S)


async def _ask(session: aiohttp.ClientSession, url: str, met: Met) -> None:
    clock = asyncio.get_running_loop().time
    started_s = clock()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while (rest_s := await _attempt(session, url)) is not None:
                met.refusals += 1
                await asyncio.sleep(rest_s)
    except TimeoutError:
        met.failures += 1
    met.latencies_s.append(clock() - started_s)


async def _attempt(session: aiohttp.ClientSession, url: str) -> float | None:
    """None if it was answered well, else the seconds after which to ask again."""
    try:
        async with session.get(url) as answer:
            await answer.read()
            return None if answer.status == 200 else float(answer.headers.get("Retry-After", AGAIN_S))
    except (aiohttp.ClientError, TimeoutError):
        return AGAIN_S


def as_argument(accesses: tuple[ApiAccess, ...]) -> str:
    """The servers and the files of a client certificate, for the program."""
    pairs = [
        (access.url, str(access.ca), str(access.client.certificate), str(access.client.key)) for access in accesses
    ]
    return json.dumps(pairs)


async def _until_told(accesses: list[ApiAccess]) -> Met:
    async with asking(*accesses) as met:
        print("asking", flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
    return met


def main() -> None:
    """Ask until the standard input ends; print what was met as JSON."""
    accesses = [
        ApiAccess(url, Path(ca), KeyPair(Path(certificate), Path(key)))
        for url, ca, certificate, key in json.loads(sys.argv[1])
    ]
    print(json.dumps(asdict(asyncio.run(_until_told(accesses)))))


if __name__ == "__main__":
    main()
