"""Somebody takes our annotation off in mid-ramp: each limit is judged by itself, and none of the user's is lost."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.levers.lever_and_reasons import THROTTLE_LABEL, Holder, LeverDecision, LeverState, LeverWrite
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, OUR_ANNOTATIONS, restore

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


def test_a_limit_that_was_changed_with_it_costs_no_other_limit() -> None:
    story = Story()
    story.look(0.0)
    story.edit({"cpu": "300"})
    assert story.look(5.0).original == "cpu 300, memory 2Ti"
    story.look(10.0, is_stopping=True)
    assert story.limits == {"cpu": "300", "memory": "2Ti"}


def test_a_write_that_failed_makes_no_ceiling_the_users() -> None:
    """What stands is the ceiling before, which is not the one that we remember."""
    story = Story()
    story.look(0.0)
    story.edit()
    story.decide(5.0, allowance=6)
    assert story.look(10.0, allowance=6).original == "cpu 400, memory 2Ti"
    story.look(15.0, is_stopping=True)
    assert story.server.essence() == story.before


def test_values_that_could_not_be_given_back_are_remembered_until_they_are() -> None:
    story = Story()
    story.look(0.0)
    story.edit()
    assert story.decide(5.0, is_stopping=True).writes
    story.look(10.0, is_stopping=True)
    assert story.server.essence() == story.before
    assert story.look(15.0, is_stopping=True).writes == ()


def test_a_pool_that_was_given_back_is_paced_anew_at_once() -> None:
    story = Story()
    story.look(0.0)
    story.look(5.0, is_stopping=True)
    decision = story.look(10.0)
    assert (decision.state, decision.original) == (LeverState.PENDING, "cpu 400, memory 2Ti")


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


def test_who_replaces_the_whole_pool_again_and_again_is_not_fought() -> None:
    story = Story()
    story.look(0.0)
    writes = []
    for second in range(1, 91):
        decision = story.look(float(second))
        writes += decision.writes
        if ORIGINAL_ANNOTATION in story.server.pool().metadata.annotations:
            story.look(float(second))
            story.edit(USERS)
    assert decision.state is LeverState.CONTESTED
    assert len(writes) <= 4
    story.look(100.0, is_stopping=True)
    assert story.limits == USERS


def test_a_pool_that_is_made_anew_is_paced_at_once() -> None:
    """Nobody wrote a limit of ours: waiting as for a rival, growth would go on unpaced for half a minute."""
    story = Story()
    story.look(0.0)
    story.look(2.0)
    story.server = OwnedObject(pool_body(USERS))
    assert story.server.body is not None
    story.server.body["metadata"]["uid"] = "u2"
    decision = story.look(4.0)
    assert (decision.state, decision.original) == (LeverState.PENDING, "cpu 400, memory 2Ti")
    assert decision.writes


def test_what_we_gave_back_ourselves_is_no_rival_of_ours() -> None:
    """Demand comes back before the view shows that the limits have been given back: the next look finds them gone."""
    story = Story()
    story.look(0.0)
    story.look(2.0)
    late = copy.deepcopy(story.server.body)
    story.look(60.0, is_stopping=True)
    now, story.server.body = story.server.body, late
    assert story.look(61.0).writes == ()
    story.server.body = now
    decision = story.look(62.0)
    assert (decision.state, decision.original) == (LeverState.PENDING, "cpu 400, memory 2Ti")


def test_another_pool_of_the_same_name_keeps_its_limits() -> None:
    story = Story()
    story.look(0.0)
    story.look(1.0)
    assert story.limits is not None
    same = dict(story.limits)
    story.server = OwnedObject(pool_body(same))
    assert story.server.body is not None
    story.server.body["metadata"]["uid"] = "u2"
    story.look(5.0, is_stopping=True)
    assert story.limits == same


def test_the_guard_finds_nothing_on_a_pool_whose_marks_are_gone() -> None:
    story = Story()
    story.look(0.0)
    story.edit()
    assert restore(story.server.pool()) == ()
