"""Karpenter's ceiling: how much it lets in, when it is written, trusted, contested and handed back."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import START, claim, claims, pool_body, room
from throttler.joins.demand import Crowd
from throttler.kube.karpenter import NodeClaim
from throttler.kube.pod import Scheduling
from throttler.kube.quantities_and_durations import Resources
from throttler.levers.lever_and_reasons import (
    EPOCH_ANNOTATION,
    HOLDER_ANNOTATION,
    THROTTLE_LABEL,
    Holder,
    LeverBudget,
    LeverDecision,
    LeverReason,
    LeverState,
)
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork

HOLDER = Holder(throttle="default", lease="kube-balloons/kube-balloons", epoch=3)


class Story:
    """One NodePool on a fake server, looked at again and again; every write is carried out."""

    def __init__(self, limits: dict[str, Any] | None = None, **spec: Any) -> None:
        self.server = OwnedObject(pool_body(limits, **spec))
        self.memory = NodePoolMemory()
        self.holder = HOLDER

    def look(
        self,
        room: LeverBudget,
        claims: tuple[NodeClaim, ...] = (),
        now_s: float = 0.0,
        *,
        hint: Resources | None = None,
        is_lost: bool = False,
    ) -> LeverDecision:
        seen = NodePoolView(pool=self.server.pool(), claims=claims)
        crowds = (Crowd(Scheduling(), hint, room.waiting),) if hint else ()
        waiting = WaitingWork(crowds=crowds)
        decisions, self.memory = decide_node_pools([seen], room, waiting, self.holder, self.memory, now_s)
        for write in () if is_lost else decisions[0].writes:
            self.server.carry_out(write)
        return decisions[0]

    @property
    def limits(self) -> dict[str, Any] | None:
        return self.server.pool().spec.limits

    def edit(self, limits: dict[str, Any] | None) -> None:
        self.server.merge({"metadata": {}, "spec": {"limits": limits}}, "kubectl-edit")


def test_ceiling_is_usage_plus_the_allowance_of_the_largest_machine() -> None:
    story = Story()
    story.look(room(allowance=4), claims(3))
    assert story.limits == {"cpu": "56", "memory": "240Gi"}, "3 + 4 machines, and half a machine of memory to spare"


def test_a_ceiling_of_nothing_is_raised_again_after_a_write_that_met_a_conflict() -> None:
    """An empty pool whose pods another one serves. Karpenter writes its status too, so a third of our writes fail."""
    story = Story()
    story.look(room(allowance=4), claims(3))
    for now_s in (60.0, 62.0):
        story.look(room(allowance=0), (), now_s)
    assert story.limits == {"cpu": "0", "memory": "0"}
    story.look(room(allowance=4), (), 70.0, is_lost=True)
    story.look(room(allowance=4), (), 72.0)
    assert (story.limits or {})["cpu"] == "32"


def test_machines_on_their_way_count_before_they_register() -> None:
    story = Story()
    story.look(room(allowance=2), (*claims(2, 3), *claims(3, 1), claim("new", 0)))
    assert (story.limits or {})["cpu"] == "64", "2 registered, 3 launched, 1 ordered, 2 allowed"


def test_no_allowance_leaves_what_exists() -> None:
    story = Story()
    story.look(room(allowance=0), claims(3))
    assert story.limits == {"cpu": "24", "memory": "96Gi"}


def test_accelerators_are_limited_where_machines_have_them() -> None:
    story = Story()
    gpus = {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": "8", "example.com/nic": "4"}
    story.look(room(allowance=2), claims(1, capacity=gpus))
    limits = story.limits or {}
    assert (limits["cpu"], limits["nvidia.com/gpu"]) == ("576", "24")
    assert "example.com/nic" not in limits


def test_real_size_is_read_from_the_provider_label_where_capacity_is_an_estimate() -> None:
    story = Story()
    label = {"karpenter.k8s.aws/instance-cpu": "8"}
    story.look(room(allowance=1), claims(1, 1, capacity={"cpu": "7"}, labels=label))
    assert story.limits == {"cpu": "15"}, "it counts as Karpenter counts it, and the next may be a whole one"


def test_usage_that_karpenter_reports_is_a_floor_too() -> None:
    story = Story()
    body = story.server.body or {}
    body["status"] = {"resources": {"cpu": "80", "memory": "320Gi", "nodes": "10"}}
    story.look(room(allowance=1), claims(3))
    assert (story.limits or {})["cpu"] == "80", "those that nobody has heard of take up the allowance"
    story.look(room(allowance=1), claims(3), 31.0)
    assert (story.limits or {})["cpu"] == "88", "by now everybody would have"


def test_user_limit_is_never_exceeded() -> None:
    story = Story({"cpu": "40"})
    story.look(room(allowance=100), claims(3))
    assert (story.limits or {})["cpu"] == "40"
    decision = story.look(room(allowance=1), claims(3), 10.0)
    assert (story.limits or {})["cpu"] == "32"
    assert decision.original == "cpu 40, memory none"


def test_user_limit_below_what_exists_stays_and_the_lever_steps_aside() -> None:
    story = Story({"cpu": "8", "memory": "1Gi"})
    decision = story.look(room(), claims(3))
    assert story.server.writes == 0
    assert decision.state is LeverState.HANDED_BACK
    assert decision.because.reason is LeverReason.USER_LIMIT_IS_LOWER
    assert decision.because.detail["limit"] == "8"
    quiet = story.look(room(waiting=0), claims(3), 1.0)
    assert quiet.because.reason is LeverReason.NOTHING_WAITS, "nothing of ours has to outlast a pause"


def test_object_says_whose_throttle_and_lease_keep_it_in_force() -> None:
    story = Story()
    story.look(room(), claims(1))
    metadata = story.server.pool().metadata
    assert metadata.labels[THROTTLE_LABEL] == "default"
    assert metadata.annotations[HOLDER_ANNOTATION] == "kube-balloons/kube-balloons"
    assert metadata.annotations[EPOCH_ANNOTATION] == "3"


def test_same_view_twice_is_one_write() -> None:
    story = Story()
    for now_s in (0.0, 10.0, 20.0):
        story.look(room(), claims(3), now_s)
    assert story.server.writes == 1


def test_a_machine_that_turns_out_larger_than_estimated_costs_no_write() -> None:
    story = Story()
    label = {"karpenter.k8s.aws/instance-cpu": "8"}
    story.look(room(allowance=1), (*claims(2), claim("new", 2, capacity={"cpu": "7"}, labels=label)))
    assert (story.limits or {})["cpu"] == "32"
    story.look(room(allowance=1), (*claims(2), claim("new", 1, capacity={"cpu": "7"}, labels=label)), 1.0)
    story.look(room(allowance=1), (*claims(2), claim("new", 1, capacity={"cpu": "7"}, labels=label)), 2.0)
    assert story.server.writes == 1, "31 admits as many machines as 32 does"


def test_more_room_is_given_at_every_other_second_of_a_ramp() -> None:
    """40 machines in 20 s, looked at four times a second, while the cluster writes the same object."""
    story = Story()
    for quarter in range(80):
        decision = story.look(room(allowance=4), claims(1 + quarter // 2), quarter / 4)
        assert decision.ceiling == f"cpu {(story.limits or {})['cpu']}, memory {(story.limits or {})['memory']}"
    assert story.server.writes <= 11
    assert (story.limits or {})["cpu"] == "328", "as was right at the last raise: 37 machines and 4 more"


def test_a_raise_that_met_a_conflict_is_no_reason_to_hurry() -> None:
    story = Story()
    story.look(room(allowance=1), claims(3))
    version = story.server.writes
    pool, memory = story.server.pool(), story.memory
    decisions, memory = decide_node_pools(
        [NodePoolView(pool=pool, claims=claims(3))], room(9), WaitingWork(), HOLDER, memory, 5.0
    )
    assert decisions[0].writes, "it is lost: somebody was faster"
    story.memory = memory
    story.look(room(allowance=9), claims(3), 6.0)
    assert story.server.writes == version
    story.look(room(allowance=9), claims(3), 7.0)
    assert story.server.writes == version + 1


def test_less_room_and_room_for_what_exists_do_not_wait() -> None:
    story = Story()
    story.look(room(allowance=4), claims(3))
    story.look(room(allowance=1), claims(3), 0.1)
    assert (story.limits or {})["cpu"] == "32"
    story.look(room(allowance=0), claims(6), 0.2)
    assert (story.limits or {})["cpu"] == "48", "a ceiling below the usage would block replacements too"
    story.look(room(is_stopping=True), claims(6), 0.3)
    assert not story.limits


def test_nothing_is_raised_or_lowered_without_a_complete_view() -> None:
    story = Story()
    story.look(room(allowance=4), claims(3))
    decision = story.look(room(allowance=50, may_move=False), claims(1), 10.0)
    assert story.server.writes == 1
    assert decision.because.reason is LeverReason.VIEW_INCOMPLETE


def test_ceiling_is_not_below_the_usage_of_the_look_before() -> None:
    story = Story()
    story.look(room(allowance=0), claims(3))
    story.look(room(allowance=0), claims(2), 10.0)
    assert (story.limits or {})["cpu"] == "24"
    story.look(room(allowance=0), claims(2), 20.0)
    assert (story.limits or {})["cpu"] == "16"


class TestHandingBack:
    def test_nothing_is_touched_while_nothing_waits(self) -> None:
        story = Story({"cpu": "400"})
        decision = story.look(room(waiting=0), claims(3))
        assert story.server.writes == 0
        assert decision.state is LeverState.HANDED_BACK

    def test_ceiling_stays_through_a_short_pause_of_demand(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.look(room(waiting=0), claims(3), 10.0)
        story.look(room(waiting=0), claims(3), 35.0)
        assert (story.limits or {})["cpu"] == "56"
        story.look(room(), claims(3), 38.0)
        story.look(room(waiting=0), claims(3), 45.0)
        assert (story.limits or {})["cpu"] == "56"

    def test_ceiling_is_given_back_when_nothing_waits_any_more(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.look(room(waiting=0), claims(3), 10.0)
        decision = story.look(room(waiting=0), claims(3), 40.0)
        assert story.limits == {"cpu": "400"}
        assert decision.state is LeverState.HANDED_BACK
        assert decision.because.reason is LeverReason.NOTHING_WAITS
        writes = story.server.writes
        story.look(room(waiting=0), claims(3), 50.0)
        assert story.server.writes == writes

    def test_a_view_that_is_lost_is_no_quiet_time(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.look(room(waiting=0), claims(3), 10.0)
        for now_s in (11.0, 600.0):
            story.look(room(waiting=0, may_move=False), (), now_s)
        story.look(room(waiting=0), claims(3), 601.0)
        assert (story.limits or {})["cpu"] != "400", "the quiet time begins anew"
        story.look(room(waiting=0), claims(3), 631.0)
        assert story.limits == {"cpu": "400"}

    def test_ceiling_is_given_back_at_once_when_stopping_even_when_blind(self) -> None:
        story = Story()
        story.look(room(), claims(3), 0.0)
        story.look(room(is_stopping=True, may_move=False), (), 1.0)
        assert story.limits is None

    def test_ceiling_of_a_predecessor_is_given_back_after_a_restart(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.memory = NodePoolMemory()
        for now_s in (5.0, 40.0):
            story.look(room(waiting=0), claims(3), now_s)
        assert story.limits == {"cpu": "400"}

    def test_memory_is_nothing_but_comfort(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(allowance=4), claims(3), 0.0)
        story.memory = NodePoolMemory()
        story.look(room(allowance=2), claims(3), 10.0)
        decision = story.look(room(allowance=2), claims(3), 20.0)
        assert (story.limits or {})["cpu"] == "40"
        assert decision.original == "cpu 400, memory none"


class TestContest:
    def test_value_of_somebody_else_becomes_the_original(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.edit({"cpu": "40"})
        decision = story.look(room(allowance=50), claims(3), 40.0)
        assert (story.limits or {})["cpu"] == "40", "never above the user's new limit"
        assert decision.state is LeverState.CONTESTED
        story.look(room(is_stopping=True), claims(3), 41.0)
        assert (story.limits or {}) == {"cpu": "40"}

    def test_a_tug_of_war_costs_one_write_in_thirty_seconds(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        for second in range(5, 185, 5):
            story.edit({"cpu": "400"})
            decision = story.look(room(), claims(3), float(second))
            assert decision.state is LeverState.CONTESTED
        assert story.server.writes <= 1 + 180 / 30

    def test_contest_ends_when_the_other_gives_in(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.edit({"cpu": "300"})
        story.look(room(), claims(3), 31.0)
        story.server.observed()
        decision = story.look(room(), claims(3), 31.0 + 91.0)
        assert decision.state is LeverState.CONFIRMED

    def test_limit_removed_by_the_user_is_no_limit_afterwards(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.edit({"cpu": None})
        story.look(room(), claims(3), 40.0)
        story.look(room(is_stopping=True), claims(3), 41.0)
        assert "cpu" not in (story.limits or {})

    def test_lost_annotation_is_put_back_while_our_value_stands(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.server.merge({"metadata": {"annotations": {"kube-balloons.github.io/original": None}}}, "somebody")
        story.look(room(), claims(3), 10.0)
        story.look(room(is_stopping=True), claims(3), 11.0)
        assert story.limits == {"cpu": "400"}

    def test_a_pool_that_its_user_replaced_as_a_whole_is_the_users_again(self) -> None:
        story = Story({"cpu": "400"})
        story.look(room(), claims(3), 0.0)
        story.server.merge({"metadata": {"annotations": {"kube-balloons.github.io/original": None}}}, "kubectl-replace")
        story.edit({"cpu": "300", "memory": None})
        decision = story.look(room(), claims(3), 40.0)
        assert decision.original == "cpu 300, memory none"
        assert decision.state is not LeverState.CONTESTED, "nothing of ours stood there any more"
        story.look(room(is_stopping=True), claims(3), 41.0)
        assert story.limits == {"cpu": "300"}


class TestTrust:
    def test_ceiling_counts_once_karpenter_has_looked_at_it(self) -> None:
        story = Story()
        assert story.look(room(), claims(3), 0.0).state is LeverState.PENDING
        assert story.look(room(), claims(3), 1.0).state is LeverState.PENDING
        story.server.observed()
        decision = story.look(room(), claims(3), 2.0)
        assert decision.state is LeverState.CONFIRMED
        assert decision.because.reason is LeverReason.PACING

    def test_ceiling_that_nobody_takes_up_is_reported(self) -> None:
        story = Story()
        story.look(room(), claims(3), 0.0)
        decision = story.look(room(), claims(3), 31.0)
        assert decision.state is LeverState.UNCONFIRMED
        assert decision.because.reason is LeverReason.LEVER_UNCONFIRMED

    def test_machines_beyond_the_ceiling_are_reported(self) -> None:
        story = Story()
        story.look(room(allowance=1), claims(3), 0.0)
        story.server.observed()
        story.look(room(allowance=1), claims(4), 10.0)
        story.server.observed()
        decision = story.look(room(allowance=1), claims(9), 20.0)
        assert decision.because.reason is LeverReason.OVERRUN
        assert decision.state is LeverState.UNCONFIRMED

    def test_machines_beyond_a_limit_of_the_users_are_no_overrun(self) -> None:
        """They were there before us, and the user's limit bounds what comes."""
        story = Story({"cpu": "16", "memory": "1Ti"})
        for now_s in (0.0, 10.0, 20.0):
            decision = story.look(room(allowance=1), claims(9), now_s)
            story.server.observed()
        assert decision.because.reason is not LeverReason.OVERRUN

    def test_a_limit_of_the_users_where_ours_stood_is_told_and_confirmed(self) -> None:
        story = Story({"cpu": "40"})
        for now_s, there in ((0.0, 3), (10.0, 4), (20.0, 9)):
            decision = story.look(room(allowance=1), claims(there, capacity={"cpu": "8"}), now_s)
            story.server.observed()
            assert (story.limits or {})["cpu"] == ("32" if there == 3 else "40")
        assert (decision.state, decision.because.reason) == (LeverState.CONFIRMED, LeverReason.USER_LIMIT_IS_LOWER)
        assert decision.because.detail["limit"] == "40"

    @pytest.mark.parametrize(
        ("count", "drifted", "is_overrun"), [(6, 0, False), (7, 0, True), (6, 1, False), (7, 1, True)]
    )
    def test_one_machine_beyond_the_last_two_ceilings_and_each_replacement_is_no_overrun(
        self, count: int, drifted: int, *, is_overrun: bool
    ) -> None:
        story = Story()
        for now_s, there in ((0.0, 3), (10.0, 4)):
            story.look(room(allowance=1), claims(there), now_s)
            story.server.observed()
        machines = (*claims(count), *claims(drifted, 2, is_drifted=True))
        decision = story.look(room(allowance=1), machines, 20.0)
        assert (decision.because.reason is LeverReason.OVERRUN) is is_overrun

    def test_growth_within_the_ceiling_is_not_reported(self) -> None:
        story = Story()
        for second, count in enumerate((3, 5, 7, 9, 11)):
            story.server.observed()
            decision = story.look(room(allowance=2), claims(count), float(second * 10))
        assert decision.state is LeverState.CONFIRMED


