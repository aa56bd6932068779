"""Whatever the user had, and wherever we were killed, the object is as before in the end: values and owners."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.levers.owned_object import ConflictError, OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.kube.karpenter import NodePool
from throttler.levers.lever_and_reasons import THROTTLE_LABEL, Holder, How, LeverReason, LeverState, LeverWrite
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, OUR_ANNOTATIONS, restore

HOLDER = Holder(throttle="default", lease="kube-balloons/kube-balloons", epoch=3)
USERS = [
    pytest.param(None, "kubectl", "Update", id="no limits"),
    pytest.param({}, "kubectl", "Update", id="an empty list of limits"),
    pytest.param({"cpu": "400"}, "kubectl-client-side-apply", "Update", id="kubectl apply"),
    pytest.param({"cpu": "400"}, "argocd-controller", "Apply", id="Argo CD"),
    pytest.param({"cpu": 400, "memory": "2Ti"}, "argocd-controller", "Apply", id="a number and memory"),
    pytest.param({"memory": "0.5Ti"}, "flux", "Apply", id="memory alone"),
    pytest.param({"nodes": "50"}, "flux", "Apply", id="nodes alone"),
    pytest.param({"cpu": "400", "example.com/x": "7"}, "helm", "Update", id="a limit that we never touch"),
    pytest.param({"cpu": "2"}, "helm", "Apply", id="lower than what exists"),
]


def pace(server: OwnedObject, allowance: int, memory: NodePoolMemory, now_s: float) -> NodePoolMemory:
    seen = NodePoolView(pool=server.pool(), claims=claims(3))
    decisions, memory = decide_node_pools([seen], room(allowance), WaitingWork(), HOLDER, memory, now_s)
    for write in decisions[0].writes:
        server.carry_out(write)
    return memory


def carry_out(server: OwnedObject, writes: tuple[LeverWrite, ...]) -> None:
    """As the service does: each call expects the version that the one before was answered."""
    for write in writes:
        assert isinstance(write.body, dict)
        metadata = {**write.body["metadata"], "resourceVersion": server.pool().metadata.resource_version}
        server.carry_out(replace(write, body={**write.body, "metadata": metadata}))


@pytest.mark.parametrize(("limits", "manager", "operation"), USERS)
@pytest.mark.parametrize("killed_after", [1, 2, 3, 4, 5])
def test_user_gets_all_back_wherever_the_service_was_killed(
    limits: dict[str, Any] | None, manager: str, operation: str, killed_after: int
) -> None:
    server = OwnedObject(pool_body(limits), manager=manager, operation=operation)
    before = server.essence()
    memory = NodePoolMemory()
    for now_s, allowance in ((0.0, 4), (10.0, 6), (20.0, 0)):
        if server.writes < killed_after:
            memory = pace(server, allowance, memory, now_s)
    for write in restore(server.pool())[: max(0, killed_after - server.writes)]:
        carry_out(server, (write,))
    carry_out(server, restore(server.pool()))
    assert server.essence() == before
    assert restore(server.pool()) == (), "a second call finds nothing of ours"


@pytest.mark.parametrize(("limits", "manager", "operation"), USERS)
def test_value_to_restore_is_there_whenever_ours_is(
    limits: dict[str, Any] | None, manager: str, operation: str
) -> None:
    server = OwnedObject(pool_body(limits), manager=manager, operation=operation)
    pace(server, 4, NodePoolMemory(), 0.0)
    assert server.writes <= 1, "one call writes both"
    carry_out(server, restore(server.pool())[:1])
    assert (server.pool().spec.limits) == limits, "the first call already restores the value"


def test_owner_by_apply_can_apply_another_value_afterwards() -> None:
    body = pool_body({"cpu": "400"})
    server = OwnedObject(body, manager="argocd-controller", operation="Apply")
    pace(server, 4, NodePoolMemory(), 0.0)
    carry_out(server, restore(server.pool()))
    server.apply({**body, "spec": {**body["spec"], "limits": {"cpu": "500"}}}, "argocd-controller")
    assert server.pool().spec.limits == {"cpu": "500"}


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("operation", ["Update", "Apply"])
def test_limit_that_a_ramp_reached_outlives_the_next_ramp(operation: str, calls: int) -> None:
    """Its value did not change when it was given back, so it stayed ours alone, and our next apply took it away."""
    server = OwnedObject(pool_body({"cpu": "60"}), manager="user", operation=operation)
    before = server.essence()
    pace(server, 6, pace(server, 4, NodePoolMemory(), 0.0), 10.0)
    assert server.pool().spec.limits == {"cpu": "60", "memory": "304Gi"}
    carry_out(server, restore(server.pool())[:calls])
    pace(server, 6, NodePoolMemory(), 100.0)
    assert (server.pool().spec.limits or {}).get("cpu") == "60"
    carry_out(server, restore(server.pool()))
    assert server.essence() == before


def test_value_that_somebody_else_wrote_meanwhile_stays() -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    pace(server, 4, NodePoolMemory(), 0.0)
    server.merge({"metadata": {}, "spec": {"limits": {"cpu": "77"}}}, "kubectl-edit")
    carry_out(server, restore(server.pool()))
    assert server.pool().spec.limits == {"cpu": "77"}
    assert not server.pool().metadata.annotations


def test_object_that_changed_since_it_was_read_is_left_alone() -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    pace(server, 4, NodePoolMemory(), 0.0)
    writes = restore(server.pool())
    server.merge({"metadata": {}, "spec": {"limits": {"cpu": "77"}}}, "kubectl-edit")
    with pytest.raises(ConflictError):
        server.carry_out(writes[0])


def test_nothing_is_written_on_an_object_that_was_never_ours() -> None:
    assert restore(OwnedObject(pool_body({"cpu": "400"})).pool()) == ()


@pytest.mark.parametrize("mark", ["{{", '{"original": {"memory": "1Ti"}, "ceiling": {"cpu": "56"}}'])
def test_unreadable_annotation_is_left_with_its_label_for_somebody_to_mend(mark: str) -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    memory = pace(server, 4, NodePoolMemory(), 0.0)
    server.merge({"metadata": {"annotations": {"kube-balloons.github.io/original": mark}}}, "somebody")
    assert restore(server.pool()) == ()
    seen, stop = NodePoolView(pool=server.pool(), claims=claims(3)), room(is_stopping=True)
    decisions, _ = decide_node_pools([seen], stop, WaitingWork(), HOLDER, NodePoolMemory(), 10.0)
    assert decisions[0].writes == ()
    assert decisions[0].state is LeverState.REFUSED
    assert decisions[0].because.reason is LeverReason.ORIGINAL_UNREADABLE
    decisions, _ = decide_node_pools([seen], stop, WaitingWork(), HOLDER, memory, 10.0)
    carry_out(server, decisions[0].writes)
    assert server.pool().spec.limits == {"cpu": "400"}, "who wrote it remembers what it said"


def test_what_is_never_made_by_us_is_never_deleted() -> None:
    """An annotation of a quota that we made, copied by hand: with a NodePool all of its machines would go."""
    pool = msgspec.convert(pool_body({"cpu": "24"}), NodePool)
    mark = '{"original":{"cpu":null},"ceiling":{"cpu":"24"},"isMade":true}'
    marks = {"labels": {THROTTLE_LABEL: "default"}, "annotations": {ORIGINAL_ANNOTATION: mark}}
    pool = msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, **marks))
    (write,) = restore(pool)
    assert (write.how, write.body["spec"]) == (How.MERGE, {"limits": {"cpu": None}})  # type: ignore[call-overload]


@pytest.mark.parametrize("left", [None, {}], ids=["the whole list", "what stood in it"])
def test_limits_that_their_user_takes_away_in_a_ramp_stay_away(left: dict[str, Any] | None) -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    memory = pace(server, 4, NodePoolMemory(), 0.0)
    server.merge({"metadata": {}, "spec": {"limits": None}}, "kubectl")
    if left is not None:
        server.merge({"metadata": {}, "spec": {"limits": left}}, "kubectl")
    pace(server, 4, memory, 60.0)
    assert server.pool().spec.limits
    carry_out(server, restore(server.pool()))
    assert server.pool().spec.limits == left


def test_a_limit_that_its_user_adds_meanwhile_outlives_ours() -> None:
    server = OwnedObject(pool_body())
    pace(server, 4, NodePoolMemory(), 0.0)
    server.merge({"metadata": {}, "spec": {"limits": {"nodes": "5"}}}, "kubectl-edit")
    carry_out(server, restore(server.pool()))
    assert server.pool().spec.limits == {"nodes": "5"}


def test_a_limit_that_its_user_changes_where_there_was_none_is_given_back_without_ours() -> None:
    server = OwnedObject(pool_body())
    memory = pace(server, 4, NodePoolMemory(), 0.0)
    server.merge({"metadata": {}, "spec": {"limits": {"memory": "2Ti"}}}, "kubectl-edit")
    pace(server, 4, memory, 60.0)
    assert (server.pool().spec.limits or {})["memory"] != "2Ti", "ours stands there again"
    carry_out(server, restore(server.pool()))
    assert server.pool().spec.limits == {"memory": "2Ti"}


@pytest.mark.parametrize("lost", ["labels", "annotations"])
def test_a_mark_of_which_a_part_was_taken_off_is_cleaned_up(lost: str) -> None:
    """Without the annotation the value that stands is its user's: he took the annotation off."""
    server = OwnedObject(pool_body({"cpu": "400"}))
    pace(server, 4, NodePoolMemory(), 0.0)
    ours = server.pool().metadata
    gone = dict.fromkeys(ours.labels if lost == "labels" else ours.annotations)
    server.merge({"metadata": {lost: gone}}, "somebody")
    (write,) = restore(server.pool())
    assert write.how is How.MERGE
    carry_out(server, (write,))
    pool = server.pool()
    assert (dict(pool.metadata.labels), dict(pool.metadata.annotations)) == ({}, {})
    assert (pool.spec.limits or {})["cpu"] == ("400" if lost == "labels" else "56")
    assert restore(pool) == ()


def test_remembered_value_comes_back_where_all_our_marks_were_taken_off() -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    before = server.essence()
    memory = pace(server, 4, NodePoolMemory(), 0.0)
    gone = {"annotations": dict.fromkeys(OUR_ANNOTATIONS), "labels": {THROTTLE_LABEL: None}}
    server.merge({"metadata": gone}, "kubectl-edit")
    seen = NodePoolView(pool=server.pool(), claims=claims(3))
    stopping = room(0, is_stopping=True)
    decisions, _ = decide_node_pools([seen], stopping, WaitingWork(), HOLDER, memory, 10.0)
    carry_out(server, decisions[0].writes)
    assert server.essence() == before


@pytest.mark.parametrize("kept", OUR_ANNOTATIONS)
def test_an_annotation_that_stands_alone_is_taken_off(kept: str) -> None:
    server = OwnedObject(pool_body({"cpu": "400"}))
    pace(server, 4, NodePoolMemory(), 0.0)
    gone = {"annotations": dict.fromkeys({*OUR_ANNOTATIONS} - {kept}), "labels": {THROTTLE_LABEL: None}}
    server.merge({"metadata": gone}, "kubectl-edit")
    carry_out(server, restore(server.pool()))
    assert not server.pool().metadata.annotations
