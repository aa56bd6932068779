"""cluster-autoscaler's ceiling: exact, trusted only while it is valid, noticed when it is gone, deleted in the end."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.throttler.joins.cluster import MACHINES, a_node, pending
from tests.unit.throttler.levers.owned_object import ConflictError, OwnedObject
from tests.unit.throttler.levers.pool_scene import room
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.metadata import OwnedMetadata
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import LabelSelector
from throttler.levers.capacity_quota import (
    CapacityQuotas,
    QuotaMemory,
    QuotaView,
    decide_capacity_quota,
    is_quota_taken_up,
)
from throttler.levers.lever_and_reasons import (
    ANY_TIME,
    THROTTLE_LABEL,
    Clocks,
    Holder,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverScene,
    LeverState,
)
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, restore

API_VERSION = "autoscaling.x-k8s.io/v1alpha1"
SERVED = {"CapacityQuota": API_VERSION}
SELECTOR = LabelSelector(match_labels={"pool": "gpu"})
HOLDER = Holder(throttle="default", lease="kube-balloons/kube-balloons", epoch=3)
THERE = {"existing": 10, "booting": 2}


def quota_body(nodes: Any, selector: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {"limits": {"resources": {"nodes": nodes}}, "selector": selector or {"matchLabels": {"pool": "gpu"}}}
    return {"apiVersion": API_VERSION, "kind": "CapacityQuota", "metadata": {"name": "ours"}, "spec": spec}


class Story:
    """One quota on a fake server, looked at again and again; every write is carried out."""

    def __init__(self, body: dict[str, Any] | None = None) -> None:
        self.server = OwnedObject(body)
        self.memory = QuotaMemory()
        self.api_version: str | None = API_VERSION
        self.whole = 0
        self.holder = HOLDER

    def decide(self, room: LeverBudget, now_s: float) -> LeverDecision:
        seen = QuotaView(name="ours", selector=SELECTOR, api_version=self.api_version, quota=self.server.quota())
        decision, self.memory = decide_capacity_quota(seen, room, self.holder, self.memory, now_s, self.whole)
        return decision

    def look(self, room: LeverBudget, now_s: float = 0.0) -> LeverDecision:
        decision = self.decide(room, now_s)
        for write in decision.writes:
            self.server.carry_out(write)
        return decision

    @property
    def nodes(self) -> Any:
        quota = self.server.quota()
        return quota.spec.limits.resources.get("nodes") if quota else None


def test_quota_is_made_with_what_exists_what_boots_and_the_allowance() -> None:
    story = Story()
    story.look(room(allowance=8, **THERE))
    assert story.nodes == "20"
    quota = story.server.quota()
    assert quota is not None
    assert quota.spec.selector == SELECTOR


def test_a_quota_that_its_user_makes_at_the_same_moment_stays_his() -> None:
    """As of GitOps, that applies it beside the throttle. It would be taken for ours, and deleted in the end."""
    story = Story()
    decision = story.decide(room(allowance=8, **THERE), 0.0)
    story.server = OwnedObject(quota_body("100"))
    with pytest.raises(ConflictError):
        story.server.carry_out(decision.writes[0])
    assert story.nodes == "100"
    story.look(room(allowance=8, **THERE), 1.0)
    assert story.nodes == "20"
    story.look(replace(room(allowance=8, **THERE), is_stopping=True), 2.0)
    assert story.nodes == "100"


def test_nodes_that_the_view_has_not_heard_of_make_no_room() -> None:
    """The quota's own count comes by another watch, which may be ahead: taken for usable, each would be made up for."""
    story = Story()
    story.look(room(allowance=8, **THERE))
    story.server.observed(used={"resources": {"nodes": "15"}})
    story.look(room(allowance=1, **THERE), 10.0)
    assert story.nodes == "13", "10 nodes, 2 that boot, 1 more"


def test_machines_that_are_gone_leave_no_room_besides_the_allowance() -> None:
    story = Story()
    story.look(room(allowance=0, existing=10, booting=4), 0.0)
    story.look(room(allowance=4, existing=10), 10.0)
    assert story.nodes == "14"