class TestRefusal:
    def test_static_pool_is_left_to_its_user(self) -> None:
        story = Story({"nodes": "3"}, replicas=3)
        decision = story.look(room(), claims(3))
        assert (decision.state, decision.because.reason) == (LeverState.REFUSED, LeverReason.STATIC_POOL)
        assert story.server.writes == 0

    def test_deposed_leader_writes_nothing(self) -> None:
        story = Story()
        story.look(room(), claims(3))
        story.holder = replace(HOLDER, epoch=2)
        decision = story.look(room(allowance=50), claims(3), 10.0)
        assert decision.because.reason is LeverReason.NEWER_HOLDER
        assert story.server.writes == 1

    def test_ceiling_of_an_installation_elsewhere_that_is_gone_is_taken_over(self) -> None:
        story = Story({"cpu": "900"})
        story.look(room(), claims(3))
        story.holder, story.memory = replace(HOLDER, lease="new/kube-balloons", epoch=1), NodePoolMemory()
        decision = story.look(room(allowance=50), claims(3), 10.0)
        assert (decision.state, decision.original) == (LeverState.CONTESTED, "cpu 900, memory none")
        assert (story.limits or {})["cpu"] == "424"
        assert story.server.pool().metadata.annotations[HOLDER_ANNOTATION] == "new/kube-balloons"
        for now_s in (60.0, 102.0):
            story.server.observed()
            decision = story.look(room(allowance=50), claims(3), now_s)
        assert decision.state is LeverState.CONFIRMED

    def test_two_installations_that_live_do_not_write_at_every_look(self) -> None:
        story = Story()
        others = {lease: (replace(HOLDER, lease=lease), NodePoolMemory()) for lease in ("a/lease", "b/lease")}
        for second in range(0, 300, 2):
            for lease, (holder, memory) in others.items():
                story.holder, story.memory = holder, memory
                decision = story.look(room(allowance=second), claims(3), float(second))
                others[lease] = holder, story.memory
                assert second < 2 or decision.state is LeverState.CONTESTED
        assert story.server.writes <= 22

    def test_limit_out_of_range_is_named_and_left(self) -> None:
        story = Story({"cpu": "1e99"})
        decision = story.look(room(), claims(3))
        assert decision.because.reason is LeverReason.LIMIT_UNREADABLE
        assert story.server.writes == 0

    def test_claim_with_a_poisoned_capacity_spoils_nothing(self) -> None:
        story = Story()
        story.look(room(allowance=1), (*claims(2), claim("bad", capacity={"cpu": "seven", "memory": "1e99"})))
        assert (story.limits or {})["cpu"] == "24"


