"""Objects as users write them: what does not fit is told with field, value and what is accepted, and never raises."""

from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from throttler.kube.custom_objects import (
    LONGEST_VALUE,
    Form,
    Invalid,
    Problem,
    decode_object,
    shown,
    status_of,
    structural_problems,
    texts,
    without_nulls,
)
from throttler.kube.metadata import Metadata, ObjectKey


class Colour(Enum):
    RED = "Red"
    BLUE = "Blue"


class Part(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(min_length=2, max_length=3)]


class Toy(msgspec.Struct, frozen=True):
    size: Annotated[int, Meta(ge=1, le=9)] = 1
    most: Annotated[int, Meta(le=9)] | None = None
    any_number: int = 0
    word: str = ""
    short: Annotated[str, Meta(max_length=2)] = ""
    is_on: bool = False
    colour: Colour = Colour.RED
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=2)] = ()
    few: Annotated[tuple[str, ...], Meta(max_length=1)] = ()
    free: tuple[str, ...] = ()
    labels: Annotated[dict[str, str], Meta(max_length=1)] = {}
    map: dict[str, int] = {}


class ToyStatus(msgspec.Struct, frozen=True):
    size: int = 0


class Made(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: Toy
    status: ToyStatus


def not_five(made: Made) -> tuple[Problem, ...]:
    return (Problem("spec.size", "size 5 is odd"), Problem("spec", "and told")) if made.spec.size == 5 else ()


FORM = Form(
    kind="Toy", spec=Toy, status=ToyStatus, make=Made, rules=not_five, prepared=lambda spec: spec, without_spec={}
)


def toy(spec: Any = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "n", "generation": 3}, "spec": spec, **more}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"size": 1}, None),
        ({"size": 9}, None),
        ({"size": 0}, "spec.size: size 0 is not accepted; accepted: a whole number from 1 to 9"),
        ({"size": 10}, "spec.size: size 10 is not accepted; accepted: a whole number from 1 to 9"),
        ({"size": True}, "spec.size: size true is not accepted; accepted: a whole number from 1 to 9"),
        ({"size": 1.5}, "spec.size: size 1.5 is not accepted; accepted: a whole number from 1 to 9"),
        ({"most": -5}, None),
        ({"most": 10}, "spec.most: most 10 is not accepted; accepted: a whole number from 0 to 9"),
        ({"any_number": "1"}, 'spec.any_number: any_number "1" is not accepted; accepted: a whole number'),
        ({"any_number": -(10**12)}, None),
        ({"word": 1}, "spec.word: word 1 is not accepted; accepted: text"),
        ({"short": "ab"}, None),
        ({"short": "abc"}, 'spec.short: short "abc" is not accepted; accepted: text of 0 to 2 characters'),
        ({"is_on": True}, None),
        ({"is_on": "true"}, 'spec.is_on: is_on "true" is not accepted; accepted: true or false'),
        ({"colour": "Blue"}, None),
        ({"colour": "Green"}, 'spec.colour: colour "Green" is not accepted; accepted: Red, Blue'),
        ({"colour": 1}, "spec.colour: colour 1 is not accepted; accepted: Red, Blue"),
        ({"parts": [{"name": "ab"}, {"name": "abc"}]}, None),
        ({"parts": []}, "spec.parts: parts a list of 0 is not accepted; accepted: a list of 1 to 2"),
        ({"parts": [{}, {}, {}]}, "spec.parts: parts a list of 3 is not accepted; accepted: a list of 1 to 2"),
        ({"parts": {}}, "spec.parts: parts a mapping is not accepted; accepted: a list of 1 to 2"),
        ({"parts": [1]}, "spec.parts[0]: parts[0] 1 is not accepted; accepted: a mapping"),
        ({"parts": [{}]}, "spec.parts[0].name: name is missing; accepted: text of 2 to 3 characters"),
        (
            {"parts": [{"name": "ab"}, {"name": "a"}]},
            'spec.parts[1].name: name "a" is not accepted; accepted: text of 2 to 3 characters',
        ),
        ({"few": ["a"]}, None),
        ({"few": ["a", "b"]}, "spec.few: few a list of 2 is not accepted; accepted: a list of at most 1"),
        ({"free": "a"}, 'spec.free: free "a" is not accepted; accepted: a list'),
        ({"labels": {"a": "b"}}, None),
        (
            {"labels": {"a": "b", "c": "d"}},
            "spec.labels: labels a mapping is not accepted; accepted: a mapping of at most 1",
        ),
        ({"labels": {"a": 1}}, "spec.labels[a]: labels[a] 1 is not accepted; accepted: text"),
        ({"map": []}, "spec.map: map a list of 0 is not accepted; accepted: a mapping"),
        ({"size": None, "parts": None}, None),
        ({"unknown": 1}, None),
        ([], "spec: spec a list of 0 is not accepted; accepted: a mapping"),
    ],
)
def test_what_does_not_fit_is_told_with_what_is_accepted(spec: Any, problem: str | None) -> None:
    found = decode_object(toy(spec), FORM)
    if problem is None:
        assert isinstance(found, Made)
    else:
        assert found == Invalid(ObjectKey("n", "a"), problem, 3)


