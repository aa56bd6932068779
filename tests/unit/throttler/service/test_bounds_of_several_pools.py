"""What is in flight in several NodePools together stays within `maxInFlight` while room moves between them.

Their ceilings are written apart and their machines are heard of apart: what one of them may have ordered a moment ago
is nobody else's room. Watches are late by as much as a look and the room that stood before it.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import pending
from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import pool_body
from tests.unit.throttler.service.late_watches import LateWatches, LimitStory, Machine, tell_machines, world_of
from tests.unit.throttler.service.test_bounds_of_ceilings import CORES, MOST, ONE_TYPE, STEP_S, claim_of
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.kube.pod import Pod
from throttler.levers.lever_and_reasons import LeverWrite
from throttler.service.decide_throttles import TickView

USERS = 100_000
"""Cores that the user allows each pool."""
NAMES = ("heavy", "light", "other")
KINDS = ("pods", "nodes", "claims", *NAMES)
THROTTLE = a_throttle(
    nodes={"matchLabels": {"pool": "a"}},
    levers={"nodePoolLimits": {"names": list(NAMES)}},
    window={"initial": MOST, "min": MOST, "max": 500},
    maxInFlight=MOST,
)


def pool_of(name: str) -> OwnedObject:
    """The pool, as its user made it: of one type, and the heavy one is to serve first."""
    body = pool_body({"cpu": str(USERS)}, name, weight=100 if name == "heavy" else 1)
    body["spec"]["template"]["spec"]["requirements"] = [ONE_TYPE]
    return OwnedObject(body)


@dataclass
class PoolMachine(Machine):
    """That of a pod that one of these pools may serve."""

    pools: tuple[str, ...] = NAMES
    pool: str = ""
    """Which of them does."""

    def waiting(self) -> Pod:
        selector = {} if self.pools == NAMES else {"karpenter.sh/nodepool": self.pools[0]}
        return pending(self.name, owner=self.pools[0] if selector else "any", node_selector=selector)


@dataclass
class Story(LimitStory):
    """Karpenter's, which orders from the first pool that a pod may use and that has room and stock."""

    THROTTLE = THROTTLE

    machines: list[PoolMachine]  # type: ignore[assignment]
    pools: Mapping[str, OwnedObject] = field(default_factory=lambda: {name: pool_of(name) for name in NAMES})
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))
    stock: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 1000))
    """How many machines of each pool can be had at each look."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """No two pods have one name, also where the first is gone."""

    def __post_init__(self) -> None:
        self._tell()

    def carry_out(self, write: LeverWrite) -> None:
        self.pools[write.key.name].carry_out(write)

    def of(self, name: str) -> list[PoolMachine]:
        return [machine for machine in self.machines if machine.pool == name]

    def come(self, count: int, pools: tuple[str, ...]) -> None:
        """So many more pods wait."""
        self.machines += [PoolMachine(f"p{next(self.numbers):03}", pools=pools) for _ in range(count)]

    def go(self, pools: tuple[str, ...]) -> None:
        """Those pods that nothing was ordered for are deleted."""
        self.machines = [one for one in self.machines if one.pool or one.pools != pools]

    def go_on(self) -> None:
        self.now_s += STEP_S
        for machine in self.machines:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        if self.now_s % self.look_s < STEP_S:
            left = dict(self.stock)
            for machine in self.machines:
                if not machine.pool and (
                    fit := [name for name in machine.pools if left[name] and self._has_room(name)]
                ):
                    machine.pool, machine.ordered_s = fit[0], self.now_s
                    left[machine.pool] -= 1
        self._tell()

    def _has_room(self, name: str) -> bool:
        """Nothing is ordered while the limit is the user's: the ceiling is there before the first pod."""
        limit = float((self.pools[name].pool().spec.limits or {})["cpu"])
        return limit < USERS and (len(self.of(name)) + 1) * CORES <= limit

    def _tell(self) -> None:
        for name, pool in self.pools.items():
            count = len(self.of(name))
            pool.observed(resources={"cpu": str(count * CORES), "nodes": str(count)})
            self.watches.tell(name, self.now_s, pool.pool())
        ordered = tuple(claim_of(machine, machine.pool) for machine in self.machines if machine.pool)
        self.watches.tell("claims", self.now_s, ordered)
        tell_machines(self.watches, self.now_s, self.machines)

    def view(self, lags: Mapping[str, float]) -> TickView:
        shown = self.watches.shown(lags, self.now_s)
        world = world_of(shown["pods"], shown["nodes"] or (), shown["claims"] or (), self.now_s)
        return a_view(self.now_s, world, scene={"limited": tuple(shown[name] for name in NAMES)})


def there(name: str) -> PoolMachine:
    """A machine that this pool has had for long."""
    return PoolMachine(f"of-{name}", ordered_s=-600.0, registered_s=-500.0, usable_s=-400.0, pool=name)


IN_TIME = dict.fromkeys(KINDS, 0.0)
PODS = st.sampled_from([NAMES, ("heavy",), ("light",), ("other",)])


@pytest.mark.whole
@settings(max_examples=15, phases=[Phase.generate])
@given(
    st.sampled_from([2.0, 4.0, 10.0]),
    st.sampled_from([0.0, 6.0, 40.0]),
    st.sampled_from([0.0, 4.0, 20.0]),
    st.data(),
)
def test_never_more_in_flight_than_the_user_allows(
    look_s: float, boot_s: float, join_s: float, data: st.DataObject
) -> None:
    story = Story([there(name) for name in NAMES], look_s, boot_s, join_s)
    story.decide(IN_TIME)
    for _ in range(12):
        lags = {kind: data.draw(st.sampled_from([0.0, 2.0, 4.0]), label=kind) for kind in KINDS}
        story.stock = {name: data.draw(st.sampled_from([1000, 2, 0]), label=f"stock of {name}") for name in NAMES}
        pods = data.draw(PODS, label="whose pods")
        count = data.draw(st.sampled_from([0, 3, 20, -1]), label="how many come, or all go")
        story.go(pods) if count < 0 else story.come(count, pods)
        for _ in range(8):
            story.go_on()
            story.decide(lags)
            assert story.in_flight <= MOST


def test_all_get_through_wherever_they_may_go() -> None:
    story = Story([there(name) for name in NAMES], look_s=4.0, boot_s=6.0, join_s=4.0)
    for name in NAMES:
        story.come(10, (name,))
    story.come(10, NAMES)
    assert story.most_in_flight(IN_TIME, looks=180) == MOST
    assert all(machine.usable_s is not None for machine in story.machines)
    assert len(story.of("heavy")) > len(story.of("light")), "it is to serve first"