class TestUnknownSize:
    def test_pool_without_machines_gets_room_by_what_waits(self) -> None:
        story = Story()
        decision = story.look(room(allowance=4), (), hint={"cpu": 7500, "memory": 1})
        assert story.limits == {"cpu": "32"}
        story.server.observed()
        assert story.look(room(allowance=4), (), 1.0, hint={"cpu": 7500}).because.reason is LeverReason.PROBING_SIZE
        assert decision.state is LeverState.PENDING

    def test_a_brake_on_an_empty_pool_does_not_say_that_machines_are_let_in(self) -> None:
        story = Story()
        story.look(room(allowance=0), ())
        story.server.observed()
        decision = story.look(room(allowance=0), (), 1.0)
        assert story.limits == {"cpu": "0"}
        assert decision.because.reason is LeverReason.PACING
        assert (
            decision.because.sentence
            == "at most 0 cores: 0 cores there or asked for, and 0 more nodes may be asked for now"
        )

    def test_room_doubles_while_nothing_starts_and_falls_back_when_something_does(self) -> None:
        story = Story()
        found, told = [], []
        for second in range(0, 60, 10):
            told.append(story.look(room(allowance=2), (), float(second)).because)
            story.server.observed()
            found.append((story.limits or {})["cpu"])
        assert found == ["2", "2", "4", "8", "16", "32"]
        assert [each.reason is LeverReason.NOTHING_STARTS for each in told] == [False] * 2 + [True] * 4
        assert told[-1].detail["waited"] == 50
        story.look(room(allowance=2), claims(1, 1, ordered_s=1), 60.0)
        assert (story.limits or {})["cpu"] == "24", "one machine of 8 cores, and two more of them"

    def test_no_room_is_too_little_where_none_was_given(self) -> None:
        story = Story()
        for second in range(0, 60, 10):
            story.look(room(allowance=0), (), float(second))
            story.server.observed()
        story.look(room(allowance=2), (), 60.0)
        assert (story.limits or {})["cpu"] == "2"

    def test_while_blind_nothing_is_missed(self) -> None:
        story = Story()
        for second in range(0, 60, 10):
            story.look(room(allowance=2, may_move=second >= 20), (), float(second))
            story.server.observed()
        assert (story.limits or {})["cpu"] == "8", "30 s of it were seen"
        story.look(room(allowance=2, may_move=False), (), 60.0)
        story.look(room(allowance=2), (), 70.0)
        assert (story.limits or {})["cpu"] == "2"

    def test_room_that_karpenter_has_not_seen_is_not_too_small(self) -> None:
        story = Story()
        story.look(room(allowance=2), (), 0.0)
        for second in range(1, 300):
            story.look(room(allowance=2), (), float(second))
            assert (story.limits or {})["cpu"] == "2"
        story.server.observed()
        found = []
        for second in range(300, 330, 10):
            story.look(room(allowance=2), (), float(second))
            story.server.observed()
            found.append((story.limits or {})["cpu"])
        assert found == ["2", "2", "4"], "once it is back the search begins"

    def test_karpenter_that_goes_away_is_given_one_doubling_at_most_and_that_is_taken_back(self) -> None:
        story = Story()
        story.look(room(allowance=2), (), 0.0)
        story.server.observed()
        found = []
        for second in range(1, 300):
            story.look(room(allowance=2), (), float(second))
            found.append(int((story.limits or {})["cpu"]))
        assert max(found) == 4
        assert found[-200:] == [2] * 200

    @pytest.mark.parametrize(
        ("hint", "then"),
        [
            ({"cpu": 8000, "pods": 1000}, ["56", "88", "88"]),
            ({"cpu": 8001}, ["88", "152", "280"]),
            ({"cpu": 8000, "memory": 32 * 2**30 * 1000}, ["56", "88", "88"]),
            ({"cpu": 8000, "memory": 33 * 2**30 * 1000}, ["88", "152", "280"]),
        ],
    )
    def test_room_for_a_size_that_the_pool_has_is_doubled_when_an_order_is_long_overdue(
        self, hint: Resources, then: list[str]
    ) -> None:
        """For a larger one sooner, and further."""
        story = Story()
        found = []
        for second in range(0, 50, 10):
            story.look(room(allowance=4), claims(3), float(second), hint=hint)
            story.server.observed()
            found.append((story.limits or {})["cpu"])
        assert found == ["56", "56", *then], "three machines of 8 cores, and four more"

    def test_room_for_what_can_never_start_is_not_kept_open(self) -> None:
        story = Story()
        most = 0
        for second in range(0, 1200, 10):
            story.look(room(allowance=4), claims(3), float(second))
            story.server.observed()
            if 120 <= second < 600:
                assert (story.limits or {})["cpu"] == "56"
            most = max(most, int((story.limits or {})["cpu"]))
        assert most <= 24 + 1024

    def test_largest_machine_is_remembered_when_all_are_gone(self) -> None:
        story = Story()
        story.look(room(allowance=2), claims(1), 0.0)
        for now_s in (10.0, 11.0):
            story.look(room(allowance=2), (), now_s)
        assert (story.limits or {})["cpu"] == "16"


