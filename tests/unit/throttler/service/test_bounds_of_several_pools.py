"""What is in flight in several NodePools together stays within `maxInFlight` while room moves between them.

Their ceilings are written apart and their machines are heard of apart: what one of them may have ordered a moment ago
is nobody else's room.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Karpenter's, which orders from the first pool that a pod may use and that has room."""

    THROTTLE = THROTTLE

    machines: list[PoolMachine]  # type: ignore[assignment]
    pools: Mapping[str, OwnedObject] = field(default_factory=lambda: {name: pool_of(name) for name in NAMES})
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))

    def __post_init__(self) -> None:
        self._tell()

    def carry_out(self, write: LeverWrite) -> None:
        self.pools[write.key.name].carry_out(write)

    def of(self, name: str) -> list[PoolMachine]:
        return [machine for machine in self.machines if machine.pool == name]

    def come(self, count: int, pools: tuple[str, ...]) -> None:
        """So many more pods wait."""
        begin = len(self.machines)
        self.machines += [PoolMachine(f"p{at:03}", pools=pools) for at in range(begin, begin + count)]

    def go_on(self) -> None:
        self.now_s += STEP_S
        for machine in self.machines:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        if self.now_s % self.look_s < STEP_S:
            for machine in self.machines:
                if not machine.pool:
                    machine.pool = next((name for name in machine.pools if self._has_room(name)), "")
                    machine.ordered_s = self.now_s if machine.pool else None
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


def test_all_get_through_wherever_they_may_go() -> None:
    story = Story([there(name) for name in NAMES], look_s=4.0, boot_s=6.0, join_s=4.0)
    for name in NAMES:
        story.come(10, (name,))
    story.come(10, NAMES)
    assert story.most_in_flight(IN_TIME, looks=180) == MOST
    assert all(machine.usable_s is not None for machine in story.machines)
    assert len(story.of("heavy")) > len(story.of("light")), "it is to serve first"
