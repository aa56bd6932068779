"""Command lines as Go's flag packages take them, feature gates, and versions."""

import pytest

from balloons.cluster.component_flags import flags_of, gates_of, image_version


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
