"""Figures as people read them, and one table of colours.

Every name that a chart shows is in that, and two meanings never share a colour.
"""

import re
from pathlib import Path

import pytest

from balloons.cli import plan_text_and_chart, top_screen
from balloons.report import chart, document
from balloons.text_and_colours import COLOURS, duration, end, figure, long_duration, share, times

PACKAGE = Path(__file__).resolve().parents[3] / "balloons"


def test_all_that_reports_and_terminals_draw_has_a_colour_of_the_table() -> None:
    drawn = {
        *document.STAGES,
        *plan_text_and_chart.STAGES,
        *top_screen.STATE_MARKS,
        "pace",
        "load",
        "paced",
        "not paced",
    }
    assert drawn <= COLOURS.keys()
    assert list(chart.STAGES) == list(document.STAGES)


def test_two_meanings_never_share_a_colour() -> None:
    meanings = set(COLOURS.values())
    for of in ("light", "dark", "line"):
        assert len({getattr(each, of) for each in meanings}) == len(meanings), of
    in_terminal = [each.terminal for each in meanings if each.terminal]
    assert len(set(in_terminal)) == len(in_terminal)


def test_no_chart_has_a_colour_of_its_own_for_a_thing() -> None:
    """Paper, ink and lines between are no things."""
    of_things = {colour for each in set(COLOURS.values()) for colour in (each.light, each.dark, each.line)}
    for file in (*PACKAGE.glob("report/*.py"), PACKAGE / "report" / "page.html"):
        written = set(re.findall(r"#[0-9a-f]{6}\b", file.read_text()))
        assert not written & of_things, file.name


HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (1, "1s"),
        (1.4, "1s"),
        (45, "45s"),
        (59.6, "1m"),
        (90, "1m30s"),
        (200, "3m20s"),
        (HOUR, "1h00m"),
        (25 * HOUR + 60, "25h01m"),
        (2 * DAY - 60, "47h59m"),
        (2 * DAY, "2d00h"),
        (1_036_200, "11d23h"),
        (None, "never"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(200, "3m20s"), (2 * HOUR - 1, "1h59m"), (2 * HOUR, "2h"), (47 * HOUR, "47h"), (2 * DAY, "2d"), (10 * DAY, "10d")],
)
def test_ages_are_told_in_one_unit_once_they_are_long(seconds: float, text: str) -> None:
    assert long_duration(seconds) == text


def test_an_end_that_cannot_be_told_is_no_figure() -> None:
    assert [end(200), end(200, is_collapse=True), end(None), end(None, is_stuck=True)] == [
        "3m20s",
        "> 3m20s",
        "> 12h",
        "never",
    ]


def test_shares_and_factors_have_no_more_digits_than_they_are_worth() -> None:
    shares = {0: "0 %", 0.0004: "<0.1 %", 0.001: "0.1 %", 0.0012: "0.1 %", 0.013: "1.3 %", 0.1: "10 %", 0.15: "15 %"}
    assert {value: share(value) for value in shares} == shares
    factors = {1: "1.0x", 9.94: "9.9x", 9.96: "10x", 15: "15x", 1234: "1,234x"}
    assert {value: times(value) for value in factors} == factors


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (200, "seconds", "3m20s"),
        (0.25, "share", "25 %"),
        (2.5, "cores", "2.5 cores"),
        (999, "perSecond", "999/s"),
        (1000, "count", "1,000"),
        (1500, "coreSeconds", "1,500 core-s"),
        (5, "bananas", "5 bananas"),
    ],
)
def test_figures_bear_their_units(value: float, unit: str, text: str) -> None:
    assert figure(value, unit) == text
