"""Nodes that refuse balloons, by single looks: what a restart knows, whose names are kept off, what is removed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Reason
from balloons.decide.refusing import (
    FEW,
    FIRST_REST_S,
    LONGEST_REST_S,
    NodeRefusal,
    hosts_left_out,
    refusals,
    sought_by_karpenter,
    to_remove,
)
from balloons.view.index_and_snapshot import DeploymentStatus, FailedBalloon
from tests.unit.balloons.decide.test_refusing import HEADROOM, Story
from tests.world import NOW, POOL_KEY, a_node, a_pool, later, nodes
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.taints import Taint

KARPENTER = {KARPENTER_POOL_LABEL: "default", KARPENTER_INITIALIZED_LABEL: "true"}


def a_failure(name: str, node: str = "n000", *, created_s: float = 0.0, **changes: Any) -> FailedBalloon:
    failure = FailedBalloon(ObjectKey("team-a", name), f"uid-{name}", node, "gpu", created_s, "OutOfcpu")
    return msgspec.structs.replace(failure, **changes)


def a_refusal(since_s: float = NOW.monotonic_s, *, is_sought: bool = False) -> NodeRefusal:
    return NodeRefusal(since_s, 1, 0.0, "OutOfcpu", since_s, since_s, is_sought)


def test_after_a_restart_nodes_are_known_by_the_host_names_that_are_kept_off() -> None:
    """A node's name is not its host name on every cloud."""
    there = {
        "n000": a_node("n000", labels={"kubernetes.io/hostname": "ip-10-0-0-1"}),
        "n001": a_node("n001", labels={"kubernetes.io/hostname": "ip-10-0-0-2"}),
    }
    found = refusals((), there, {}, None, ("ip-10-0-0-2", "ip-gone"), NOW)
    assert {name: (refusal.is_sought, refusal.newest_s) for name, refusal in found.items()} == {"n001": (True, 0.0)}
    assert refusals((), there, {}, {}, ("ip-10-0-0-2",), NOW) == {}, "whoever remembers needs no record"
    assert refusals((), there, {}, None, (), NOW) == {}
    newer = refusals([a_failure("b", "n001", created_s=7.0)], there, {}, None, ("ip-10-0-0-2",), NOW)
    assert newer["n001"].newest_s == 7.0


@pytest.mark.parametrize(("apart_s", "names"), [(59.9, {"n000", "n001"}), (60.0, {"n000"})])
def test_one_failure_within_a_minute_of_another_nodes_refusal_is_enough(apart_s: float, names: set[str]) -> None:
    failed = [a_failure(f"a{at}", "n000", created_s=100.0 + at) for at in range(FEW)]
    failed.append(a_failure("b", "n001", created_s=102.0 - apart_s))
    assert refusals(failed, nodes(2), {}, {}, (), NOW).keys() == names


def test_a_node_that_is_gone_refuses_no_more() -> None:
    failed = [a_failure(f"b{number}") for number in range(FEW)]
    assert [*refusals(failed, nodes(1), {}, {}, (), NOW)] == ["n000"]
    assert refusals(failed, {}, {}, {"n000": a_refusal()}, (), NOW) == {}


@pytest.mark.parametrize(
    ("change", "is_let_in"), [({}, True), ({"is_cordoned": True}, False), ({"labels": {"pool": "gpu"}}, False)]
)
def test_a_node_that_no_longer_refuses_is_let_in_again_unless_it_is_in_somebodys_hands(
    change: dict[str, Any], *, is_let_in: bool
) -> None:
    there = {"n000": msgspec.structs.replace(a_node("n000"), **change)}
    assert hosts_left_out(("n000",), there, {}, NOW, "") == (() if is_let_in else ("n000",))


def test_a_name_that_is_kept_off_stays_while_its_node_is_left_alone() -> None:
    """Any change of the names costs every balloon of the shape its pod."""
    there, refused = nodes(3), {"n000": a_refusal(), "n001": a_refusal(is_sought=True)}
    assert hosts_left_out(("n000", "n001"), there, refused, NOW, "") == ("n000", "n001")
    assert hosts_left_out(("n000",), there, refused, NOW, "") == ("n001",)
    assert hosts_left_out(("n001", "n002"), there, refused, NOW, "") == ("n001",)
    over = later(NOW, LONGEST_REST_S)
    assert hosts_left_out(("n001",), there, refused, over, "") == ()


