"""How often API servers answered 429 or 5xx, by their own counters."""

import re
from collections.abc import Sequence

import aiohttp

from lab.controlplane import ApiAccess

CODES = re.compile(rb'^apiserver_request_total\{[^}]*code="(429|5[0-9][0-9])"[^}]*\} ([0-9.e+]+)$', re.MULTILINE)


async def errors_answered(accesses: Sequence[ApiAccess]) -> float:
    """429 and 5xx of all servers since they started, from their own counters; a server that is away counts 0."""
    return sum([await _errors_of(access) for access in accesses])


async def _errors_of(access: ApiAccess) -> float:
    connector = aiohttp.TCPConnector(ssl=access.ssl_context())
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.get(f"{access.url.rstrip('/')}/metrics") as answer,
    ):
        body = await answer.read()
    return sum(float(value) for _, value in CODES.findall(body))
