"""What stdout is: a terminal or not, with colours or not, with block letters or not."""

import io
import sys

import pytest
from click.testing import CliRunner

from balloons.cli.look import Look, colour_asked
from balloons.cli.main import balloons


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


@pytest.mark.parametrize(
    ("arguments", "environment", "is_coloured"),
    [
        ([], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"BALLOONS_COLOR": "always"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_a_pipe_gets_colours_when_they_are_asked_for(
    arguments: list[str], environment: dict[str, str], is_coloured: bool
) -> None:
    unset = {"NO_COLOR": None, "FORCE_COLOR": None, "BALLOONS_COLOR": None}
    found = CliRunner().invoke(balloons, ["plan", "--add", "1", "--offline", *arguments], env={**unset, **environment})
    assert found.exit_code == 0
    assert ("\x1b[" in found.output) is is_coloured


@pytest.mark.parametrize("name", ["status", "plan", "simulate", "top", "explain", "doctor", "report"])
def test_every_command_that_prints_tables_takes_the_option(name: str) -> None:
    assert "--color" in [each for option in balloons.commands[name].params for each in option.opts]
