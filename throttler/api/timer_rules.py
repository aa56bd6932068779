"""The rules of `maxWait` and `killTimer`: how long a machine may be held, and when its autoscaler gives it up."""

from collections.abc import Iterator

from throttler.api.throttle import ThrottleSpec
from throttler.kube.decoding import Problem
from throttler.kube.quantity import DurationError, parse_duration

SHORTEST_S = 1.0
LONGEST_S = 3600.0
TAINT_LIMIT_S = 600.0
"""cluster-autoscaler counts a node tainted for 15 min as unready, and stops when too many are (45 % by default)."""


def timer_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    """What is wrong with the two times, alone, against each other and against the levers."""
    wait_s, kill_s = _seconds(spec.max_wait), _seconds(spec.kill_timer)
    if wait_s is None:
        yield _no_duration("maxWait", spec.max_wait)
    if kill_s is None:
        yield _no_duration("killTimer", spec.kill_timer)
    if wait_s is None:
        return
    if kill_s is not None and wait_s >= kill_s:
        yield Problem(
            "spec.maxWait",
            f'maxWait "{spec.max_wait}" is not below killTimer "{spec.kill_timer}"; '
            "accepted: less than killTimer, after which the autoscaler gives a machine up",
        )
    yield from _lever_problems(spec, wait_s)


def _lever_problems(spec: ThrottleSpec, wait_s: float) -> Iterator[Problem]:
    if spec.levers.startup_taint is not None and wait_s > TAINT_LIMIT_S:
        yield Problem(
            "spec.maxWait",
            f'maxWait "{spec.max_wait}" with startupTaint; accepted: at most 10m, '
            "because cluster-autoscaler counts nodes tainted for 15 minutes as unready",
        )


def _seconds(text: str) -> float | None:
    try:
        seconds = parse_duration(text)
    except DurationError:
        return None
    return seconds if SHORTEST_S <= seconds <= LONGEST_S else None


def _no_duration(name: str, text: str) -> Problem:
    return Problem(f"spec.{name}", f'{name} "{text}" is not accepted; accepted: from 1s to 1h, such as 90s, 10m or 1h')
