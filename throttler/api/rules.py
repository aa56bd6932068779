"""The rules of a JoinThrottle that no type expresses, in the words of the CRD's validations.

An API server runs the validations of `manifests/crds/jointhrottles.yaml` itself. An object that an older server let in,
or that was stored before a rule existed, is refused here with the same sentence: one table of bad manifests is put
before both, and the sentences are compared.
"""

from collections.abc import Iterator

from throttler.api.lever_rules import lever_problems
from throttler.api.signal_rules import signal_problems
from throttler.api.throttle import JoinThrottle, Pace, ThrottleSpec, Window
from throttler.api.timer_rules import timer_problems
from throttler.kube.decoding import Problem
from throttler.kube.selectors import selector_problems

LONGEST_NAME = 63
"""Characters of a throttle's name: the objects that it changes carry it as a label value."""


def problems(throttle: JoinThrottle) -> tuple[Problem, ...]:
    """Every rule that the throttle breaks; empty for a good one."""
    spec = throttle.spec
    return (
        *_name_problems(throttle.metadata.name),
        *selector_problems(spec.nodes, "spec.nodes"),
        *_window_problems(spec.window),
        *_pace_problems(spec.pace),
        *_in_flight_problems(spec),
        *timer_problems(spec),
        *signal_problems(spec),
        *lever_problems(spec),
    )


def _name_problems(name: str) -> Iterator[Problem]:
    if len(name) > LONGEST_NAME:
        yield Problem(
            "metadata.name",
            f'name "{name}" has {len(name)} characters; '
            "accepted: at most 63, because what the throttle changes carries it as a label",
        )


def _window_problems(window: Window) -> Iterator[Problem]:
    low, start, high = window.min, window.initial, window.max
    if low is not None and start is not None and start < low:
        yield Problem("spec.window.initial", f"initial {start} is below min {low}; accepted: min to max")
    if high is not None and start is not None and start > high:
        yield Problem("spec.window.initial", f"initial {start} is above max {high}; accepted: min to max")
    if low is not None and high is not None and low > high:
        yield Problem("spec.window.min", f"min {low} is above max {high}; accepted: 1 to max")


def _pace_problems(pace: Pace) -> Iterator[Problem]:
    safe, most = pace.safe_per_minute, pace.max_per_minute
    if safe is not None and most is not None and safe > most:
        yield Problem(
            "spec.pace.safePerMinute",
            f"safePerMinute {safe} is above maxPerMinute {most}; accepted: 1 to maxPerMinute",
        )


def _in_flight_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    most, low = spec.max_in_flight, spec.window.min
    if most is not None and low is not None and most < low:
        yield Problem(
            "spec.maxInFlight",
            f"maxInFlight {most} is below window.min {low}; accepted: window.min or more, "
            "because the window never falls below that",
        )
