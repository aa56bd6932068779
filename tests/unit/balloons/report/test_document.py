"""Saved plans, and what a chart shows of them.

Reading a saved plan: what is no plan is refused in one sentence that names the field. Numbers over time: every node
is in one stage, and pace counts each join once.
"""

from typing import Any

import pytest

from balloons.preview.inputs import assumed_inputs
from balloons.preview.plan_json import plan_json
from balloons.preview.scale_up_plan import Asked, make_plan
from balloons.report.document import BINS, LEAST_S, DocumentError, at, courses_of, marks, read_document, series_of
from tests.unit.balloons.preview.test_scale_up_plan import AT, PLANS, made
from tests.unit.balloons.report.a_plan import body, document, side, wave


@pytest.mark.whole
@pytest.mark.parametrize("name", PLANS)
def test_every_plan_can_be_read_back(name: str) -> None:
    found = read_document(plan_json(made(name), "0.1.0"))
    assert (found.nodes_coming, found.made_by) == (made(name).coming, "0.1.0")


@pytest.mark.whole
def test_plan_from_assumptions_can_be_read_back() -> None:
    body = plan_json(make_plan(assumed_inputs(), Asked(add=5), AT))
    assert len(read_document(body).inputs) == len(body["inputs"])


def test_plan_of_an_earlier_or_a_later_version_can_be_read() -> None:
    old = body()
    del old["madeBy"], old["pods"]
    for each in old["timeline"]:
        del each["utilisation"]
    assert read_document(old | {"somethingNew": 1}).timeline[0].utilisation is None


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ([1, 2], "accepted: a file that `balloons plan --save FILE` wrote"),
        ({"kind": "PlanComparison"}, "accepted: a file that `balloons plan --save FILE` wrote"),
        (body(nodesComing=-1), "Expected `int` >= 0 - at `$.nodesComing`"),
        (body(nodesComing=True), "Expected `int`, got `bool` - at `$.nodesComing`"),
        (body(nodesComing=10**30), "`$.nodesComing`"),
        (body(eta={"medianSeconds": float("nan")}), "`$.eta.medianSeconds`"),
        (body(eta={"medianSeconds": float("inf")}), "`$.eta.medianSeconds`"),
        (body(waves=[wave(0, "soon", 1, 1)]), "at `$.waves[0].untilSeconds`"),  # type: ignore[arg-type]
        (body(waves=[wave(0, 1, 0, 0)] * 201), "length <= 200"),
        (body(timeline=list(reversed(body()["timeline"]))), "timeline is out of order"),
        (body(createdAt="yesterday"), "`$.createdAt`"),
        (body(apiVersion="v2"), "`$.apiVersion`"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_field(broken: Any, sentence: str) -> None:
    with pytest.raises(DocumentError) as error:
        read_document(broken)
    assert sentence in str(error.value)


def test_stages_hold_every_node_at_every_time() -> None:
    series = series_of(document())
    assert series is not None
    assert {sum(counts) for counts in zip(*series.stages.values(), strict=True)} == {100}
    assert list(series.stages) == ["ready", "joining", "booting", "waiting"]
    assert series.tops["ready"][-1] == 100


def test_pace_adds_up_to_all_nodes() -> None:
    series = series_of(document())
    assert series is not None
    minutes = (series.edges_s[-1] - series.edges_s[0]) / BINS / 60
    assert sum(series.pace) * minutes == pytest.approx(100)
    later = series_of(document(timeline=[each | {"atSeconds": each["atSeconds"] + 500} for each in body()["timeline"]]))
    assert later is not None
    assert later.pace == pytest.approx(series.pace), "nothing else changes if all of it is later"


def test_only_what_is_done_now_and_the_other_are_compared() -> None:
    for policies, count in ((("none", "throttle"), 2), (("none", "window 10"), 0), (("none",), 0)):
        given = document(pacing={"policy": "none", "sides": [side(policy) for policy in policies]})
        assert len(courses_of(given)) == count


def test_load_is_left_out_where_the_plan_does_not_say() -> None:
    old = body()["timeline"]
    del old[3]["utilisation"]
    series = series_of(document(timeline=old))
    assert series is not None
    assert series.load == ()


@pytest.mark.parametrize("moments", [0, 1])
def test_nothing_over_time_is_no_series(moments: int) -> None:
    assert series_of(document(timeline=body()["timeline"][:moments])) is None


def test_an_instant_is_no_series() -> None:
    first, second = body()["timeline"][:2]
    assert series_of(document(timeline=[first, second | {"atSeconds": 1e-300}])) is None
    last = second | {"atSeconds": LEAST_S}
    assert series_of(document(timeline=[first, first, last])) is not None


def test_values_between_two_times_lie_between() -> None:
    assert [at((0.0, 10.0, 10.0, 20.0), (0, 4, 6, 6), each) for each in (0, 5, 15, 99)] == [0, 2, 6, 6]
    assert at((10.0, 20.0), (0, 4), 15.0) == 2
    assert at((0.0, 0.0, 10.0), (0, 3, 5), 0.0) == 3, "what came at the same time counts"


@pytest.mark.parametrize(("end_s", "step_s"), [(255.0, 30.0), (2232.0, 300.0), (43200.0, 7200.0), (1e9, 1e9 / 9)])
def test_marks_are_round_and_few(end_s: float, step_s: float) -> None:
    found = marks(end_s, 9)
    assert len(found) <= 10
    assert found[1] - found[0] == pytest.approx(step_s)
    assert found[-1] <= end_s


def test_an_axis_of_any_length_has_enough_marks_to_read_off_a_time() -> None:
    """From four seconds to a week."""
    for end_s in (4.0 * 1.1**number for number in range(125)):
        found = marks(end_s, 9)
        assert 3.5 < end_s / (found[1] - found[0]) <= 9