def test_drifted_machines_open_no_room_for_growth() -> None:
    """Karpenter starts a replacement under a ceiling equal to the usage; what is added for it, waiting pods take."""
    story = Story(disruption={"budgets": [{"nodes": "50%"}]})
    machines = (*claims(700), *claims(300, 2, is_drifted=True))
    for second in range(6):
        story.look(room(allowance=0), machines, float(10 * second))
        story.server.observed()
    assert (story.limits or {})["cpu"] == "8000", "1,000 machines of 8 cores, and no more"


@pytest.mark.parametrize("leaves", ["is_deleting", "is_replaced"])
def test_machines_that_leave_open_no_room_for_growth(leaves: str) -> None:
    """Karpenter counts them no more. A look later than it: it marks a machine before it orders the replacement."""
    story = Story()
    story.look(room(allowance=0), claims(5))
    machines = (*claims(4), claim("c3-4", **{leaves: True}))
    for at_s, cores in ((10.0, "40"), (20.0, "32")):
        story.look(room(allowance=0), machines, at_s)
        assert (story.limits or {})["cpu"] == cores
    story.look(room(allowance=0), (*machines, claim("new", 0)), 30.0)
    assert (story.limits or {})["cpu"] == "40", "the successor is one of five"


@pytest.mark.parametrize(("cores", "is_much"), [("64", True), ("16", True), ("15", False), ("unknown", False)])
def test_sizes_that_differ_much_are_said(cores: str, *, is_much: bool) -> None:
    story = Story()
    mixed = (*claims(1), claim("big", capacity={"cpu": cores, "memory": "256Gi"}))
    story.look(room(allowance=2), mixed)
    story.server.observed()
    decision = story.look(room(allowance=2), mixed, 1.0)
    assert (decision.because.reason is LeverReason.PACING_IN_CAPACITY) is is_much
    assert (f"8 to {cores} cores" in decision.because.sentence) is is_much


