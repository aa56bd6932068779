"""The checker of the house rules: what it finds in small trees."""

import subprocess
from pathlib import Path

import pytest

from tools.size_and_name_rules import look, tracked_texts

CRUMB = {
    "balloons/decide/whole.py": "from balloons.decide.crumb import act\n" + "x = 1\n" * 60,
    "balloons/decide/crumb.py": "def act(): ...\n",
}
MOST = {f"balloons/a{number}.py": "" for number in range(160)}


@pytest.mark.parametrize(
    ("files", "breach"),
    [
        ({"tests/unit/test_a.py": "x = 1\n" * 651}, "tests/unit/test_a.py is longer than 650 lines"),
        (MOST | {"throttler/b.py": ""}, "balloons and throttler have 161 modules, more than 160"),
        (CRUMB, "balloons/decide/crumb.py is a crumb of whole.py"),
        (
            {"balloons/a.py": "class Step: ...\n", "throttler/b.py": "class Step: ...\n"},
            "class Step is used twice: balloons/a.py, throttler/b.py",
        ),
        (
            {"balloons/api/pool.py": "", "balloons/view/pool.py": ""},
            "file name pool.py is used twice: balloons/api/pool.py, balloons/view/pool.py",
        ),
        ({"lab/a.py": '"""See notes.md."""\n'}, "lab/a.py names notes.md, which is not there"),
        ({"docs/a.md": "[b](../b/c.md)\n"}, "docs/a.md names ../b/c.md, which is not there"),
        ({"lab/a.py": "def f(given): ...\n"}, "lab/a.py has a variable called given; name the thing"),
        ({"balloons/a.py": "[0 for each in ()]\n"}, "balloons/a.py has a variable called each; name the thing"),
    ],
)
def test_each_rule_finds_its_breach(files: dict[str, str], breach: str) -> None:
    assert look(files) == {breach}


@pytest.mark.parametrize(
    "files",
    [
        {"tests/unit/test_a.py": "x = 1\n" * 650},
        MOST | {"throttler/__init__.py": "", "lab/b.py": "", "tests/b.py": ""},
        CRUMB | {"balloons/service/run.py": "from balloons.decide import crumb\n"},
        CRUMB
        | {"balloons/decide/__init__.py": "from balloons.decide.crumb import act\n", "balloons/decide/whole.py": ""},
        CRUMB | {"balloons/decide/crumb.py": 'def act(): ...\n\n\nif __name__ == "__main__":\n    act()\n'},
        {"balloons/a.py": "class _Step: ...\n", "throttler/b.py": "class Step: ...\n"},
        {"balloons/a.py": "class Step: ...\n", "lab/b.py": "class Step: ...\n"},
        {"balloons/api/settings.py": "", "balloons/view/settings.py": ""},
        {"docs/a.md": "[b](decisions/b.md)", "docs/decisions/b.md": "docs/a.md, a.md, ../a.md, {name}.md"},
        {"README.md": "docs/a.md", "docs/a.md": "", "CHANGELOG.md": "docs/gone.md"},
        {"tests/a.py": "found = 1\n", "lab/a.py": "import seen\nseen.found(each=1)\n"},
    ],
)
def test_what_is_allowed_is_not_reported(files: dict[str, str]) -> None:
    assert look(files) == set()


def test_git_says_itself_why_it_does_not_list_the_tree(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        tracked_texts(tmp_path)
    assert "fatal: not a git repository" in capfd.readouterr().err
