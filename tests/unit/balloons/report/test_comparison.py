"""Paced against not paced: one chart in terminal, SVG, PNG and page, where a plan holds both."""

import re
from dataclasses import replace

import msgspec
import pytest

from balloons.cli.look import Look
from balloons.cli.plan_chart import chart
from balloons.report.document import Document, DocumentError, read_document
from balloons.report.drawing import NARROW, WIDE
from balloons.report.html_page import page
from balloons.report.picture import Chart, NothingToDrawError, can_draw, inline_svg, png, svg
from balloons.report.series import courses_of, end_of, series_of
from tests.unit.balloons.report.a_plan import body, document


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
    text = svg(document(), Chart.COMPARED).decode()
    for words in ("paced: ", "not paced: ", "API load", "others wait", "nodes ready", "Yes"):
        assert words in text
    assert png(document(), Chart.COMPARED)[:4] == b"\x89PNG"
    assert svg(document(), Chart.COMPARED) == svg(document(), Chart.COMPARED)


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
    text = svg(document(), Chart.COMPARED).decode()
    assert "@media(prefers-color-scheme:dark)" in text
    assert '[style*="fill: #ffffff"]{fill:#171c21!important}' in text
