"""What timestamps teach, and a saved plan held against them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import exp
from operator import mul
from pathlib import Path
from typing import Any

import pytest

from balloons.cli.plan_text_and_chart import comparison_lines
from balloons.cli.terminal import Look
from balloons.preview.calibrate import Birth, births_of, boot, boot_jitter, dated, join, middle, reaction, ready_share
from balloons.preview.inputs import BOOT_JITTER, BOOT_S, JOIN_S, REACTION_S, Source
from balloons.preview.plan_json import (
    ComparedStep,
    Comparison,
    SavedPlanError,
    compared,
    comparison_json,
    saved_plan,
)
from tests.published_schema import problems

SCHEMA = Path(__file__).parents[4] / "docs/schemas/plan-comparison.json"
T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (T0 + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, created: float, ready: float | None) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
    labels = {"karpenter.sh/nodepool": "gpu"}
    metadata = {"name": name, "creationTimestamp": at(created), "labels": labels}
    return {"metadata": metadata, "status": {"conditions": conditions}}


def pod(on: str, created: float, ready: float, owner: str = "DaemonSet") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
    metadata = {"name": f"p-{on}-{created}", "creationTimestamp": at(created), "ownerReferences": [{"kind": owner}]}
    return {"metadata": metadata, "spec": {"nodeName": on}, "status": {"conditions": conditions}}


def claim(for_: str, created: float) -> dict[str, Any]:
    return {"metadata": {"name": f"c-{for_}", "creationTimestamp": at(created)}, "status": {"nodeName": for_}}


def births(count: int = 6) -> tuple[Birth, ...]:
    """Machines that boot 90-95 s and join 30 s, of which 20 s pass before their DaemonSet pod is made."""
    nodes = [node(f"n{i}", 100 + i, 110 + i) for i in range(count)]
    pods = [pod(f"n{i}", 120 + i, 130 + i) for i in range(count)]
    return of(nodes, pods, [claim(f"n{i}", 10) for i in range(count)])


def of(*lists: Any, since_s: float = 0.0) -> tuple[Birth, ...]:
    nodes, pods, claims = (dated(json.dumps(each).encode() for each in found) for found in lists)
    return births_of(nodes, pods, claims, since_s)


def test_birth_is_read_off_node_claim_and_daemon_pods() -> None:
    found = births()[0]
    assert (found.boot_s, found.join_s, found.pool) == (90, 30, "gpu")
    # The wait for the DaemonSet pod to be made is the controller manager's, not the join's.
    assert found.own_s == 10


def test_boot_and_join_are_learned_from_enough_nodes() -> None:
    known = boot(births(), BOOT_S)
    assert (known.source, known.value, known.detail) == (Source.LEARNED, 92.5, "6 nodes of the last 24 h")
    assert join(births(), JOIN_S).value == 10
    assert boot_jitter(births(), BOOT_JITTER).source is Source.LEARNED
    assert boot(births(2), BOOT_S) is BOOT_S


def test_a_claim_that_cannot_be_of_its_nodes_time_teaches_no_boot() -> None:
    """Made after the node registered, as one that adopts it is."""
    nodes = [node(f"n{i}", 100 + i, 110 + i) for i in range(8)]
    claims = [claim(f"n{i}", 10 if i < 6 else 300) for i in range(8)]
    found = of(nodes, (), claims)
    assert [birth.boot_s for birth in found[5:]] == [95, None, None]
    assert boot(found, BOOT_S).value == boot(births(), BOOT_S).value
    assert boot_jitter(found, BOOT_JITTER).value == boot_jitter(births(), BOOT_JITTER).value


def test_since_when_a_node_is_ready_is_told_by_its_own_condition() -> None:
    def since(*conditions: tuple[str, str, float | None]) -> float | None:
        told = [
            {"type": kind, "status": status, **({} if at_s is None else {"lastTransitionTime": at(at_s)})}
            for kind, status, at_s in conditions
        ]
        (found,) = of([{**node("n", 100, None), "status": {"conditions": told}}], (), ())
        return None if found.ready_s is None else found.ready_s - T0.timestamp()

    calm, ready = ("MemoryPressure", "True", 101.0), ("Ready", "True", 110.0)
    assert since(calm, ready) == since(ready, calm) == 110
    assert since(calm, ("Ready", "False", 110.0)) is None
    assert since(("Ready", "True", None)) is None


def test_a_join_ends_with_the_last_daemon_pod_and_with_no_other() -> None:
    """Work that starts on the node is no part of it, and a node that is not Ready is not usable whatever runs there."""
    nodes = [node("a", 100, 110), node("b", 100, None), node("c", 100, 130), node("d", 100, 110)]
    mixed = pod("d", 120, 140)
    mixed["metadata"]["ownerReferences"].append({"kind": "Other"})
    undated = pod("d", 120, 190)
    del undated["metadata"]["creationTimestamp"]
    pods = [
        pod("a", 105, 500, owner="ReplicaSet"), pod("a", 120, 140), pod("a", 105, 115), pod("a", 160, 160),
        pod("b", 105, 115), pod("c", 105, 115), mixed, undated,
    ]  # fmt: skip
    found = {birth.name: (birth.join_s, birth.own_s) for birth in of(nodes, pods, ())}
    assert found == {"a": (60, 20), "b": (None, None), "c": (30, 30), "d": (40, 20)}


def test_without_a_claim_the_newest_pod_that_is_older_than_the_node_tells_when_it_was_asked_for() -> None:
    def asked(*made: float) -> float | None:
        (found,) = of([node("n", 100, 110)], [pod("n", at_s, 200, owner="ReplicaSet") for at_s in made], ())
        return None if found.asked_s is None else found.asked_s - T0.timestamp()

    assert asked(20, 50, 100, 130) == 50
    assert asked(100) is None
    assert asked(-1700) == -1700
    assert asked(-1701) is None, "half an hour and a second"


@pytest.mark.parametrize(
    ("boots", "value", "spread"),
    [
        ([80, 90, 100, 110, 120], 100.0, 0.0707),
        ([0, 0, 0], 0.5, 0.05),
        ([1, 1, 200], 1.0, 0.5),
        ([100, 100, 100], 100.0, 0.05),
    ],
)
def test_a_boot_is_as_sure_as_the_mean_of_its_sample(boots: list[int], value: float, spread: float) -> None:
    """The deviation over the root of the number, and never surer than scale-ups are alike."""
    nodes = [node(f"n{number}", 300 + boot_s, 600) for number, boot_s in enumerate(boots)]
    known = boot(of(nodes, (), [claim(f"n{number}", 300) for number in range(len(boots))]), BOOT_S)
    assert (known.value, known.detail) == (value, f"{len(boots)} nodes of the last 24 h")
    assert known.spread == pytest.approx(spread, rel=1e-3)


def test_a_boot_that_was_quicker_than_the_autoscaler_reacts_took_next_to_no_time() -> None:
    nodes, pods = [node(f"n{i}", 100, 110) for i in range(3)], [pod(f"n{i}", 95, 115, "ReplicaSet") for i in range(3)]
    assert boot(of(nodes, pods, ()), BOOT_S).value == 0.5


def spread_out(count: int) -> tuple[Birth, ...]:
    """So many boots around 100 s, a second apart from each other."""
    nodes = [node(f"n{number}", 400 + number - (count - 1) / 2, 900) for number in range(count)]
    return of(nodes, (), [claim(f"n{number}", 300) for number in range(count)])


def test_jitter_is_told_by_the_outer_tenths_of_boots() -> None:
    """Of 19 boots from 91 s to 109 s eight in ten lie between 92 s and 108 s, which are 2.563 deviations."""
    known = boot_jitter(spread_out(19), BOOT_JITTER)
    told = (16 / 2.563) ** 2
    assert known.value == pytest.approx((told - 1 / 6) ** 0.5 / 100, rel=1e-2)
    assert known.spread == pytest.approx(0.5 * (2 / (0.65 * 18)) ** 0.5, rel=1e-2)
    assert boot_jitter(spread_out(301), BOOT_JITTER).spread == 0.1, "no surer than that"
    guessed = [replace(birth, is_asked_by_claim=False) for birth in spread_out(19)]
    assert boot_jitter(guessed, BOOT_JITTER) is BOOT_JITTER, "only claims tell it"


def test_what_whole_seconds_may_hide_is_the_mean_of_what_it_can_be() -> None:
    """Of a normal distribution around less than nothing what is above it, summed up by hand."""
    nodes = [node(f"n{i}", 15 + i % 2, 30) for i in range(8)]
    known = boot_jitter(of(nodes, (), [claim(f"n{i}", 0) for i in range(8)]), BOOT_JITTER)
    told = (1 / 2.563) ** 2
    middle_of, error = told - 1 / 6, told * (2 / (0.65 * 7)) ** 0.5
    steps = [step / 10_000 for step in range(20_000)]
    weights = [exp(-(((step - middle_of) / error) ** 2) / 2) for step in steps]
    variance = sum(map(mul, steps, weights)) / sum(weights)
    assert known.value == pytest.approx(variance**0.5 / 15.5, rel=1e-2)
    assert known.spread == 0.5


def test_a_reaction_is_surer_the_more_bursts_tell_it() -> None:
    def sure(count: int) -> float:
        bursts = [burst(100 * number, [100 * number + 3] * 3, f"b{number}-") for number in range(count)]
        return reaction(of(*([*chain(*lists)] for lists in zip(*bursts, strict=True))), REACTION_S).spread

    assert [sure(1), sure(4), sure(49)] == pytest.approx([0.3, 0.15, 0.05])
    assert reaction(births(), REACTION_S) is REACTION_S, "no pod tells what these were made for"


def test_the_outermost_tenths_do_not_count() -> None:
    assert middle([0.0, 0.0, *[10.0] * 16, 100.0, 100.0]) == 10.0
    assert middle([0.0, 10.0, 100.0]) == 10.0


def test_whole_seconds_still_tell_tenths() -> None:
    """Twelve boots of 6.4 s are seven of 6 s and five of 7 s; one that hung for a minute does not count."""
    assert middle([6.0] * 7 + [7.0] * 5) == pytest.approx(6.4)
    assert middle([6.0] * 6 + [7.0] * 5 + [66.0]) == pytest.approx(6.5)


def test_when_in_their_joins_nodes_are_ready_is_learned() -> None:
    # Ready after 10 s of 30 s, the pods after that.
    assert ready_share(births()) == pytest.approx(1 / 3)
    assert ready_share(births(2)) is None
    at_once = of([node(f"n{number}", 100, 100) for number in range(6)], (), ())
    assert ready_share(at_once) is None, "joins within one second tell no share"


def burst(wanted: float, asked: list[float], prefix: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Nodes of one burst: pods of one moment, NodeClaims as given."""
    names = [f"{prefix}{index}" for index in range(len(asked))]
    nodes = [node(name, at_s + 60, at_s + 70) for name, at_s in zip(names, asked, strict=True)]
    pods = [pod(name, wanted, wanted + 90, owner="ReplicaSet") for name in names]
    return nodes, pods, [claim(name, at_s) for name, at_s in zip(names, asked, strict=True)]


