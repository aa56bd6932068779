"""Somebody takes our annotation off in mid-ramp."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.levers.lever import THROTTLE_LABEL, Holder, LeverDecision, LeverWrite
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.levers.saved_limits import OUR_ANNOTATIONS

HOLDER = Holder(throttle="default", lease="kube-balloons/kube-balloons", epoch=3)
USERS = {"cpu": "400", "memory": "2Ti"}


class Story:
    """One pool; what is decided for it is written unless told otherwise."""

    def __init__(self, limits: dict[str, Any] | None = None) -> None:
        self.server = OwnedObject(pool_body(USERS if limits is None else limits))
        self.before = self.server.essence()
        self.memory = NodePoolMemory()

    def decide(self, now_s: float, allowance: int = 4, *, is_stopping: bool = False) -> LeverDecision:
        seen = NodePoolView(pool=self.server.pool(), claims=claims(3))
        given = room(allowance, is_stopping=is_stopping)
        (decision,), self.memory = decide_node_pools([seen], given, WaitingWork(), HOLDER, self.memory, now_s)
        return decision

    def look(self, now_s: float, allowance: int = 4, *, is_stopping: bool = False) -> LeverDecision:
        decision = self.decide(now_s, allowance, is_stopping=is_stopping)
        self.carry_out(decision.writes)
        return decision

    def carry_out(self, writes: tuple[LeverWrite, ...]) -> None:
        for write in writes:
            assert isinstance(write.body, dict)
            metadata = {**write.body["metadata"], "resourceVersion": self.server.pool().metadata.resource_version}
            self.server.carry_out(replace(write, body={**write.body, "metadata": metadata}))

    def edit(self, limits: dict[str, Any] | None = None, *, is_unmarked: bool = True) -> None:
        gone = {"annotations": dict.fromkeys(OUR_ANNOTATIONS), "labels": {THROTTLE_LABEL: None}}
        patch = {"metadata": gone if is_unmarked else {}, "spec": {"limits": limits or {}}}
        self.server.merge(patch, "kubectl-edit")

    @property
    def limits(self) -> dict[str, Any] | None:
        return self.server.pool().spec.limits


@pytest.mark.parametrize("cpu", ["400", "40"])
def test_what_counts_as_the_users_without_a_mark_outlives_the_next_ramp(cpu: str) -> None:
    """A new leader finds our ceiling, which the server calls ours: an apply that leaves it out would take it away."""
    story = Story({"cpu": cpu})
    story.look(0.0, allowance=1)
    lost = story.limits
    story.edit()
    story.memory = NodePoolMemory()
    story.look(10.0, allowance=6)
    assert story.limits == lost
    story.look(20.0, is_stopping=True)
    assert story.limits == lost
    assert [entry["manager"] for entry in story.server.pool().metadata.managed_fields] == ["kubectl"]
