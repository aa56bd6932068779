from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import dealing
from tests.dealing import longest_first, unit, write_seconds

HOLDS, HERD = "tests/lab/test_service_holds.py", "tests/lab/test_joiner_herd.py"
NAMES = st.sampled_from(["tests/unit/a/test_a.py", "tests/unit/test_b.py", "tests/contract/test_c.py", HOLDS, HERD])


def test_tests_of_the_lab_go_alone_and_those_of_other_files_together() -> None:
    assert unit(f"{HOLDS}::test_one") == f"{HOLDS}::test_one"
    assert unit("tests/unit/test_b.py::test_one[a/b]") == "tests/unit/test_b.py"
    assert unit("tests/contract/test_rights.py::test_one") == "tests/contract/test_rights.py"


def test_tests_of_the_lab_that_share_what_a_module_sets_up_stay_together() -> None:
    file = "tests/lab/test_dashboards.py"
    assert 'scope="module"' in (dealing.ROOT / file).read_text()
    assert unit(f"{file}::test_one") == file


def test_the_longest_goes_first_whatever_folder_it_is_in() -> None:
    units = ["tests/unit/test_b.py", f"{HERD}::test_brief", "tests/contract/test_c.py", f"{HOLDS}::test_long[a/b]"]
    long = {"test_service_holds.py::test_long[a/b]": 90.0, "test_c.py": 30.0}
    assert longest_first(units, long) == [units[3], units[2], units[1], units[0]]


@given(st.lists(NAMES, unique=True))
def test_every_unit_is_dealt_once(units: list[str]) -> None:
    assert sorted(longest_first(units, {"test_b.py": 7.0})) == sorted(units)


def test_what_was_slow_is_written_down_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "SECONDS_FILE", tmp_path / "seconds.json")
    files = ("tests/unit/test_b.py::test_b", "tests/unit/test_b.py::test_c", "tests/unit/test_d.py::test_e")
    write_seconds({f"{HOLDS}::test_a[x/y]": 31.4, **dict.fromkeys(files, 2.0), f"{HERD}::test_c": 99.0})
    assert list(dealing.read_seconds().items()) == [
        ("test_joiner_herd.py::test_c", 99),
        ("test_service_holds.py::test_a[x/y]", 31),
        ("test_b.py", 4),
    ]