def test_room_for_what_exists_cannot_wait() -> None:
    story = Story()
    story.look(room(allowance=0, existing=10), 0.0)
    story.look(room(allowance=0, existing=12), 0.5)
    assert story.nodes == "12", "two more registered, and more room for others could have waited"


def test_nothing_is_lost_before_anything_was_made() -> None:
    story = Story()
    decision = story.look(room(may_move=False, **THERE))
    assert (decision.state, decision.because.reason) == (LeverState.PENDING, LeverReason.VIEW_INCOMPLETE)
    assert story.nodes is None


def test_quota_counts_once_it_is_valid_at_this_generation() -> None:
    story = Story()
    assert story.look(room(**THERE), 0.0).state is LeverState.PENDING
    story.server.observed()
    assert story.look(room(**THERE), 1.0).state is LeverState.CONFIRMED
    story.look(room(allowance=9, **THERE), 2.0)
    assert story.look(room(allowance=9, **THERE), 3.0).state is LeverState.PENDING, "another generation"
    assert story.look(room(allowance=9, **THERE), 40.0).state is LeverState.UNCONFIRMED


def test_what_is_not_there_or_was_never_looked_at_is_not_in_force() -> None:
    assert is_quota_taken_up(None) is False
    assert is_quota_taken_up(CapacityQuota(OwnedMetadata("ours"))) is False


def test_prefixed_condition_counts_as_well() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    valid = {"type": "cluster-autoscaler.kubernetes.io/valid", "status": "True", "observedGeneration": 1}
    (story.server.body or {})["status"] = {"conditions": [valid]}
    assert story.look(room(**THERE), 1.0).state is LeverState.CONFIRMED


def test_invalid_quota_is_reported_with_its_message() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    invalid = {"type": "Valid", "status": "False", "observedGeneration": 1, "message": "bad selector"}
    (story.server.body or {})["status"] = {"conditions": [invalid]}
    decision = story.look(room(**THERE), 1.0)
    assert decision.state is LeverState.UNCONFIRMED
    assert "bad selector" in decision.because.sentence


def test_more_room_waits_for_a_moment_and_less_does_not() -> None:
    story = Story()
    story.look(room(allowance=4, **THERE), 0.0)
    story.look(room(allowance=8, **THERE), 1.0)
    assert story.nodes == "16"
    story.look(room(allowance=8, **THERE), 2.0)
    assert story.nodes == "20"
    story.look(room(allowance=1, **THERE), 2.1)
    assert story.nodes == "13"


def test_an_annotation_that_names_another_limit_stops_nothing() -> None:
    """Edited by hand: we write none but that on nodes."""
    body = quota_body("1")
    body["spec"]["limits"]["resources"]["cpu"] = "8"
    mark = '{"original": {"cpu": "64"}, "ceiling": {"cpu": "8"}}'
    body["metadata"] |= {"annotations": {ORIGINAL_ANNOTATION: mark}, "labels": {THROTTLE_LABEL: "default"}}
    story = Story(body)
    (write,) = story.look(room(**THERE)).writes
    assert write.because.reason is LeverReason.USER_LIMIT_IS_LOWER
    quota = story.server.quota()
    assert quota is not None
    assert quota.limits == {"cpu": "64", "nodes": "1"}, "it has its own value back"


def test_deleted_quota_is_reported_lost_and_made_again() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.look(room(**THERE), 2.0)
    story.server.body = None
    decision = story.look(room(**THERE), 5.0)
    assert decision.state is LeverState.LOST
    assert story.nodes == "16"
    story.server.observed()
    assert story.look(room(**THERE), 6.0).state is LeverState.CONFIRMED


def test_lost_quota_is_reported_even_when_blind_and_not_made_again_then() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.look(room(**THERE), 2.0)
    story.server.body = None
    assert story.look(room(may_move=False, **THERE), 5.0).state is LeverState.LOST
    assert story.nodes is None


