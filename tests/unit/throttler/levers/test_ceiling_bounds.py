"""Whatever is seen, in whatever order: no ceiling below what exists and was asked for, none above the user's."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.kube.quantities_and_durations import format_milli, parse_quantity
from throttler.kube.selectors import LabelSelector
from throttler.levers.capacity_quota import QuotaMemory, QuotaView, decide_capacity_quota
from throttler.levers.lever_and_reasons import Holder
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.levers.saved_limits import restore

HOLDER = Holder(throttle="default", epoch=1)
CORES = 8
counts = st.integers(0, 60)
steps = st.lists(
    st.tuples(counts, counts, st.integers(0, 40), st.integers(0, 3), st.booleans(), st.booleans()), max_size=12
)
"""Machines there, on their way, allowed, waited for, whether the view is complete, whether memory is lost."""
user_limits = st.none() | st.integers(0, 2000).map(str) | st.integers(0, 2_000_000).map(format_milli)


def restored(server: OwnedObject) -> Any:
    """What a crash at this moment leaves to the guard, once the guard has been."""
    twin = OwnedObject()
    twin.body = server.body
    for write in restore(twin.pool())[:1]:
        twin.carry_out(write)
    return (twin.pool().spec.limits or {}).get("cpu")


@given(theirs=user_limits, story=steps)
def test_pool_ceiling_is_between_what_exists_and_the_users_limit(theirs: str | None, story: list[Any]) -> None:
    server = OwnedObject(pool_body(None if theirs is None else {"cpu": theirs}))
    memory = NodePoolMemory()
    for index, (there, booting, allowance, waiting, may_move, is_amnesic) in enumerate(story):
        machines = (*claims(there), *claims(booting, 1))
        now = room(allowance=allowance, waiting=waiting, may_move=may_move)
        seen = NodePoolView(pool=server.pool(), claims=machines)
        decisions, memory = decide_node_pools([seen], now, WaitingWork(), HOLDER, memory, 10.0 * index)
        for write in decisions[0].writes:
            server.carry_out(write)
            value = (server.pool().spec.limits or {}).get("cpu")
            if value is not None and value != theirs:
                usage = (there + booting) * CORES * 1000
                assert usage <= parse_quantity(str(value))
                assert theirs is None or parse_quantity(str(value)) < parse_quantity(theirs)
        memory = NodePoolMemory() if is_amnesic else memory
        assert restored(server) == theirs


@given(theirs=st.none() | st.integers(0, 150), story=steps)
@example(theirs=None, story=[(0, 0, 0, 1, True, False)])
def test_quota_is_between_what_exists_and_the_users_limit(theirs: int | None, story: list[Any]) -> None:
    body = {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "CapacityQuota",
        "metadata": {"name": "ours"},
        "spec": {"limits": {"resources": {"nodes": theirs}}},
    }
    server = OwnedObject(None if theirs is None else body)
    memory, most = QuotaMemory(), 0
    for index, (there, booting, allowance, waiting, may_move, is_amnesic) in enumerate(story):
        now = room(allowance=allowance, waiting=waiting, may_move=may_move, existing=there, booting=booting)
        seen = QuotaView(
            name="ours", selector=LabelSelector(), api_version="autoscaling.x-k8s.io/v1alpha1", quota=server.quota()
        )
        decision, memory = decide_capacity_quota(seen, now, HOLDER, memory, 10.0 * index)
        for write in decision.writes:
            server.carry_out(write)
            quota = server.quota()
            value = quota.spec.limits.resources["nodes"] if quota else None
            if value is not None and value != theirs:
                assert there + booting <= int(value)
                assert theirs is None or int(value) < theirs
                assert int(value) <= max(there + booting + allowance, most), "no room besides the allowance"
        memory, most = (QuotaMemory(), 0) if is_amnesic else (memory, max(most, there + booting))
