"""The one owner of retries: at most one per call, only where a second sending does no harm."""

from collections.abc import Callable
from random import Random

from tenacity import AsyncRetrying, RetryCallState

from throttler.client.errors import (
    ApiError,
    TooManyRequestsError,
    UndecodableError,
    UnreachableError,
)
from throttler.client.retry_after import SHORTEST_S, clamp_wait

ATTEMPTS = 2
"""One retry per call: more would multiply the load of a server that is in trouble."""
JITTER = 0.5
"""Up to half the wait on top, so that callers told the same Retry-After do not come back together."""
TRANSIENT_STATUS = frozenset({429, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Whether the same call may well succeed a moment later."""
    if isinstance(error, UnreachableError | TooManyRequestsError):
        return True
    if not isinstance(error, ApiError) or isinstance(error, UndecodableError):
        return False
    return error.status in TRANSIENT_STATUS or (error.status == 500 and error.retry_after_s is not None)


def wait_s(error: BaseException, random: Random) -> float:
    """Seconds before the retry: Retry-After is the least, 60 s the most; renewed credentials need none."""
    if not isinstance(error, ApiError) or error.is_cured:
        return 0.0
    least_s = error.retry_after_s if error.retry_after_s is not None else SHORTEST_S
    return clamp_wait(least_s * (1 + random.uniform(0, JITTER)))


def retry_policy(
    *, is_retry_safe: bool, deadline_at: float, clock: Callable[[], float], random: Random
) -> AsyncRetrying:
    """What wraps one call.

    A call is repeated once if it failed for a passing reason and is retry-safe, or if the server refused
    old credentials before doing anything; never when the wait would end after `deadline_at`.
    """

    def is_worth_it(state: RetryCallState) -> bool:
        error = _error(state)
        if isinstance(error, ApiError) and error.is_cured:
            return True
        return error is not None and is_retry_safe and is_transient(error)

    def is_over(state: RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or clock() + state.upcoming_sleep >= deadline_at

    def wait(state: RetryCallState) -> float:
        error = _error(state)
        return wait_s(error, random) if error else 0.0

    return AsyncRetrying(retry=is_worth_it, stop=is_over, wait=wait, reraise=True)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
