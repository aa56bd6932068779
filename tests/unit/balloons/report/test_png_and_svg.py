"""Pictures of a plan: equal bytes, no text breaks out, and both courses in one.

Pictures: equal bytes for equal plans, on every machine's settings, and no text of a cluster breaks out. Paced against
not paced: one chart in terminal, SVG, PNG and page, where a plan holds both.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

from balloons.cli.plan_text_and_chart import chart
from balloons.cli.terminal import Look
from balloons.report.chart import DARK, LEVELS, NARROW, SLIDE, VARIABLES, WIDE
from balloons.report.document import Document, DocumentError, courses_of, end_of, read_document, series_of
from balloons.report.html_page import page
from balloons.report.png_and_svg import Chart, NothingToDrawError, can_draw, draw_comparison, inline_svg, png, svg
from tests.unit.balloons.report.a_plan import EVIL, body, document, evil_document, side, wave

pytestmark = pytest.mark.whole

DRAW = """
import hashlib, json, sys
from balloons.report.document import read_document
from balloons.report.html_page import page
from balloons.report.png_and_svg import png, svg
plan = read_document(json.load(sys.stdin))
for each in (png(plan), svg(plan), page(plan, "0.1.0").encode()):
    print(hashlib.sha256(each).hexdigest())
"""


@cache
def drawn(chart: Chart = Chart.STAGES) -> str:
    """The usual plan."""
    return svg(document(), chart).decode()


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
    text = drawn()
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
    text = inline_svg(document(), NARROW)
    width, height = (float(each) for each in text.partition('viewBox="0 0 ')[2].split('"')[0].split())
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
    text = svg(nothing).decode()
    assert "cannot come" in text or "100 nodes more" in text
    with pytest.raises(NothingToDrawError):
        inline_svg(nothing, WIDE)
    assert "there is no chart to draw" in page(nothing, "0.1.0")
    assert EVIL not in page(evil_document(), "0.1.0")


def without_courses(plan: Document) -> Document:
    sides = tuple(msgspec.structs.replace(side, timeline=()) for side in plan.pacing.sides)
    return msgspec.structs.replace(plan, pacing=msgspec.structs.replace(plan.pacing, sides=sides))


def test_both_courses_begin_with_the_demand_and_end_with_all_nodes() -> None:
    courses = courses_of(document())
    assert {each.policy for each in courses} == {"throttle", "none"}
    for course in courses:
        assert course.times_s[0] < 5.0
        assert course.ready[-1] == document().nodes_coming
        assert min(course.slower_by) >= 1.0


def test_the_picture_names_both_and_says_the_answer() -> None:
    text = drawn(Chart.COMPARED)
    for words in ("paced: ", "not paced, as now: ", "API load", "others wait", "nodes ready", "Yes"):
        assert words in text
    assert png(document(), Chart.COMPARED)[:4] == b"\x89PNG"
    assert svg(document(), Chart.COMPARED).decode() == text


@pytest.mark.parametrize("chart", list(Chart))
def test_every_picture_says_no_where_the_plan_does(chart: Chart) -> None:
    """Of a plan of which a part cannot come the stages alone are all green at the end."""
    text = svg(document(broken=["28 nodes cannot come"]), chart).decode()
    assert "No: 28 nodes cannot come." in text
    assert (light(text), light(drawn(chart))) == (LEVELS["no"], LEVELS["yes"])


def light(text: str) -> str:
    """The colour of the answer's."""
    (colour,) = re.findall(r"fill: (#\w+)[^>]*>●", text)
    return str(colour)


def test_an_end_that_is_a_lower_bound_is_drawn_as_one() -> None:
    refusing = [side("none") | {"refusedShare": 0.04}, side("throttle")]
    plan = document(pacing={"policy": "none", "sides": refusing})
    assert "&gt; 4m (90 %: 3m50s to 4m20s)" in svg(plan).decode()
    assert "&gt; 4m (90 %" not in drawn()


