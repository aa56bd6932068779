"""The joins of several throttles together: the API servers are one for all of them."""

from collections.abc import Iterable

from throttler.joins.joins import Joins


def total_joins(counts: Iterable[Joins]) -> Joins:
    """Sums of nodes, means of durations, and the longest wait of each kind."""
    parts = tuple(counts)
    if len(parts) == 1:
        return parts[0]
    return Joins(
        waiting=sum(each.waiting for each in parts),
        hopeless=sum(each.hopeless for each in parts),
        hopeless_pods=sum(each.hopeless_pods for each in parts),
        urgent=sum(each.urgent for each in parts),
        booting=sum(each.booting for each in parts),
        released=sum(each.released for each in parts),
        booting_by_groups=sum(each.booting_by_groups for each in parts),
        held=sum(each.held for each in parts),
        joining=sum(each.joining for each in parts),
        registered=sum(each.registered for each in parts),
        late_booting=sum(each.late_booting for each in parts),
        late_joining=sum(each.late_joining for each in parts),
        joined=sum(each.joined for each in parts),
        lost=sum(each.lost for each in parts),
        join_s=_mean(each.join_s for each in parts),
        boot_s=_mean(each.boot_s for each in parts),
        boot_spread_s=min((each.boot_spread_s for each in parts if each.boot_s is not None), default=0.0),
        oldest_booting_s=max((each.oldest_booting_s for each in parts), default=0.0),
        oldest_held_s=max((each.oldest_held_s for each in parts), default=0.0),
        oldest_joining_s=max((each.oldest_joining_s for each in parts), default=0.0),
        is_controller_bound=any(each.is_controller_bound for each in parts),
    )


def _mean(figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known else None
