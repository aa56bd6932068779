import json
from datetime import UTC, datetime

import msgspec
import pytest

from throttler.kube import errors
from throttler.kube.errors import MESSAGE_LIMIT, error_from_answer, error_from_status_object

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def answer(status, body=b"{}", **headers):
    return error_from_answer(status, headers, body, NOW)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", errors.InvalidError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (410, "Expired", errors.GoneError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (503, "", errors.ServerError),
        (302, "", errors.ApiError),
        (418, "", errors.ApiError),
    ],
)
def test_each_status_has_its_error(status, reason, kind):
    error = answer(status, json.dumps({"reason": reason, "message": "why"}).encode())
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (status, reason, "why")
    assert isinstance(error, errors.ApiError)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>" + b"x" * 100_000,
        b"[" * 50_000,
        b"\xff\xfe",
        b"null",
        b'{"message": 1}',
        b'{"message": "Stra\xdfe"}',
    ],
)
def test_a_body_that_is_no_status_becomes_a_short_message(body):
    error = answer(502, body)
    assert isinstance(error, errors.ServerError)
    assert 0 < len(error.message) <= MESSAGE_LIMIT


def test_long_messages_are_cut_and_kept_on_one_line():
    error = answer(422, json.dumps({"message": "line\n" * 5000}).encode())
    assert len(error.message) == MESSAGE_LIMIT
    assert "\n" not in error.message


def test_the_header_wins_over_the_body_for_retry_after():
    body = json.dumps({"details": {"retryAfterSeconds": 7}}).encode()
    assert answer(429, body).retry_after_s == 7
    assert answer(429, body, **{"Retry-After": "3"}).retry_after_s == 3
    assert answer(409, body, **{"Retry-After": "3600"}).retry_after_s == 60
    assert answer(503).retry_after_s is None


def test_an_error_event_in_a_watch_carries_its_code():
    gone = error_from_status_object(msgspec.Raw(b'{"code":410,"reason":"Expired","message":"too old"}'))
    assert isinstance(gone, errors.GoneError)
    assert error_from_status_object(b"{}").status == 500
