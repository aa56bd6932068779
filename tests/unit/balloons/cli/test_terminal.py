"""What a terminal shows and a pipe gets: colours, tables, and a line while something takes long.

What stdout is: a terminal or not, with colours or not, with block letters or not. What is said while something takes
long: to a person only, and nothing is left of it.
"""

import io
import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.cli import terminal as module
from balloons.cli.main import balloons
from balloons.cli.status_text import POOL_COLUMNS, WIDE_POOL_COLUMNS, age, pool_names, pool_row
from balloons.cli.status_text import table as status_table
from balloons.cli.terminal import Look, Row, colour_asked, lines, table, working
from balloons.text_and_colours import printable
from balloons.view.index_and_snapshot import RefusedPool
from throttler.kube.metadata import Condition, Metadata
from throttler.kube.selectors import LabelSelector

NOW = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
ROWS = [{"NAME": "gpu", "WARM": "12", "WHY": "Steady"}, {"NAME": "cpu-large", "WARM": "3", "WHY": "Paused"}]


class Stdout(io.StringIO):
    def __init__(self, is_terminal: bool, encoding: str) -> None:
        super().__init__()
        self._is_terminal, self._encoding = is_terminal, encoding

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def look(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = True, encoding: str = "utf-8", **env: str) -> Look:
    for name, value in ({"NO_COLOR": "", "FORCE_COLOR": "", "TERM": "xterm", "COLUMNS": "90"} | env).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Stdout(is_terminal, encoding))
    return Look.of_terminal("", has_headers=True)


def test_a_terminal_has_colours_and_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch)
    assert (found.is_terminal, found.is_coloured, found.width, found.is_unicode) == (True, True, 90, True)


def test_a_pipe_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, is_terminal=False)
    assert (found.is_terminal, found.is_coloured, found.width) == (False, False, None)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_declined(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    found = look(monkeypatch, **{name: value})
    assert (found.is_terminal, found.is_coloured, found.width) == (True, False, 90)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "no-such-encoding"])