def test_a_quota_that_the_view_does_not_show_yet_was_deleted_by_nobody() -> None:
    """The write is under way, or the watch is behind."""
    story = Story()
    assert story.decide(room(**THERE), 0.0).writes
    assert story.decide(room(**THERE), 2.0).state is LeverState.PENDING
    assert story.decide(room(may_move=False, **THERE), 20.0).state is LeverState.PENDING
    assert story.decide(room(**THERE), 31.0).state is LeverState.UNCONFIRMED


def test_a_quota_that_stands_is_told_and_left_as_it_is_while_blind() -> None:
    story = Story()
    story.look(room(allowance=4, **THERE), 0.0)
    decision = story.look(room(allowance=9, may_move=False, **THERE), 5.0)
    assert (decision.state, decision.because.reason) == (LeverState.PENDING, LeverReason.VIEW_INCOMPLETE)
    assert (decision.ceiling, story.nodes) == ("nodes 16", "16")


def test_a_quota_whose_selector_somebody_fights_for_is_written_once_in_thirty_seconds() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    for second in range(5, 185, 5):
        (story.server.body or {})["spec"]["selector"] = {"matchLabels": {"pool": "other"}}
        assert story.look(room(**THERE), float(second)).because.reason is LeverReason.QUOTA_CHANGED
    assert story.server.writes <= 1 + 180 / 30


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_only_a_quota_that_is_said_to_be_valid_is_confirmed(status: str) -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.server.observed(conditions=[{"type": "Valid", "status": status, "observedGeneration": 1}])
    assert story.look(room(**THERE), 1.0).state is not LeverState.CONFIRMED


def test_quota_stays_while_nobody_can_say_that_nothing_waits() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.look(room(waiting=0, **THERE), 1.0)
    story.look(room(waiting=0, may_move=False, **THERE), 2.0)
    story.look(room(waiting=0, may_move=False, **THERE), 60.0)
    assert story.nodes is not None
    story.look(room(waiting=0, **THERE), 61.0)
    story.look(room(waiting=0, **THERE), 100.0)
    assert story.nodes is None


def test_kind_that_is_not_served_is_refused() -> None:
    story = Story()
    story.api_version = None
    decision = story.look(room(**THERE))
    assert (decision.state, decision.because.reason) == (LeverState.REFUSED, LeverReason.QUOTA_NOT_SERVED)
    assert story.server.writes == 0


def test_relabelled_quota_of_ours_gets_its_selector_back() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    (story.server.body or {})["spec"]["selector"] = {"matchLabels": {"pool": "other"}}
    decision = story.look(room(**THERE), 40.0)
    assert decision.state is LeverState.UNCONFIRMED
    assert decision.because.reason is LeverReason.QUOTA_CHANGED
    quota = story.server.quota()
    assert quota is not None
    assert quota.spec.selector == SELECTOR


def test_our_quota_is_deleted_when_nothing_waits_any_more() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.look(room(waiting=0, **THERE), 10.0)
    assert story.nodes == "16"
    decision = story.look(room(waiting=0, **THERE), 40.0)
    assert story.server.body is None
    assert decision.state is LeverState.HANDED_BACK
    assert story.look(room(waiting=0, **THERE), 50.0).state is LeverState.HANDED_BACK


def test_our_quota_in_which_its_user_limits_something_else_stays_with_that() -> None:
    story = Story()
    story.look(room(allowance=8, **THERE))
    story.server.merge({"metadata": {}, "spec": {"limits": {"resources": {"cpu": "500"}}}}, "kubectl-edit")
    story.look(room(is_stopping=True), 5.0)
    quota = story.server.quota()
    assert quota is not None
    assert quota.spec.limits.resources == {"cpu": "500"}
    assert not quota.metadata.annotations


def test_no_quota_is_made_while_nothing_waits() -> None:
    story = Story()
    story.look(room(waiting=0, **THERE))
    assert story.server.writes == 0


