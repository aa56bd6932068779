"""Pictures of commands: what is on the terminal, the same each time, and nothing of the machine that drew them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lab.demo.rush_story import NODES
from lab.errors import LabError
from lab.pictures.__main__ import (
    ARCHITECTURE,
    ASKED,
    CHARTS,
    COMMANDS,
    EXAMPLE,
    MOVING,
    PAGE_COLUMNS,
    PAGES,
    PICTURES,
    ROOT,
    TRANSCRIPT,
    drawn,
    with_outputs,
)
from lab.pictures.architecture import BOXES, LETTER
from lab.pictures.example import write
from lab.pictures.terminal import COLUMNS, picture, printed
from tests.commands import balloons

pytestmark = pytest.mark.whole

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


def test_the_age_of_a_dump_is_left_out_however_narrow_the_terminal() -> None:
    command = ("status", "--from", str(EXAMPLE))
    assert [printed(command, columns=width).split()[0] for width in (40, 200)] == ["NAME", "NAME"]


def test_a_command_that_fails_is_no_picture() -> None:
    with pytest.raises(LabError, match=r"ended with 2: .*0 or more"):
        picture(("plan", "--to", "2", "--price", "-3", "--offline"), "balloons plan", "plan")


def test_the_example_cluster_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    """`python -m lab.pictures` writes it anew."""
    write(tmp_path / "cluster.tar.gz")
    assert (tmp_path / "cluster.tar.gz").read_bytes() == EXAMPLE.read_bytes()


@pytest.mark.parametrize("name", [ARCHITECTURE, *COMMANDS, *CHARTS, *MOVING])
def test_pictures_show_what_commands_print_now(name: str) -> None:
    """`python -m lab.pictures` draws them anew."""
    assert (PICTURES / f"{name}.svg").read_bytes() == drawn(name)


def test_the_picture_of_the_architecture_names_packages_that_are_there_and_fits_its_boxes() -> None:
    paths = re.findall(r"\b(?:balloons|throttler)/\w+", " ".join(box.where for box in BOXES))
    assert len(paths) > 9
    assert [path for path in paths if not list(ROOT.glob(f"{path}*"))] == []
    assert [box.name for box in BOXES if len(box.name) * LETTER > box.width - 8] == []
    assert "pictures/architecture.svg" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


SHOWING = [page for page in PAGES if TRANSCRIPT.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_pages_show_what_commands_print_now(page: Path) -> None:
    """`python -m lab.pictures` writes it anew."""
    text = page.read_text(encoding="utf-8")
    assert with_outputs(text) == text


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_no_end_of_a_sentence_is_hidden_at_the_right(page: Path) -> None:
    shown = [match[0] for match in TRANSCRIPT.finditer(page.read_text(encoding="utf-8"))]
    assert shown
    assert [line for text in shown for line in text.splitlines() if len(line) > PAGE_COLUMNS] == []


def test_a_stale_output_is_found() -> None:
    assert SHOWING
    stale = "```\n$ balloons status --from docs/example/cluster.tar.gz\nNAME\nold\n```\nnext"
    assert re.fullmatch(r"```\n\$ balloons status [^\n]*\nNAME .*default .*```\nnext", with_outputs(stale), re.DOTALL)


def test_every_picture_is_drawn_by_a_command_that_can_draw_it_again() -> None:
    """A screenshot would grow old unnoticed; the dashboards' pictures have a test of their own."""
    ours = {file.stem for file in PICTURES.iterdir() if not file.name.startswith("kube-balloons-")}
    assert ours == {ARCHITECTURE, *COMMANDS, *CHARTS, *MOVING}


def test_first_steps_name_the_scenes_that_the_demo_tells() -> None:
    code = "".join(file.read_text() for file in (ROOT / "lab" / "demo").glob("*.py"))
    scenes = re.findall(r'narrator\.act\(f?"([a-z]\. .*?)"\)', code)
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    named = [f"{letter}. {scene}" for letter, scene in re.findall(r"^- \*\*([a-z])\*\*: (.*)$", page, re.M)]
    assert sorted(scene.replace("{nodes}", str(NODES)) for scene in scenes) == named


def test_the_example_hurts_unpaced_and_is_spared_by_pacing() -> None:
    text = printed(("plan", *ASKED, "--from", str(EXAMPLE)), (0,))
    answer = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).partition("\n\n")[0].split())
    feel, wait = "other users of the API feel nothing", r"others wait \d\d+x longer"
    assert re.search(rf"^Yes: .*and {feel}\. .*Without pacing: .*{wait}", answer)


def test_all_commands_count_the_nodes_of_the_example_alike() -> None:
    status, top = (answer(command, "-o", "json") for command in ("status", "top"))
    by_status = {pool["name"]: pool["status"]["nodes"] for pool in status["pools"]}
    by_top: Counter[str] = Counter()
    for group in top["items"]:
        by_top[group["pool"]] += group["nodes"]
    plans = [answer("plan", "--pool", pool, "--add", "1", "-o", "json") for pool in by_status]
    assert by_status == {"gpu": 64, "notebooks": 9}
    assert {pool: by_top[pool] for pool in by_status} == by_status
    assert [plan["cluster"]["poolNodes"] for plan in plans] == [*by_status.values()]


def answer(*command: str) -> Any:
    return json.loads(balloons(*command, "--from", str(EXAMPLE)).stdout)


def test_the_example_has_a_history() -> None:
    text = printed(("explain", "pool/gpu", "--from", str(EXAMPLE)), (0,))
    assert [each in text for each in ("BurstRelease", "GaveWay", "Warming", "Steady")] == [True] * 4


@pytest.mark.parametrize("command", ["doctor", "status", "top"])
def test_nothing_is_wider_than_the_terminal(command: str) -> None:
    svg = picture((command, "--from", str(EXAMPLE)), f"balloons {command}", command)
    lengths = [float(part.split('"')[0]) for part in svg.split('textLength="')[1:]]
    assert lengths
    assert max(lengths) <= 12.2 * COLUMNS
