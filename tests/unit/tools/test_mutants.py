"""The mutants: which changes are made, which are drawn, and that a small tree's missing test is told."""

import ast
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from tools.mutants import (
    FURTHER,
    ROOT,
    Outcome,
    Trial,
    drawn,
    indirect_tests,
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
SHARE = "throttler/law/share.py"
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
        ("def f():\n    return False", {"def f():\n    return True"}),
        ("def f():\n    return 0", {"def f():\n    return 1", "def f():\n    return None"}),
        ('x: "Literal[3]" = a', set()),
        ("@dataclass(frozen=True)\nclass A(B, frozen=True):\n    x: int", set()),
        ("'text 3'", set()),
        ("x = 'a' + b", set()),
    ],
)
def test_each_change_is_one_change(source: str, after: set[str]) -> None:
    assert sorted(_changed(source)) == sorted(ast.unparse(ast.parse(text)) + "\n" for text in after)


def _changed(source: str) -> list[str]:
    return [mutated(source, mutant.index) for mutant in mutants_of("m.py", source)]


@pytest.mark.parametrize(
    "source",
    [
        "if TYPE_CHECKING:\n    x = 3",
        "if typing.TYPE_CHECKING:\n    x = 3",
        "Level = Literal[1, 2]",
        "x = cast(Literal[1], a)",
        "x = typing.cast(Literal[1], a)",
        "T = TypeVar('T', covariant=True)",
        "x = lru_cache(maxsize=7)(f)",
        "x = zip(a, b, strict=True)",
        "x = functools.lru_cache(7)(f)",
        "SIZE = 7\n@lru_cache(maxsize=SIZE)\ndef f():\n    pass",
        "SIZE: int = 7\n@lru_cache(maxsize=SIZE)\ndef f():\n    pass",
        "assert a, b + 1",
        "raise AssertionError(f'{a + 1}')",
        "raise NotImplementedError(a < b)",
        "assert_never(a)",
    ],
)
def test_what_nobody_can_observe_is_not_drawn(source: str) -> None:
    assert _changed(source) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("if a:\n    x = 3", 3),
        ("x = cast(a, 1)", 1),
        ("x = a[1]", 1),
        ("SIZE = 7\n@lru_cache(maxsize=SIZE)\ndef f():\n    return SIZE", 2),
        ("assert a < b, 'text'", 2),
        ("raise ValueError(a + 1)", 2),
        ("deque(maxlen=7)", 2),
        ("x = zip(a, b, strict=False)", 1),
    ],
)
def test_what_stands_beside_it_is_drawn(source: str, count: int) -> None:
    assert len(_changed(source)) == count


@pytest.mark.whole
def test_pure_modules_are_those_of_the_contract_and_have_tests() -> None:
    paths = pure_modules(ROOT)
    assert {"throttler/law/govern.py", "balloons/explain.py", "throttler/service/decide_throttles.py"} <= set(paths)
    assert "throttler/service/throttling.py" not in paths
    assert not [path for path in paths if path.startswith(("lab/", "balloons/cli/"))]
    assert nearest_tests(ROOT, "throttler/law/govern.py")[0] == "tests/unit/throttler/law/test_govern.py"
    assert nearest_tests(ROOT, "balloons/report/chart.py")[-1] == "tests/unit/lab/test_pictures.py"
    assert all(nearest_tests(ROOT, path) for path in paths)
    assert all(list(ROOT.glob(tests)) for tests in FURTHER.values())


@pytest.fixture
def importers(tmp_path: Path) -> Path:
    """A tree with a module, whoever imports it in some way, and whoever imports those."""
    texts = {
        "throttler/law/share.py": "",
        "throttler/law/steps.py": "def f():\n    from throttler.law import share",
        "throttler/joins/joins.py": "import throttler.law.steps",
        "tests/world.py": "import throttler.law.share as part",
        "tests/unit/throttler/law/test_other.py": "",
        "tests/unit/throttler/law/test_steps.py": "from throttler.law.steps import f",
        "tests/unit/throttler/law/test_share.py": "from throttler.law.share import x",
        "tests/unit/throttler/service/test_a_package.py": "from throttler.law import share, steps",
        "tests/unit/throttler/service/test_a_name.py": "import os, throttler.law.share",
        "tests/unit/throttler/service/test_world.py": "from tests.world import x",
        "tests/unit/throttler/service/test_steps.py": "from throttler.law import steps",
        "tests/unit/throttler/service/test_joins.py": "from throttler.joins import joins",
        "tests/unit/throttler/service/test_sharing.py": "from throttler.law.sharing import x",
        "tests/lab/test_all.py": "from throttler.law import share",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_tests_of_importers_are_found_however_they_import(importers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.mutants.FURTHER", {})
    names = [
        [f"{PurePosixPath(test).parent.name}/{PurePosixPath(test).stem}" for test in tests]
        for tests in (nearest_tests(importers, SHARE), indirect_tests(importers, SHARE))
    ]
    assert names == [
        ["law/test_share", "service/test_a_name", "service/test_a_package", "law/test_other", "law/test_steps"],
        ["service/test_steps", "service/test_world"],
    ]


def test_an_equal_seed_draws_equal_mutants() -> None:
    few = drawn(ROOT, 5, 1, "throttler/law/window")
    assert drawn(ROOT, 2, 1, "throttler/law/window") == few[:2]
    assert drawn(ROOT, 3, 1, "throttler/law/window", skip=2) == few[2:]
    assert few == drawn(ROOT, 5, 1, "throttler/law/window") != drawn(ROOT, 5, 2, "throttler/law/window")
    assert all(mutant.path.startswith("throttler/law/window") for mutant in few)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        ".importlinter": "[importlinter:contract:pure]\nsource_modules =\n    throttler.law\n    lab.simulator\n",
        "throttler/__init__.py": "",
        "throttler/law/__init__.py": "",
        SHARE: MODULE,
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
    every = list(mutants_of(SHARE, MODULE))
    noticed = next(mutant for mutant in every if mutant.after == "part * whole")
    unnoticed = next(mutant for mutant in every if mutant.after == "part >= 5")
    before = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    with Trial(tree, jobs=1) as trial:
        assert trial.passes([SHARE])
        assert [trial.run(mutant).is_dead for mutant in (noticed, unnoticed)] == [True, False]
    assert (tree / SHARE).read_text() == MODULE
    assert subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout == before


@pytest.mark.whole
def test_a_loop_without_an_end_dies(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def countdown(left: int) -> int:\n    while left:\n        left -= 1\n    return left\n"
    test = "from throttler.law.share import countdown\n\ndef test_countdown():\n    assert countdown(3) == 0\n"
    (tree / SHARE).write_text(source)
    (tree / "tests/unit/throttler/law/test_share.py").write_text(test)
    monkeypatch.setattr("tools.mutants.START_S", 5)
    with Trial(tree, jobs=1) as trial:
        assert trial.passes([SHARE])
        outcome = trial.run(next(mutant for mutant in mutants_of(SHARE, source) if mutant.after == "left += 1"))
    assert outcome.is_dead


def test_summary_counts_by_folder_and_tells_what_was_not_tried() -> None:
    first, second = list(mutants_of(SHARE, MODULE))[:2]
    told = summary([Outcome(first, True, 1.0), Outcome(second, False, 1.0)], 3)
    assert "throttler/law              1 of 2 died" in told
    assert told.endswith("1 of 2 died (50 %); 1 were not tried in time")