def test_reaction_is_that_to_the_first_machines_of_each_burst() -> None:
    first, second = burst(0, [3, 3, 4, 40], "a"), burst(500, [501, 501, 560], "b")
    known = reaction(of(*(x + y for x, y in zip(first, second, strict=True))), REACTION_S)
    # (3 + 3 + 4) / 3 and 1; what was asked for at 40 s and 560 s was held back by something else.
    assert known.source is Source.LEARNED
    assert known.value == pytest.approx((10 / 3 + 1) / 2)
    assert reaction(of(*burst(0, [3, 3], "a")), REACTION_S) is REACTION_S


def test_a_machine_was_made_for_the_newest_pod_that_is_no_older_than_half_an_hour() -> None:
    """And for none of a DaemonSet, which comes with the node, be it within the same second."""
    made = {"old": -1791, "older": 3, "newest": 7, "later": 12}
    pods = [pod("n", at_s, 200, owner="ReplicaSet") for at_s in made.values()]
    (born,) = of([node("n", 10, 110)], [*pods, pod("n", 10, 120)], [claim("n", 10)])
    assert (born.wanted_s, born.asked_s) == (T0.timestamp() + 7, T0.timestamp() + 10)
    (long_ago,) = of([node("n", 10, 110)], pods[:1], [claim("n", 10)])
    assert long_ago.wanted_s is None
    (just,) = of([node("n", 10, 110)], [pod("n", -1790, 200, owner="ReplicaSet")], [claim("n", 10)])
    assert (just.asked_s, just.wanted_s) == (T0.timestamp() + 10, T0.timestamp() - 1790)


