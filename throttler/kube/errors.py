"""What can go wrong when talking to an API server, in our own words, and the wait that it asks for.

A message never holds a header or a token; bodies that are not a Kubernetes Status are cut short.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

MESSAGE_LIMIT = 600
"""Characters kept of a server's message: enough for a CEL refusal, too short for a web page."""

READ_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises on hostile input: broken JSON, wrong types, nesting without end, broken UTF-8."""
WEBHOOK_WORDS = ("admission webhook", "failed calling webhook", "conversion webhook")
"""In which an API server says that a webhook, and not itself, failed or refused a request."""


class ConfigError(Exception):
    """The kubeconfig or the in-cluster files cannot be used; the message names file and field."""


class ApiError(Exception):
    """A call that did not succeed.

    `status` is the HTTP status, 0 when no answer came. `reason` is the server's CamelCase word.
    `retry_after_s` is what the server asked us to wait, clamped, or None. `is_cured` says that the
    credentials have been renewed since, so that the same call may be sent once more.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.is_cured = False

    @property
    def is_of_webhook(self) -> bool:
        """Whether a webhook failed or refused it: that says nothing about the API server."""
        return any(words in self.message for words in WEBHOOK_WORDS)


class UnreachableError(ApiError):
    """No answer, or only a part of one: whether the server acted is unknown."""


class AttemptTimeoutError(UnreachableError):
    """The answer took longer than the attempt, or the call's deadline, allows."""


class TlsRefusedError(UnreachableError):
    """The server's certificate was not accepted, or the server refused ours; nothing was sent."""


class FencedError(ApiError):
    """Not sent: whoever sends it may not write just now, as another process may by now."""


class SilentWatchError(UnreachableError):
    """A watch stayed open and said nothing for too long."""


class UndecodableError(ApiError):
    """An answer arrived and is not what the API promises."""


class UnauthorizedError(ApiError):
    """401: the credentials are not accepted."""


class ForbiddenError(ApiError):
    """403: the credentials are known and lack the right."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""


class ConflictError(ApiError):
    """409: a precondition does not hold, or another field manager owns a field; the message names it."""


class AlreadyExistsError(ConflictError):
    """409 on create: the name is taken."""


class GoneError(ApiError):
    """410: the version or the continue token is too old; list afresh."""


class InvalidError(ApiError):
    """400 or 422: the server refuses what was sent; the message names the fields."""


class TooManyRequestsError(ApiError):
    """429: rejected before it was handled, by flow control, by a disruption budget, or by a proxy."""


class ServerError(ApiError):
    """5xx: the server, or something between, failed."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


class _StatusDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _StatusDetails | None = None


class _Outcome(_Status):
    kind: str = ""
    status: str = ""


_status_decoder = msgspec.json.Decoder(_Status)
_outcome_decoder = msgspec.json.Decoder(_Outcome)
LONGEST_STATUS_BYTES = 64 * 1024
"""What is longer is no Status but what was asked for: a list has megabytes."""


def error_from_answer(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> ApiError:
    """The error for an answer with a failing status; `now` (UTC, aware) only serves Retry-After dates."""
    retry_after_s = parse_retry_after(headers.get("Retry-After"), now)
    return _error(status, _read_status(body), retry_after_s)


def error_from_status_object(body: bytes | msgspec.Raw) -> ApiError:
    """The error for a Status object inside a watch stream."""
    answered = _read_status(bytes(body))
    return _error(answered.code or 500, answered, None)


def failure_in(body: bytes) -> ApiError | None:
    """The failure that the body of a 200 tells: a proxy may lose the server's status.

    It would be read as a list of nothing, or as a write that was done.
    """
    if len(body) > LONGEST_STATUS_BYTES or b'"Failure"' not in body:
        return None
    try:
        answered = _outcome_decoder.decode(body)
    except READ_ERRORS:
        return None
    is_failure = (answered.kind, answered.status) == ("Status", "Failure")
    return _error(answered.code or 500, answered, None) if is_failure else None


def _read_status(body: bytes) -> _Status:
    """The Status in `body`; what is not one (a proxy's page) becomes a short message."""
    try:
        return _status_decoder.decode(body)
    except READ_ERRORS:
        return _Status(message=body[:MESSAGE_LIMIT].decode("utf-8", "replace"))


def _error(status: int, answered: _Status, retry_after_s: float | None) -> ApiError:
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if answered.reason == "AlreadyExists":
        kind = AlreadyExistsError
    details = answered.details or _StatusDetails()
    if retry_after_s is None and details.retry_after_seconds > 0:
        retry_after_s = parse_retry_after(str(details.retry_after_seconds), None)
    return kind(
        cut(answered.message) or f"HTTP status {status}",
        status=status,
        reason=answered.reason,
        retry_after_s=retry_after_s,
    )


def cut(text: str) -> str:
    """The text on one line, at most `MESSAGE_LIMIT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[: MESSAGE_LIMIT - 1]}…"


SHORTEST_WAIT_S = 0.5
"""Never a hot loop: 0 and negative values mean "soon", not "now"."""
LONGEST_WAIT_S = 60.0
"""Never asleep for an hour on one header; the next answer may say the same again."""


def parse_retry_after(text: str | None, now: datetime | None) -> float | None:
    """Seconds to wait, clamped to [0.5, 60]; None when the header is absent or cannot be read.

    `now` is aware UTC wall-clock time and serves the date form; with None a date cannot be read.
    """
    if text is None:
        return None
    seconds = _seconds(text.strip(), now)
    return None if seconds is None else clamp_wait(seconds)


def clamp_wait(seconds: float) -> float:
    """The wait brought into [0.5, 60] s."""
    return min(LONGEST_WAIT_S, max(SHORTEST_WAIT_S, seconds))


def _seconds(text: str, now: datetime | None) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return _seconds_until(text, now)
    return seconds if math.isfinite(seconds) else None


def _seconds_until(text: str, now: datetime | None) -> float | None:
    moment = _moment(text)
    return None if moment is None or now is None else (moment - now).total_seconds()


def date_of(headers: Mapping[str, str]) -> datetime | None:
    """The server's clock when it answered; None where it does not tell.

    A Retry-After date is then right whatever our clock says.
    """
    return _moment(headers.get("Date", ""))


def _moment(text: str) -> datetime | None:
    """A time as HTTP headers have it (aware); None for what is none."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