@pytest.mark.parametrize("nodes", [50, "50"])
def test_quota_of_the_user_keeps_its_selector_and_gets_its_value_back(nodes: Any) -> None:
    story = Story(quota_body(nodes))
    before = story.server.essence()
    story.look(room(allowance=8, **THERE), 0.0)
    assert story.nodes == "20"
    story.look(room(is_stopping=True), 1.0)
    assert story.nodes == nodes
    assert story.server.essence() == before


def test_quota_of_the_user_that_is_lower_is_left_alone() -> None:
    story = Story(quota_body(5))
    decision = story.look(room(**THERE))
    assert story.server.writes == 0
    assert decision.because.reason is LeverReason.USER_LIMIT_IS_LOWER
    assert "limit 5 is lower" in decision.because.sentence


def test_a_lower_quota_that_its_user_deletes_is_no_loss_of_ours() -> None:
    story = Story(quota_body(5))
    story.look(room(**THERE), 0.0)
    story.server.body = None
    decision = story.look(room(**THERE), 10.0)
    assert (decision.state, story.nodes) == (LeverState.PENDING, "16")


def test_quota_of_the_user_that_becomes_the_lower_one_gets_its_value_where_ours_stood() -> None:
    story = Story(quota_body(15))
    assert story.look(room(allowance=1, **THERE), 0.0).ceiling == "nodes 13"
    story.server.observed()
    decision = story.look(room(allowance=8, **THERE), 10.0)
    assert (str(story.nodes), decision.ceiling) == ("15", "nodes 15")
    story.server.observed()
    again = story.look(room(allowance=8, **THERE), 20.0)
    assert "limit 15 is lower" in again.because.sentence


def test_quota_of_the_user_that_he_turns_to_other_nodes_gets_its_value_back() -> None:
    story = Story(quota_body(50))
    story.look(room(allowance=8, **THERE), 0.0)
    (story.server.body or {})["spec"]["selector"] = {"matchLabels": {"pool": "cpu"}}
    decision = story.look(room(allowance=8, **THERE), 10.0)
    assert (decision.state, decision.because.reason) == (LeverState.REFUSED, LeverReason.QUOTA_SELECTOR_DIFFERS)
    assert story.nodes == 50


def test_quota_of_the_user_without_a_selector_is_that_of_a_throttle_of_every_node() -> None:
    body = quota_body(50)
    del body["spec"]["selector"]
    for selector, state in ((LabelSelector(), LeverState.PENDING), (SELECTOR, LeverState.REFUSED)):
        server = OwnedObject(body)
        seen = QuotaView(name="ours", selector=selector, api_version=API_VERSION, quota=server.quota())
        assert decide_capacity_quota(seen, room(**THERE), HOLDER, QuotaMemory(), 0.0)[0].state is state


def test_quota_of_the_user_for_other_nodes_is_refused() -> None:
    story = Story(quota_body(50, {"matchLabels": {"pool": "cpu"}}))
    decision = story.look(room(**THERE))
    assert (decision.state, decision.because.reason) == (LeverState.REFUSED, LeverReason.QUOTA_SELECTOR_DIFFERS)
    assert story.server.writes == 0


def test_value_that_somebody_wrote_into_our_quota_stays_theirs() -> None:
    story = Story()
    story.look(room(allowance=8, **THERE), 0.0)
    story.server.merge({"metadata": {}, "spec": {"limits": {"resources": {"nodes": 14}}}}, "kubectl-edit")
    decision = story.look(room(allowance=8, **THERE), 40.0)
    assert decision.state is LeverState.CONTESTED
    assert story.nodes == 14, "never above the user's"
    story.look(room(is_stopping=True), 41.0)
    assert story.nodes == 14, "theirs now, so it is not deleted"
    quota = story.server.quota()
    assert quota is not None
    assert quota.spec.selector == SELECTOR, "without it the quota would count every node"


def test_a_tug_of_war_costs_one_write_in_thirty_seconds() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    for second in range(5, 185, 5):
        story.server.merge({"metadata": {}, "spec": {"limits": {"resources": {"nodes": 100}}}}, "argo")
        assert story.look(room(**THERE), float(second)).state is LeverState.CONTESTED
    assert story.server.writes <= 1 + 180 / 30


