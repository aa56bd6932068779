"""The moving picture: the terminal as it is, scene after scene, and nothing that a page would refuse to show."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from lab.pictures.__main__ import MOVING, PICTURES
from lab.pictures.animation import ANSWER_S, COLUMNS, Scene, animation
from lab.pictures.terminal import printed

pytestmark = pytest.mark.whole

SVG = "{http://www.w3.org/2000/svg}"
PLAN = ("plan", "--offline", "--to", "20", "--boot", "30s", "--join", "20s")
SCENES = [
    Scene(remark="How soon?", typed="balloons plan --to 20", arguments=PLAN, read_s=2.0),
    Scene(remark="Which one is it?", typed="balloons version", arguments=("version",), read_s=3.0),
]
LARGEST = 200_000
"""Bytes; what a page may well load for a picture."""


@pytest.fixture(scope="module")
def picture() -> str:
    return animation(SCENES, "test")


def scenes(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg) if group.get("class") == "scene"]


def rows(scene: ElementTree.Element) -> list[str]:
    """The scene's texts, row by row, without empty rows and blanks at the end of a row."""
    at: dict[float, list[tuple[float, str]]] = {}
    for part in scene.iter(f"{SVG}text"):
        at.setdefault(float(part.get("y", "")), []).append((float(part.get("x", "")), part.text or ""))
    found = []
    for _, parts in sorted(at.items()):
        row = ""
        for x, text in sorted(parts):
            row = row.ljust(round(x / 12.2)) + text.replace("\xa0", " ")
        found.append(row.rstrip())
    return [row for row in found if row]


def test_each_scene_has_a_remark_a_command_and_what_it_prints(picture: str) -> None:
    for scene, group in zip(SCENES, scenes(picture), strict=True):
        output = re.sub(r"\x1b\[[0-9;]*m", "", printed(scene.arguments, columns=COLUMNS, rows=30)).splitlines()
        shown = [f"# {scene.remark}", f"$ {scene.typed}", *(line.rstrip() for line in output if line.strip())]
        assert rows(group) == shown


def moments(picture: str, name: str) -> list[tuple[float, str]]:
    """The keyframes of this name: percent, and what holds from there on."""
    (frames,) = re.findall(rf"@keyframes {name} \{{ (.*) \}}$", picture, re.M)
    return [(float(percent), css) for percent, css in re.findall(r"([\d.]+)% \{ ([^}]*) \}", frames)]


def test_one_scene_is_seen_at_any_time(picture: str) -> None:
    """Each begins where the one before ends, the first at 0 and the last at the end."""
    seen = [
        (
            next(percent for percent, css in moments(picture, f"test-{number}-seen") if css == "opacity: 1"),
            [percent for percent, css in moments(picture, f"test-{number}-seen") if css == "opacity: 0"][-2:],
        )
        for number in range(len(SCENES))
    ]
    assert [seen[0][0], seen[-1][1][0]] == [0.0, 100.0]
    assert all(before[1][0] == after[0] for before, after in pairwise(seen))


def test_the_output_comes_after_the_last_key(picture: str) -> None:
    whole_s = sum(scene.length_s for scene in SCENES)
    for number in range(len(SCENES)):
        typed = next(percent for percent, css in moments(picture, f"test-{number}-types") if "translate" in css)
        uncovered = next(percent for percent, css in moments(picture, f"test-{number}-waits") if css == "opacity: 0")
        assert (uncovered - typed) * whole_s / 100.0 == pytest.approx(ANSWER_S, abs=0.01)


def test_screens_of_unequal_height_are_drawn_to_one_scale(picture: str) -> None:
    views = {part.get("viewBox") for group in scenes(picture) for part in group if part.get("viewBox")}
    assert views == {ElementTree.fromstring(picture).get("viewBox")}


def test_who_asks_for_less_motion_sees_the_last_scene(picture: str) -> None:
    still, _, moving = picture.partition("@media (prefers-reduced-motion: no-preference)")
    assert "animation:" not in still
    assert ".scene { opacity: 0 }\n.scene:last-of-type { opacity: 1 }" in still
    assert "animation:" in moving


@pytest.mark.parametrize("name", MOVING)
def test_pages_may_show_it(name: str) -> None:
    """In an image nothing is loaded and no script runs. That it is drawn so is in test_pictures.py."""
    svg = (PICTURES / f"{name}.svg").read_bytes()
    tags = {part.tag.removeprefix(SVG) for part in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "style", "defs", "clipPath", "g", "rect", "circle", "text"}
    for foreign in (b"href", b"@import", b"@font-face", b"url(h", b"/home", b"/root"):
        assert foreign not in svg
    assert len(svg) <= LARGEST
