"""In whose name is written: labels that fit, and epochs that can be read. What each autoscaler may order."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.service.throttle_scene import a_throttle
from tests.world import a_node, work
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.pod import Scheduling
from throttler.levers.lever_and_reasons import (
    EPOCH_ANNOTATION,
    HOLDER_ANNOTATION,
    Clocks,
    Holder,
    LeverBudget,
    LeverContext,
    LeverScene,
    PacedAutoscaler,
    epoch_of,
)

BOTH = (PacedAutoscaler.CLUSTER_AUTOSCALER, PacedAutoscaler.KARPENTER)


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("7", 7),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("9" * 19, 0),
        ("9" * 5000, 0),
        ("", 0),
        ("-1", 0),
        ("1.5", 0),
        ("\u00b2", 0),
        ("\u0663", 0),
    ],
)
def test_an_epoch_that_cannot_be_read_or_that_no_leader_has_is_none(text: str, epoch: int) -> None:
    """A higher one than a Lease can count would stop every leader for ever."""
    assert epoch_of({EPOCH_ANNOTATION: text}) == epoch
    assert epoch_of({}) == 0


@pytest.mark.parametrize("length", [1, 63, 64, 253])
def test_a_name_that_is_too_long_for_a_label_is_cut_and_told_apart(length: int) -> None:
    one, other = Holder(throttle="x" * length), Holder(throttle="x" * (length - 1) + "y")
    assert len(one.label) == min(length, 63)
    assert one.label != other.label
    assert (one.label == one.throttle) is (length <= 63)


def test_a_name_is_cut_as_former_versions_did() -> None:
    """By its label the next version finds what this one changed."""
    assert Holder(throttle="x" * 64).label == "x" * 54 + "-7ce10097"


def test_a_change_says_who_keeps_it_in_force() -> None:
    holder = Holder(throttle="a", lease="n/l", epoch=3)
    assert holder.annotations == {HOLDER_ANNOTATION: "n/l", EPOCH_ANNOTATION: "3"}


def a_context(*, by_groups: int = 0, now_s: float = 0.0, both: bool = False, **room: Any) -> LeverContext:
    throttle = a_throttle(nodes={"matchLabels": {"pool": "gpu"}})
    counts = {"existing": 0, "booting": 0, "allowance": 0, "admit": 0, "waiting": 1, **room}
    return LeverContext(
        throttle=throttle,
        rules=JoinRules.of(throttle, ""),
        scene=LeverScene(moment=Clocks(now_s, now_s)),
        room=LeverBudget(may_move=True, **counts),
        joins=Joins(booting=counts["booting"], booting_by_groups=by_groups),
        machines=(),
        paces_both=both,
    )


COUNTS = st.integers(0, 30)


@given(allowance=COUNTS, spare=COUNTS, booting=COUNTS, by_groups=COUNTS, now_s=st.floats(0, 1e6))
def test_two_autoscalers_together_may_order_what_one_alone_may(
    allowance: int, spare: int, booting: int, by_groups: int, now_s: float
) -> None:
    counts = {"allowance": allowance, "spare": spare, "booting": booting}
    alone = a_context(by_groups=by_groups, now_s=now_s, **counts)
    assert [alone.room_of(one).allowance for one in BOTH] == [allowance + spare] * 2
    shares = [a_context(by_groups=by_groups, now_s=now_s, both=True, **counts).room_of(one).allowance for one in BOTH]
    assert sum(shares) == allowance + spare
    assert min(shares) >= 0


@pytest.mark.parametrize(("by_groups", "counted"), [(0, 0), (3, 3), (7, 7), (9, 7)])
def test_machines_that_karpenter_ordered_are_nothing_to_cluster_autoscaler(by_groups: int, counted: int) -> None:
    """Karpenter's own are counted from its machines, pool by pool."""
    context = a_context(booting=7, by_groups=by_groups)
    assert [context.room_of(one).booting for one in BOTH] == [counted, 7]


@pytest.mark.parametrize(
    ("now_s", "shares"), [(0.0, [1, 0]), (29.9, [1, 0]), (30.0, [0, 1]), (59.9, [0, 1]), (60.0, [1, 0])]
)
def test_what_does_not_divide_goes_to_each_for_half_a_minute(now_s: float, shares: list[int]) -> None:
    context = a_context(allowance=1, now_s=now_s, both=True)
    assert [context.room_of(one).allowance for one in BOTH] == shares


def test_a_lever_gets_the_nodes_and_pods_of_its_throttle_only() -> None:
    context = a_context()
    nodes = {name: a_node(name, labels={"pool": pool}) for name, pool in (("own", "gpu"), ("other", "cpu"))}
    pods = [work(pool, scheduling=Scheduling(node_selector={"pool": pool})) for pool in ("gpu", "cpu")]
    context = replace(context, scene=replace(context.scene, nodes=nodes, unplaced=tuple(pods)))
    assert [node.name for node in context.nodes] == ["own"]
    assert [pod.key.name for pod in context.pods] == ["gpu"]