def test_a_birth_of_which_only_the_node_is_known_tells_only_its_own_times() -> None:
    (born,) = of([node("n", 100, 110)], (), ())
    assert (born.created_s, born.ready_s) == (T0.timestamp() + 100, T0.timestamp() + 110)
    assert (born.asked_s, born.is_asked_by_claim, born.wanted_s) == (None, False, None)
    assert (born.join_s, born.own_s) == (10, 10)


@pytest.mark.parametrize(("ready", "join_s"), [(99, 0), (98, None), (100, 0), (1900, 1800), (1901, None)])
def test_a_time_that_cannot_belong_to_a_birth_is_none_of_it(ready: float, join_s: float | None) -> None:
    """Times are whole seconds: one second early is none; half an hour after the birth something else happened."""
    (born,) = of([node("n", 100, ready)], (), ())
    assert born.join_s == join_s


def test_a_daemon_pod_that_was_ready_before_it_was_made_does_not_count() -> None:
    """Its node was there before under the same name, or a clock was put right."""
    (born,) = of([node("n", 100, 110)], [pod("n", 130, 120), pod("n", 105, 115)], ())
    assert (born.join_s, born.own_s) == (15, 10)


def test_objects_that_cannot_be_read_or_are_older_than_the_epoch_are_left_out() -> None:
    assert [each.metadata.name for each in dated([b"{", b"\xff", b"[]", b'{"metadata":{"name":"n"}}'])] == ["n"]
    assert births_of(dated([b'{"metadata":{"name":"n"}}']), (), (), since_s=0.0) == ()


