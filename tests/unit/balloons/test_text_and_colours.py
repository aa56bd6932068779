"""One table of colours: every name that a chart shows is in it, and two meanings never share a colour."""

import re
from pathlib import Path

from balloons.cli import plan_text_and_chart, top_screen
from balloons.report import chart, document
from balloons.text_and_colours import COLOURS

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
