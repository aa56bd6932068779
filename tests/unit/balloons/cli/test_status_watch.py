"""What `balloons status --watch` adds for each change, and what it draws anew."""

import sys

import msgspec
import pytest

from balloons.cli.look import Look
from balloons.cli.status_text import Seen
from balloons.cli.status_watch import Screen
from tests.unit.balloons.cli.throttle_and_pool import pool, throttle
from throttler.kube.metadata import Metadata


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[0] if line else "" for line in capsys.readouterr().out.splitlines()]


def test_pipe_gets_a_line_for_each_change_with_its_columns_above(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look())
    screen.show(Seen([throttle()], [pool()]))
    assert printed(capsys) == ["NAME", "default", "NAME", "gpu"]
    screen.show(Seen([throttle()], [pool()]))
    assert printed(capsys) == []
    screen.show(Seen([throttle()], [pool(warm=4)]))
    assert printed(capsys) == ["gpu"]
    screen.show(Seen([throttle(window=7)], [pool(warm=4)]))
    assert printed(capsys) == ["NAME", "default"]
    screen.show(Seen([throttle(window=8)], [pool(warm=5)]))
    assert printed(capsys) == ["default", "NAME", "gpu"]


def test_names_are_told_once_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look("name"))
    screen.show(Seen([throttle()], [pool()]))
    screen.show(Seen([throttle()], [pool(warm=4)]))
    assert capsys.readouterr().out.splitlines() == [
        "jointhrottle.kube-balloons.github.io/default",
        "balloonpool.kube-balloons.github.io/gpu",
        "balloonpool.kube-balloons.github.io/gpu",
    ]


def test_object_that_came_back_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look(has_headers=False))
    for seen in (Seen(pools=[pool()]), Seen(), Seen(pools=[pool()])):
        screen.show(seen)
    assert printed(capsys) == ["gpu", "gpu"]


def test_terminal_is_drawn_anew_over_what_was_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen = Screen("ml", Look(is_terminal=True, width=80))
    screen.show(Seen([throttle()], [pool()]))
    first = capsys.readouterr().out
    assert len(first.splitlines()) == 5
    screen.show(Seen([throttle()], []))
    again = capsys.readouterr().out
    assert again.startswith("\x1b[5A\x1b[J")
    assert again.splitlines()[-1] == "No balloon pools found."


def test_a_terminal_that_is_made_narrower_gets_fewer_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen("ml", Look(is_terminal=True, width=120))
    for columns, is_shown in (("120", True), ("40", False)):
        monkeypatch.setenv("COLUMNS", columns)
        screen.show(Seen([throttle()], [pool()]))
        drawn = capsys.readouterr().out
        assert ("PHASE  " in drawn) is is_shown
        assert max(len(line.split("\x1b[J")[-1]) for line in drawn.splitlines()) <= int(columns)


def test_tall_and_wide_tables_stay_on_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has left a terminal upwards cannot be drawn over; a long name takes two rows of it."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    named = [msgspec.structs.replace(pool(), metadata=Metadata(f"{'x' * 100}{number}", "ml")) for number in range(50)]
    screen = Screen("ml", Look(is_terminal=True, width=80))
    screen.show(Seen([throttle()], named))
    lines = capsys.readouterr().out.splitlines()
    assert sum(-(-max(1, len(line)) // 80) for line in lines) == screen.height <= 23
    assert lines[-1].startswith("... ")
    assert "lines more" in lines[-1]
