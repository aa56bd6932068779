"""What the law decides at one moment, and why: the closed list of its reasons.

A reason's name is the condition's reason, the Event's and the metric's label; its template is the sentence. Each has a
section in docs/throttle-reasons.md and stands in docs/pacing.md.
"""

import enum
from dataclasses import dataclass

from throttler.kube.reasons_and_events import Because, Sentence


class ThrottleReason(Sentence):
    """Every reason of a change or a hold of the window, and its sentence."""

    IDLE = "nothing waits and nothing is in flight"
    NO_HOPE = "nothing is in flight, and the pods that wait fit nowhere: {pods:pod is|pods are} not counted"
    STARTING = "the scale-up begins with a window of {window:join|joins}"
    REMEMBERED = "the scale-up begins with a window of {window:join|joins}, as the last one taught"
    DOUBLING = (
        "the API servers stay calm with {joining:join|joins} (delay {index:.1f} times the baseline): "
        "the window grows to {window:.0f}"
    )
    UTILISATION = "one join uses {load:.2%} of the busiest server: the window is {window:.0f}"
    PROBING_UP = "delay is {index:.1f} times the baseline, below {target:.1f}: the window grows to {window:.0f}"
    AT_MAXIMUM = "delay is {index:.1f} times the baseline, below {target:.1f}: the window is at its most, {window:.0f}"
    BACKING_OFF = (
        "delay of {server} is {index:.1f} times the baseline, above {target:.1f}: the window falls step by step, "
        "and is {window:.0f} now"
    )
    CROWDED = "more than {window:join is|joins are} under way: nothing is let in until some have ended"
    AT_EQUILIBRIUM = (
        "delay is {index:.1f} times the baseline, and more joins at a time would only wait longer: "
        "the window stays at {window:.0f}"
    )
    HIGH_ONCE = (
        "delay is {index:.1f} times the baseline, above {target:.1f}, in one sample: only two in a row count, and "
        "the window stays at {window:.0f}"
    )
    WARMING_UP = (
        "delay is {index:.1f} times the baseline, below {target:.1f}; {joining} of {window:join is|joins are} under way"
    )
    NOT_FILLED = (
        "{joining} of {window:join is|joins are} under way; "
        "{coming:machine boots or is|machines boot or are} about to be ordered"
    )
    NO_DEMAND = "fewer than {window:join is|joins are} under way, and nothing waits"
    ERRORS = (
        "{server} answered {share:.2%} of its requests with 429 or 5xx: growth stops, the window is {window:.0f} now"
    )
    IDLE_ERRORS = (
        "{server} answered {share:.2%} of its requests with 429 or 5xx while nothing joined: "
        "the window stays, and nothing is let in for {left_s:.0f} s"
    )
    ERRORS_UNMOVED = (
        "two brakes did not change the errors of {server} ({share:.2%}), and delay is low: "
        "joins do not cause them, and the window stays at {window:.0f}"
    )
    FLOOR_PACE = (
        "{server} answers {share:.2%} of its requests with 429 or 5xx although the window is at its minimum: "
        "{window:join at a time goes|joins at a time go} on"
    )
    RECOVERING = "nothing is let in for {left_s:.0f} s more after 429 or 5xx"
    SIGNALS_LOST = "no API server has given a usable reading for {age_s:.0f} s: the window holds"
    SIGNALS_STALE = "no API server has given a usable reading for {age_s:.0f} s: the window falls to {window:.0f}"
    SERVER_SILENT = "{server} gives no usable reading ({problem}): the window does not grow"
    DELAY_NOT_OURS = (
        "{cuts:cut|cuts} did not change the delay of {server}: joins do not cause it, and the window stays at "
        "{window:.0f}"
    )
    ERRORS_NOT_OURS = "429 and 5xx of {server} do not count: joins do not cause them"
    NEVER_SEEN = "{servers} never gave a reading: the other servers decide"
    ALARM = "{alarm} is at {value:g}, its threshold is {threshold:g}: the window falls, and is {window:.0f} now"
    CONTROLLER_MANAGER = "joins wait for the controller manager's request limit, so a larger window would not help"
    DEADLINE = (
        "{overdue:held machine is near its time limit and goes|held machines are near their time limit and go} first"
    )
    UNKNOWN_LOAD = "no request of the kinds that joins send has ended lately: the window holds"


class Phase(enum.Enum):
    """What the law is doing; the printer column PHASE of a JoinThrottle."""

    IDLE = "Idle"
    SLOW_START = "SlowStart"
    AVOID = "Avoid"
    BRAKE = "Brake"
    STALE = "Stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The window, and what may be done now to fill it. Every number is finite; counts are never negative."""

    phase: Phase
    window: float
    """Joins that may load the API servers at the same time, within the settings' bounds."""
    admit: int
    """How many held machines may be let in now (levers at the join)."""
    allowance: int
    """How many more machines may be asked for now (levers before launch)."""
    pace_per_min: float
    """What the window means at the joins' present duration (Little's law)."""
    because: Because
    spare: int = 0
    """How many beyond `allowance`, should more be wanted before the next look: a ceiling may stand so much higher."""
    index: float | None = None
    """Latency and queue wait of the worst server over their baseline; None while unknown."""
    error_share: float = 0.0
    """429 and 5xx over all requests, of the worst server."""
    left_out: tuple[Because, ...] = ()
    """Trouble that joins have no part in, and that therefore does not count, for as long as it lasts."""
