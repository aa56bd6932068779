"""Sessions for one read: no kept connection, no cookie, no redirect, nothing inflated before it is counted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from throttler.kube.transport import EndingConnector
from throttler.sources.allowed_hosts import JudgingResolver


@asynccontextmanager
async def fresh_session(*, judges_hosts: bool, allows_loopback: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose connection ends with it; `judges_hosts` refuses forbidden addresses after DNS, and
    this very host unless `allows_loopback`."""
    resolver = JudgingResolver(allows_loopback=allows_loopback) if judges_hosts else None
    connector = EndingConnector(limit=0, force_close=True, use_dns_cache=False, resolver=resolver)
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )
    # The one owner of repetition is the next round of reading.
    session._retry_connection = False
    try:
        yield session
    finally:
        await session.close()


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Ends an answer at once: TLS would wait for a farewell from a server that may be frozen."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
