"""What is in flight under a ceiling stays within `maxInFlight`, however late views are and whatever became of a write.

Karpenter orders at each look all that the limit of that moment admits, and the ceiling is there before its first one.
A machine tells the size of the others: while a pool never had one, room for larger ones is tried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import a_claim, pending
from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import pool_body
from tests.unit.throttler.service.late_watches import LateWatches, LimitStory, Machine, late, tell_machines, world_of
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.pod import Pod
from throttler.levers.node_pool_limits import TRIED
from throttler.service.decide_throttles import TickView

MOST, STEP_S, CORES = 6, 2.0, 8
ONE_TYPE: Mapping[str, Any] = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["gpu-8"]}
KINDS = ("pods", "nodes", "claims", "pools")
THROTTLE = a_throttle(
    nodes={"matchLabels": {"pool": "a"}},
    levers={"nodePoolLimits": {"names": ["a"]}},
    window={"initial": MOST, "min": MOST, "max": 500},
    maxInFlight=MOST,
)


def pool_of(types: Sequence[str]) -> OwnedObject:
    """The pool, as its user made it."""
    body = pool_body({"cpu": "100000"}, "a")
    body["spec"]["template"]["spec"]["requirements"] = [{**ONE_TYPE, "values": types}]
    return OwnedObject(body)


def claim_of(machine: Machine, pool: str) -> NodeClaim:
    """Of a machine that was ordered from this pool."""
    is_registered, is_usable = machine.registered_s is not None, machine.usable_s is not None
    labels = {str(ONE_TYPE["key"]): "gpu-8", KARPENTER_POOL_LABEL: pool}
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


class Large(Machine):
    """That of a pod which the pool may serve by all that its objects say, and that fits on none of its machines."""

    def waiting(self) -> Pod:
        return pending(self.name, cpu="30", owner="large")


@dataclass
class Story(LimitStory):
    """Karpenter's."""

    THROTTLE = THROTTLE

    limited: OwnedObject = field(default_factory=lambda: pool_of(ONE_TYPE["values"]))
    watches: LateWatches = field(default_factory=lambda: LateWatches(KINDS))
    stock: int = 1000
    """How many of the one type can be had at each look."""

    def __post_init__(self) -> None:
        self._tell()

    def go_on(self) -> None:
        self.now_s += STEP_S
        for machine in self.ordered:
            machine.go_on(self.now_s, self.boot_s, self.join_s)
        if self.now_s % self.look_s < STEP_S:
            limit = float((self.limited.pool().spec.limits or {})["cpu"])
            waiting = [machine for machine in self.machines if machine.ordered_s is None]
            wanted = [machine for machine in waiting if not isinstance(machine, Large)]
            for machine in wanted[: self.stock]:
                if (len(self.ordered) + 1) * CORES <= limit:
                    machine.ordered_s = self.now_s
        self._tell()

    def _tell(self) -> None:
        count = len(self.ordered)
        self.limited.observed(resources={"cpu": str(count * CORES), "nodes": str(count)})
        self.watches.tell("pools", self.now_s, self.limited.pool())
        self.watches.tell("claims", self.now_s, tuple(claim_of(machine, "a") for machine in self.ordered))
        tell_machines(self.watches, self.now_s, self.machines)

    def view(self, lags: Mapping[str, float]) -> TickView:
        shown = self.watches.shown(lags, self.now_s)
        world = world_of(shown["pods"], shown["nodes"] or (), shown["claims"] or (), self.now_s)
        return a_view(self.now_s, world, scene={"limited": (shown["pools"],)})


IN_TIME = dict.fromkeys(KINDS, 0.0)


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
    there = Machine("there", ordered_s=-600.0, registered_s=-500.0, usable_s=-400.0)
    story = Story([there, *(Machine(f"p{number:02}") for number in range(count))], look_s, boot_s, join_s)
    story.decide(IN_TIME)
    for _ in range(12):
        lags = {kind: data.draw(late, label=kind) for kind in KINDS}
        is_lost = data.draw(st.booleans(), label="writes are lost")
        story.stock = data.draw(st.sampled_from([1000, 2, 0]), label="in stock")
        for _ in range(8):
            story.go_on()
            story.decide(lags, is_lost=is_lost)
            assert story.in_flight <= MOST


@pytest.mark.parametrize(("stock", "there", "boot_s", "looks"), [(2, 0, 6.0, 120), (0, 5, 600.0, 28)])
def test_no_more_are_in_flight_when_stock_comes_back(stock: int, there: int, boot_s: float, looks: int) -> None:
    machines = [Machine(f"p{at:03}", ordered_s=0.0 if at < there else None) for at in range(200)]
    story = Story(machines, look_s=30.0, boot_s=boot_s, join_s=4.0, stock=stock)
    assert story.most_in_flight(IN_TIME, looks=looks) == max(stock, there)
    story.stock = 1000
    assert story.most_in_flight(IN_TIME, looks=60) == MOST


def test_a_pod_that_fits_nowhere_makes_no_room_for_machines_of_one_type() -> None:
    machines = [Machine("p000", ordered_s=0.0), Large("large"), *(Machine(f"p{at:03}") for at in range(1, 200))]
    story = Story(machines, look_s=30.0, boot_s=6.0, join_s=4.0, stock=0)
    assert story.most_in_flight(IN_TIME, looks=28) == 1
    story.stock = 1000
    assert story.most_in_flight(IN_TIME, looks=60) == MOST


def test_room_that_is_tried_for_a_larger_type_minds_what_boots() -> None:
    machines = [Machine(f"p{at:03}", ordered_s=0.0 if at < 5 else None) for at in range(200)]
    story = Story(machines, look_s=30.0, boot_s=600.0, join_s=4.0, stock=0, limited=pool_of(["gpu-8", "gpu-16"]))
    story.most_in_flight(IN_TIME, looks=28)
    story.stock = 1000
    assert story.most_in_flight(IN_TIME, looks=60) <= TRIED


def test_all_get_through_when_views_are_in_time() -> None:
    story = Story([Machine(f"p{number:02}") for number in range(20)], look_s=4.0, boot_s=6.0, join_s=4.0)
    most = story.most_in_flight(IN_TIME, looks=120)
    assert all(machine.usable_s is not None for machine in story.machines)
    assert most == MOST
