"""An innocent client: asks for one small object ten times a second, and never waits for the answer to ask again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

from lab.controlplane import ApiAccess
from throttler.client.connector import EndingConnector

EVERY_S = 0.1
TIMEOUT_S = 30.0
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""A small object that every cluster has; one GET of it is as cheap as a request can be."""


@dataclass(slots=True)
class Bystander:
    """Latencies of the requests that were answered well, in seconds, and how many were not."""

    latencies_s: list[float] = field(default_factory=list)
    failures: int = 0


@contextlib.asynccontextmanager
async def bystander(*accesses: ApiAccess) -> AsyncIterator[Bystander]:
    """Ask the servers in turn until left; what is open then is not counted."""
    seen = Bystander()
    async with contextlib.AsyncExitStack() as stack:
        sessions = [
            (await stack.enter_async_context(_session(access)), access.url.rstrip("/") + PATH) for access in accesses
        ]
        asking = asyncio.create_task(_ask_for_ever(sessions, seen))
        try:
            yield seen
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking


def _session(access: ApiAccess) -> aiohttp.ClientSession:
    connector = EndingConnector(ssl=access.ssl_context(), limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))


async def _ask_for_ever(sessions: list[tuple[aiohttp.ClientSession, str]], seen: Bystander) -> None:
    turn = 0
    async with asyncio.TaskGroup() as group:
        while True:
            group.create_task(_ask(*sessions[turn % len(sessions)], seen))
            turn += 1
            await asyncio.sleep(EVERY_S)


async def _ask(session: aiohttp.ClientSession, url: str, seen: Bystander) -> None:
    clock = asyncio.get_running_loop().time
    started_s = clock()
    try:
        async with session.get(url) as answer:
            await answer.read()
            is_good = answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        is_good = False
    if is_good:
        seen.latencies_s.append(clock() - started_s)
    else:
        seen.failures += 1
