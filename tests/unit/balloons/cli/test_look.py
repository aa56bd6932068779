"""What stdout is: a terminal or not, with colours or not, with block letters or not."""

import io
import sys

import pytest

from balloons.cli.look import Look


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
    for name, value in ({"NO_COLOR": "", "TERM": "xterm", "COLUMNS": "90"} | env).items():
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
