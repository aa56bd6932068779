"""What is in flight under a CapacityQuota stays within `maxInFlight`, however late views are and whatever became of a
write.

cluster-autoscaler orders at each scan as many as the quota of that moment leaves room for, and counts what it asked
for. The quota is there before its first one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import WALL_S
from tests.unit.throttler.levers.test_capacity_quota import OfAThrottle, crowd
from tests.unit.throttler.service.late_watches import LateWatches, LimitStory, Machine, late, tell_machines, world_of
from tests.unit.throttler.service.throttle_scene import QUOTAS_SERVED, a_throttle, a_view
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.service.decide_throttles import TickView

MOST, STEP_S = 6, 2.0
KINDS = ("pods", "nodes", "quotas", "status")
THROTTLE = a_throttle(
    nodes={"matchLabels": {"pool": "a"}},
    levers={"capacityQuota": {"name": "ours"}},
    window={"initial": MOST, "min": MOST, "max": 500},
    maxInFlight=MOST,
)


@dataclass
class Story(LimitStory):
    """cluster-autoscaler's."""

    THROTTLE = THROTTLE

    is_order_told_later: bool = False
    """Whether a scan's status tells of the machines that were there when it began."""
    is_scan_first: bool = False
    """Whether a scan comes before what else happens in its second."""
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))

    def __post_init__(self) -> None:
        self._scan()
        self.tell()

    @property
    def registered(self) -> int:
        return sum(machine.registered_s is not None for machine in self.machines)

    def go_on(self) -> None:
        self.now_s += STEP_S
        is_due = self.now_s % self.look_s < STEP_S
        if is_due and self.is_scan_first:
            self._scan()
        for machine in self.machines:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        if is_due and not self.is_scan_first:
            self._scan()
        self.tell()

    def _scan(self) -> None:
        """The old node counts as well; a quota that is gone limits nothing."""
        before, quota = 1 + len(self.ordered), self.limited.quota()
        room = len(self.machines) if quota is None else max(0, int(quota.limits["nodes"]) - before)
        waiting = [machine for machine in self.machines if machine.ordered_s is None]
        for machine in waiting[: room if self.now_s else 0]:
            machine.ordered_s = self.now_s
        target = before if self.is_order_told_later else 1 + len(self.ordered)
        group = NodeGroup("a", target=target, registered=1 + self.registered)
        self.watches.tell("status", self.now_s, AutoscalerStatus((group,), WALL_S + self.now_s))

    def tell(self) -> None:
        if self.limited.body:
            self.limited.observed(used={"resources": {"nodes": str(1 + self.registered)}})
        self.watches.tell("quotas", self.now_s, self.limited.quota())
        tell_machines(self.watches, self.now_s, self.machines)

    def view(self, lags: Mapping[str, float]) -> TickView:
        shown = self.watches.shown(lags, self.now_s)
        world = world_of(shown["pods"], shown["nodes"], (), self.now_s)
        scene = {"limited": (shown["quotas"],) if shown["quotas"] else (), "versions": QUOTAS_SERVED}
        return a_view(self.now_s, replace(world, autoscaler=shown["status"]), scene=scene)


IN_TIME = dict.fromkeys(KINDS, 0.0)


@pytest.mark.whole
@settings(max_examples=15)
@given(
    st.integers(7, 30),
    st.sampled_from([2.0, 10.0]),
    st.sampled_from([6.0, 40.0]),
    st.sampled_from([4.0, 20.0]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_never_more_in_flight_than_the_user_allows(
    count: int,
    scan_s: float,
    boot_s: float,
    join_s: float,
    is_order_told_later: bool,
    is_scan_first: bool,
    data: st.DataObject,
) -> None:
    machines = [Machine(f"p{number:02}") for number in range(count)]
    story = Story(
        machines, scan_s, boot_s, join_s, is_order_told_later=is_order_told_later, is_scan_first=is_scan_first
    )
    story.decide(IN_TIME)
    for _ in range(8):
        lags = {kind: data.draw(st.just(0.0) | late, label=kind) for kind in KINDS}
        is_lost = data.draw(st.booleans(), label="writes are lost")
        for _ in range(8):
            story.go_on()
            story.decide(lags, is_lost=is_lost)
            assert story.in_flight <= MOST


@pytest.mark.parametrize("is_scan_first", [False, True])
def test_all_get_through_when_views_are_in_time(*, is_scan_first: bool) -> None:
    """Also where nodes register in the very second of a scan, before or after it."""
    machines = [Machine(f"p{number:02}") for number in range(20)]
    story = Story(machines, look_s=2.0, boot_s=6.0, join_s=4.0, is_scan_first=is_scan_first)
    most = story.most_in_flight(IN_TIME, looks=120)
    assert all(machine.usable_s is not None for machine in story.machines)
    assert most == MOST


def test_room_for_a_whole_request_leaves_out_what_karpenter_may_order() -> None:
    """Of 12 that may be in flight the window lets 8 be ordered, 4 by each of the two; a Job waits for 20."""
    story = OfAThrottle(*crowd("large", 20), maxInFlight=12)
    ceilings = [story.look(now_s, paces_both=True).ceiling for now_s in (0.0, 15.0, 30.0)]
    assert ceilings == ["nodes 16", "nodes 16", "nodes 20"], "12 are there"


@pytest.mark.parametrize("lag_s", [2.0, 16.0])
@pytest.mark.parametrize("kind", KINDS)
def test_one_watch_that_is_behind_all_others_makes_no_room(kind: str, lag_s: float) -> None:
    story = Story([Machine(f"p{number:02}") for number in range(20)], look_s=10.0, boot_s=6.0, join_s=20.0)
    assert story.most_in_flight({**IN_TIME, kind: lag_s}, looks=64) <= MOST