@pytest.mark.parametrize("state", list(LeverReason))
def test_every_reason_is_a_sentence(state: LeverReason) -> None:
    assert len(state.value) > 30


@pytest.mark.parametrize(
    ("ages_s", "is_late"),
    [
        ([(120.0, False)], False),
        ([(120.1, False)], True),
        ([(500.0, True)], False),
        ([(500.0, False), (400.0, True)], False),
        ([(500.0, False), (500.0, True)], True),
        ([(500.0, False), (600.0, True)], True),
        ([(500.0, False), (10.0, False)], True),
    ],
)
def test_a_pool_is_late_whose_machines_do_not_become_usable_while_none_of_after_them_has(
    ages_s: list[tuple[float, bool]], *, is_late: bool
) -> None:
    """Machines of these ages, and whether they are usable; 40 s is usual, so 120 s is in time."""
    made = tuple(
        claim(str(at), 3 if is_usable else 2, ordered_s=1000.0 - age_s) for at, (age_s, is_usable) in enumerate(ages_s)
    )
    seen = NodePoolView(pool=OwnedObject(pool_body()).pool(), claims=made)
    assert seen.is_late(WaitingWork(wall_s=START.timestamp() + 1000.0, usual_s=40.0)) is is_late
    leaving = tuple(claim(str(at), 2, ordered_s=0.0, is_deleting=True) for at in range(2))
    assert not NodePoolView(pool=seen.pool, claims=leaving).is_late(WaitingWork(wall_s=START.timestamp() + 9e9))


def test_the_newest_machine_tells_when_a_pool_ordered_last() -> None:
    made = tuple(claim(str(at), 1, ordered_s=at) for at in (5.0, 9.0, 7.0))
    pool = OwnedObject(pool_body()).pool()
    assert NodePoolView(pool=pool, claims=made).ordered_s == START.timestamp() + 9.0
    assert NodePoolView(pool=pool).ordered_s == 0.0


def test_machines_on_their_way_are_those_that_are_not_usable_and_do_not_leave() -> None:
    made = (*(claim(f"s{stage}", stage) for stage in range(4)), *(claim(f"d{s}", s, is_deleting=True) for s in (1, 3)))
    assert NodePoolView(pool=OwnedObject(pool_body()).pool(), claims=made).coming.keys() == {"s0", "s1", "s2"}