def test_bursts_are_told_apart_by_half_a_minute() -> None:
    """Two bursts count as two reactions, of 1 s and 9 s; within half a minute they are one."""
    for second, mean in ((31, 5.0), (30, 1.0)):
        one, other = burst(0, [1, 1], "a"), burst(second, [second + 9, second + 9], "b")
        assert reaction(of(*(x + y for x, y in zip(one, other, strict=True))), REACTION_S).value == mean


def test_machines_whose_claims_cannot_be_of_their_time_tell_no_reaction() -> None:
    """As of nodes whose claims were made for them afterwards: alone in their burst they must not break it either."""
    nodes, pods, claims = burst(0, [3, 3, 3], "a")
    late = [node("late", 1000, 1010)], [pod("late", 1150, 1200, owner="ReplicaSet")], [claim("late", 1200)]
    both = [one + other for one, other in zip((nodes, pods, claims), late, strict=True)]
    assert reaction(of(*both), REACTION_S) == reaction(of(nodes, pods, claims), REACTION_S)


def test_the_first_machines_are_those_within_a_second_of_the_very_first() -> None:
    known = reaction(of(*burst(0, [4, 5, 6], "a")), REACTION_S)
    assert known.value == 4.5
    assert reaction(of(*burst(0, [0, 0, 0], "a")), REACTION_S).value == 0.5, "no reaction takes less"


