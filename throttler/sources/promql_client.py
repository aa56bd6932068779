"""Instant queries against a Prometheus: no redirect, limits on time and size, and no credentials but those that the
operator gives for just this URL (`throttler.sources.prometheus_access`).

An answer is a vector of finite numbers or an error in our own words; nothing of a foreign body is repeated, as the
address was written by a user and may lead anywhere.
"""

import asyncio
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import msgspec

from throttler.kube.connection import user_agent
from throttler.kube.errors import ConfigError
from throttler.sources.allowed_hosts import ForbiddenHostError, check_literal
from throttler.sources.connecting import fresh_session, hang_up
from throttler.sources.outcome import ReadError, ReadOutcome
from throttler.sources.prometheus_access import AccessFiles, PrometheusAccess
from throttler.sources.settings import checked_url

LIMIT_S = 8.0
MAX_BYTES = 4 * 1024 * 1024
"""A hundred servers' figures are 300 kB."""


@dataclass(frozen=True, slots=True)
class Point:
    """One element of a vector: its labels, a finite value, and the moment of evaluation on Prometheus' clock."""

    labels: Mapping[str, str]
    value: float
    at_s: float


class _Element(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct, frozen=True, tag_field="resultType", tag="vector"):
    result: tuple[_Element, ...]


class _Scalar(msgspec.Struct, frozen=True, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Vector | _Scalar | None = None
    warnings: tuple[str, ...] | None = None


_decoder = msgspec.json.Decoder(_Answer)


class PromqlClient:
    """One Prometheus. Raises ConfigError for an address that cannot be used."""

    def __init__(
        self,
        url: str,
        *,
        access: PrometheusAccess | None = None,
        limit_s: float = LIMIT_S,
        allows_loopback: bool = False,
    ) -> None:
        parts = checked_url(url)
        try:
            check_literal(parts.hostname or "", allows_loopback=allows_loopback)
        except ForbiddenHostError as error:
            raise ConfigError(f"signals.prometheus.url: {url!r} {error}") from error
        self.name = parts.netloc
        self._query_url = f"{url.rstrip('/')}/api/v1/query"
        self._files = AccessFiles(access, url)
        self._limit_s = limit_s
        self._allows_loopback = allows_loopback

    async def query(self, text: str) -> tuple[tuple[Point, ...], int]:
        """The vector that the query gives now, and the bytes of the answer; empty is not zero. Raises ReadError."""
        try:
            async with asyncio.timeout(self._limit_s):
                body = await self._post(text)
        except TimeoutError as error:
            raise ReadError(ReadOutcome.TIMEOUT, f"Prometheus did not answer within {self._limit_s:g} s") from error
        except ForbiddenHostError as error:
            raise ReadError(ReadOutcome.UNREACHABLE, f"Prometheus: {error}") from error
        except ConfigError as error:
            raise ReadError(ReadOutcome.UNREACHABLE, f"Prometheus is not asked: {error}") from error
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise ReadError(ReadOutcome.UNREACHABLE, self._files.failure(error)) from error
        return points_of(body), len(body)

    async def _post(self, text: str) -> bytes:
        form = {"query": text, "timeout": f"{self._limit_s:g}s"}
        headers = {"User-Agent": user_agent("signals"), "Accept-Encoding": "identity", **self._files.headers()}
        trust = self._files.context()
        async with fresh_session(judges_hosts=True, allows_loopback=self._allows_loopback) as session:
            response = await session.post(self._query_url, data=form, headers=headers, ssl=trust, allow_redirects=False)
            try:
                if response.status != 200:
                    outcome = ReadOutcome.FORBIDDEN if response.status in {401, 403} else ReadOutcome.REFUSED
                    raise ReadError(outcome, self._files.refusal(response.status))
                return await _body(response)
            finally:
                hang_up(response)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ReadError(ReadOutcome.TOO_LARGE, f"Prometheus answered with more than {MAX_BYTES // 1024**2} MB")
    return bytes(body)


def points_of(body: bytes) -> tuple[Point, ...]:
    """The vector in an answer; raises ReadError when it is none, is partial, or holds what is no number."""
    try:
        answer = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with something that is no vector") from error
    if answer.status != "success" or answer.data is None:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered that the query failed")
    if answer.warnings:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with warnings: the result may be partial")
    data = answer.data
    elements = data.result if isinstance(data, _Vector) else (_Element({}, data.result),)
    return tuple(_point(element) for element in elements)


def _point(element: _Element) -> Point:
    at_s, text = element.value
    try:
        value = float(text)
    except ValueError as error:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with a value that is no number") from error
    if not math.isfinite(value):
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with a value that is not finite")
    return Point(element.metric, value, at_s)
