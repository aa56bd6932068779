"""Matching as the scheduler does it: labels and node affinity."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.custom_objects import Problem
from throttler.kube.selectors import (
    LabelSelector,
    Requirement,
    are_disjoint,
    key_problems,
    matches,
    meets,
    value_problems,
)

LABELS = {"pool": "gpu", "gpus": "8", "empty": ""}
WORDS = st.sampled_from(["", "a", "b"])


@pytest.mark.parametrize(
    ("operator", "key", "values", "is_met"),
    [
        ("In", "pool", ("cpu", "gpu"), True), ("In", "pool", ("cpu",), False), ("In", "none", ("gpu",), False),
        ("In", "empty", ("",), True), ("In", "none", ("",), False), ("In", "pool", (), False),
        ("NotIn", "pool", ("cpu",), True), ("NotIn", "pool", ("gpu",), False), ("NotIn", "none", ("gpu",), True),
        ("Exists", "empty", (), True), ("Exists", "none", (), False),
        ("DoesNotExist", "none", (), True), ("DoesNotExist", "empty", (), False),
        ("Gt", "gpus", ("4",), True), ("Gt", "gpus", ("8",), False), ("Lt", "gpus", ("+9",), True),
        ("Lt", "gpus", ("8",), False),
        ("Gte", "gpus", ("8",), True), ("Gte", "gpus", ("9",), False),
        ("Lte", "gpus", ("8",), True), ("Lte", "gpus", ("7",), False), ("Lte", "none", ("7",), False),
        ("Gt", "gpus", ("-1",), True), ("Gt", "none", ("0",), False), ("Gt", "pool", ("0",), False),
        ("Gt", "gpus", (), False), ("Gt", "gpus", ("1", "2"), False), ("Lt", "gpus", ("1_0",), False),
        ("Lt", "gpus", ("９",), False), ("Lt", "gpus", (" 9",), False), ("Lt", "gpus", ("9223372036854775808",), False),
        ("Lt", "gpus", ("9223372036854775807",), True), ("Gt", "gpus", ("-9223372036854775808",), True),
        ("Gt", "gpus", ("-9223372036854775809",), False),
        ("in", "pool", ("gpu",), False), ("", "pool", (), False),
    ],
)  # fmt: skip
def test_requirement(operator: str, key: str, values: tuple[str, ...], is_met: bool) -> None:
    assert meets(Requirement(key, operator, values), LABELS) is is_met


def test_every_part_of_a_selector_must_hold() -> None:
    expressions = (Requirement("gpus", "In", ("8",)),)
    assert matches(LabelSelector({"pool": "gpu"}, expressions), LABELS)
    assert not matches(LabelSelector({"pool": "cpu"}, expressions), LABELS)
    assert not matches(LabelSelector({"pool": "gpu"}, (Requirement("gpus", "In", ("4",)),)), LABELS)


def test_an_empty_selector_matches_everything_and_an_empty_value_only_itself() -> None:
    assert matches(LabelSelector(), {})
    assert matches(LabelSelector({"empty": ""}), LABELS)
    assert not matches(LabelSelector({"none": ""}), LABELS)


@given(WORDS, st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=4))
def test_opposite_operators_never_agree(key: str, values: list[str], labels: dict[str, str]) -> None:
    for one, other in (("In", "NotIn"), ("Exists", "DoesNotExist")):
        assert meets(Requirement(key, one, tuple(values)), labels) != meets(
            Requirement(key, other, tuple(values)), labels
        )


PARTS = st.builds(
    Requirement,
    WORDS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(WORDS, min_size=1, max_size=2).map(tuple),
)
SELECTORS = st.builds(LabelSelector, st.dictionaries(WORDS, WORDS, max_size=2), st.lists(PARTS, max_size=2).map(tuple))


@given(SELECTORS, SELECTORS, st.dictionaries(WORDS, WORDS, max_size=3))
def test_no_node_has_what_two_disjoint_selectors_ask_for(
    one: LabelSelector, other: LabelSelector, labels: dict[str, str]
) -> None:
    assert not (are_disjoint(one, other) and matches(one, labels) and matches(other, labels))
    assert are_disjoint(one, other) == are_disjoint(other, one)


@pytest.mark.parametrize(
    ("operator", "values", "is_told"),
    [
        ("In", ("b", "c"), True), ("In", ("a", "b"), False), ("NotIn", ("a",), True), ("NotIn", ("b",), False),
        ("Exists", (), False), ("DoesNotExist", (), True), ("Gt", ("4",), True),
    ],
)  # fmt: skip
def test_one_label_tells_that_no_node_has_both(operator: str, values: tuple[str, ...], *, is_told: bool) -> None:
    other = LabelSelector({}, (Requirement("pool", operator, values),))
    assert are_disjoint(LabelSelector({"pool": "a"}), other) is is_told
    assert not are_disjoint(LabelSelector({"zone": "a"}), other)


@pytest.mark.parametrize(
    ("problems", "longest"),
    [(key_problems, f"{'d' * 253}/{'n' * 63}"), (value_problems, "v" * 63)],
    ids=["key", "value"],
)
def test_labels_are_accepted_up_to_the_length_that_kubernetes_takes(
    problems: Callable[[str, str], Iterator[Problem]], longest: str
) -> None:
    assert not [*problems(longest, "nodes")]
    (problem,) = problems(f"x{longest}", "nodes")
    assert longest in problem.sentence