def test_three_machines_teach_and_two_do_not() -> None:
    for count, is_learned in ((2, False), (3, True)):
        known = of(*burst(0, [3] * count, "a"))
        sources = [
            what(known, guess).source for what, guess in ((boot, BOOT_S), (join, JOIN_S), (reaction, REACTION_S))
        ]
        assert sources == [Source.LEARNED if is_learned else Source.ASSUMED] * 3
        assert (ready_share(known) is not None) is is_learned


@pytest.mark.parametrize(("count", "is_learned"), [(5, False), (6, True)])
def test_how_machines_differ_is_learned_from_twice_as_many(count: int, *, is_learned: bool) -> None:
    assert (boot_jitter(births(count), BOOT_JITTER) is not BOOT_JITTER) is is_learned


def test_machines_that_differ_much_count_as_differing_by_a_third_of_their_boot_at_most() -> None:
    """A world in which boots vary by more than their own length would not be one."""
    nodes = [node(f"n{index}", 10 + index**2, 1000) for index in range(1, 30)]
    wild = of(nodes, (), [claim(f"n{index}", 9) for index in range(1, 30)])
    assert boot_jitter(wild, BOOT_JITTER).value == 0.3


def test_jitter_is_not_made_of_whole_seconds() -> None:
    """Boots of 15 or 16 s: what timestamps round to, not how machines differ."""
    same = of(*burst(0, [0] * 8, "a"))
    assert boot_jitter(same, BOOT_JITTER).value == 0
    nodes = [node(f"n{i}", 15 + i % 2, 30) for i in range(8)]
    rounded = of(nodes, (), [claim(f"n{i}", 0) for i in range(8)])
    hidden = boot_jitter(rounded, BOOT_JITTER)
    # A quarter of a second at most is hidden in them, and nobody knows how much of it.
    assert 0 < hidden.value * 15.5 < 0.3
    assert hidden.spread > 0.2


def test_without_claims_the_pods_that_waited_tell_and_are_trusted_less() -> None:
    nodes = [node(f"n{i}", 100, 110) for i in range(4)]
    waiting = [pod(f"n{i}", 20, 115, owner="ReplicaSet") for i in range(4)]
    known = boot(of(nodes, waiting, ()), BOOT_S)
    # Made at 20 s, registered at 100 s; ten of these eighty seconds are the autoscaler's reaction.
    assert (known.value, known.spread) == (70, 0.2)
    assert "by the pods they were made for" in known.detail


def test_later_restarts_are_no_part_of_a_birth() -> None:
    late = of([node("n", 0, 90_000)], [pod("n", 5, 95_000)], ())
    assert (late[0].ready_s, late[0].usable_s) == (None, None)


def test_only_young_nodes_count() -> None:
    nodes = [node(f"n{i}", 100 + i, None) for i in range(6)]
    assert [each.name for each in of(nodes, (), (), since_s=T0.timestamp() + 104)] == ["n4", "n5"]


def saved(**changes: Any) -> dict[str, Any]:
    timeline = [{"atSeconds": float(s), "ready": s - 90} for s in range(90, 97)]
    body = {
        "kind": "Plan",
        "createdAt": at(0),
        "request": {"pool": "gpu"},
        "nodesComing": 6,
        "eta": {"medianSeconds": 100.0, "lowSeconds": 90.0, "highSeconds": 130.0},
        "firstNode": {"medianSeconds": 91.0},
        "timeline": timeline,
        "inputs": [{"name": "reaction", "value": 5.0}],
    }
    return {**body, **changes}


