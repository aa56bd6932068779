"""The checker of the house rules: what it finds in small trees, and that its baseline may only shrink."""

import pytest

from tools.house import SLACK, compare, look

CRUMB = {
    "balloons/decide/whole.py": "from balloons.decide.crumb import act\n" + "x = 1\n" * 60,
    "balloons/decide/crumb.py": "def act(): ...\n",
}


@pytest.mark.parametrize(
    ("files", "breach"),
    [
        ({"tests/unit/test_a.py": "x = 1\n" * 651}, "tests/unit/test_a.py is longer than 650 lines"),
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
    ],
)
def test_each_rule_finds_its_breach(files: dict[str, str], breach: str) -> None:
    assert look(files).broken == {breach}


@pytest.mark.parametrize(
    "files",
    [
        {"tests/unit/test_a.py": "x = 1\n" * 650},
        CRUMB | {"balloons/service/run.py": "from balloons.decide import crumb\n"},
        CRUMB
        | {"balloons/decide/__init__.py": "from balloons.decide.crumb import act\n", "balloons/decide/whole.py": ""},
        {"balloons/a.py": "class _Step: ...\n", "throttler/b.py": "class Step: ...\n"},
        {"balloons/a.py": "class Step: ...\n", "lab/b.py": "class Step: ...\n"},
        {"balloons/api/settings.py": "", "balloons/view/settings.py": ""},
        {"docs/a.md": "[b](decisions/b.md)", "docs/decisions/b.md": "docs/a.md, a.md, ../a.md, {name}.md"},
        {"README.md": "docs/a.md", "docs/a.md": "", "CHANGELOG.md": "docs/gone.md"},
    ],
)
def test_what_is_allowed_is_not_reported(files: dict[str, str]) -> None:
    assert look(files).broken == set()


def test_vague_names_are_counted_where_they_are_bound() -> None:
    text = "def f(given):\n    found = [each for each in given]\n    return found\n"
    assert look({"balloons/a.py": text, "tests/b.py": text}).vague == {"each": 1, "found": 1, "given": 1, "seen": 0}


def test_the_baseline_holds_what_is_there() -> None:
    now = look(CRUMB)
    assert compare(now, now.lines()) == []


def test_what_is_new_fails() -> None:
    assert compare(look(CRUMB), []) == ["new: balloons/decide/crumb.py is a crumb of whole.py"]


def test_what_is_gone_must_leave_the_baseline() -> None:
    (complaint,) = compare(look({}), ["class Step is used twice: a.py, b.py"])
    assert complaint.startswith("gone")
    assert "class Step" in complaint


def test_a_count_may_not_grow() -> None:
    assert compare(look({"balloons/a.py": "found = 1\n"}), ["variables called found: 0"]) == [
        "new: 1 more variables called found; name the thing"
    ]


@pytest.mark.parametrize(("above", "complaints"), [(SLACK, 0), (SLACK + 1, 1)])
def test_a_count_that_fell_far_must_be_lowered(above: int, complaints: int) -> None:
    assert len(compare(look({}), [f"variables called found: {above}"])) == complaints