def test_every_problem_is_told_at_once_and_a_rule_only_of_what_fits() -> None:
    found = decode_object(toy({"size": 0, "word": 1}), FORM)
    assert isinstance(found, Invalid)
    assert found.message.count("; spec.") == 1
    assert decode_object(toy({"size": 5}), FORM) == Invalid(
        ObjectKey("n", "a"), "spec.size: size 5 is odd; spec: and told", 3
    )


def test_the_longest_numbers_of_a_list_are_told_as_they_are() -> None:
    problems = structural_problems({"name": "abcd"}, Part, "spec")
    assert [problem.path for problem in problems] == ["spec.name"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "object: the text is no JSON"),
        (b"\xff", "object: the text is no JSON"),
        (b"[]", "object: the text is no object but list; accepted: a Toy"),
    ],
)
def test_what_is_no_object_has_no_name(raw: bytes, message: str) -> None:
    found = decode_object(raw, FORM)
    assert isinstance(found, Invalid)
    assert (found.key, found.generation) == (ObjectKey("", ""), 0)
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"name": "a", "namespace": "n", "labels": 5}, ObjectKey("n", "a")),
        ({"name": "a", "labels": 5}, ObjectKey("", "a")),
        ({"namespace": "n", "labels": 5}, ObjectKey("n", "")),
        ([1], ObjectKey("", "")),
        (5, ObjectKey("", "")),
    ],
)
def test_metadata_that_cannot_be_read_still_tells_the_name(metadata: Any, key: ObjectKey) -> None:
    found = decode_object({"metadata": metadata, "spec": {}}, FORM)
    assert isinstance(found, Invalid)
    assert found.key == key
    assert found.message.endswith("accepted: the metadata of a stored object")


def test_where_a_spec_is_needed_its_absence_is_a_problem() -> None:
    missing = Problem("spec", "spec is missing")
    needed = Form(
        kind="Toy", spec=Toy, status=ToyStatus, make=Made, rules=not_five, prepared=lambda spec: spec,
        without_spec=missing,
    )  # fmt: skip
    assert decode_object(toy(), needed) == Invalid(ObjectKey("n", "a"), "spec: spec is missing", 3)
    assert isinstance(decode_object(toy({}), needed), Made)
    assert isinstance(decode_object(msgspec.json.encode(toy()), FORM), Made)


@pytest.mark.parametrize(
    ("status", "size"), [({"size": 4}, 4), ({"size": "4"}, 0), (b'{"size":4}', 4), (b"{", 0), (None, 0), (b"null", 0)]
)
def test_a_status_that_cannot_be_read_counts_as_not_written(status: Any, size: int) -> None:
    assert status_of(status, ToyStatus).size == size


def test_null_is_absent_wherever_it_stands() -> None:
    assert without_nulls({"a": None, "b": [{"c": None, "d": 0}, None], "e": ""}) == {"b": [{"d": 0}, None], "e": ""}


def test_whole_numbers_among_amounts_are_text() -> None:
    assert texts({"cpu": 4, "on": True, "share": 0.5, "memory": "1Gi"}) == {
        "cpu": "4",
        "on": True,
        "share": 0.5,
        "memory": "1Gi",
    }
    assert texts([4]) == [4]


@pytest.mark.parametrize("length", [LONGEST_VALUE, LONGEST_VALUE + 1])
def test_a_long_value_is_cut(length: int) -> None:
    rest = "..." if length > LONGEST_VALUE else ""
    assert shown("x" * length) == f'"{"x" * LONGEST_VALUE}{rest}"'
    assert [shown(value) for value in (False, None, (1, 2), {}, 7)] == [
        "false",
        "None",
        "a list of 2",
        "a mapping",
        "7",
    ]
