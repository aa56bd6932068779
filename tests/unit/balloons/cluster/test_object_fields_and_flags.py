"""Reading by path: what is not as it should be is absent."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from balloons.cluster import object_fields_and_flags
from balloons.cluster.object_fields_and_flags import flags_of, gates_of, image_version, is_true, moment, whole

ODD: tuple[Any, ...] = (None, 7, True, "x", [], {}, 1.5)
READERS: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("part", {}, ({"a": 1},)),
    ("parts", (), ([{"a": 1}],)),
    ("text", "", ("x",)),
    ("texts", (), (["x"],)),
    ("pairs", {}, ({"a": "x"},)),
    ("whole", None, (7, 0, -1)),
]
"""Name, what it gives of odd values, and values that are not odd to it."""


@pytest.mark.parametrize(("name", "absent", "sound"), READERS, ids=[name for name, _, _ in READERS])
def test_what_is_there_is_given_and_anything_else_is_absent(name: str, absent: Any, sound: tuple[Any, ...]) -> None:
    read = getattr(object_fields_and_flags, name)
    for value in sound:
        leaf = read({"spec": {"field": value}}, "spec", "field")
        assert (list(leaf) if isinstance(value, list) else leaf) == value
    for odd in ODD:
        if type(odd) not in {type(value) for value in sound}:
            assert read({"spec": {"field": odd}}, "spec", "field") == absent
    for body in (None, [], "x", {"spec": None}, {"spec": ["field"]}, {}):
        assert read(body, "spec", "field") == absent


def test_of_a_list_and_of_labels_what_is_odd_is_left_out() -> None:
    assert object_fields_and_flags.parts([{"a": 1}, "x", None, {}]) == ({"a": 1}, {})
    assert object_fields_and_flags.texts(["x", 1, None, ""]) == ("x", "")
    assert object_fields_and_flags.pairs({"a": "x", "b": 1, "c": None}) == {"a": "x"}


@pytest.mark.parametrize(("value", "truth"), [(True, True), (False, False), (1, False), ("true", False), (None, False)])
def test_only_true_is_true(value: Any, *, truth: bool) -> None:
    assert is_true({"paused": value}, "paused") is truth
    assert whole(True) is None, "which is no number"


@pytest.mark.parametrize(
    ("written", "hour"),
    [("2026-11-21T11:00:00Z", 11), ("2026-11-21T11:00:00", 11), ("2026-11-21T11:00:00+02:00", 9), ("noon", None)],
)
@pytest.mark.parametrize("here", ["UTC", "Asia/Tokyo"])
def test_a_time_is_in_utc_whatever_its_zone(
    written: str, hour: int | None, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", here)
        time.tzset()
        at = moment({"at": written}, "at")
    time.tzset()
    assert at == (None if hour is None else datetime(2026, 11, 21, hour, tzinfo=UTC))
    assert at is None or at.tzinfo is UTC


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z"])
def test_a_time_beyond_the_calendar_is_none(written: str) -> None:
    """Whoever may write a status may write it, and must not keep others from looking."""
    assert moment({"at": written}, "at") is None


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--a=1"], {"a": "1"}),
        (["-a", "1"], {"a": "1"}),
        (["--a", "--b"], {"a": "true", "b": "true"}),
        (["--a="], {"a": ""}),
        (["--a=", "1"], {"a": ""}),
        (["--a=x=y"], {"a": "x=y"}),
        (["--a=1", "--a=2"], {"a": "2"}),
        (["program", "a", "--b"], {"b": "true"}),
    ],
)
def test_flags_with_a_value_beside_them_or_apart(words: list[str], flags: dict[str, str]) -> None:
    assert flags_of({"args": words}) == flags
    assert flags_of({"command": words}) == flags
    assert flags_of({"command": words[:1], "args": words[1:]}) == flags


@pytest.mark.parametrize(
    ("text", "gates"),
    [("A=true,B=false", {"A": True, "B": False}), (" A = True , C", {"A": True}), ("A=1", {"A": False}), ("", {})],
)
def test_gates_are_on_by_the_word_true_alone(text: str, gates: dict[str, bool]) -> None:
    assert gates_of(text) == gates


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", "v1.36.1"),
        ("registry:5000/karpenter/controller:1.14.0@sha256:0a", "1.14.0"),
        ("registry:5000/karpenter/controller@sha256:0a", ""),
        ("controller", ""),
    ],
)
def test_the_version_of_an_image_is_its_tag(image: str, version: str) -> None:
    assert image_version(image) == version
