"""The mutants: which changes are made, which are drawn, and that a small tree's missing test is told."""

import ast
import subprocess
from pathlib import Path

import pytest

from tools.mutants import (
    FURTHER,
    ROOT,
    Outcome,
    Trial,
    drawn,
    mutants_of,
    mutated,
    nearest_tests,
    pure_modules,
    summary,
)

MODULE = '''"""Text is left alone: 3 < 4."""

def share(part: "int | None" = None, whole: int = 10) -> float:
    if part is None or whole <= 0:
        return 0.0
    return min(part / whole, 1.0)

def is_much(part: int) -> bool:
    return not part < 5
'''
TESTS = """from throttler.law.share import share

def test_share():
    assert (share(5), share(20), share(None), share(1, 0), share(1, 1)) == (0.5, 1.0, 0.0, 0.0, 1.0)
"""


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = a < b", {"x = a >= b", "x = a <= b"}),
        ("x = a is None", {"x = a is not None"}),
        ("x = a == b < c", {"x = a != b < c", "x = a == b >= c", "x = a == b <= c"}),
        ("x = a and b", {"x = a or b", "x = a", "x = b"}),
        ("x = not a", {"x = a"}),
        ("x = a - b", {"x = a + b"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("x = 7", {"x = 14"}),
        ("x = 0", {"x = 1"}),
        ("x = True", {"x = False"}),
        ("x = a if b else c", {"x = a if True else c", "x = a if False else c"}),
        ("for x in a:\n    continue", {"for x in a:\n    pass"}),
        ("a.append(b)", {"pass"}),
        ("x += a", {"x -= a"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f():\n    return None", set()),
        ('x: "Literal[3]" = a', set()),
        ("@dataclass(frozen=True)\nclass A(B, frozen=True):\n    x: int", set()),
        ("'text 3'", set()),
        ("x = 'a' + b", set()),
    ],
)
def test_each_change_is_one_change(source: str, after: set[str]) -> None:
    changed = [mutated(source, mutant.index) for mutant in mutants_of("m.py", source)]
    assert sorted(changed) == sorted(ast.unparse(ast.parse(text)) + "\n" for text in after)


def test_pure_modules_are_those_of_the_contract_and_have_tests() -> None:
    paths = pure_modules(ROOT)
    assert {"throttler/law/govern.py", "balloons/explain.py"} <= set(paths)
    assert not [path for path in paths if path.startswith(("lab/", "balloons/cli/", "throttler/service/"))]
    assert nearest_tests(ROOT, "throttler/law/govern.py")[0] == "tests/unit/throttler/law/test_govern.py"
    assert nearest_tests(ROOT, "balloons/report/chart.py")[-1] == "tests/unit/lab/test_pictures.py"
    assert all(nearest_tests(ROOT, path) for path in paths)
    assert all(list(ROOT.glob(tests)) for tests in FURTHER.values())


def test_an_equal_seed_draws_equal_mutants() -> None:
    few = drawn(ROOT, 5, 1, "throttler/law")
    assert drawn(ROOT, 2, 1, "throttler/law") == few[:2]
    assert drawn(ROOT, 3, 1, "throttler/law", skip=2) == few[2:]
    assert few == drawn(ROOT, 5, 1, "throttler/law") != drawn(ROOT, 5, 2, "throttler/law")
    assert all(mutant.path.startswith("throttler/law/") for mutant in few)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        ".importlinter": "[importlinter:contract:pure]\nsource_modules =\n    throttler.law\n    lab.simulator\n",
        "throttler/__init__.py": "",
        "throttler/law/__init__.py": "",
        "throttler/law/share.py": MODULE,
        "tests/unit/throttler/law/test_share.py": TESTS,
        "tests/conftest.py": "import hypothesis\nhypothesis.settings.register_profile('mutants', derandomize=True)\n",
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\nmarkers = promtool\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.whole
def test_what_a_test_notices_dies_and_what_none_notices_lives(tree: Path) -> None:
    every = list(mutants_of("throttler/law/share.py", MODULE))
    noticed = next(mutant for mutant in every if mutant.after == "part * whole")
    unnoticed = next(mutant for mutant in every if mutant.after == "part >= 5")
    before = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    with Trial(tree, jobs=1) as trial:
        assert trial.passes(["throttler/law/share.py"])
        assert [trial.run(mutant).is_dead for mutant in (noticed, unnoticed)] == [True, False]
    assert (tree / "throttler/law/share.py").read_text() == MODULE
    assert subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout == before


def test_summary_counts_by_folder_and_tells_what_was_not_tried() -> None:
    first, second = list(mutants_of("throttler/law/share.py", MODULE))[:2]
    told = summary([Outcome(first, True, 1.0), Outcome(second, False, 1.0)], 3)
    assert "throttler/law              1 of 2 died" in told
    assert told.endswith("1 of 2 died (50 %); 1 were not tried in time")
