"""The one instant query that makes a sample per API server out of an existing Prometheus.

It sums counters on the side of Prometheus and leaves windows to us (`rate` would blur them a second time). Its parts
are told apart by the label `figure` and grouped by `instance`, the address Prometheus scrapes; as one query they are
all of one moment.
"""

from throttler.signals.metrics_text import (
    CPU,
    CPU_LIMIT,
    DISPATCHED,
    LATENCY,
    NOMINAL_LIMIT,
    QUEUE_WAIT,
    REJECTED,
    REQUESTS,
    SEAT_LIMIT,
    SEATS,
    SERVICE,
    STARTED,
    WEBHOOK_REFUSALS,
)
from throttler.signals.sample import DEFAULT_LEVELS, FORWARDED, JOIN_RESOURCES, JOIN_SUBRESOURCES, JOIN_VERBS


def _any(values: frozenset[str]) -> str:
    return "|".join(sorted(value for value in values if value))


_OWN = f'verb!="CONNECT",subresource!~"({_any(FORWARDED)})(/.*)?"'
_JOINS = (
    f'verb=~"{_any(JOIN_VERBS)}",dry_run="",subresource=~"({_any(JOIN_SUBRESOURCES)})?",'
    f'group=~"({_any(frozenset(group for group, _ in JOIN_RESOURCES))})?",'
    f'resource=~"{_any(frozenset(resource for _, resource in JOIN_RESOURCES))}"'
)
_LEVELS = f'priority_level=~"{_any(DEFAULT_LEVELS)}"'


def _sum(family: str, selector: str = "", by: str = "instance") -> str:
    return f"sum by ({by}) ({family}{{{selector}}})"


API_SERVERS = f'{REQUESTS.name}{{group="coordination.k8s.io",resource="leases"}}'
"""What only API servers have: extension servers and controllers export some of the same families."""

_PER_LEVEL = "instance, priority_level"

_FIGURES = {
    "servers": f"max by (instance) (timestamp({API_SERVERS}))",
    "started": f"max by (instance) ({STARTED.name})",
    "requests": _sum(REQUESTS.name, _OWN),
    "failures": _sum(REQUESTS.name, f'{_JOINS},code=~"5.."'),
    "refusals": _sum(REQUESTS.name, f'{_JOINS},code="429"'),
    "rejected": _sum(REJECTED.name, _LEVELS),
    "all_failures": _sum(REQUESTS.name, f'{_OWN},code=~"5.."'),
    "away": _sum(REQUESTS.name, f'{_OWN},code="503",group=~"(.+[.])?metrics[.]k8s[.]io"'),
    "all_rejected": _sum(REJECTED.name),
    "webhooks": _sum(WEBHOOK_REFUSALS.name, 'rejection_code=~"5..|429"'),
    "dispatched": _sum(DISPATCHED.name),
    "latency_sum": _sum(f"{LATENCY.name}_sum", _JOINS),
    "latency_count": _sum(f"{LATENCY.name}_count", _JOINS),
    "service_sum": _sum(f"{SERVICE.name}_sum", _JOINS),
    "service_count": _sum(f"{SERVICE.name}_count", _JOINS),
    "cpu": f"max by (instance) ({CPU.name})",
    "cpus": f"max by (instance) ({CPU_LIMIT.name})",
    "wait_sum": _sum(f"{QUEUE_WAIT.name}_sum", _LEVELS, _PER_LEVEL),
    "wait_count": _sum(f"{QUEUE_WAIT.name}_count", _LEVELS, _PER_LEVEL),
    "seats": _sum(SEATS.name, _LEVELS, _PER_LEVEL),
    "seat_limit": f"{_sum(SEAT_LIMIT.name, _LEVELS, _PER_LEVEL)} or {_sum(NOMINAL_LIMIT.name, _LEVELS, _PER_LEVEL)}",
}

FIGURE, INSTANCE, LEVEL = "figure", "instance", "priority_level"
SAMPLE_QUERY = " or ".join(f'label_replace({query}, "{FIGURE}", "{name}", "", "")' for name, query in _FIGURES.items())
