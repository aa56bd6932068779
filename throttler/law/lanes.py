"""The reserved lane: small or urgent demand does not queue behind a large one (facts.md 2.11)."""

from throttler.joins.joins import Joins


def urgent_ask(joins: Joins, limit: int, reserved: int) -> int:
    """Machines that urgent demand may ask for: up to `reserved` more in flight than everybody's `limit`."""
    return max(0, min(joins.urgent, joins.waiting, reserved, limit + reserved - joins.in_flight))
