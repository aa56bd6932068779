"""Reading a saved plan: what is no plan is refused in one sentence that names the field."""

from typing import Any

import pytest

from balloons.preview.assumed import assumed_inputs
from balloons.preview.plan_json import plan_json
from balloons.preview.scale_up_plan import Asked, make_plan
from balloons.report.document import DocumentError, read_document
from tests.unit.balloons.preview.test_scale_up_plan import AT, PLANS
from tests.unit.balloons.report.a_plan import body, wave


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_can_be_read_back(name: str) -> None:
    found = read_document(plan_json(PLANS[name], "0.1.0"))
    assert (found.nodes_coming, found.made_by) == (PLANS[name].coming, "0.1.0")


def test_plan_from_assumptions_can_be_read_back() -> None:
    plan = make_plan(assumed_inputs(), Asked(add=5), AT)
    assert len(read_document(plan_json(plan)).inputs) == len(plan_json(plan)["inputs"])


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