@pytest.mark.parametrize(
    ("change", "is_sought"),
    [
        ({}, True),
        ({"labels": {"pool": "gpu"}}, False),
        ({"taints": (Taint("karpenter.sh/disrupted", "NoSchedule"),)}, False),
    ],
)
def test_only_a_node_of_karpenters_that_stays_is_kept_off_for_its_sake(
    change: dict[str, Any], *, is_sought: bool
) -> None:
    there = {"n000": msgspec.structs.replace(a_node("n000", labels=KARPENTER), **change)}
    assert sought_by_karpenter({"n000": a_refusal()}, there, NOW.monotonic_s)["n000"].is_sought is is_sought


def test_failed_balloons_that_nobody_needs_go_oldest_first_and_a_few_at_a_time() -> None:
    there = {"n000": a_node("n000"), "n001": a_node("n001", is_cordoned=True)}
    many = [a_failure(f"a{at:02}", "n000", created_s=float(at)) for at in range(FEW + 16)]
    refused = {"n000": a_refusal()}
    gone = to_remove(many, there, refused, {}, NOW)
    assert [failure.created_s for failure in gone] == [float(at) for at in range(16)]
    assert to_remove(many[-FEW:], there, refused, {}, NOW) == [], "as many are kept as a node's record"
    over = later(NOW, FIRST_REST_S)
    assert len(to_remove(many[-FEW:], there, refused, {}, over)) == FEW, "what is over is no record"
    for node in ("n001", "gone"):
        assert len(to_remove([a_failure("b", node)], there, refused, {}, NOW)) == 1


def test_headroom_waits_for_no_node_until_all_balloons_have_the_name() -> None:
    """A roll-out replaces one of the three that wait, which never is Ready, and then no other: the node that refuses
    would be tried by the two for ever, where no machine comes."""
    story = Story(a_pool(**{**HEADROOM, "size": 6}), count=4)
    story.refuse("n000")
    story.run(60)
    assert (story.left_out(), story.world.replicas()) == (["n000"], 6)
    ((key, stored),) = story.world.deployments.items()
    for updated, reason, replicas in ((1, Reason.NODES_REFUSE, [3]), (6, Reason.GROWING, [])):
        status = DeploymentStatus(replicas=6, ready_replicas=3, updated_replicas=updated)
        seen = story.world.snapshot(deployments={key: msgspec.structs.replace(stored, status=status)})
        decision = decide(seen, story.memory, ImageSettings(), story.now)[0].pools[0]
        assert decision.because.reason is reason
        assert [action.replicas for action in decision.actions if isinstance(action, ApplyObject)] == replicas


def test_a_balloon_that_waits_for_another_node_is_not_made_in_vain() -> None:
    """Of a paused pool's balloons only the one that a refusing node is sent again and again comes to an end."""
    story = Story(a_pool(**{**HEADROOM, "size": 5}), count=3)
    waiting = [balloon for balloon in story.world.balloons() if not balloon.node]
    story.world.nodes["n003"] = a_node("n003")
    story.world.change_pool(paused=True)
    refused = {"n003": a_refusal(story.now.monotonic_s, is_sought=True)}
    memory = replace(story.memory, pools={POOL_KEY: replace(story.memory.pools[POOL_KEY], refusals=refused)})

    def lowered() -> list[int | None]:
        decided, _ = decide(story.world.snapshot(), memory, ImageSettings(), story.now)
        story.world.apply(decided)
        return [action.replicas for action in decided.pools[0].actions if isinstance(action, ApplyObject)]

    assert lowered() == []
    for balloon in waiting:
        del story.world.pods[balloon.key]
    assert lowered() == [4]
    assert lowered() == [], "the ReplicaSet has not followed yet"


def test_headroom_asks_for_no_node_while_balloons_of_one_shape_do_not_have_the_name_yet() -> None:
    p5, m5 = ({INSTANCE_TYPE_LABEL: name} for name in ("p5", "m5"))
    story = Story(a_pool(**HEADROOM), count=3, labels=p5)
    story.world.nodes |= nodes(1, "m", labels=m5)
    story.run(40)
    story.refuse("n000")
    assert story.run(60).because.reason is Reason.GROWING
    key = ObjectKey("team-a", "gpu-p5")
    stored = story.world.deployments[key]
    rolling = msgspec.structs.replace(stored.status, updated_replicas=1)
    story.world.deployments[key] = msgspec.structs.replace(stored, status=rolling)
    decided, _ = decide(story.world.snapshot(), story.memory, ImageSettings(), story.now)
    assert decided.pools[0].because.reason is Reason.NODES_REFUSE