def test_plan_is_held_against_what_came() -> None:
    found = compared(saved_plan(saved()), births())
    # Asked for at 10 s after the plan, 5 s after the demand; usable at 130..135 s.
    assert (found.came, found.ready, found.since_s) == (6, 6, 5)
    assert found.steps[-1].real_s == 130
    assert found.steps[-1].off_by == pytest.approx(0.3)
    assert found.is_in_band is True
    body = comparison_json(found, T0)
    assert (body["kind"], body["steps"][-1]["offBy"]) == ("PlanComparison", 0.3)
    assert problems(body, json.loads(SCHEMA.read_text())) == []


def test_comparison_begins_with_the_pods_that_nodes_were_made_for() -> None:
    found = compared(saved_plan(saved(nodesComing=3)), of(*burst(7, [12, 12, 12], "a")))
    # The plan thought 5 s of reaction; pods and NodeClaims say that it began 5 s before they were asked for.
    assert (found.since_s, found.steps[-1].real_s) == (7, 75)


@pytest.mark.parametrize(
    "label", ["eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "node.kubernetes.io/instance-type"]
)
def test_nodes_of_a_group_that_karpenter_does_not_make_are_counted(label: str) -> None:
    """A plan names such a pool by the cloud's label; without any claim the nodes' pods tell when it began."""
    made = [node(f"n{i}", 100 + i, 110 + i) for i in range(6)]
    other = node("other", 100, 110)
    for new in made:
        new["metadata"]["labels"] = {label: "gpu"}
    other["metadata"]["labels"] = {label: "web"}
    comparison = compared(saved_plan(saved()), of([*made, other], [pod(f"n{i}", 5, 120, "Job") for i in range(6)], ()))
    assert (comparison.came, comparison.ready, comparison.since_s) == (6, 6, 5)


def test_nodes_that_were_there_before_are_not_counted() -> None:
    found = compared(saved_plan(saved(createdAt=at(103))), births())
    assert found.came == 3
    assert found.is_in_band is None


def test_a_plan_that_nothing_followed_says_no_beginning() -> None:
    found = compared(saved_plan(saved()), ())
    assert comparison_lines(found, Look())[1] == "Since then no node came"


@pytest.mark.parametrize(
    ("eta_s", "high_s", "end"),
    [
        (100.0, 120.0, " in 1m40s (nine in ten: 1m20s to 2m)"),
        (100.0, None, " in 1m40s (nine in ten: 1m20s to no end)"),
        (None, None, ", and no end"),
    ],
)
def test_a_plan_without_an_end_is_said_to_have_none(eta_s: float | None, high_s: float | None, end: str) -> None:
    """It said "in never (nine in ten: never to never)"."""
    plan = replace(saved_plan(saved()), eta_s=eta_s, low_s=80.0, high_s=high_s)
    assert comparison_lines(compared(plan, ()), Look())[0].partition("6 nodes in gpu")[2] == end


@pytest.mark.parametrize(
    "body", [{}, [], {"kind": "Plan"}, saved(nodesComing=0), saved(nodesComing="6"), saved(kind="x")]
)
def test_what_is_no_plan_is_refused(body: Any) -> None:
    with pytest.raises(SavedPlanError):
        saved_plan(body)


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [({"nodesComing": 0}, False), ({"nodesComing": 1}, True), ({"nodesComing": 10_000_000}, True),
     ({"nodesComing": 10_000_001}, False), ({"nodesComing": None}, False), ({"kind": "Other"}, False),
     ({"createdAt": "yesterday"}, False)],
)  # fmt: skip
def test_only_a_plan_of_some_nodes_can_be_compared(changes: dict[str, Any], *, accepted: bool) -> None:
    if accepted:
        assert saved_plan(saved(**changes)).nodes == changes["nodesComing"]
    else:
        with pytest.raises(SavedPlanError):
            saved_plan(saved(**changes))


@pytest.mark.parametrize(
    ("predicted_s", "real_s", "off_by"),
    [(100.0, 110.0, 0.1), (100.0, 90.0, -0.1), (None, 90.0, None), (100.0, None, None), (0.0, 90.0, None)],
)
def test_how_far_off_a_step_was(predicted_s: float | None, real_s: float | None, off_by: float | None) -> None:
    step = ComparedStep(ready=1, predicted_s=predicted_s, real_s=real_s)
    assert step.off_by == (None if off_by is None else pytest.approx(off_by))