def test_block_letters_need_an_encoding_that_has_them(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    assert not look(monkeypatch, encoding=encoding).is_unicode


@pytest.mark.parametrize(
    ("choice", "environment", "asked"),
    [
        ("auto", {}, None),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": "", "FORCE_COLOR": ""}, None),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_the_option_counts_before_the_environment(choice: str, environment: dict[str, str], asked: bool | None) -> None:
    assert colour_asked(choice, environment) is asked


PLAN = ["plan", "--add", "1", "--offline"]
STATUS = ["status", "-A", "--from", str(Path(__file__).parents[4] / "docs/example/cluster.tar.gz")]


@pytest.mark.parametrize(
    ("command", "environment", "is_coloured"),
    [
        (STATUS, {}, False),
        ([*STATUS, "--color", "always"], {"NO_COLOR": "1"}, True),
        (STATUS, {"BALLOONS_COLOR": "always"}, True),
        pytest.param(PLAN, {"FORCE_COLOR": "1"}, True, marks=pytest.mark.whole),
        ([*STATUS, "--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_a_pipe_gets_colours_when_they_are_asked_for(
    command: list[str], environment: dict[str, str], is_coloured: bool
) -> None:
    unset = {"NO_COLOR": None, "FORCE_COLOR": None, "BALLOONS_COLOR": None}
    found = CliRunner().invoke(balloons, command, env={**unset, **environment})
    assert found.exit_code == 0
    assert ("\x1b[" in found.output) is is_coloured


@pytest.mark.parametrize("name", ["status", "plan", "simulate", "top", "explain", "doctor", "report"])
def test_every_command_that_prints_tables_takes_the_option(name: str) -> None:
    assert "--color" in [each for option in balloons.commands[name].params for each in option.opts]


def pool(name: str = "gpu", **status: object) -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD, max_size=9)
    metadata = Metadata(name, "ml", creation_timestamp=NOW - timedelta(minutes=5))
    ready = Condition("Ready", "True", "Steady", "")
    return BalloonPool(metadata, spec, PoolStatus(conditions=(ready,), **status))  # type: ignore[arg-type]


def test_columns_stand_two_spaces_apart_and_end_without_blanks() -> None:
    assert lines(["NAME", "WARM", "WHY"], ROWS) == [
        "NAME       WARM  WHY",
        "gpu        12    Steady",
        "cpu-large  3     Paused",
    ]


def test_headers_can_be_left_out() -> None:
    assert lines(["NAME"], ROWS, has_headers=False) == ["gpu", "cpu-large"]


def test_columns_stand_closer_before_one_is_left_out() -> None:
    assert fitted(ROWS, 21)[0] == "NAME      WARM WHY"
    assert fitted(ROWS, 19)[0] == "NAME       WARM"
    assert fitted(ROWS, 3)[0] == "NAME"
    assert fitted(ROWS, None)[0] == "NAME       WARM  WHY"


def test_long_texts_are_cut_before_a_column_is_left_out_and_names_never() -> None:
    rows = [{"NAME": "a-very-long-name-of-a-pool", "WHY": "w" * 30, "AGE": "12d"}]
    assert fitted(rows, 55)[1] == f"a-very-long-name-of-a-pool {'w' * 23}… 12d"
    name, cut = "a-very-long-name-of-a-pool", f"{'w' * 19}…"
    assert fitted(rows, 48) == [f"NAME{' ' * 24}WHY", f"{name}  {cut}", "(no room for AGE)"]


def test_a_whole_table_folds_its_last_column_before_rows_become_paragraphs() -> None:
    rows = [{"NAME": "gpu", "MAX": "<none>", "WHY": "fewer joins are under way than the window has"}]
    headers = list(rows[0])
    assert table(headers, rows, width=32, is_whole=True) == [
        "NAME MAX WHY",
        "gpu  -   fewer joins are under",
        "         way than the window has",
    ]
    assert table(headers, rows, width=28, is_whole=True) == [
        "NAME gpu  WHY fewer joins",
        "  are under way than the",
        "  window has",
    ]
    assert table(headers, rows, width=60, is_whole=True) == table(headers, rows)


def test_what_matters_least_goes_first() -> None:
    text = table(["NAME", "WARM", "WHY"], ROWS, width=17, first_to_go=("WARM",))
    assert (text[0], " ".join(text[3:])) == ("NAME       WHY", "(no room for WARM)")


def fitted(rows: Sequence[Row], width: int | None) -> list[str]:
    return table(list(rows[0]), rows, width=width)


@given(st.integers(1, 200))
def test_no_line_is_longer_than_the_terminal_while_a_column_can_be_dropped(width: int) -> None:
    text = table(list(WIDE_POOL_COLUMNS), [pool_row(pool(message="m" * 50), NOW, {})], width=width)
    assert len(text[0].split()) == 1 or max(map(len, text[:2])) <= width


def test_colour_surrounds_the_cell_and_does_not_move_columns() -> None:
    plain = lines(["NAME", "WARM"], ROWS)
    coloured = lines(["NAME", "WARM"], ROWS, colours={"gpu": "\x1b[32m"})
    assert [line.replace("\x1b[32m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert "\x1b[32m" in coloured[1]


def test_terminal_escapes_of_the_cluster_are_spelled_out() -> None:
    text = "\n".join(lines(["NAME"], [{"NAME": "a\x1b[2J\u202eb\nc"}], has_headers=False))
    assert text == "a\\x1b[2J\\u202eb\\x0ac"


@given(st.text())
def test_printable_text_never_controls_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["gpu-a", "Größe ✓ 日本"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (301, "5m1s"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_000, "3h20m"),
        (86_400, "24h"),
        (200_000, "2d7h"),
        (864_000, "10d"),
        (64_000_000, "2y10d"),
        (320_000_000, "10y"),
    ],
)
def test_age_is_what_kubectl_would_show(seconds: int, text: str) -> None:
    assert age(Metadata("x", creation_timestamp=NOW - timedelta(seconds=seconds)), NOW) == text


def test_pool_is_one_row() -> None:
    shown = status_table([pool(warm=3, target=4, busy=2, pending=1, because="Warming")], "ml", Look(), NOW)
    assert shown[0].split() == list(POOL_COLUMNS)
    assert shown[1].split() == ["gpu", "3", "4", "2", "1", "9", "Hold", "True", "Warming", "5m"]


def test_namespace_is_shown_when_all_are() -> None:
    assert status_table([pool()], None, Look(), NOW)[1].split()[:2] == ["ml", "gpu"]


def test_refused_pool_says_so_before_the_service_does() -> None:
    refused = RefusedPool(Metadata("bad", "ml"), "size -1; accepted: 0 or more")
    cells = pool_row(refused, NOW, {})
    assert (cells["READY"], cells["BECAUSE"], cells["MESSAGE"]) == (
        "Unknown",
        "Invalid",
        "size -1; accepted: 0 or more",
    )


def test_glyphs_are_for_terminals() -> None:
    plain = "\n".join(status_table([pool()], "ml", Look(), NOW))
    coloured = "\n".join(status_table([pool()], "ml", Look(is_coloured=True), NOW))
    assert "✓" not in plain
    assert "\x1b" not in plain
    assert "\x1b[32m✓ True" in coloured


def test_names_are_what_kubectl_takes() -> None:
    assert pool_names([pool()]) == ["balloonpool.kube-balloons.github.io/gpu"]


def test_columns_without_a_value_go_first_and_what_is_missing_is_named() -> None:
    rows = [{"NAME": "a", "MAX": "<none>", "BECAUSE": "Steady", "AGE": "12d"}]
    headers = ("NAME", "MAX", "BECAUSE", "AGE")
    assert table(headers, rows, width=16)[:2] == ["NAME BECAUSE AGE", "a    Steady  12d"]
    assert " ".join(table(headers, rows, width=16)[2:]) == "(no room for MAX)"
    assert table(headers, rows, width=20) == ["NAME MAX BECAUSE AGE", "a    -   Steady  12d"]


class Terminal(io.StringIO):
    """Somebody looks."""

    def isatty(self) -> bool:
        return True


def test_says_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with working("running", 99_999):
        pass
    assert pipe.getvalue() == ""


def test_says_nothing_of_what_takes_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    with working("running 500 nodes", 500):
        pass
    assert terminal.getvalue() == ""


def test_what_it_says_fits_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal would break a longer one, and a return leads only to the start of its last part."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    with working("running 7,500 nodes through possible worlds", 7_500):
        while "(0 s)" not in terminal.getvalue():
            pass
    assert max(map(len, terminal.getvalue().split("\r"))) < 40


def test_leaves_nothing_of_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    with working("running 5,000 nodes", 5_000):
        while "running 5,000 nodes" not in terminal.getvalue():
            pass
    assert terminal.getvalue().endswith("\r\x1b[K")
