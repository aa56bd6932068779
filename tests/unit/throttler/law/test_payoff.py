"""What a window yields is compared only where anything was seen in it."""

from throttler.law.flow import FlowPoint, JoinFlow
from throttler.law.payoff import steady_level


def test_joins_too_short_to_be_seen_are_no_level() -> None:
    """A level without joins in flight would be what the next one is divided by."""
    points = tuple(FlowPoint(float(second), 0, second, ordered=second, arrived=second) for second in range(0, 120, 2))
    assert steady_level(JoinFlow(points=points), 10.0, 118.0) is None
