"""docs/architecture.md and CONTRIBUTING.md name files and folders that are there, and leave out no folder with code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
TOPS = ("balloons", "throttler", "lab", "tests", "benchmarks", "tools")
FOLDER = re.compile(rf"\b(?:{'|'.join(TOPS)}|manifests)(?:/[\w*-]+(?![\w*.-]))*")
"""Also of the file that is named: `balloons/view` of `balloons/view/claim.py`."""
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
    page = "| a | `balloons/decide/decide.py`, `one_pool.py`, `plan.py` |\n| b | `lab/nowhere`, `claim.py` |\n"
    diagram = "```\n  balloons/view (service/tick) (joins/share)\n```\n"
    assert list(lost(page + diagram)) == ["plan.py", "lab/nowhere", "claim.py", "joins/share"]
