"""Nodes that refuse balloons: left alone, and tried again.

A node whose kubelet refuses balloons makes few Failed pods, and changes nothing for the others. A pool whose
decision fails is left as it is, and what is decided for every other pool is what it would be without it.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, Schedule
from balloons.balloon_manifest import ImageSettings, hosts_in, stored_terms
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Action, ApplyObject, Memory, PoolDecision, Reason, RemoveFailed
from balloons.decide.refusing import (
    FEW,
    FIRST_REST_S,
    LONGEST_REST_S,
    SAME_RUSH_S,
    WINDOW_S,
    NodeRefusal,
    hosts_left_out,
    refusals,
    sought_by_karpenter,
    to_remove,
)
from balloons.view.index_and_snapshot import FailedBalloon, Now
from tests.examples import examples
from tests.world import NOW, POOL_KEY, World, a_node, a_pool, daemon, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.pod import PodKind
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Taint

SETTINGS = ImageSettings()
KARPENTER = {KARPENTER_POOL_LABEL: "default", KARPENTER_INITIALIZED_LABEL: "true"}
HEADROOM: dict[str, Any] = {"mode": Mode.HEADROOM, "size": 4, "max_size": 20}
BROKEN = a_pool(
    "broken",
    nodes=PoolNodes(LabelSelector({"pool": "cpu"})),
    schedules=(Schedule("no cron at all", "1h", size=1),),
)


class Story:
    """A pool whose nodes are all held, until some of their kubelets begin to refuse balloons."""

    def __init__(self, pool: BalloonPool | None = None, count: int = 10, **made: Any) -> None:
        self.world = World.of(pool or a_pool(), nodes=nodes(count, **made))
        self.memory, self.now = Memory(), NOW
        self.made_in_all = 0
        self.run(40)

    def step(self, seconds: float = 10.0, attempts: int = 5) -> PoolDecision:
        """Decide once; until then the ReplicaSets try so many times."""
        for _ in range(attempts):
            self.world.settle()
        decided, self.memory = decide(self.world.snapshot(), self.memory, SETTINGS, self.now)
        self.world.apply(decided)
        self.now = later(self.now, seconds)
        return decided.pools[0]

    def run(self, seconds: float, step_s: float = 10.0) -> PoolDecision:
        end: Now = later(self.now, seconds)
        while self.now.monotonic_s < end.monotonic_s:
            decision = self.step(step_s)
        return decision

    def refuse(self, *names: str) -> None:
        """These refuse from now on, and what ran there is gone."""
        self.world.refuses |= set(names)
        self.world.pods = {key: pod for key, pod in self.world.pods.items() if pod.node not in names}

    def balloons(self) -> dict[str, str]:
        return {balloon.node: balloon.uid for balloon in self.world.balloons()}

    def left_out(self) -> list[str]:
        (stored,) = self.world.deployments.values()
        return list(hosts_in(stored_terms(stored.spec), [self.world.pools[POOL_KEY].spec.nodes.selector]))

    def tries(self) -> int:
        """Balloons that were made for nothing so far."""
        removed = sum(isinstance(action, RemoveFailed) for action in self.world.log)
        return removed + len(self.world.failed)


def notes(decision: PoolDecision) -> list[str]:
    return [note.sentence for note in decision.notes]


def a_failure(name: str, node: str = "n000", *, created_s: float = 0.0, **changes: Any) -> FailedBalloon:
    failure = FailedBalloon(ObjectKey("team-a", name), f"uid-{name}", node, "gpu", created_s, "OutOfcpu")
    return msgspec.structs.replace(failure, **changes)


def a_refusal(since_s: float = NOW.monotonic_s, *, is_sought: bool = False) -> NodeRefusal:
    return NodeRefusal(since_s, 1, 0.0, "OutOfcpu", since_s, since_s, is_sought)


# -- a pool at rest ----------------------------------------------------------------------------------------------------


def test_three_broken_nodes_change_nothing_for_the_others() -> None:
    story = Story()
    before, (deployment,) = story.balloons(), story.world.deployments.values()
    broken = ["n002", "n005", "n007"]
    story.refuse(*broken)
    decision = story.run(FIRST_REST_S)
    assert story.balloons() == {node: uid for node, uid in before.items() if node not in broken}
    (after,) = story.world.deployments.values()
    assert after.spec["template"] == deployment.spec["template"], "no balloon is replaced"
    assert (decision.status.warm, decision.status.sick, decision.status.target) == (7, 3, 7)
    assert notes(decision) == [
        "3 nodes refuse balloons (UnexpectedAdmissionError) and are left alone for a while: n002, n005, n007"
    ]
    assert story.tries() <= 3 * 5 * FEW
    assert len(story.world.failed) == 3 * FEW


def test_many_nodes_that_refuse_at_once_do_not_freeze_the_pool() -> None:
    """They have not vanished from the view: frozen, it would let the ReplicaSets go on for minutes."""
    story = Story()
    story.refuse(*(f"n00{i}" for i in range(8)))
    decision = story.step()
    assert decision.because.reason is Reason.STEADY
    assert story.world.replicas() == 2


def test_two_failures_are_an_accident() -> None:
    failed = [a_failure(f"b{i}", created_s=i) for i in range(FEW - 1)]
    assert refusals(failed, nodes(1), {}, {}, (), NOW) == {}


@pytest.mark.parametrize(("made_s", "refuses"), [(1_000.0, True), (1_000.0 - SAME_RUSH_S, False)])
def test_one_failure_is_enough_in_the_same_rush(made_s: float, refuses: bool) -> None:
    """The scheduler may well try one broken node a hundred times, and the other one once."""
    failed = [a_failure(f"b{i}", created_s=1_000.0) for i in range(FEW)]
    failed.append(a_failure("other", "n001", created_s=made_s))
    assert set(refusals(failed, nodes(3), {}, {}, (), NOW)) == ({"n000", "n001"} if refuses else {"n000"})
    old = [a_failure(f"o{i}", "n002", created_s=1_000.0 - 2 * SAME_RUSH_S) for i in range(FEW)]
    assert ("n001" in refusals([*old, *failed], nodes(3), {}, {}, (), NOW)) is refuses, "the newest rush is the one"
    known = refusals(failed[:FEW], nodes(3), {}, {}, (), NOW)
    assert set(refusals(failed, nodes(3), {}, known, (), NOW)) == ({"n000", "n001"} if refuses else {"n000"})
    at_rest = later(NOW, FIRST_REST_S)
    assert "n001" not in refusals(failed, nodes(3), {}, known, (), at_rest), "the other is being tried again itself"


def test_failures_far_apart_are_no_refusal() -> None:
    failed = [a_failure(f"b{i}", created_s=i * (WINDOW_S / 2 + 1)) for i in range(FEW)]
    assert refusals(failed, nodes(1), {}, {}, (), NOW) == {}


def test_a_node_is_tried_again_ever_more_seldom() -> None:
    story = Story()
    story.refuse("n003")
    story.run(60)
    first = story.tries()
    story.run(FIRST_REST_S - 100)
    assert story.tries() == first
    story.run(100)
    second = story.tries()
    assert first < second <= first + 5
    story.run(2 * FIRST_REST_S - 100)
    assert story.tries() == second
    story.run(100)
    assert second < story.tries() <= second + 5


def test_a_node_that_was_mended_is_held_again_and_forgiven() -> None:
    story = Story()
    story.refuse("n003")
    story.run(60)
    story.world.refuses.clear()
    decision = story.run(FIRST_REST_S)
    assert (decision.status.warm, decision.status.sick) == (10, 0)
    assert notes(decision) == []
    assert story.memory.pools[POOL_KEY].refusals == {}
    assert story.world.failed == {}


def test_a_node_that_is_given_back_after_a_cordon_is_tried_at_once() -> None:
    story = Story()
    story.refuse("n003")
    story.run(60)
    story.world.change_node("n003", is_cordoned=True)
    story.run(20)
    assert story.world.failed == {}
    story.world.refuses.clear()
    story.world.change_node("n003", is_cordoned=False)
    assert story.run(20).status.warm == 10


@pytest.mark.parametrize(("reason", "why"), [("OutOfcpu", "OutOfcpu"), ("", "no reason")])
def test_a_lone_failure_is_removed_after_a_while(reason: str, why: str) -> None:
    story = Story()
    story.world.failed = {each.key: each for each in [a_failure("old", reason=reason)]}
    story.run(WINDOW_S - 10)
    assert len(story.world.failed) == 1
    story.run(30)
    assert story.world.failed == {}
    (removed,) = (action.because.sentence for action in story.world.log if isinstance(action, RemoveFailed))
    assert removed == f"1 node refuses balloons ({why}) and is left alone for a while: n000"


@pytest.mark.parametrize("spec", [{}, HEADROOM], ids=["hold", "headroom"])
def test_even_in_a_paused_pool_it_comes_to_an_end(spec: dict[str, Any]) -> None:
    story = Story(a_pool(**spec), count=4)
    story.world.change_pool(paused=True)
    story.refuse("n003")
    others = {node: uid for node, uid in story.balloons().items() if node != "n003"}
    story.run(60)
    before = story.tries()
    story.run(300)
    assert story.tries() == before
    assert len(story.world.failed) == FEW
    assert story.balloons() == others


# -- balloons that come all the same -----------------------------------------------------------------------------------


def a_preemption(pool: BalloonPool | None = None) -> Story:
    """A node refuses, and work takes another one."""
    story = Story(pool, count=4)
    story.world.add(*(daemon(f"d{i}", f"n00{i}", cpu="10m") for i in range(1, 4)))
    story.refuse("n000")
    story.run(60)
    job, pods = work("job", "n001"), story.world.pods
    story.world.pods = {key: pod for key, pod in pods.items() if pod.node != "n001" or pod.kind is PodKind.DAEMON}
    story.world.add(job)
    story.run(40)
    return story


def a_story_in_flux(pool: BalloonPool | None = None) -> Story:
    """... and leaves it again: the scheduler prefers the broken node, which is quite empty."""
    story = a_preemption(pool)
    del story.world.pods[ObjectKey("jobs", "job")]
    story.run(60)
    return story


def test_the_rush_after_a_preemption_ends_by_itself() -> None:
    story = Story(count=4)
    before = story.balloons()
    story = a_preemption()
    assert story.left_out() == []
    assert set(story.balloons()) == set(before) - {"n000", "n001"}
    tries = story.tries()
    story.run(300)
    assert story.tries() == tries


def test_a_node_that_balloons_keep_coming_to_is_left_out_by_name() -> None:
    story = a_story_in_flux()
    assert story.left_out() == ["n000"]
    before = story.tries()
    decision = story.run(60)
    assert story.tries() == before
    assert decision.status.warm == 3


DISRUPTED = (Taint("karpenter.sh/disrupted", "NoSchedule"),)


@pytest.mark.parametrize("is_evicted", [False, True])
@pytest.mark.parametrize("size", [None, 10])
def test_a_node_on_whose_room_karpenter_counts_is_left_out_by_name(size: int | None, is_evicted: bool) -> None:
    """It removes one held node after the other, because it finds room for each balloon where none is admitted."""
    story = Story(a_pool(size=size), labels=KARPENTER)
    story.refuse("n000")
    story.run(60)
    assert story.left_out() == []
    story.world.change_node("n001", taints=DISRUPTED)
    if is_evicted:
        story.world.pods = {key: pod for key, pod in story.world.pods.items() if pod.node != "n001"}
    story.step()
    assert story.left_out() == ["n000"]
    del story.world.nodes["n001"]
    story.run(600)
    assert story.left_out() == ["n000"]
    assert set(story.balloons()) == set(story.world.nodes) - {"n000"}


@pytest.mark.parametrize(
    ("size", "labels", "refusing", "other"),
    [
        (None, {}, {}, {"taints": DISRUPTED}),
        (None, KARPENTER, {"taints": DISRUPTED}, {"taints": DISRUPTED}),
        (8, KARPENTER, {}, {"taints": DISRUPTED}),
        (None, KARPENTER, {}, {"is_cordoned": True}),
    ],
    ids=["not Karpenter's", "it goes itself", "others are idle", "a person cordons"],
)
def test_no_name_is_left_out_where_no_held_node_is_lost_for_it(
    size: int | None, labels: dict[str, str], refusing: dict[str, Any], other: dict[str, Any]
) -> None:
    story = Story(labels=labels)
    story.refuse("n000")
    assert story.run(60).status.sick == 1
    story.world.change_pool(size=size)
    story.run(60)
    story.world.change_node("n000", **refusing)
    story.world.change_node("n001", **other)
    story.step()
    assert story.left_out() == []


def test_no_name_is_left_out_where_karpenter_removes_a_node_that_refuses_itself() -> None:
    story = Story(labels=KARPENTER)
    story.refuse("n000", "n002")
    story.run(60)
    story.world.change_node("n000", taints=DISRUPTED)
    story.step()
    assert story.left_out() == []


def test_it_is_let_in_again_by_name_after_the_longest_rest() -> None:
    story = a_story_in_flux()
    story.run(FIRST_REST_S)
    assert story.left_out() == ["n000"]
    story.world.refuses.clear()
    story.run(3.5 * 3600, step_s=60.0)
    assert story.left_out() == ["n000"]
    story.run(0.5 * 3600, step_s=60.0)
    assert story.left_out() == []
    assert "n000" in story.balloons()


def test_a_restart_finds_the_name_in_the_deployment() -> None:
    story = a_story_in_flux()
    story.world.failed = {}
    story.memory = Memory()
    decision = story.run(60)
    assert story.left_out() == ["n000"]
    assert decision.status.sick == 1
    assert notes(decision) == ["1 node refuses balloons (seen before a restart) and is left alone for a while: n000"]


def test_a_restart_finds_the_failed_balloons() -> None:
    story = Story()
    story.refuse("n003")
    story.run(60)
    before = story.tries()
    story.memory = Memory()
    assert story.run(60).status.sick == 1
    assert story.tries() == before


def test_a_name_stays_while_the_node_is_away_and_goes_when_it_is_back() -> None:
    """Every change of the list costs all balloons of the shape their pods."""
    story = a_story_in_flux()
    story.world.change_node("n000", is_cordoned=True)
    story.run(60)
    assert story.left_out() == ["n000"]
    story.world.refuses.clear()
    story.world.change_node("n000", is_cordoned=False)
    story.run(60)
    assert story.left_out() == []
    assert "n000" in story.balloons()


def test_names_that_the_pool_itself_rules_out_are_its_own() -> None:
    own = Requirement("kubernetes.io/hostname", "NotIn", ("n009",))
    story = a_story_in_flux(a_pool(nodes=PoolNodes(LabelSelector({"pool": "gpu"}, (own,)))))
    assert story.left_out() == ["n000"]


def test_headroom_that_waits_for_a_node_keeps_its_balloons_off_the_one_that_refuses() -> None:
    story = Story(a_pool(**HEADROOM), count=4)
    story.refuse("n000")
    decision = story.run(60)
    assert story.left_out() == ["n000"]
    assert decision.because.reason is Reason.GROWING
    assert [balloon.node for balloon in story.world.balloons() if not balloon.node] == [""]
    before = story.tries()
    story.run(300)
    assert story.tries() == before


def test_headroom_on_karpenter_asks_for_no_node_until_a_person_came() -> None:
    """Karpenter makes no node for a pod that rules out host names; without that, the pod goes to the broken node."""
    story = Story(a_pool(**HEADROOM), count=4, labels=KARPENTER)
    story.refuse("n000")
    decision = story.run(60)
    assert decision.because.reason is Reason.NODES_REFUSE
    assert story.left_out() == ["n000"]
    before = story.tries()
    story.run(300)
    assert story.tries() == before
    story.world.change_node("n000", is_cordoned=True)
    decision = story.run(20)
    assert decision.because.reason is Reason.GROWING
    assert story.left_out() == []


def test_headroom_on_karpenter_grows_beside_a_refusing_node_that_runs_work() -> None:
    """No balloon has room there, so nothing has to be ruled out."""
    story = Story(a_pool(**HEADROOM), count=4, labels=KARPENTER)
    story.refuse("n000")
    story.run(60)
    story.world.add(work("small", "n000"))
    decision = story.run(20)
    assert decision.because.reason is Reason.GROWING
    assert story.left_out() == []


def test_a_size_that_is_met_has_no_name_left_out_until_karpenter_takes_a_held_node() -> None:
    """It finds room for the balloon on the node that refuses: nothing else tells it better."""
    story = Story(a_pool(**HEADROOM), count=4, labels=KARPENTER)
    story.refuse("n000")
    story.step()
    story.world.nodes["n004"] = a_node("n004", labels=KARPENTER)
    decision = story.run(60)
    assert (decision.status.warm, decision.status.sick, story.left_out()) == (4, 1, [])
    story.world.change_node("n002", taints=DISRUPTED)
    story.step()
    assert story.left_out() == ["n000"]
    del story.world.nodes["n002"]
    assert story.run(60).because.reason is Reason.NODES_REFUSE, "it may ask for no node"
    assert set(story.balloons()) == {"n001", "n003", "n004"}
    story.world.nodes["n005"] = a_node("n005", labels=KARPENTER)
    assert story.run(60).because.reason is Reason.STEADY, "it wants none"


def test_a_node_that_may_be_tried_again_is_not_left_out_for_karpenters_sake() -> None:
    there, refused = {"n000": a_node("n000", labels=KARPENTER)}, {"n000": a_refusal()}
    for after_s, is_sought in ((FIRST_REST_S - 1, True), (FIRST_REST_S, False)):
        assert sought_by_karpenter(refused, there, NOW.monotonic_s + after_s)["n000"].is_sought is is_sought


# -- the parts ---------------------------------------------------------------------------------------------------------


def test_names_in_an_affinity_are_bounded() -> None:
    many = nodes(37)
    refused = {name: a_refusal(since_s=float(i), is_sought=True) for i, name in enumerate(many)}
    hosts = hosts_left_out((), many, refused, NOW, "")
    assert len(hosts) == 32
    assert "n036" in hosts, "the last ones that refused"


def test_a_node_of_another_type_is_not_named() -> None:
    refused = {"n": a_refusal(is_sought=True)}
    there = {"n": a_node("n", instance_type="p5")}
    assert hosts_left_out((), there, refused, NOW, "g6") == ()
    assert hosts_left_out((), there, refused, NOW, "p5") == ("n",)


def test_names_that_are_left_out_already_stay_as_they_are_written() -> None:
    """Whatever changes the affinity costs every balloon its pod."""
    refused = {name: a_refusal(is_sought=True) for name in nodes(2)}
    assert hosts_left_out((), nodes(2), refused, NOW, "") == ("n000", "n001")
    assert hosts_left_out(("n001", "n000"), nodes(2), refused, NOW, "") == ("n001", "n000")


def test_a_node_without_the_label_of_its_host_cannot_be_named() -> None:
    there = {"n": msgspec.structs.replace(a_node("n"), labels={"pool": "gpu"})}
    assert hosts_left_out((), there, {"n": a_refusal(is_sought=True)}, NOW, "") == ()


@pytest.mark.parametrize(("pause_s", "is_sought"), [(1.0, True), (11.0, True), (12.0, False), (60.0, False)])
def test_only_a_rush_that_does_not_end_has_a_node_left_out(pause_s: float, is_sought: bool) -> None:
    """What fails there while another node is found to refuse, or after a preemption, ends by itself."""
    known = {"n000": a_refusal()}
    now, made_s = NOW, 0
    while now.monotonic_s < NOW.monotonic_s + 30.0:
        now, made_s = later(now, pause_s), made_s + 1
        known = refusals([a_failure("b", created_s=made_s)], nodes(1), {}, known, (), now)
        assert not known["n000"].is_sought or now.monotonic_s >= NOW.monotonic_s + 15.0
    assert known["n000"].is_sought is is_sought


@pytest.mark.parametrize(
    ("before", "after_s", "is_sought"),
    [(False, 14.9, False), (False, 15.0, True), (True, 1.0, True)],
)
def test_a_rush_that_lasts_has_a_node_left_out_for_the_whole_rest(
    *, before: bool, after_s: float, is_sought: bool
) -> None:
    known = {"n000": a_refusal(is_sought=before)}
    for seconds in (after_s / 2, after_s):
        known = refusals([a_failure("b", created_s=seconds)], nodes(1), {}, known, (), later(NOW, seconds))
    assert known["n000"].is_sought is is_sought


@pytest.mark.parametrize(("count", "is_sought"), [(200, False), (201, True)])
def test_a_rush_of_many_is_not_waited_for(count: int, is_sought: bool) -> None:
    """A quick control plane makes forty a second, of which we remove five."""
    failed = [a_failure(f"b{number}", created_s=number // 40 + 1.0) for number in range(count)]
    known = refusals(failed, nodes(1), {}, {"n000": a_refusal()}, (), later(NOW, 5.0))
    assert known["n000"].is_sought is is_sought


def test_a_node_that_was_let_in_and_never_used_is_forgiven_after_as_long_a_time() -> None:
    """A pool that wants fewer nodes may not try it."""
    known = {"n000": a_refusal()}
    assert refusals((), nodes(1), {}, known, (), later(NOW, 2 * FIRST_REST_S - 1)) == known
    assert refusals((), nodes(1), {}, known, (), later(NOW, 2 * FIRST_REST_S)) == {}


@pytest.mark.parametrize("change", [{"is_terminating": True}, {"node": ""}])
def test_what_is_leaving_or_never_had_a_node_says_nothing(change: dict[str, Any]) -> None:
    failed = [a_failure(f"b{i}", **change) for i in range(2 * FEW)]
    assert refusals(failed, nodes(1), {}, {}, (), NOW) == {}


@settings(max_examples=examples(0.6), deadline=None)
@given(
    moments=st.lists(st.tuples(st.integers(1, 900), st.integers(0, 40), st.booleans()), min_size=1, max_size=40),
)
def test_left_to_itself_what_has_failed_is_bounded_whatever_happens(moments: list[tuple[int, int, bool]]) -> None:
    """Any number of failures at any time, and restarts: a record of a few stays, and everything else goes."""
    there, failed, made = nodes(2), dict[ObjectKey, FailedBalloon](), 0
    known: dict[str, NodeRefusal] | None = None
    since: dict[str, float] = {}
    now: Now = NOW
    for seconds, count, is_restart in [*moments, *[(5, 0, False)] * 100]:
        now = later(now, seconds)
        for _ in range(count):
            made += 1
            failure = a_failure(f"b{made}", f"n00{made % 2}", created_s=now.wall.timestamp())
            failed[failure.key] = failure
        known = refusals(failed.values(), there, {}, None if is_restart else known, (), now)
        since = {each.uid: since.get(each.uid, now.monotonic_s) for each in failed.values()}
        gone = to_remove(failed.values(), there, known, since, now)
        assert len(gone) <= 16
        for failure in gone:
            del failed[failure.key]
        for refusal in known.values():
            assert FIRST_REST_S <= refusal.rest_s <= LONGEST_REST_S
    assert len(failed) <= 2 * FEW


def test_a_balloon_that_is_about_to_be_refused_is_nothing_to_keep() -> None:
    """Seen between its binding and its refusal, it would otherwise have the ReplicaSet make the next one."""
    story = Story()
    story.refuse("n003")
    story.run(60)
    (balloon, *_) = story.world.balloons()
    late = msgspec.structs.replace(balloon, key=ObjectKey("team-a", "late"), uid="late", node="n003", is_running=False)
    story.world.add(late)
    assert not actions(story.step(attempts=0))


def actions(decision: PoolDecision) -> list[Action]:
    return [action for action in decision.actions if isinstance(action, ApplyObject)]


def test_at_rest_nothing_is_written() -> None:
    story = Story()
    story.refuse("n003")
    story.run(120)
    assert not actions(story.step())
    assert not actions(story.step())


def test_a_pool_that_cannot_be_decided_says_so_and_changes_nothing() -> None:
    decided, _ = decide(World.of(BROKEN, nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    (decision,) = decided.pools
    assert decision.because.code == "Failed"
    assert "no cron at all" in decision.because.sentence or "Cron" in decision.because.sentence
    assert decision.actions == ()


def test_the_other_pools_are_decided_as_if_it_were_not_there() -> None:
    alone, _ = decide(World.of(a_pool(), nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    beside, _ = decide(World.of(a_pool(), BROKEN, nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    assert [d for d in beside.pools if d.pool.name == "gpu"] == list(alone.pools)


@pytest.mark.parametrize(
    ("times", "is_sought", "rest_s"),
    [
        (1, False, 600.0),
        (2, False, 1200.0),
        (5, False, 9600.0),
        (6, False, 14400.0),
        (99, False, 14400.0),
        (1, True, 14400.0),
    ],
)
def test_a_rest_doubles_up_to_four_hours_and_ends(times: int, is_sought: bool, rest_s: float) -> None:
    refusal = NodeRefusal(0.0, times, 0.0, "OutOfcpu", 0.0, 0.0, is_sought)
    assert refusal.rest_s == rest_s
    assert (refusal.is_left_alone(rest_s - 0.1), refusal.is_left_alone(rest_s)) == (True, False)


def refused_by(
    *created_s: float, before: dict[str, NodeRefusal] | None = None, now_s: float = 0.0
) -> dict[str, NodeRefusal]:
    """What balloons of one node that failed at these times prove, `now_s` after the usual moment."""
    failed = [a_failure(f"b{at}", created_s=at_s) for at, at_s in enumerate(created_s)]
    return refusals(failed, {"n000": a_node("n000")}, {}, before or {}, (), later(NOW, now_s))


@pytest.mark.parametrize(
    ("created_s", "refuses"),
    [
        ((0.0, 300.0, 600.0), True),
        ((0.0, 300.0, 600.1), False),
        ((0.0, 1.0), False),
        ((0.0, 700.0, 701.0, 702.0), True),
    ],
)
def test_three_failures_within_ten_minutes_are_a_refusal(created_s: tuple[float, ...], *, refuses: bool) -> None:
    assert bool(refused_by(*created_s)) is refuses


def test_what_failed_before_it_was_left_alone_is_no_news() -> None:
    known = NodeRefusal(NOW.monotonic_s, 1, 50.0, "OutOfcpu", NOW.monotonic_s, NOW.monotonic_s)
    assert refused_by(50.0, before={"n000": known}, now_s=30.0)["n000"] == known
    again = refused_by(50.1, before={"n000": known}, now_s=30.0)["n000"]
    assert (again.newest_s, again.rush_s, again.last_s) == (50.1, NOW.monotonic_s + 30.0, NOW.monotonic_s + 30.0)
    goes_on = refused_by(50.1, before={"n000": known}, now_s=11.9)["n000"]
    assert goes_on.rush_s == NOW.monotonic_s


@pytest.mark.parametrize(
    ("now_s", "failed_s", "times"),
    [(599.9, 60.0, 1), (600.0, 60.0, 2), (600.0, 50.0, 1), (1199.9, 50.0, 1), (1200.0, 50.0, None)],
)
def test_after_its_rest_a_node_is_tried_and_left_alone_twice_as_long_or_forgiven(
    now_s: float, failed_s: float, times: int | None
) -> None:
    known = NodeRefusal(NOW.monotonic_s, 1, 50.0, "OutOfcpu", NOW.monotonic_s, NOW.monotonic_s)
    found = refused_by(failed_s, before={"n000": known}, now_s=now_s).get("n000")
    assert (found.times if found else None) == times


@pytest.mark.parametrize(("known_for_s", "is_kept"), [(599.9, True), (600.0, False)])
def test_a_failure_that_proves_nothing_is_kept_for_ten_minutes(known_for_s: float, *, is_kept: bool) -> None:
    failed = [a_failure("b")]
    since_s = {"uid-b": NOW.monotonic_s - known_for_s}
    assert to_remove(failed, {"n000": a_node("n000")}, {}, since_s, NOW) == ([] if is_kept else failed)
    assert to_remove(failed, {"n000": a_node("n000")}, {}, {}, NOW) == []
