"""Instant queries against a Prometheus, and what the operator gives for one: a private CA, a token, a client
certificate.

No redirect, limits on time and size, and no credentials but those that the operator gives for just this URL. They come
as files from whoever starts the service and never from a JoinThrottle: whoever may write one could else have any file
of the service sent to a server of his choice. They belong to one https URL, and are used where a throttle names just
that. Each query reads them again, so a Secret that is mounted may be rotated at any time.

An answer is a vector of numbers or an error in our own words; nothing of a foreign body is repeated, as the
address was written by a user and may lead anywhere.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from throttler.api.throttle_rules import prometheus_problems
from throttler.kube.connection import SERVICE_ACCOUNT, user_agent
from throttler.kube.errors import ConfigError, cut
from throttler.kube.transport import hang_up
from throttler.scraping.settings_and_allowed_hosts import (
    ANSWER_LIMIT_S,
    ForbiddenHostError,
    check_literal,
    checked_url,
    fresh_session,
)
from throttler.signals.reading import ReadError, ReadOutcome

MAX_TOKEN_BYTES = 16 * 1024
MAX_PEM_BYTES = 1024 * 1024
"""A bundle of all public authorities is 250 kB."""
OWN_ACCOUNT = frozenset({SERVICE_ACCOUNT, Path(str(SERVICE_ACCOUNT).removeprefix("/var"))})
"""Where a pod has the credentials of its own account: /var/run is a link to /run."""

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAccess:
    """Paths of files, and the only URL that they are used for.

    Raises ConfigError that names the option of `balloons run`, its value and what is accepted.
    """

    url: str
    ca_file: str | None = None
    """PEM, in place of the system's authorities."""
    token_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ConfigError(problem)

    def is_for(self, url: str) -> bool:
        """Whether a throttle's URL is this one: the same server, port and path, not one beneath it."""
        return _comparable(url) == _comparable(self.url)


def prometheus_access(
    url: str | None, *, ca_file: str | None, token_file: str | None, cert_file: str | None, key_file: str | None
) -> PrometheusAccess | None:
    """What the options of `balloons run` say together, None where they say nothing; raises ConfigError."""
    if not url and not any((ca_file, token_file, cert_file, key_file)):
        return None
    return PrometheusAccess(
        url=url or "", ca_file=ca_file, token_file=token_file, cert_file=cert_file, key_file=key_file
    )


def _problems(access: PrometheusAccess) -> Iterator[str]:
    if not access.url:
        yield "--prometheus-url is not given; accepted: the one URL that the --prometheus-*-file options are for"
    for problem in prometheus_problems(access.url, "--prometheus-url"):
        yield str(problem)
    if not access.url.startswith("https://"):
        yield f'--prometheus-url "{access.url}"; accepted: https, because no credential goes out in clear'
    if not any((access.ca_file, access.token_file, access.cert_file, access.key_file)):
        yield (
            f'--prometheus-url "{access.url}" alone; accepted: with --prometheus-ca-file, --prometheus-token-file, '
            "or --prometheus-cert-file and --prometheus-key-file"
        )
    if bool(access.cert_file) != bool(access.key_file):
        name, path = ("cert", access.cert_file) if access.cert_file else ("key", access.key_file)
        yield f'--prometheus-{name}-file "{path}" alone; accepted: --prometheus-cert-file and --prometheus-key-file'
    if access.token_file and OWN_ACCOUNT & set(PurePosixPath(normpath(access.token_file)).parents):
        yield (
            f'--prometheus-token-file "{access.token_file}" is our own token for the API servers, which Prometheus '
            "could then use; accepted: the token of another account, from a Secret that is mounted"
        )