@pytest.mark.parametrize(
    ("end_s", "low_s", "high_s", "is_in_band"),
    [
        (100.0, 100.0, 120.0, True),
        (120.0, 100.0, 120.0, True),
        (99.9, 100.0, 120.0, False),
        (120.1, 100.0, 120.0, False),
        (999.0, 100.0, None, True),
        (99.0, 100.0, None, False),
        (None, 100.0, 120.0, None),
        (110.0, None, 120.0, None),
    ],
)
def test_an_end_is_in_the_band_with_both_of_its_ends(
    end_s: float | None, low_s: float | None, high_s: float | None, *, is_in_band: bool | None
) -> None:
    plan = replace(saved_plan(saved()), low_s=low_s, high_s=high_s)
    steps = (ComparedStep(ready=1, predicted_s=1.0, real_s=1.0), ComparedStep(ready=9, predicted_s=1.0, real_s=end_s))
    found = Comparison(saved=plan, came=9, ready=9, since_s=0.0, steps=steps)
    assert found.is_in_band is is_in_band
    assert replace(found, steps=()).is_in_band is None


def came(*, wanted_s: float | None = None, asked_s: float | None = None, by_claim: bool = False) -> Birth:
    known = {"name": "n", "pool": "gpu", "created_s": 500.0, "usable_s": 600.0}
    return Birth(**known, asked_s=asked_s, is_asked_by_claim=by_claim, wanted_s=wanted_s)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("births_of_plan", "began_s"),
    [
        ((), 0.0),
        ((came(wanted_s=140.0), came(wanted_s=130.0, asked_s=120.0)), 30.0),
        ((came(wanted_s=90.0, asked_s=150.0),), 50.0),
        ((came(wanted_s=100.0, asked_s=150.0),), 0.0),
        ((came(asked_s=150.0, by_claim=True), came(asked_s=148.0)), 40.0),
        ((came(asked_s=105.0, by_claim=True),), 0.0),
        ((came(asked_s=99.0),), 0.0),
        ((came(asked_s=100.0), came(asked_s=150.0)), 0.0),
        ((came(),), 0.0),
    ],
)
def test_demand_came_with_its_pods_or_a_reaction_before_the_first_order(
    births_of_plan: tuple[Birth, ...], began_s: float
) -> None:
    """The plan was made at second 100 and reckons with a reaction of 10 s."""
    plan = replace(saved_plan(saved()), at=datetime.fromtimestamp(100.0, UTC), pool="gpu", reaction_s=10.0)
    found = compared(plan, births_of_plan)
    assert (found.since_s, found.came, found.ready) == (began_s, len(births_of_plan), len(births_of_plan))
    assert compared(replace(plan, pool="other"), births_of_plan).came == 0


@pytest.mark.parametrize(
    ("asked_s", "wanted_s", "boot_s"),
    [(8.0, 5.0, 92.0), (None, 5.0, None), (8.0, None, 92.0), (None, None, None)],
)
def test_what_is_not_known_of_a_birth_is_not_guessed(
    asked_s: float | None, wanted_s: float | None, boot_s: float | None
) -> None:
    birth = Birth(name="n", pool="", created_s=100.0, asked_s=asked_s, wanted_s=wanted_s)
    assert (birth.boot_s, birth.join_s) == (boot_s, None)
    assert replace(birth, usable_s=130.0).join_s == 30.0


def test_of_a_saved_course_the_moments_count_that_tell_a_time_and_a_number() -> None:
    timeline = [{"atSeconds": 10, "ready": 2}, {"atSeconds": None, "ready": 3}, {"ready": 4}, {"atSeconds": 20}]
    assert saved_plan(saved(timeline=timeline)).curve == ((10.0, 2),)
