"""Which limit held the scale-up back, told by what happened and by the configuration, never by the plan.

The truth is the longest stretch in the life of the nodes that came last (a tenth of all), from the demand on:

- fewer nodes came than were asked for, and the configuration says why: a ceiling;
- from the demand to the NodeClaim: pacing where there is a JoinThrottle, else the autoscaler;
- from the NodeClaim to the Node: the boot time; what exceeds the configured boot time is the cloud's quota where its
  launch rate is limited, else the API server's where it was busy (see below): who has booted cannot register;
- from the Node to its last DaemonSet pod being made: the controller manager;
- from then to usable: the join itself.

Where the server used or waited for `BUSY` or more of its cores while nodes joined, the last two are its own but for
what the controller manager's configured limit accounts for. Stretches that differ by less than timestamps can tell
(`TIE_S`) are both true.
"""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.truth.case import MANAGER_BURST_S, Case
from benchmarks.truth.node_lives import Life

CEILING, WINDOW, AUTOSCALER, QUOTA, BOOT, MANAGER, JOIN, SERVERS = (
    "ceiling",
    "pacing",
    "autoscaler",
    "cloud quota",
    "boot time",
    "controller manager",
    "join time",
    "API servers",
)
"""As a plan calls them."""
LAST_SHARE = 0.1
BUSY = 0.8
"""From here on requests wait: the share is a mean over the whole time in which nodes joined, its thin ends included."""
TIE_S = 2.0


def held_by(case: Case, came: Sequence[Life], demand_s: float, server_busy: float) -> tuple[str, ...]:
    """The limit that bound, or those that cannot be told apart."""
    if case.can_come < case.nodes and len(came) == case.can_come:
        return (CEILING,)
    spans = stretches(case, came, demand_s, server_busy)
    longest_s = max(spans.values())
    return tuple(name for name, seconds in spans.items() if seconds > longest_s - TIE_S)


def stretches(case: Case, came: Sequence[Life], demand_s: float, server_busy: float) -> Mapping[str, float]:
    """Seconds that the last nodes spent before each limit, in the mean."""
    last = came[-max(1, round(LAST_SHARE * len(came))) :]
    waited_s = statistics.fmean(life.asked_s - demand_s for life in last)
    booted_s = statistics.fmean(life.registered_s - life.asked_s for life in last)
    manager_s = statistics.fmean(life.made_s - life.registered_s for life in last)
    join_s = statistics.fmean(life.usable_s - life.made_s for life in last)
    beyond_s = max(0.0, booted_s - case.boot_s)
    queued_s = beyond_s if case.starts_per_s else 0.0
    parts = {AUTOSCALER if case.window is None else WINDOW: waited_s, QUOTA: queued_s}
    if server_busy < BUSY:
        return {**parts, BOOT: booted_s - queued_s, MANAGER: manager_s, JOIN: join_s}
    limited_s = min(manager_s, _limit_s(case, len(came)))
    served_s = manager_s - limited_s + join_s + beyond_s - queued_s
    return {**parts, BOOT: booted_s - beyond_s, MANAGER: limited_s, SERVERS: served_s}


def _limit_s(case: Case, nodes: int) -> float:
    """How long the controller manager's own limit makes it take for so many nodes' DaemonSet pods."""
    return max(0.0, nodes * case.daemon_sets / case.manager_qps - MANAGER_BURST_S)