def test_a_wave_without_room_for_its_limit_is_told_below() -> None:
    plan = document(waves=[wave(0, 5, 0, 0, limit="autoscaler"), wave(5, 240, 100, 100)])
    assert "wave 1: autoscaler" in svg(plan).decode()


def test_a_number_and_its_sign_stay_in_one_line_of_the_page() -> None:
    refusing = document(broken=["the API servers would refuse 1.5 % of all requests"])
    assert "refuse 1.5\N{NO-BREAK SPACE}% of all" in page(refusing, "1")


def test_two_charts_in_a_page_share_no_identifier() -> None:
    text = page(document(), "1")
    assert "Paced and not paced" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_plan_of_an_earlier_version_has_no_such_chart() -> None:
    older = without_courses(document())
    assert not can_draw(older, Chart.COMPARED)
    assert "Paced and not paced" not in page(older, "1")
    with pytest.raises(NothingToDrawError):
        inline_svg(older, WIDE, Chart.COMPARED)


def test_an_end_that_is_far_off_does_not_hide_the_other() -> None:
    first, second = courses_of(document())
    far = replace(second, times_s=tuple(100 * each for each in second.times_s))
    assert end_of((first, far)) == 3.0 * first.times_s[-1]


def test_the_chart_in_the_terminal_has_a_line_for_each() -> None:
    plan = document()
    lines = chart(series_of(plan), Look(width=80), courses=courses_of(plan))
    names = [" ".join(line.split()[:4]) if line.startswith("Full") else line.split()[0] for line in lines[-6:]]
    waits = "Full height: others wait"
    assert names == ["Full height: API load", "unpaced", "paced", waits, "unpaced", "paced"]
    assert max(map(len, lines)) <= 80
    assert max(map(len, chart(series_of(plan), Look(width=50), courses=courses_of(plan)))) <= 50


def test_where_nobody_waits_the_chart_says_so_and_draws_no_empty_line() -> None:
    plan = document()
    calm = [replace(course, slower_by=tuple(1.0 for _ in course.slower_by)) for course in courses_of(plan)]
    assert chart(series_of(plan), Look(width=80), courses=calm)[-1] == "Others wait no longer."


def test_on_a_telephone_nothing_stands_out() -> None:
    assert "paced: " in inline_svg(document(), NARROW, Chart.COMPARED)


def test_a_course_out_of_order_is_refused() -> None:
    wrong = body()
    wrong["pacing"]["sides"][0]["timeline"].reverse()
    with pytest.raises(DocumentError, match="out of order"):
        read_document(wrong)


def test_a_picture_follows_the_readers_setting() -> None:
    text = drawn(Chart.COMPARED)
    assert "@media(prefers-color-scheme:dark)" in text
    assert '[style*="fill: #ffffff"]{fill:#171c21!important}' in text


def test_the_chart_of_both_has_three_panels_over_the_whole_time() -> None:
    figure = draw_comparison(document(), WIDE)
    nodes, load, waits = figure.axes
    line = WIDE.type * 1.6 / 72 / WIDE.height
    assert nodes.get_position().y1 == pytest.approx(1.0 - 0.4 * line), "no room for a title"
    assert waits.get_position().y0 == pytest.approx(1.8 * line)
    assert {axes.get_xlim() for axes in figure.axes} == {(0.0, end_of(courses_of(document())))}
    assert [bool(axes.xaxis.get_tick_params()["labelbottom"]) for axes in figure.axes] == [False, False, True]
    assert nodes.get_ylim() == (0.0, 130.0), "room for the ends and their names"
    assert load.get_ylim() == (0.0, 108.0)
    assert list(load.get_yticks()) == [0, 50, 100]
    assert (waits.get_yscale(), waits.get_ylim()[0]) == ("log", 0.9)
    assert draw_comparison(document(), SLIDE).axes[0].get_position().y1 < 1.0 - 3 * line
