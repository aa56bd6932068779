"""What the pages tell to type works: commands parse, those on the example run, targets, modules and paths are there."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from balloons.cli.main import balloons

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(ROOT.glob("docs/**/*.md"))]
HISTORY = "decisions"
"""Pages of their day: what they name may be gone."""
EXAMPLE = "docs/example/cluster.tar.gz"
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:kubectl )?balloons [^`\n]+|make [a-z][^`\n]*)`")
"""Within a sentence: `balloons plan --to 500`, or a command and the option that is spoken of, `balloons plan --to`."""
ENDS_COMMAND = {"|", "||", "&&", ";", ">", "2>", "&"}
PLACEHOLDERS = ("[OPTIONS]", "...", "COMMAND")
PATH = re.compile(r"`((?:balloons|throttler|lab|tests|manifests|docs|benchmarks)/[\w./-]+)`")
MODULE = re.compile(r"python -m ((?:balloons|lab|benchmarks|tests)[\w.]*)")


def shown(page: Path) -> list[str]:
    """The lines of a page that begin with our commands or with make, in blocks and within sentences."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += INLINE.findall(BLOCK.sub("", text))
    bare = [line.strip().removeprefix("$ ").removeprefix("kubectl ") for line in lines]
    return [
        line for line in bare if line.startswith(("balloons ", "make ")) and not any(w in line for w in PLACEHOLDERS)
    ]


def words(line: str) -> list[str]:
    """Up to the end of the first command."""
    found = shlex.split(re.sub(r"\s{2,}\(.*\)$", "", line), comments=True)
    ends = [number for number, word in enumerate(found) if word in ENDS_COMMAND]
    return found[: ends[0]] if ends else found


def trouble(line: str) -> str:
    """What is wrong with a command of ours; empty if nothing is."""
    name, *arguments = words(line)[1:] or [""]
    if name.startswith("-"):
        return "" if name in ("--help", "--version") else f"no option {name}"
    command = balloons.commands.get(name)
    if command is None:
        return f"no command {name!r}"
    context = click.Context(command, info_name=name)
    try:
        values, left, _ = command.make_parser(context).parse_args([*arguments])
        for each in command.params:
            if isinstance(each.type, click.Choice) and isinstance(values.get(each.name or ""), str):
                each.type.convert(values[each.name or ""].partition("/")[0], each, context)
    except click.BadOptionUsage:  # an option that is only named
        return "" if arguments[-1].startswith("--") else f"{arguments[-1]} lacks its value"
    except click.UsageError as error:
        return error.format_message()
    return f"too many arguments: {left}" if left else ""


TYPED = [(page, line) for page in PAGES for line in shown(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_parses(page: Path) -> None:
    found = {line: trouble(line) for line in shown(page) if line.startswith("balloons ")}
    assert {line: what for line, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("balloons plan --too 5", "No such option"),
        ("balloons fly", "no command 'fly'"),
        ("balloons explain pods", ""),
        ("balloons plan -o xml", "Invalid value for '-o'"),
        ("balloons doctor | head -1", ""),
    ],
)
def test_a_command_that_does_not_parse_is_found(line: str, what: str) -> None:
    assert trouble(line).startswith(what)
    assert bool(trouble(line)) == bool(what)


def on_the_example() -> list[str]:
    """The commands on the shipped example: in the pages, and those of `make try`."""
    tried = re.findall(r"^show (.*)$", (ROOT / "lab" / "try.sh").read_text(), re.MULTILINE)
    lines = [f"balloons {line}".replace('"$cluster"', EXAMPLE).replace('"$page"', "report.html") for line in tried]
    return sorted({*lines, *(line for _, line in TYPED if EXAMPLE in line)})


@pytest.mark.whole
@pytest.mark.parametrize("line", on_the_example())
def test_commands_on_the_example_run(line: str, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "balloons", *words(line)[1:]],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout or (tmp_path / words(line)[-1]).exists()


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for _, line in TYPED if line.startswith("make ") for word in words(line)[1:] if "=" not in word}
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_and_module_is_there(page: Path) -> None:
    text = "" if HISTORY in page.parts else page.read_text(encoding="utf-8")
    assert [path for path in PATH.findall(text) if not (ROOT / path).exists()] == []
    assert [name for name in MODULE.findall(text) if importlib.util.find_spec(name.rstrip(".")) is None] == []


def test_metrics_that_are_searched_for_are_those_that_the_service_reads() -> None:
    searches = [
        line for page in PAGES for line in re.findall(r"get --raw /metrics \| grep ([^`\n]+)`", page.read_text())
    ]
    words = {word for line in searches for pattern in shlex.split(line) for word in pattern.split("|")}
    families = (ROOT / "throttler/signals/metric_families.py").read_text()
    assert [word for word in words if not word.startswith("-") and "=" not in word and word not in families] == []
    assert "flowcontrol_rejected" in words
