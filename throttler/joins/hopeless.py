"""Pods that fit nowhere: a whole search for room ordered nothing for them, so they are no demand. Pure.

A large cluster always has some: a volume that cannot be bound, a selector with a typing error, pods of another
autoscaler. They would keep ceilings in force and the law awake for ever. What an autoscaler may order and does
not tells them from the others; why it does not, only the autoscaler knows.

The clocks of a search run only while the autoscaler has room and is seen to know it. A pod is given up when one of them
has run for `SEARCH_S` in its lifetime: there was room and no machine was ordered at all, or there was room for
everything that waited, and it still waits while others were served. Whoever waits because the window is small runs
neither: its turn to order ends the first, and there is no room for all.
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
    began: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What `unused_s` and `for_all_s` said when each waiting pod (by uid) was seen first."""
    hopeless: frozenset[str] = frozenset()
    offer: Hashable = None
    """The machines that were on offer: what was searched in vain among others is searched anew."""
    waiting: int = 0
    """Nodes that waited at the last count, hopeless pods left out."""

    def looked(self, pods: Collection[str], room: int, offer: Hashable, elapsed_s: float, *, is_ordered: bool) -> Self:
        """After a look at the waiting pods (by uid): `room` is what the autoscaler could have ordered since the last.

        A machine that is ordered while nothing else waits is for pods that were given up: they may hope again.
        """
        if offer != self.offer or (is_ordered and not self.waiting and self.hopeless):
            return type(self)(began=dict.fromkeys(pods, (0.0, 0.0)), offer=offer)
        lasted_s = min(max(0.0, elapsed_s), LONGEST_LOOK_S) if self.waiting else 0.0
        unused_s = self.unused_s + (lasted_s if room > 0 else 0.0)
        for_all_s = self.for_all_s + (lasted_s if room >= self.waiting else 0.0)
        began = {uid: self.began.get(uid, (unused_s, for_all_s)) for uid in pods}
        ordered_at_s = unused_s if is_ordered else self.ordered_at_s
        after = replace(self, unused_s=unused_s, for_all_s=for_all_s, ordered_at_s=ordered_at_s, began=began)
        return replace(after, hopeless=self.hopeless.intersection(pods).union(after._given_up(pods)))

    def _given_up(self, pods: Collection[str]) -> list[str]:
        """Pods whose search was in vain, the first comers first: never more than machines are wanted besides those that
        are on their way, which may be for any of them."""
        in_vain = [uid for uid in pods if uid not in self.hopeless and self._is_in_vain(uid)]
        return sorted(in_vain, key=lambda uid: self.began[uid])[: self.waiting]

    def _is_in_vain(self, uid: str) -> bool:
        unused_s, for_all_s = self.began[uid]
        nothing_s = self.unused_s - max(unused_s, self.ordered_at_s)
        return max(nothing_s, self.for_all_s - for_all_s) >= SEARCH_S