def test_ceiling_is_not_below_the_view_before() -> None:
    story = Story()
    story.look(room(allowance=0, existing=10), 0.0)
    story.look(room(allowance=0, existing=8), 10.0)
    assert story.nodes == "10"
    story.look(room(allowance=0, existing=8), 20.0)
    assert story.nodes == "8"


def test_deposed_leader_writes_nothing() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    story.holder = replace(HOLDER, epoch=2)
    assert story.decide(room(allowance=99, **THERE), 10.0).writes == ()


def test_a_quota_that_another_throttle_made_is_taken_over_with_the_selector_and_nobody_has_changed_it() -> None:
    story, levers = OfAThrottle(*crowd("large", 20)), {"capacityQuota": {"name": "ours"}}
    mine, story.throttle = story.throttle, a_throttle("former", nodes={"matchLabels": {"pool": "b"}}, levers=levers)
    story.look(0.0)
    story.throttle, story.memory = mine, QuotaMemory()
    assert story.look(5.0).state is LeverState.CONFIRMED
    stands = story.server.quota()
    assert stands is not None
    assert (stands.spec.selector, stands.metadata.labels[THROTTLE_LABEL]) == (mine.spec.nodes, "mine")
    story.look(10.0, waiting=0)
    story.look(50.0, waiting=0)
    assert story.server.body is None, "it is known to be ours"


def test_guard_deletes_our_quota_from_the_object_alone() -> None:
    story = Story()
    story.look(room(**THERE), 0.0)
    quota = story.server.quota()
    assert quota is not None
    for write in restore(quota):
        story.server.carry_out(write)
    assert story.server.body is None


def test_quota_of_the_user_that_limits_something_else_is_not_deleted() -> None:
    body = quota_body(50)
    body["spec"]["limits"]["resources"] = {"cpu": "640"}
    story = Story(body)
    story.look(room(**THERE), 0.0)
    assert story.nodes == "16"
    story.look(room(is_stopping=True), 1.0)
    stands = story.server.quota()
    assert stands is not None
    assert stands.limits == {"cpu": "640"}


