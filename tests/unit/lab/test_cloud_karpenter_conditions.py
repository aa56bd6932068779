"""Conditions of objects that have none yet."""

import pytest

from lab.cloud.json_api import Json
from lab.cloud.karpenter.karpenter import has_condition


@pytest.mark.parametrize(
    "thing", [{}, {"status": {}}, {"status": {"conditions": None}}, {"status": {"conditions": []}}]
)
def test_an_object_without_conditions_has_none(thing: Json) -> None:
    """A CRD that was created a moment ago says `conditions: null`, and starting Karpenter failed on it."""
    assert not has_condition(thing, "Established")


def test_a_true_condition_is_found() -> None:
    established = {"type": "Established", "status": "True"}
    assert has_condition({"status": {"conditions": [established]}}, "Established")
