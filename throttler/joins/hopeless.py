"""Pods that fit nowhere: a whole search for room ordered nothing for them, so they are no demand. Pure.

A large cluster always has some: a volume that cannot be bound, a selector with a typing error, pods of another
autoscaler. They would keep ceilings in force, places in flight and the law awake for ever. What an autoscaler may order
and does not tells them from the others; why it does not, only the autoscaler knows.

The clocks of a search run only while pods that nothing of ours holds back need more machines than are on their way, and
the autoscaler has room for them and is seen to know it. A pod is given up when one of them has run for `SEARCH_S` in
its lifetime: there was room and no machine was ordered at all, or there was room for everything that waited, and it
still waits while others were served. Whoever waits because the window is small runs neither: its turn to order ends the
first, and there is no room for all. Where no ceiling bounds the autoscaler (gates) there always is room for all, and
only what it orders tells that it is there.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

SEARCH_S = 180.0
"""Longer than the levers take to try every size of room (80 s), and than several looks of a slow autoscaler."""
LONGEST_LOOK_S = 30.0
"""A pause of the service counts as no more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is remembered; losing it costs one search."""

    unused_s: float = 0.0
    """For how long there was room, all searches together."""
    ordered_at_s: float = 0.0
    """What that clock said when a machine was ordered last."""
    for_all_s: float = 0.0
    """For how long there was room for everything that waited."""
    proven_s: float = 0.0
    """How far that clock counts: up to when the autoscaler was known to be there."""
    began: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What `unused_s` and `for_all_s` said when each waiting pod (by uid) was seen first."""
    unserved: tuple[tuple[float, int], ...] = ()
    """(`for_all_s`, machines that were lacking), oldest first, the fewer ones only: the latest is that of the last
    look, the first the least of the last search."""
    hopeless: frozenset[str] = frozenset()
    offer: Hashable = None
    """The machines that were on offer: what was searched in vain among others is searched anew."""
    waiting: int = 0
    """Nodes that waited at the last count, hopeless pods left out."""

    def looked(
        self,
        pods: Collection[str],
        unserved: int,
        room: int | None,
        offer: Hashable,
        elapsed_s: float,
        *,
        is_ordered: bool,
    ) -> Self:
        """After a look at the pods that an autoscaler sees waiting (by uid).

        `unserved` is how many machines they need besides those that are on their way, `room` what the autoscaler could
        have ordered since the last look, None where nothing of ours bounds it. A machine that is ordered while nothing
        else waits is for pods that were given up: they may hope again.
        """
        if offer != self.offer or (is_ordered and not self.waiting and self.hopeless):
            return type(self)(began=dict.fromkeys(pods, (0.0, 0.0)), offer=offer)
        lacking = self.unserved[-1][1] if self.unserved else 0
        lasted_s = min(max(0.0, elapsed_s), LONGEST_LOOK_S) if lacking else 0.0
        unused_s = self.unused_s + (lasted_s if room else 0.0)
        for_all_s = self.for_all_s + (lasted_s if room is None or room >= lacking else 0.0)
        kept = (sample for sample in self.unserved if sample[1] < unserved and for_all_s - sample[0] < SEARCH_S)
        after = replace(
            self,
            unused_s=unused_s,
            for_all_s=for_all_s,
            ordered_at_s=unused_s if is_ordered else self.ordered_at_s,
            proven_s=self.proven_s if room is None and not is_ordered else for_all_s,
            began={uid: self.began.get(uid, (unused_s, for_all_s)) for uid in pods},
            unserved=(*kept, (for_all_s, unserved)),
        )
        return replace(after, hopeless=self.hopeless.intersection(pods).union(after._given_up()))

    def _given_up(self) -> list[str]:
        """Pods whose search was in vain, the first comers first.

        Machines on their way may be for any of the pods. So never more are given up than machines are lacking now, and
        of those beside which others were served no more than were lacking all the time.
        """
        waiting = sorted(self.began.keys() - self.hopeless, key=lambda uid: (self.began[uid], uid))
        nothing_came = [
            uid for uid in waiting if self.unused_s - max(self.began[uid][0], self.ordered_at_s) >= SEARCH_S
        ]
        others_came = [uid for uid in waiting if self.proven_s - self.began[uid][1] >= SEARCH_S]
        return nothing_came[: self.unserved[-1][1]] + others_came[: self.unserved[0][1]]
