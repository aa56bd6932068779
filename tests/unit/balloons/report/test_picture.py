"""Pictures: equal bytes for equal plans, on every machine's settings, and no text of a cluster breaks out."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from balloons.report.drawing import NARROW, WIDE
from balloons.report.html_page import page
from balloons.report.palette import DARK, VARIABLES
from balloons.report.picture import NothingToDrawError, inline_svg, png, svg
from tests.unit.balloons.report.a_plan import EVIL, body, document, evil_document, wave

DRAW = """
import hashlib, json, sys
from balloons.report.document import read_document
from balloons.report.html_page import page
from balloons.report.picture import png, svg
plan = read_document(json.load(sys.stdin))
for each in (png(plan), svg(plan), page(plan, "0.1.0").encode()):
    print(hashlib.sha256(each).hexdigest())
"""


def drawn_elsewhere(folder: Path, seed: str) -> list[str]:
    import json

    environment = {**os.environ, "PYTHONHASHSEED": seed, "MPLCONFIGDIR": str(folder), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", DRAW]
    answer = subprocess.run(
        command, input=json.dumps(body()), capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    assert answer.stderr == ""
    return answer.stdout.split()


def test_equal_plans_give_equal_bytes_whatever_the_process_and_the_users_settings(tmp_path: Path) -> None:
    plain, changed = tmp_path / "plain", tmp_path / "changed"
    plain.mkdir()
    changed.mkdir()
    (changed / "matplotlibrc").write_text("font.size: 22\nlines.linewidth: 9\nsvg.fonttype: path\nfigure.dpi: 30\n")
    assert drawn_elsewhere(plain, "1") == drawn_elsewhere(changed, "2")


def test_svg_holds_no_time_and_is_small() -> None:
    text = svg(document()).decode()
    assert "<dc:date>" not in text
    assert len(text) < 100_000
    assert png(document()).startswith(b"\x89PNG")


def test_no_text_of_a_cluster_breaks_out_of_the_drawing() -> None:
    tree = ET.fromstring(svg(evil_document()))
    assert not [
        each for each in tree.iter() if each.tag.rpartition("}")[2] in ("script", "a", "image", "foreignObject")
    ]
    texts = "".join(tree.itertext())
    assert "<script>" in texts
    assert not any(char in texts for char in "\x1b\u202e")


def test_long_names_are_cut_at_the_edge() -> None:
    texts = list(ET.fromstring(svg(document(request=body()["request"] | {"pool": "x" * 253}))).itertext())
    (title,) = (each for each in texts if each.startswith("100 nodes more"))
    assert title.endswith("x…")
    assert len(title) < 80


def test_page_colours_follow_its_variables() -> None:
    text = inline_svg(document(), WIDE)
    assert not [colour for colour in VARIABLES if colour in text]
    assert "var(--ready)" in text
    assert set(DARK) == set(VARIABLES)


def test_narrow_drawing_is_narrow() -> None:
    assert "viewBox" in inline_svg(document(), NARROW)
    width, height = (
        float(each) for each in inline_svg(document(), NARROW).partition('viewBox="0 0 ')[2].split('"')[0].split()
    )
    assert width < height


@pytest.mark.parametrize(
    "changes",
    [
        {"eta": {"medianSeconds": None}},
        {"eta": {"medianSeconds": 240, "lowSeconds": 200, "highSeconds": None}},
        {"eta": {"medianSeconds": 240, "lowSeconds": 1, "highSeconds": 1e9}},
        {"waves": [wave(0, 0, 0, 0), wave(0, None, 3, 0), wave(1e9, 2e9, 0, 0)]},
        {"nodesComing": 10_000_000},
    ],
)
def test_odd_plans_can_be_drawn(changes: dict[str, object]) -> None:
    assert svg(document(**changes)).startswith(b"<?xml")


def test_plan_without_course_is_a_page_and_a_picture_of_words() -> None:
    nothing = document(timeline=[], eta=None, firstNode=None, limit=None, waves=[], nodesComing=0)
    assert "cannot come" in svg(nothing).decode() or "100 nodes more" in svg(nothing).decode()
    with pytest.raises(NothingToDrawError):
        inline_svg(nothing, WIDE)
    assert "there is no chart to draw" in page(nothing, "0.1.0")
    assert EVIL not in page(evil_document(), "0.1.0")
