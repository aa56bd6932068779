"""From where a plan calls API servers overloaded: it hurts others, or so much is refused that the end is open."""

from itertools import pairwise

from balloons.preview.scale_up_run import Flow

BUSY_FROM = 0.95
"""Share of the servers' capacity in use from which others notice."""
SLOW_FROM = 2.0
"""Times the latency of idle servers from which others notice."""
REFUSING_FROM = 0.0005
"""Share of 429 from which others notice."""
COLLAPSING_FROM = 0.01
"""Share of 429 beyond which servers are in collapse, where a plan is too hopeful (docs/plan.md)."""


def hurts(utilisation: float, slower_by: float, refused_share: float) -> bool:
    """Whether others notice: by the servers' load (0..1), by times of idle ones' latency, or by the share of 429."""
    return utilisation >= BUSY_FROM or slower_by >= SLOW_FROM or refused_share >= REFUSING_FROM


def is_collapse(refused_share: float) -> bool:
    """Whether the servers refuse so much that the real end may be much later."""
    return refused_share > COLLAPSING_FROM


def hurt_s(run: Flow) -> float:
    """For how long others notice, by load and latency."""
    slow_s = SLOW_FROM * run.idle_latency_s
    return sum(
        after.at_s - before.at_s
        for before, after in pairwise(run.moments)
        if before.at_s >= 0.0 and (after.utilisation >= BUSY_FROM or after.latency_s >= slow_s)
    )
