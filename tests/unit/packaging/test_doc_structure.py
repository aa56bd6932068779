"""docs/architecture.md and CONTRIBUTING.md name files and folders that are there, and leave out no folder with code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
TOPS = ("balloons", "throttler", "lab", "tests", "benchmarks", "tools")
FOLDER = re.compile(rf"\b(?:{'|'.join(TOPS)}|manifests)(?:/[\w*-]+(?![\w*.-]))*")
"""Also of the file that is named: `balloons/view` of `balloons/view/tenancy_and_claim.py`."""
BARE = re.compile(r"`([\w*]+(?:\.(?:py|html))?)`")
"""A name without a folder: it is in one that the same line names."""
IN_DIAGRAM = re.compile(r"\b[a-z_]+(?:/[a-z_]+)+")
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lost(text: str) -> Iterator[str]:
    """Yield what a page names and the tree does not have."""
    for line in text.splitlines():
        folders = [ROOT / folder for folder in FOLDER.findall(line)]
        yield from (str(folder.relative_to(ROOT)) for folder in folders if not is_there(folder))
        for name in BARE.findall(line):
            if name.endswith((".py", ".html")) and not any(any(folder.glob(name)) for folder in folders):
                yield name
    for block in BLOCK.findall(text):
        for path in IN_DIAGRAM.findall(block):
            if not any(is_there(ROOT / package / path) for package in ("", *TOPS)):
                yield path


def is_there(path: Path) -> bool:
    """Whether there is a folder, or a module that is named without its ending."""
    return path.exists() or path.with_suffix(".py").exists()


def folders_with_code() -> Iterator[str]:
    """Yield each folder of the first two levels that has code, at whatever depth; of the benchmarks only the first."""
    for top in TOPS:
        yield top
        for folder in sorted((ROOT / top).iterdir()):
            if top != "benchmarks" and folder.is_dir() and any(folder.rglob("*.py")):
                yield f"{top}/{folder.name}"


def is_named(folder: str, text: str) -> bool:
    """Whether a line has the path, or the name beside the path of what it is in."""
    top, _, name = folder.partition("/")
    path = re.compile(rf"\b{folder}\b")
    return any(path.search(line) or (name and top in line and f"`{name}`" in line) for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_folder_is_there(page: str) -> None:
    assert list(lost((ROOT / page).read_text(encoding="utf-8"))) == []


def test_every_folder_with_code_has_its_place_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert [folder for folder in folders_with_code() if not is_named(folder, text)] == []


def test_what_is_gone_is_found() -> None:
    page = (
        "| a | `balloons/decide/decide.py`, `one_pool.py`, `plan.py` |\n| b | `lab/nowhere`, `tenancy_and_claim.py` |\n"
    )
    diagram = "```\n  balloons/view (service/guard) (joins/share)\n```\n"
    assert list(lost(page + diagram)) == ["plan.py", "lab/nowhere", "tenancy_and_claim.py", "joins/share"]


FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BEGINS_LIST = re.compile(r"- |\d+\. |\| ")


def swallowed(text: str) -> Iterator[str]:
    """Yield each first line of a list or table that the site shows as text of the paragraph above it.

    GitHub needs no empty line between them, the site does; a heading ends by itself.
    """
    for block in FENCED.sub("", text).split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines and not BEGINS_LIST.match(lines[0]):
            yield from (line for line in lines[1:] if BEGINS_LIST.match(line))


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_tables_stand_apart_from_the_text_above(page: Path) -> None:
    assert list(swallowed(page.read_text(encoding="utf-8"))) == []


def test_a_list_that_is_swallowed_is_found() -> None:
    assert list(swallowed("# Head\n- a\n\nText:\n- b\n- c\n\nMore:\n\n- d\n")) == ["- b", "- c"]


WIDEST = 80
"""Columns of a block that the site shows beside its two menus; the rest is behind its right edge."""


def cut_off(text: str) -> list[str]:
    """The lines of blocks that are wider than that."""
    return [line for block in FENCED.findall(text) for line in block.splitlines() if len(line) > WIDEST]


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_can_be_read_without_moving_it(page: Path) -> None:
    assert cut_off(page.read_text(encoding="utf-8")) == []


def test_a_line_that_is_too_wide_is_found() -> None:
    wide = "x" * (WIDEST + 1)
    assert cut_off(f"{wide}\n\n```yaml\n{wide[1:]}\n{wide}\n```\n") == [wide]
