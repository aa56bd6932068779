"""Cluster API's ceiling: exact by what is asked for, never above the user's size or below the smallest, given back."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import room
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.cluster_autoscaler import MAX_SIZE, MIN_SIZE, AutoscalerStatus, MachineDeployment, NodeGroup
from throttler.levers.ceiling import RoomSearch
from throttler.levers.lever_and_reasons import (
    TURN_S,
    Clocks,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverScene,
    LeverState,
    LeverWrite,
)
from throttler.levers.machine_deployments import MACHINE_DEPLOYMENTS, MachineDeploymentMemory
from throttler.levers.saved_limits import restore

WALL_S = 1_700_000_000.0


def body(name: str = "a", size: str | None = "50", replicas: int = 4, **annotations: str) -> dict[str, Any]:
    own = {"example.com/owner": "team", **annotations, **({} if size is None else {MAX_SIZE: size})}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": name, "namespace": "capi", "annotations": own},
        "spec": {"replicas": replicas, "template": {}},
        "status": {"readyReplicas": replicas},
    }


class Story:
    """MachineDeployments on fake servers, looked at again and again; every write is carried out."""

    def __init__(self, *bodies: dict[str, Any], manager: str = "kubectl", operation: str = "Update") -> None:
        self.servers = {each["metadata"]["name"]: OwnedObject(each, manager=manager, operation=operation)
                        for each in bodies}  # fmt: skip
        self.names = list(self.servers)
        self.memory = MachineDeploymentMemory()
        self.status: AutoscalerStatus | None = AutoscalerStatus()
        self.writes: tuple[LeverWrite, ...] = ()
        self.older: tuple[Any, ...] = ()

    def things(self) -> tuple[MachineDeployment, ...]:
        return tuple(msgspec.convert(each.body, MachineDeployment) for each in self.servers.values())

    def context(self, given: LeverBudget, now_s: float) -> LeverContext:
        throttle = a_throttle(levers={"machineDeployments": {"namespace": "capi", "names": self.names}})
        scene = LeverScene(moment=Clocks(now_s, WALL_S + now_s), epoch=3, limited=self.things(), autoscaler=self.status)
        joins = Joins(booting=given.booting, booting_by_groups=given.booting)
        rules = JoinRules.of(throttle, "gate")
        return LeverContext(
            throttle=throttle, rules=rules, scene=scene, room=given, joins=joins, machines=(), older=self.older
        )

    def look(self, given: LeverBudget, now_s: float = 0.0) -> dict[str, LeverDecision]:
        decisions, self.memory = MACHINE_DEPLOYMENTS.decide(self.context(given, now_s), self.memory)
        self.writes = tuple(write for decision in decisions for write in decision.writes)
        self.carry_out(*self.writes)
        return {decision.name.rpartition("/")[2]: decision for decision in decisions}

    def carry_out(self, *writes: LeverWrite) -> None:
        """As the writer does: what a first call answered is the version that the next one names."""
        for write in writes:
            server = self.servers[write.key.name]
            assert server.body is not None
            assert isinstance(write.body, dict)
            metadata = {**write.body["metadata"], "resourceVersion": server.body["metadata"]["resourceVersion"]}
            server.carry_out(replace(write, body={**write.body, "metadata": metadata}))

    def autoscaler_looks(self, now_s: float, orders: int = 0) -> None:
        """It reads every size, orders as many machines as it may up to so many, and writes its status."""
        groups = []
        for server in self.servers.values():
            assert server.body is not None
            most, spec = int(server.body["metadata"]["annotations"][MAX_SIZE]), server.body["spec"]
            spec["replicas"] += (taken := max(0, min(orders, most - spec["replicas"])))
            orders -= taken
            name = f"MachineDeployment/capi/{server.body['metadata']['name']}"
            groups.append(NodeGroup(name, target=spec["replicas"], registered=0, max_size=most))
        self.status = AutoscalerStatus(tuple(groups), WALL_S + now_s)

    def size(self, name: str = "a") -> str | None:
        found = self.servers[name].body
        assert found is not None
        size: str | None = found["metadata"]["annotations"].get(MAX_SIZE)
        return size


def test_the_size_is_what_is_asked_for_and_the_allowance() -> None:
    story = Story(body(replicas=4))
    story.look(room(allowance=3))
    assert story.size() == "7"
    empty = Story(body(replicas=0))
    empty.look(room(allowance=1))
    assert empty.size() == "1"


def test_what_was_ordered_after_the_autoscaler_counted_is_taken_off_the_allowance() -> None:
    story = Story(body(replicas=4))
    story.autoscaler_looks(0.0)
    story.look(room(allowance=3))
    assert story.servers["a"].body is not None
    story.servers["a"].body["spec"]["replicas"] = 6
    story.look(room(allowance=3), 3.0)
    assert story.size() == "7", "its status still counts 4, so the allowance does not know of two"
    story.autoscaler_looks(10.0)
    story.look(room(allowance=3, booting=2), 10.0)
    assert story.size() == "9"


def test_what_is_in_flight_never_passes_the_window() -> None:
    story, window = Story(body(replicas=0)), 5
    for second in range(60):
        counted = sum(group.target for group in story.status.groups) if story.status else 0
        story.look(room(allowance=max(0, window - counted), booting=counted), float(second))
        if second % 10 == 9:
            story.autoscaler_looks(float(second), orders=30)
    assert story.things()[0].spec.replicas == window


def test_machines_that_are_gone_leave_no_room_besides_the_allowance() -> None:
    story = Story(body(replicas=4))
    story.look(room(allowance=0), 0.0)
    assert story.servers["a"].body is not None
    story.servers["a"].body["spec"]["replicas"] = 1
    story.look(room(allowance=4), 10.0)
    assert story.size() == "5"


def test_a_size_is_confirmed_once_the_autoscaler_tells_it() -> None:
    story = Story(body())
    assert story.look(room(), 0.0)["a"].state is LeverState.PENDING
    story.autoscaler_looks(1.0)
    decision = story.look(room(), 2.0)["a"]
    assert (decision.state, decision.because.code) == (LeverState.CONFIRMED, "Pacing")
    assert decision.because.sentence.startswith("at most 8 nodes: 4 nodes there or asked for, and 4 more nodes may")
    silent = Story(body())
    silent.look(room(), 0.0)
    assert silent.look(room(), 1.0)["a"].state is LeverState.PENDING
    assert silent.look(room(), 31.0)["a"].state is LeverState.UNCONFIRMED


def test_an_autoscaler_that_wrote_no_status_or_looks_no_more_confirms_nothing() -> None:
    story = Story(body())
    story.look(room(), 0.0)
    story.autoscaler_looks(1.0)
    assert story.look(room(), 121.0)["a"].state is LeverState.CONFIRMED
    assert story.look(room(), 121.1)["a"].state is not LeverState.CONFIRMED
    story = Story(body())
    story.status = None
    assert [story.look(room(), now_s)["a"].state for now_s in (0.0, 31.0)] == [LeverState.PENDING] * 2


@pytest.mark.parametrize("began_s", [0.0, 86_400.0])
def test_a_size_of_late_confirms_too_because_the_autoscaler_looks_every_ten_seconds(began_s: float) -> None:
    story = Story(body())
    story.look(room(allowance=2), began_s)
    story.autoscaler_looks(began_s + 1.0)
    for second in range(2, 60, 2):
        decision = story.look(room(allowance=2 + second), began_s + second)["a"]
        assert decision.state is LeverState.CONFIRMED


@pytest.mark.parametrize(("users", "state"), [("5", LeverState.HANDED_BACK), ("6", LeverState.PENDING)])
def test_never_above_the_users_own_size(users: str, state: LeverState) -> None:
    story = Story(body(size=users, replicas=4))
    assert story.look(room(allowance=1))["a"].state is state
    assert story.size() == "5"


def test_a_lower_size_of_the_users_is_left_alone() -> None:
    story = Story(body(size="5", replicas=4))
    decision = story.look(room(allowance=9))["a"]
    assert (story.size(), story.writes, decision.because.code) == ("5", (), "UserLimitIsLower")
    assert decision.because.detail["limit"] == "5"


def test_never_below_the_smallest_size_which_would_break_the_autoscaler() -> None:
    story = Story(body(replicas=0, **{MIN_SIZE: "3"}))
    story.look(room(allowance=1))
    assert story.size() == "4"


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (None, "NotScaled"),
        ("1k", "LimitUnreadable"),
        ("", "LimitUnreadable"),
        ("-1", "LimitUnreadable"),
        ("\u00b2", "LimitUnreadable"),
        ("1000000000", "LimitUnreadable"),
    ],
)
def test_a_group_that_the_autoscaler_does_not_scale_is_refused(size: str | None, why: str) -> None:
    story = Story(body(size=size))
    decision = story.look(room())["a"]
    assert (decision.state, decision.because.code, story.writes) == (LeverState.REFUSED, why, ())


def test_a_name_under_which_nothing_is_says_so() -> None:
    story = Story(body())
    story.names = ["a", "b"]
    decision = story.look(room())["b"]
    assert (decision.name, decision.state) == ("MachineDeployment/capi/b", LeverState.REFUSED)
    assert decision.because.code == "NoMachineDeployment"
    assert "b" not in story.look(room(may_move=False), 5.0), "it may be there for all that is seen"


def test_a_group_that_no_throttle_names_is_left_alone() -> None:
    story = Story(body("a", size="999999999"), body("b"))
    story.names = ["a"]
    decisions = story.look(room(allowance=2))
    assert ([*decisions], story.size("a"), story.size("b")) == (["a"], "6", "50")


def test_room_for_what_exists_cannot_wait() -> None:
    story = Story(body(replicas=4))
    story.look(room(allowance=0), 0.0)
    stands = story.servers["a"].body
    assert stands is not None
    stands["spec"]["replicas"] = 6
    story.look(room(allowance=0), 0.5)
    assert story.size() == "6", "somebody scaled it by hand, and more room for others could have waited"


def test_a_size_of_none_is_taken_up_when_the_autoscaler_knows_no_such_group() -> None:
    story = Story(body(replicas=0))
    story.look(room(allowance=0), 0.0)
    decision = story.look(room(allowance=0), 2.0)["a"]
    assert (story.size(), decision.state) == ("0", LeverState.CONFIRMED)


def test_a_size_that_stands_is_remembered_once() -> None:
    story = Story(body())
    for second in range(0, 20, 5):
        story.look(room(allowance=2), float(second))
    (memory,) = story.memory.groups.values()
    assert memory.offered == ((0.0, 6),)


@pytest.mark.parametrize("operation", ["Update", "Apply"])
def test_in_the_end_the_object_is_as_before(operation: str) -> None:
    story = Story(body(), manager="flux", operation=operation)
    before = story.servers["a"].essence()
    story.look(room(allowance=2))
    assert story.size() == "6"
    story.look(room(waiting=0), 10.0)
    decision = story.look(room(waiting=0), 41.0)["a"]
    assert (decision.state, story.servers["a"].essence()) == (LeverState.HANDED_BACK, before)
    story.look(room(allowance=3), 50.0)
    assert story.size() == "7", "the next scale-up is bounded like the first"


@pytest.mark.parametrize("done", [0, 1])
def test_the_guard_gives_back_from_what_stands_on_the_object(done: int) -> None:
    story = Story(body(), manager="flux", operation="Apply")
    before = story.servers["a"].essence()
    story.look(room(allowance=2))
    for most in (done, 9):
        story.carry_out(*restore(story.things()[0])[:most])
    assert story.servers["a"].essence() == before
    assert restore(story.things()[0]) == ()


@pytest.mark.parametrize("size", [None, "many"])
def test_a_size_that_its_user_takes_off_is_his_also_when_he_sets_what_we_wrote_last(size: str | None) -> None:
    story = Story(body())
    story.look(room(allowance=2))
    for at_s, wish in ((5.0, size), (10.0, "6")):
        story.servers["a"].merge({"metadata": {"annotations": {MAX_SIZE: wish}}}, "kubectl-edit")
        story.look(room(allowance=2), at_s)
    story.look(room(is_stopping=True), 15.0)
    assert story.size() == "6"


def test_a_size_that_somebody_sets_meanwhile_is_the_users_from_then_on() -> None:
    story = Story(body())
    story.look(room(allowance=2))
    found = story.servers["a"].body
    assert found is not None
    story.servers["a"].merge({"metadata": {"annotations": {MAX_SIZE: "8"}}}, "kubectl")
    decision = story.look(room(allowance=2), 5.0)["a"]
    assert (story.size(), decision.state) == ("8", LeverState.CONTESTED)
    story.look(room(allowance=2), 31.0)
    assert story.size() == "6", "half a minute after our last write"
    story.look(room(is_stopping=True), 32.0)
    assert story.size() == "8"


def test_nothing_moves_without_a_complete_view() -> None:
    story = Story(body())
    story.look(room(allowance=2))
    decision = story.look(room(allowance=9, may_move=False), 10.0)["a"]
    assert (story.size(), story.writes, decision.because.code) == ("6", (), "ViewIncomplete")


def test_several_share_the_allowance() -> None:
    story = Story(body("a"), body("b"), body("c", size="4"))
    story.look(room(allowance=7))
    assert (story.size("a"), story.size("b"), story.size("c")) == ("8", "7", "4")


@pytest.mark.parametrize(("turn", "sizes"), [(0, ("5", "4", "4")), (1, ("4", "5", "4")), (3, ("5", "4", "4"))])
def test_a_single_place_goes_to_each_in_turn(turn: int, sizes: tuple[str, ...]) -> None:
    """Else a group that cannot order would keep it from the others."""
    story = Story(*map(body, "abc"))
    story.look(room(allowance=1), turn * TURN_S)
    assert tuple(map(story.size, "abc")) == sizes


@pytest.mark.parametrize("waiting", [1, 10])
def test_one_that_orders_nothing_leaves_its_share_but_for_one_place(waiting: int) -> None:
    story = Story(body("a"), body("b"))
    for second in range(0, 50, 2):
        story.autoscaler_looks(float(second))
        orders = story.servers["b"].body
        assert orders is not None
        orders["spec"]["replicas"] += second % 10 == 0
        story.autoscaler_looks(float(second))
        story.look(room(allowance=8, waiting=waiting), float(second))
    replicas = [thing.spec.replicas for thing in story.things()]
    assert story.size("a") == str(replicas[0] + 1)
    assert story.size("b") == str(replicas[1] + 7)


@pytest.mark.parametrize(("allowance", "sizes"), [(2, ("4", "5", "5")), (3, ("5", "5", "5"))])
def test_the_one_place_of_a_group_that_orders_nothing_is_taken_from_nobodys_only_one(
    allowance: int, sizes: tuple[str, str, str]
) -> None:
    story = Story(body("a"), body("b"), body("c"))
    story.look(room(allowance=3))
    stuck = RoomSearch(unmet_since_s=0.0)
    groups = {key: replace(group, search=stuck if key.name == "a" else RoomSearch())
              for key, group in story.memory.groups.items()}  # fmt: skip
    story.memory = replace(story.memory, groups=groups)
    for now_s in (30.0, 32.0):
        story.autoscaler_looks(now_s)
        story.look(room(allowance=allowance), now_s)
    assert (story.size("a"), story.size("b"), story.size("c")) == sizes


@pytest.mark.parametrize(("looked_s", "state"), [(59.0, LeverState.CONFIRMED), (60.0, LeverState.PENDING)])
def test_a_size_of_more_than_a_minute_ago_confirms_nothing(looked_s: float, state: LeverState) -> None:
    story = Story(body(size="500"))
    story.look(room(allowance=2), 0.0)
    story.autoscaler_looks(0.0)
    for now_s in (looked_s, looked_s + 2.0):
        decision = story.look(room(allowance=round(now_s)), now_s)["a"]
    assert decision.state is state


def test_a_lower_size_that_the_user_sets_meanwhile_is_what_the_autoscaler_shall_go_by() -> None:
    story = Story(body())
    story.look(room(allowance=9), 0.0)
    story.servers["a"].merge({"metadata": {"annotations": {MAX_SIZE: "6"}}}, "kubectl")
    story.look(room(allowance=9), 31.0)
    story.autoscaler_looks(32.0)
    decision = story.look(room(allowance=9), 150.0)["a"]
    assert (story.size(), decision.state, decision.because.code) == ("6", LeverState.HANDED_BACK, "UserLimitIsLower")


def test_the_users_size_where_ours_stood_is_told_and_needs_nobody_to_confirm_it() -> None:
    story = Story(body(size="8", replicas=4))
    for now_s, allowance, size in ((0.0, 2, "6"), (10.0, 9, "8"), (50.0, 9, "8")):
        decision = story.look(room(allowance=allowance), now_s)["a"]
        assert story.size() == size
    assert (decision.state, decision.because.code) == (LeverState.CONFIRMED, "UserLimitIsLower")
    assert decision.because.detail["limit"] == "8"


@pytest.mark.parametrize("pause", [{"may_move": False}, {"waiting": 0}], ids=["nobody sees", "nothing waits"])
def test_in_a_pause_no_group_runs_dry(pause: dict[str, int]) -> None:
    story = Story(body("a"), body("b"))
    for now_s in (0.0, 10.0, 30.0, 35.0):
        story.look(room(allowance=8, **pause if 0.0 < now_s < 35.0 else {}), now_s)
        story.autoscaler_looks(now_s)
    assert (story.size("a"), story.size("b")) == ("8", "8")
    ordered = story.servers["b"].body
    assert ordered is not None
    ordered["spec"]["replicas"] += 1
    story.autoscaler_looks(40.0)
    story.look(room(allowance=8), 40.0)
    assert (story.size("a"), story.size("b")) == ("8", "9"), "neither ordered nothing for half a minute"


def test_another_throttles_object_is_left_to_it() -> None:
    story = Story(body())
    story.older = (a_throttle("older", levers={"machineDeployments": {"namespace": "capi", "names": ["a"]}}),)
    decision = story.look(room(allowance=2))["a"]
    assert (decision.because.code, story.size()) == ("OtherThrottle", "50")
    elsewhere = a_throttle("older", levers={"machineDeployments": {"namespace": "other", "names": ["a"]}})
    story.older = (elsewhere,)
    story.look(room(allowance=2), 5.0)
    assert story.size() == "6"


def test_an_older_leader_holds_still() -> None:
    story = Story(body())
    story.look(room(allowance=2))
    context = story.context(room(allowance=9), 5.0)
    old = replace(context, scene=replace(context.scene, epoch=2))
    memory = story.memory
    for _ in range(2):
        (decision,), memory = MACHINE_DEPLOYMENTS.decide(old, memory)
        assert (decision.writes, decision.because.code) == ((), "NewerHolder")


def test_quiet_time_counts_only_while_the_view_is_complete() -> None:
    """While blind nobody can say that nothing waits: a minute of it is no reason to give the size back."""
    story = Story(body(size="50", replicas=4))
    story.look(room(allowance=3))
    quiet = {"allowance": 0, "waiting": 0}
    for now_s in range(10, 100, 10):
        story.look(room(**quiet, may_move=now_s <= 20), float(now_s))
    assert story.size() != "50"
    story.look(room(**quiet), now_s + 10.0)
    assert story.size() != "50", "the quiet time began anew"
    story.look(room(**quiet), now_s + 40.0)
    assert story.size() == "50"


def test_a_group_that_has_used_our_ceiling_up_is_not_full() -> None:
    """The user lets it grow to 50; the other group stands at its own largest size and takes no share."""
    story = Story(body("a", replicas=4), body("b", size="4", replicas=4))
    story.look(room(allowance=2))
    assert story.size("a") == "6"
    story.autoscaler_looks(10.0, orders=2)
    story.look(room(allowance=2, booting=2), 10.0)
    assert (story.size("a"), story.size("b")) == ("8", "4")
