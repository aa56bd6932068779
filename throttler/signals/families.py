"""The dozen families of /metrics that the throttle reads, out of some three hundred.

Names and labels are those of Kubernetes 1.28 to 1.37. What changed on the way: the seats in use were
`request_concurrency_in_use` before they were `current_executing_seats`. A family that a server does not have is normal:
the figures made from it are None and its name is in `Reading.missing`.
"""

import enum
from dataclasses import dataclass


class Part(enum.Enum):
    """Which series of a family are wanted; histogram buckets never are."""

    VALUE = ("",)
    MEAN = ("_sum", "_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family: what it is for, and whether every healthy server exports it from its first minute."""

    name: str
    purpose: str
    part: Part = Part.VALUE
    is_always_there: bool = True

    @property
    def series(self) -> tuple[str, ...]:
        """The names that its wanted series have."""
        return tuple(self.name + suffix for suffix in self.part.value)


REQUESTS = Family(name="apiserver_request_total", purpose="requests, 429 and 5xx among them")
LATENCY = Family(name="apiserver_request_duration_seconds", purpose="latency as clients see it", part=Part.MEAN)
SERVICE = Family(
    name="apiserver_request_sli_duration_seconds",
    purpose="latency without queues and webhooks: what the server itself takes",
    part=Part.MEAN,
)
QUEUE_WAIT = Family(
    name="apiserver_flowcontrol_request_wait_duration_seconds",
    purpose="time in the queues of each priority level",
    part=Part.MEAN,
    is_always_there=False,
)
SEATS = Family(name="apiserver_flowcontrol_current_executing_seats", purpose="seats in use now", is_always_there=False)
OLD_SEATS = Family(
    name="apiserver_flowcontrol_request_concurrency_in_use",
    purpose="SEATS on older servers; gone after 1.31",
    is_always_there=False,
)
SEAT_LIMIT = Family(name="apiserver_flowcontrol_current_limit_seats", purpose="seats that a level may use now")
NOMINAL_LIMIT = Family(
    name="apiserver_flowcontrol_nominal_limit_seats", purpose="its seats without borrowing", is_always_there=False
)
DISPATCHED = Family(
    name="apiserver_flowcontrol_dispatched_requests_total",
    purpose="requests that flow control let through: our own scrape is always one of them",
)
REJECTED = Family(
    name="apiserver_flowcontrol_rejected_requests_total",
    purpose="requests that flow control refused, by priority level: 429s that joins met, and others",
    is_always_there=False,
)
WEBHOOK_REFUSALS = Family(
    name="apiserver_admission_webhook_rejection_count",
    purpose="5xx answers that a webhook caused and not the server",
    is_always_there=False,
)
CPU = Family(name="process_cpu_seconds_total", purpose="the server's own CPU")
CPU_LIMIT = Family(name="go_sched_gomaxprocs_threads", purpose="how many CPUs its runtime may use")
STARTED = Family(name="process_start_time_seconds", purpose="tells one server process from another")

FAMILIES = (
    REQUESTS,
    LATENCY,
    SERVICE,
    QUEUE_WAIT,
    SEATS,
    OLD_SEATS,
    SEAT_LIMIT,
    NOMINAL_LIMIT,
    DISPATCHED,
    REJECTED,
    WEBHOOK_REFUSALS,
    CPU,
    CPU_LIMIT,
    STARTED,
)
SERIES = tuple(series for family in FAMILIES for series in family.series)