def _comparable(url: str) -> tuple[str, str | None, int, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/")


class AccessFiles:
    """What an access says now, for one URL of a throttle; without one for this URL, what anybody would send.

    Raises ConfigError that names option and file, and never what is in the file.
    """

    def __init__(self, access: PrometheusAccess | None, url: str) -> None:
        self._access = access if access is not None and access.is_for(url) else None
        self._is_tls = url.startswith("https:")
        self._mark = b""
        self._context: ssl.SSLContext | None = None

    def headers(self) -> Mapping[str, str]:
        """The token as a request carries it; empty where there is none."""
        if self._access is None or self._access.token_file is None:
            return {}
        path = self._access.token_file
        token = _read("token", path, MAX_TOKEN_BYTES).strip()
        if not token or not all(0x20 < byte < 0x7F for byte in token):
            raise ConfigError(f"{_named('token', path)}; accepted: one token, ASCII without spaces")
        return {"Authorization": f"Bearer {token.decode()}"}

    def context(self) -> ssl.SSLContext | bool:
        """Whom to trust and as whom to speak, made anew when a file has changed; True is the system's way."""
        if self._access is None:
            return True
        mark = sha256()
        for kind, path in _pem_files(self._access):
            mark.update(sha256(_read(kind, path, MAX_PEM_BYTES)).digest())
        if self._context is None or mark.digest() != self._mark:
            self._context, self._mark = _new_context(self._access), mark.digest()
        return self._context

    def refusal(self, status: int) -> str:
        """An answer other than 200 in words, with the option to look at."""
        words = f"Prometheus answered with status {status}"
        if status not in {401, 403} or self._access is None:
            return words
        path = self._access.token_file
        return f"{words} to the token of {_named('token', path)}" if path else f"{words}; no --prometheus-token-file"

    def failure(self, error: Exception) -> str:
        """Why there was no answer, in words, with the option to look at where it is TLS."""
        cause = _cause(error, ssl.SSLError)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"Prometheus' certificate is refused ({cut(cause.verify_message)}) by {self._authorities()}"
        if cause is not None:
            return f"Prometheus cannot be reached by TLS ({cause.reason or 'broken off'}); {self._own_certificate()}"
        if self._is_tls and _cause(error, ConnectionResetError, aiohttp.ServerDisconnectedError) is not None:
            return f"Prometheus closed the connection; {self._own_certificate()}"
        return f"Prometheus cannot be reached ({type(error).__name__})"

    def _authorities(self) -> str:
        if self._access is None or self._access.ca_file is None:
            return "the system's authorities; --prometheus-ca-file names those of --prometheus-url"
        return f"the authorities of {_named('ca', self._access.ca_file)}"

    def _own_certificate(self) -> str:
        if self._access is None or self._access.cert_file is None:
            return "if it asks for a certificate of ours, --prometheus-cert-file names one for --prometheus-url"
        return f"it was offered {_named('cert', self._access.cert_file)}"


def _cause(error: BaseException | None, *kinds: type[E]) -> E | None:
    """The first error of these kinds, from one of the HTTP library's inwards; what the library wraps it in is none."""
    while error is not None and (isinstance(error, aiohttp.ClientOSError) or not isinstance(error, kinds)):
        error = error.__cause__ or error.__context__
    return error


def _pem_files(access: PrometheusAccess) -> Iterator[tuple[str, str]]:
    for kind, path in (("ca", access.ca_file), ("cert", access.cert_file), ("key", access.key_file)):
        if path is not None:
            yield kind, path


def _new_context(access: PrometheusAccess) -> ssl.SSLContext:
    context = _loaded("ca", access.ca_file or "", lambda: ssl.create_default_context(cafile=access.ca_file))
    if access.ca_file:
        # From Python 3.13 on private CAs must have extensions that nothing else in a cluster asks them for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.cert_file and access.key_file:
        cert, key = access.cert_file, access.key_file
        # Without a password here OpenSSL asks for one on the terminal.
        _loaded("cert", cert, lambda: context.load_cert_chain(cert, key, password=""))
    return context


def _loaded(kind: str, path: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except (ssl.SSLError, ValueError) as error:
        accepted = "PEM, and a key without a password that belongs to the certificate" if kind == "cert" else "PEM"
        reason = cut(getattr(error, "reason", None) or "unreadable")
        raise ConfigError(f"{_named(kind, path)} ({reason}); accepted: {accepted}") from error
    except OSError as error:
        raise ConfigError(f"{_named(kind, path)}: {error.strerror}") from error


def _read(kind: str, path: str, most_bytes: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{_named(kind, path)}: {error.strerror}") from error
    if len(content) > most_bytes:
        raise ConfigError(f"{_named(kind, path)}; accepted: at most {most_bytes} bytes")
    return content


def _named(kind: str, path: str) -> str:
    return f'--prometheus-{kind}-file "{path}"'


MAX_BYTES = 4 * 1024 * 1024
"""A hundred servers' figures are 300 kB."""
INFO = "PromQL info:"
"""So begins a remark on the query, such as that a counter's name does not end in _total: nothing is wrong with the
result. Later versions of Prometheus tell them apart (prometheus/prometheus#14135), earlier ones and Thanos do not."""


@dataclass(frozen=True, slots=True)
class Point:
    """One element of a vector: its labels, its value, which may be NaN or infinite, and the moment of evaluation on
    Prometheus' clock."""

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
    is_partial: bool = msgspec.field(default=False, name="isPartial")
    """How VictoriaMetrics says that a part of its storage is away; it gives no warning."""


_decoder = msgspec.json.Decoder(_Answer)


class PromqlClient:
    """One Prometheus. Raises ConfigError for an address that cannot be used."""

    def __init__(
        self,
        url: str,
        *,
        access: PrometheusAccess | None = None,
        limit_s: float = ANSWER_LIMIT_S,
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
    if answer.is_partial or not all(warning.startswith(INFO) for warning in answer.warnings or ()):
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered that the result may be partial")
    data = answer.data
    elements = data.result if isinstance(data, _Vector) else (_Element({}, data.result),)
    return tuple(_point(element) for element in elements)


def _point(element: _Element) -> Point:
    at_s, text = element.value
    try:
        value = float(text)
    except ValueError as error:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with a value that is no number") from error
    return Point(element.metric, value, at_s)