class TestAllOrNothing:
    """32 nodes wait as one atomic request, and the window is 8."""

    def looks(self, story: Story, *seconds: int, booting: int = 0) -> list[str]:
        found = []
        story.whole = 32 - booting
        for second in seconds:
            now = room(allowance=max(0, 8 - booting), waiting=32 - booting, existing=12, booting=booting)
            decision = story.look(now, float(second))
            story.server.observed()
            found.append(f"{story.nodes} {decision.because.code}")
        return found

    def test_an_atomic_request_takes_its_whole_size_at_once(self) -> None:
        story = Story()
        assert self.looks(story, 0, 10, 20, 29)[-1] == "20 Pacing"
        assert self.looks(story, 31)[-1] == "44 RoomForAll"
        assert self.looks(story, 41, booting=32)[-1].startswith("44 "), "all are asked for, and no more"

    def test_room_that_is_used_stays_the_window(self) -> None:
        story = Story()
        story.whole = 32
        for second in range(0, 300, 10):
            now = room(allowance=8, waiting=32, existing=12 + second // 10)
            story.look(now, float(second))
            story.server.observed()
            assert story.nodes == str(12 + second // 10 + 8)

    def test_it_closes_again_when_all_was_in_vain(self) -> None:
        story = Story()
        self.looks(story, *range(0, 90, 10))
        assert self.looks(story, 95)[-1] == "20 Pacing"
        assert {each.split()[0] for each in self.looks(story, *range(100, 600, 10))} == {"20"}

    def test_it_is_open_for_a_minute_from_half_a_minute_on(self) -> None:
        story = Story()
        assert self.looks(story, *range(0, 30, 10)) == [
            "20 Pacing" if second else "20 NotTakenUpYet" for second in (0, 1, 1)
        ]
        assert [each.split()[0] for each in self.looks(story, 30, 89, 90)] == ["44", "44", "20"]

    def test_a_demand_that_fits_the_window_needs_no_more(self) -> None:
        story = Story()
        story.whole = 8
        for second in range(0, 60, 10):
            decision = story.look(room(allowance=8, waiting=32, existing=12), float(second))
            story.server.observed()
        assert decision.because.reason is LeverReason.PACING

    @pytest.mark.parametrize(
        "idle",
        [
            {"allowance": 0, "waiting": 32},
            {"allowance": 8, "waiting": 0},
            {"allowance": 8, "waiting": 32, "may_move": False},
        ],
        ids=["no room", "nobody waits", "nobody sees"],
    )
    def test_only_time_in_which_room_is_not_used_counts(self, idle: dict[str, Any]) -> None:
        story = Story()
        self.looks(story, 0)
        for second in (5, 15, 25):
            story.whole = 32
            story.look(room(existing=12, **idle), float(second))
            story.server.observed()
        found = [each.split()[0] for each in self.looks(story, 35, 45, 60, 64, 65)]
        assert found == ["20", "20", "20", "20", "44"]

    def test_a_place_that_is_not_used_is_opened_as_well(self) -> None:
        story = Story()
        story.whole = 5
        for second in (0, 10, 20, 30):
            story.look(room(allowance=1, waiting=5, existing=12), float(second))
            story.server.observed()
        assert story.nodes == "17"

    def test_a_quota_that_nobody_reads_is_not_opened(self) -> None:
        story = Story()
        story.whole = 32
        for second in range(0, 300, 10):
            story.look(room(allowance=8, waiting=32, existing=12), float(second))
            assert story.nodes == "20"


def test_a_quota_is_of_the_throttle_that_names_it() -> None:
    throttles = [a_throttle(name, levers={"capacityQuota": {"name": f"quota-{name}"}}) for name in ("old", "young")]
    throttles.insert(0, a_throttle("another"))
    owners = {name: CapacityQuotas().owner(CapacityQuota(OwnedMetadata(name)), throttles)
              for name in ("quota-old", "quota-young", "users")}  # fmt: skip
    assert owners == {"quota-old": "old", "quota-young": "young", "users": None}


@pytest.mark.parametrize(
    ("versions", "can_act"), [(SERVED, True), ({"NodePool": "karpenter.sh/v1"}, False), ({}, False)]
)
def test_the_lever_acts_wherever_the_kind_is_served_be_there_a_quota_or_not(
    versions: dict[str, str], *, can_act: bool
) -> None:
    assert CapacityQuotas().can_act(LeverScene(moment=ANY_TIME, versions=versions)) is can_act


class OfAThrottle:
    """The lever as a throttle uses it, with cluster-autoscaler at hand: every write is carried out and taken up."""

    def __init__(self, *pods: Pod, body: dict[str, Any] | None = None, **spec: Any) -> None:
        nodes, levers = {"matchLabels": {"pool": "a"}}, {"capacityQuota": {"name": "ours"}, "schedulingGates": {}}
        self.throttle = a_throttle("mine", nodes=nodes, levers=levers, **spec)
        self.pods, self.server, self.memory = pods, OwnedObject(body), CapacityQuotas().fresh()
        self.others: tuple[CapacityQuota, ...] = ()
        self.nodes: tuple[Node, ...] = ()

    def look(self, now_s: float, *, waiting: int = 40, in_flight: int = 0, **more: Any) -> LeverDecision:
        stands = self.server.quota()
        scene = LeverScene(
            moment=Clocks(now_s, now_s),
            epoch=3,
            nodes={node.name: node for node in self.nodes},
            unplaced=self.pods,
            limited=(*self.others, *([stands] if stands else [])),
            versions=SERVED,
        )
        context = LeverContext(
            throttle=self.throttle,
            rules=JoinRules.of(self.throttle, "gate"),
            scene=scene,
            room=room(allowance=8, waiting=waiting, existing=12),
            joins=Joins(joining=in_flight),
            machines=MACHINES,
            **more,
        )
        (decision,), self.memory = CapacityQuotas().decide(context, self.memory)
        for write in decision.writes:
            self.server.carry_out(write)
        if self.server.body:
            self.server.observed()
        return decision

    def opened(self, **more: Any) -> str:
        """The ceiling when the room of the window was in vain for half a minute."""
        for second in range(0, 30, 5):
            assert self.look(float(second), **more).ceiling == "nodes 20"
        return self.look(30.0, **more).ceiling


def test_nodes_of_an_older_throttle_exist_for_the_quota_as_well_and_virtual_kubelets_do_not() -> None:
    story, older = OfAThrottle(*crowd("large", 20)), a_throttle("older", nodes={"matchLabels": {"zone": "z"}})
    story.nodes = (*(a_node(f"z{n}", labels={"zone": "z"}) for n in range(3)), *(a_node(f"n{n}") for n in range(11)))
    story.nodes += (a_node("v", labels={"type": "virtual-kubelet"}), a_node("b", labels={"pool": "b", "zone": "z"}))
    assert story.look(0.0).ceiling == "nodes 19", "of the 12 that there are by the throttle's count, one is virtual"
    assert story.look(5.0, older=(older,)).ceiling == "nodes 22", "it selects three of theirs"


def crowd(owner: str, count: int, **how: Any) -> list[Pod]:
    """Pods of one owner; each takes a node."""
    return [pending(f"{owner}-{number}", owner=owner, **how) for number in range(count)]


GATED = {"is_gated": True, "gates": ("gate",), "is_tried": False}


@pytest.mark.parametrize(
    ("given", "ceiling"),
    [
        ({}, "nodes 32"),
        ({"waiting": 15}, "nodes 27"),
        ({"in_flight": 5}, "nodes 32"),
    ],
)
def test_room_is_opened_for_the_largest_demand_of_one_owner_and_for_no_more_than_waits(
    given: dict[str, int], ceiling: str
) -> None:
    """Twenty nodes of one, ten of the other; what our own gate holds back orders nothing."""
    pods = [*crowd("small", 10), *crowd("large", 20), *crowd("large", 5, **GATED), *crowd("held", 30, **GATED)]
    assert OfAThrottle(*pods).opened(**given) == ceiling


@pytest.mark.parametrize(
    ("in_flight", "ceiling"), [(0, "nodes 32"), (5, "nodes 32"), (6, "nodes 31"), (20, "nodes 20"), (99, "nodes 20")]
)
def test_room_that_is_opened_keeps_within_what_may_be_in_flight(in_flight: int, ceiling: str) -> None:
    story = OfAThrottle(*crowd("large", 20), maxInFlight=25)
    assert story.opened(in_flight=in_flight) == ceiling


def test_halves_of_nodes_are_opened_as_whole_ones() -> None:
    """Nineteen pods of which two share a node need nine and a half."""
    assert OfAThrottle(*crowd("large", 19, cpu="4")).opened() == "nodes 22"


def test_a_quota_of_another_name_is_none_of_the_throttles() -> None:
    story = OfAThrottle(*crowd("large", 20))
    story.others = (CapacityQuota(OwnedMetadata("another", resource_version="7", uid="u7")),)
    (write,) = story.look(0.0).writes
    assert (write.key.name, write.api_version) == ("ours", API_VERSION)
    assert write.body["metadata"].get("uid") is None, "it makes one"  # type: ignore[call-overload]
    assert story.look(5.0).state is LeverState.CONFIRMED


def test_a_quota_that_an_older_throttle_names_is_left_to_it() -> None:
    older = a_throttle("first", levers={"capacityQuota": {"name": "ours"}})
    story = OfAThrottle(*crowd("large", 20), body=quota_body(50, {"matchLabels": {"pool": "a"}}))
    assert story.look(0.0).ceiling == "nodes 20"
    decision = story.look(5.0, older=(older,))
    assert (decision.state, decision.because.reason) == (LeverState.REFUSED, LeverReason.OTHER_THROTTLE)
    assert "first" in decision.because.sentence
    assert (decision.writes, story.memory) == ((), QuotaMemory())
