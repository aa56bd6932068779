"""Pictures of commands: what is on the terminal, the same each time, and nothing of the machine that drew them."""

import re
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.pictures.__main__ import EXAMPLE
from lab.pictures.example import write
from lab.pictures.paced_and_unpaced import ASKED, draw
from lab.pictures.terminal import COLUMNS, picture, printed

PLAN = ("plan", "--to", "20", "--offline", "--boot", "30s", "--join", "20s")


def test_a_command_sees_a_terminal_with_colours() -> None:
    text = printed(PLAN, (0,))
    assert "Nodes over time: \x1b[32m█" in text
    assert "\r" not in text


def test_equal_commands_give_equal_pictures_without_fonts_and_addresses() -> None:
    first, second = (picture(PLAN, "balloons plan --to 20", "plan") for _ in range(2))
    assert first == second
    assert "balloons&#160;plan&#160;--to&#160;20" in first
    for foreign in ("http://fonts", "https://", "@font-face", "/home", "/work", "/root"):
        assert foreign not in first


def test_paced_and_unpaced_say_what_the_plan_says() -> None:
    plan, svg = " ".join(printed(ASKED, (0, 3)).split()), draw()
    head = svg.partition("</style>")[2].partition('class="panel"')[0]
    ends = re.findall(r"all ready after ([\dhms]+),", head)
    assert len(ends) == 2
    assert all(end in plan for end in ends)
    assert svg.count("<polyline") == 6
    for foreign in ("https://", "@font-face", "@import", "<script", "/work", "/root"):
        assert foreign not in svg


def test_a_command_that_fails_is_no_picture() -> None:
    with pytest.raises(LabError, match=r"ended with 2: .*0 or more"):
        picture(("plan", "--to", "2", "--price", "-3", "--offline"), "balloons plan", "plan")


def test_the_example_cluster_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    """`python -m lab.pictures` writes it anew."""
    write(tmp_path / "cluster.tar.gz")
    assert (tmp_path / "cluster.tar.gz").read_bytes() == EXAMPLE.read_bytes()


@pytest.mark.parametrize("command", ["doctor", "status", "top"])
def test_nothing_is_wider_than_the_terminal(command: str) -> None:
    svg = picture((command, "--from", str(EXAMPLE)), f"balloons {command}", command)
    lengths = [float(part.split('"')[0]) for part in svg.split('textLength="')[1:]]
    assert lengths
    assert max(lengths) <= 12.2 * COLUMNS
