"""What is said while something takes long: to a person only, and nothing is left of it."""

import io

import pytest

from balloons.cli import working as module
from balloons.cli.working import working


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


def test_leaves_nothing_of_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    with working("running 5,000 nodes", 5_000):
        while "running 5,000 nodes" not in terminal.getvalue():
            pass
    assert terminal.getvalue().endswith("\r\x1b[K")
