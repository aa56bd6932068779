"""Why the window is what it is: the closed list of the law's reasons.

The reason's name is the condition's reason, the Event's and the metric's label; its template is the sentence. Each has
an entry in docs/runbook.md and stands in docs/pacing.md.
"""

from throttler.kube.because import Because, Sentence, because

__all__ = ["Because", "ThrottleReason", "because"]


class ThrottleReason(Sentence):
    """Every reason of a change or a hold of the window, and its sentence."""

    IDLE = "nothing waits and nothing is in flight"
    NO_HOPE = "nothing is in flight, and only pods wait that fit nowhere: {pods} are not counted"
    STARTING = "the scale-up begins with {window:.0f} joins at a time"
    REMEMBERED = "the scale-up begins with {window:.0f} joins at a time, from what the last one taught"
    DOUBLING = "the servers bear {joining} joins at a time easily (index {index:.1f}): {window:.0f} may try"
    UTILISATION = "one join takes {load:.2%} of the busiest server: {window:.0f} leave it room"
    PROBING_UP = "index {index:.1f} is below {target:.1f}: the window grows to {window:.0f}"
    BACKING_OFF = "index {index:.1f} of {server} is above {target:.1f}: the window falls to {window:.0f}"
    CROWDED = "more joins are under way than {window:.0f}; nothing is let in until some have ended"
    AT_EQUILIBRIUM = "index {index:.1f} is near {target:.1f}: {window:.0f} joins at a time are right"
    WARMING_UP = "index {index:.1f} is below {target:.1f}; {joining} of {window:.0f} joins are under way"
    NOT_FILLED = "{joining} of {window:.0f} joins are under way; {coming} machines boot or are about to be ordered"
    NO_DEMAND = "fewer joins are under way than {window:.0f}, and nothing waits to fill the window"
    ERRORS = "{server} answered {share:.2%} of its requests with 429 or 5xx: the window is cut to {window:.0f}"
    IDLE_ERRORS = (
        "{server} answered {share:.2%} of its requests with 429 or 5xx while nothing joined: "
        "the window stays, and nothing is let in for {left_s:.0f} s"
    )
    ERRORS_UNMOVED = (
        "two brakes left the errors of {server} as they were ({share:.2%}) and delay is low: "
        "they are not of joins, and the window stays at {window:.0f}"
    )
    FLOOR_PACE = (
        "{server} answers {share:.2%} of its requests with 429 or 5xx although the window is at its least: "
        "{window:.0f} joins at a time go on"
    )
    RECOVERING = "nothing is let in for {left_s:.0f} s more after 429 or 5xx"
    SIGNALS_LOST = "no API server has given a usable reading for {age_s:.0f} s: the window holds"
    SIGNALS_STALE = "no API server has given a usable reading for {age_s:.0f} s: the window falls to {window:.0f}"
    SERVER_SILENT = "{server} gives no usable reading ({problem}): the window does not grow"
    DELAY_NOT_OURS = (
        "{cuts} cuts have not changed the delay of {server}: it is not of joins, and the window stays at {window:.0f}"
    )
    ERRORS_NOT_OURS = "429 or 5xx of {server} do not count: joins have no part in them"
    NEVER_SEEN = "{servers} never gave a reading: the window goes by the other servers"
    ALARM = "{alarm} is at {value:g}, its threshold is {threshold:g}: the window falls to {window:.0f}"
    CONTROLLER_MANAGER = "joins wait for the controller manager's own request limit: more at a time would not help"
    DOES_NOT_PAY = "{joining} joins at a time end no more per minute than fewer did: the window is {window:.0f}"
    DEADLINE = "{overdue} held machines near their time limit and go first"
    UNKNOWN_LOAD = "no request that joins use has ended lately: the window holds"
