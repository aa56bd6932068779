"""What is in flight under a ceiling stays within `maxInFlight`, however late views are and whatever became of a write.

Karpenter orders at each look all that the limit of that moment admits, and the ceiling is there before its first one.
A machine tells the size of the others: while a pool never had one, room for larger ones is tried. The ceilings of
several pools are written apart and their machines are heard of apart: what one may have ordered a moment ago is nobody
else's room.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import a_claim, pending
from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import pool_body
from tests.unit.throttler.service.late_watches import LateWatches, LimitStory, Machine, late, tell_machines, world_of
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.pod import Pod
from throttler.levers.lever_and_reasons import LeverWrite
from throttler.levers.node_pool_limits import TRIED
from throttler.service.decide_throttles import TickView

MOST, STEP_S, CORES = 6, 2.0, 8
USERS = 100_000
"""Cores that the user allows each pool."""
IN_STOCK = 1000
"""As good as any number."""
ONE_TYPE: Mapping[str, Any] = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["gpu-8"]}
NODES = {"pool": "a"}
"""The labels of all nodes here."""


def pool_of(name: str, types: Sequence[str] = ONE_TYPE["values"], weight: int = 1) -> OwnedObject:
    """The pool, as its user made it."""
    body = pool_body({"cpu": str(USERS)}, name, weight=weight)
    template = {"metadata": {"labels": NODES}, "spec": {"requirements": [{**ONE_TYPE, "values": types}]}}
    return OwnedObject({**body, "spec": {**body["spec"], "template": template}})


SEVERAL = ("heavy", "light", "other")


def several() -> Mapping[str, OwnedObject]:
    """Three pools, which are to serve in this order."""
    return {name: pool_of(name, weight=weight) for name, weight in zip(SEVERAL, (100, 10, 1), strict=True)}


@dataclass
class PoolMachine(Machine):
    """That of a pod that one or each of the pools may serve."""

    only: str = ""
    """The one pool that the pod may use; of any where empty."""
    pool: str = ""
    """The pool that it was ordered from."""

    def waiting(self) -> Pod:
        selector = {KARPENTER_POOL_LABEL: self.only} if self.only else {}
        return pending(self.name, owner=self.only or "any", node_selector=selector)


class Large(PoolMachine):
    """That of a pod which a pool may serve by all that its objects say, and that fits on none of its machines."""

    def waiting(self) -> Pod:
        return pending(self.name, cpu="30", owner="large")


def there(pool: str) -> PoolMachine:
    """A machine that this pool has had for long."""
    return PoolMachine(f"of-{pool}", ordered_s=-600.0, registered_s=-500.0, usable_s=-400.0, pool=pool)


def claim_of(machine: PoolMachine) -> NodeClaim:
    """Of a machine that was ordered."""
    is_registered, is_usable = machine.registered_s is not None, machine.usable_s is not None
    labels = {str(ONE_TYPE["key"]): "gpu-8", KARPENTER_POOL_LABEL: machine.pool}
    claim = a_claim(f"c-{machine.name}", age_s=-(machine.ordered_s or 0.0), is_registered=is_registered, **labels)
    status = {
        "nodeName": machine.node if is_registered else "",
        "capacity": {"cpu": str(CORES)},
        "conditions": [{"type": "Launched", "status": "True"}]
        + [{"type": "Registered", "status": "True"}] * is_registered
        + [{"type": "Initialized", "status": "True"}] * is_usable,
    }
    spec = {"requirements": [ONE_TYPE]}
    parts = {"status": msgspec.convert(status, type(claim.status)), "spec": msgspec.convert(spec, type(claim.spec))}
    return msgspec.structs.replace(claim, **parts)


@dataclass
class Story(LimitStory):
    """Karpenter's, which orders from the first pool that a pod may use and that has room and stock."""

    THROTTLE = a_throttle(
        nodes={"matchLabels": NODES},
        levers={"nodePoolLimits": {}},
        window={"initial": MOST, "min": MOST, "max": 500},
        maxInFlight=MOST,
    )

    machines: list[PoolMachine]  # type: ignore[assignment]
    pools: Mapping[str, OwnedObject] = field(default_factory=lambda: {"a": pool_of("a")})
    """In the order in which they are to serve."""
    stock: Mapping[str, int] = field(default_factory=dict)
    """How many machines of each pool can be had at each look, where not `IN_STOCK`."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """No two pods have one name, also where the first is gone."""
    watches: LateWatches = field(init=False)

    def __post_init__(self) -> None:
        self.watches = LateWatches(self.in_time)
        self._tell()

    @property
    def in_time(self) -> Mapping[str, float]:
        """Each watch, and that it is not late."""
        return dict.fromkeys(("pods", "nodes", "claims", *self.pools), 0.0)

    def carry_out(self, write: LeverWrite) -> None:
        self.pools[write.key.name].carry_out(write)

    def of(self, pool: str) -> list[PoolMachine]:
        """The machines that were ordered from it."""
        return [machine for machine in self.machines if machine.pool == pool]

    def come(self, count: int, only: str = "") -> None:
        """So many more pods wait."""
        self.machines += [PoolMachine(f"p{next(self.numbers):03}", only=only) for _ in range(count)]

    def go(self, only: str) -> None:
        """Those pods that nothing was ordered for are deleted."""
        self.machines = [one for one in self.machines if one.pool or one.only != only]

    def lose(self) -> None:
        """The machines that boot are deleted, and their pods wait again."""
        lost = [machine for machine in self.machines if machine.is_in_flight and machine.registered_s is None]
        self.machines = [machine for machine in self.machines if machine not in lost]
        for machine in lost:
            self.come(1, machine.only)

    def go_on(self) -> None:
        self.now_s += STEP_S
        for machine in self.machines:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        if self.now_s % self.look_s < STEP_S:
            self._order()
        self._tell()

    def _order(self) -> None:
        """Nothing is ordered while the limit is the user's: the ceiling is there before the first pod."""
        limits = {name: float((pool.pool().spec.limits or {})["cpu"]) for name, pool in self.pools.items()}
        rooms = {name: limit // CORES - len(self.of(name)) if limit < USERS else 0 for name, limit in limits.items()}
        left = {name: min(room, self.stock.get(name, IN_STOCK)) for name, room in rooms.items()}
        for machine in self.machines:
            if not (machine.pool or isinstance(machine, Large)):
                able = (name for name in left if left[name] >= 1 and machine.only in ("", name))
                if pool := next(able, ""):
                    machine.pool, machine.ordered_s = pool, self.now_s
                    left[pool] -= 1

    def _tell(self) -> None:
        for name, pool in self.pools.items():
            count = len(self.of(name))
            pool.observed(resources={"cpu": str(count * CORES), "nodes": str(count)})
            self.watches.tell(name, self.now_s, pool.pool())
        ordered = tuple(claim_of(machine) for machine in self.machines if machine.pool)
        self.watches.tell("claims", self.now_s, ordered)
        tell_machines(self.watches, self.now_s, self.machines)

    def view(self, lags: Mapping[str, float]) -> TickView:
        shown = self.watches.shown(lags, self.now_s)
        world = world_of(shown["pods"], shown["nodes"] or (), shown["claims"] or (), self.now_s)
        return a_view(self.now_s, world, scene={"limited": tuple(shown[name] for name in self.pools)})


def coming(count: int) -> list[PoolMachine]:
    """So many machines on their way from the one pool."""
    return [PoolMachine(f"c{at}", ordered_s=0.0, pool="a") for at in range(count)]


LOST = st.sampled_from([-1, -1, 2, 3])
"""At which of eight looks the machines that boot are lost; in half of them, at none."""


@pytest.mark.whole
@settings(max_examples=60)
@given(
    st.integers(1, 30),
    st.sampled_from([2.0, 4.0, 10.0]),
    st.sampled_from([0.0, 6.0, 40.0]),
    st.sampled_from([0.0, 4.0, 20.0]),
    st.data(),
)
def test_never_more_in_flight_than_the_user_allows(
    count: int, look_s: float, boot_s: float, join_s: float, data: st.DataObject
) -> None:
    story = Story([there("a")], look_s, boot_s, join_s)
    story.come(count)
    story.decide(story.in_time)
    for _ in range(12):
        lags = {kind: data.draw(late, label=kind) for kind in story.in_time}
        is_lost = data.draw(st.booleans(), label="writes are lost")
        story.stock = {"a": data.draw(st.sampled_from([IN_STOCK, 2, 0]), label="in stock")}
        lost_at = data.draw(LOST, label="when those that boot are lost")
        for at in range(8):
            if at == lost_at:
                story.lose()
            story.go_on()
            story.decide(lags, is_lost=is_lost)
            assert story.in_flight <= MOST


@pytest.mark.whole
@settings(max_examples=15, phases=[Phase.generate])
@given(
    st.sampled_from([2.0, 4.0, 10.0]),
    st.sampled_from([0.0, 6.0, 40.0]),
    st.sampled_from([0.0, 4.0, 20.0]),
    st.data(),
)
def test_nor_in_several_pools_together(look_s: float, boot_s: float, join_s: float, data: st.DataObject) -> None:
    """Watches are late by as much as a look and the room that stood before it."""
    story = Story([there(name) for name in SEVERAL], look_s, boot_s, join_s, pools=several())
    story.decide(story.in_time)
    for _ in range(12):
        lags = {kind: data.draw(st.sampled_from([0.0, 2.0, 4.0]), label=kind) for kind in story.in_time}
        story.stock = {name: data.draw(st.sampled_from([IN_STOCK, 2, 0]), label=f"of {name}") for name in SEVERAL}
        only = data.draw(st.sampled_from(["", *SEVERAL]), label="the only pool of those that come or go")
        count = data.draw(st.sampled_from([0, 3, 20, -1]), label="how many come, or all go")
        story.go(only) if count < 0 else story.come(count, only)
        lost_at = data.draw(LOST, label="when those that boot are lost")
        for at in range(8):
            if at == lost_at:
                story.lose()
            story.go_on()
            story.decide(lags)
            assert story.in_flight <= MOST


@pytest.mark.parametrize(("stock", "ordered", "boot_s", "looks"), [(2, 0, 6.0, 120), (0, 5, 600.0, 28)])
def test_no_more_are_in_flight_when_stock_comes_back(stock: int, ordered: int, boot_s: float, looks: int) -> None:
    story = Story(coming(ordered), look_s=30.0, boot_s=boot_s, join_s=4.0, stock={"a": stock})
    story.come(200)
    assert story.most_in_flight(story.in_time, looks=looks) == max(stock, ordered)
    story.stock = {}
    assert story.most_in_flight(story.in_time, looks=60) == MOST


def test_a_pod_that_fits_nowhere_makes_no_room_for_machines_of_one_type() -> None:
    story = Story([*coming(1), Large("large")], look_s=30.0, boot_s=6.0, join_s=4.0, stock={"a": 0})
    story.come(200)
    assert story.most_in_flight(story.in_time, looks=28) == 1
    story.stock = {}
    assert story.most_in_flight(story.in_time, looks=60) == MOST


def test_room_that_is_tried_for_a_larger_type_minds_what_boots() -> None:
    pools = {"a": pool_of("a", ["gpu-8", "gpu-16"])}
    story = Story(coming(5), look_s=30.0, boot_s=600.0, join_s=4.0, stock={"a": 0}, pools=pools)
    story.come(200)
    story.most_in_flight(story.in_time, looks=28)
    story.stock = {}
    assert story.most_in_flight(story.in_time, looks=60) <= TRIED


@pytest.mark.parametrize("lag_s", [0.0, 2.0, 4.0, 8.0])
def test_machines_that_are_lost_make_no_room_twice(lag_s: float) -> None:
    """They were never usable, Karpenter's count of its pool is that of before, and stock comes back just then."""
    story = Story([there("a")], look_s=2.0, boot_s=40.0, join_s=20.0)
    story.come(60)
    lags = {**story.in_time, "a": lag_s}
    assert story.most_in_flight(lags, looks=19) == MOST
    story.lose()
    story.stock = {"a": 0}
    assert story.most_in_flight(lags, looks=2) == 0
    story.stock = {}
    assert story.most_in_flight(lags, looks=30) == MOST


def test_all_get_through_when_views_are_in_time() -> None:
    story = Story([], look_s=4.0, boot_s=6.0, join_s=4.0)
    story.come(20)
    most = story.most_in_flight(story.in_time, looks=120)
    assert all(machine.usable_s is not None for machine in story.machines)
    assert most == MOST


def test_all_get_through_wherever_they_may_go() -> None:
    story = Story([there(name) for name in SEVERAL], look_s=4.0, boot_s=6.0, join_s=4.0, pools=several())
    for only in (*SEVERAL, ""):
        story.come(10, only)
    assert story.most_in_flight(story.in_time, looks=180) == MOST
    assert all(machine.usable_s is not None for machine in story.machines)
    assert len(story.of("heavy")) > len(story.of("light")), "it is to serve first"
