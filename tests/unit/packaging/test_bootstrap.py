"""`lab/bootstrap.sh`: what an interrupted run, or another Python, leaves behind is no reason to fail for ever."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "lab" / "bootstrap.sh"
PYTHON = """#!/bin/sh
# A Python of its own and those of the environments that it makes: as much as the script asks of one.
here=$(dirname "$0")
case "$*" in
  "-m venv "*)
    for venv; do :; done
    rm -rf "$venv"; mkdir -p "$venv/bin"
    cp "$0" "$venv/bin/python"; cp "$0" "$venv/bin/pip"
    echo "command = $0 -m venv --clear $PWD/$venv" > "$venv/pyvenv.cfg" ;;
  "-m pip install "*) [ -e "$here/pip" ] && echo "user=$PIP_USER" >> "$here/../../installed" ;;
  --version) echo Python 3.99.0 ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone, ä"
    (folder / "lab").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "lab")
    for name in ("pyproject.toml", "toy.lock"):
        (folder / name).write_text(name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return folder


def bootstrap(clone: Path, **environment: str) -> None:
    command = ["bash", str(clone / "lab" / "bootstrap.sh"), ".venv-toy", "toy.lock", "a toy"]
    python = {"PYTHON": str(clone.parent / "python")}
    subprocess.run(command, env={**os.environ, **python, **environment}, check=True, timeout=60, capture_output=True)


def installs(clone: Path) -> list[str]:
    return (clone / "installed").read_text().split()


def interrupted(clone: Path) -> Path:
    (clone / ".venv-toy" / "bin" / "pip").unlink()
    return clone


def without_its_python(clone: Path) -> Path:
    python = clone / ".venv-toy" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    return clone


def moved(clone: Path) -> Path:
    return clone.rename(clone.with_name("elsewhere"))


def copied(clone: Path) -> Path:
    return shutil.copytree(clone, clone.with_name("copy"))


def test_an_environment_is_made_once(clone: Path) -> None:
    bootstrap(clone)
    # Another way to the same folder.
    clone.with_name("link").symlink_to(clone)
    bootstrap(clone.with_name("link"))
    assert len(installs(clone)) == 1


@pytest.mark.parametrize("change", [interrupted, without_its_python, moved, copied])
def test_an_environment_that_cannot_be_used_is_made_anew(clone: Path, change: Callable[[Path], Path]) -> None:
    bootstrap(clone)
    changed = change(clone)
    for _ in range(2):
        bootstrap(changed)
    assert len(installs(changed)) == 2
    assert str(changed) in (changed / ".venv-toy" / "pyvenv.cfg").read_text()


def test_another_lock_is_installed_into_the_environment_that_is_there(clone: Path) -> None:
    bootstrap(clone)
    (clone / ".venv-toy" / "kept").touch()
    (clone / "toy.lock").write_text("another")
    bootstrap(clone)
    assert len(installs(clone)) == 2
    assert (clone / ".venv-toy" / "kept").exists()


def test_pip_is_not_told_to_install_elsewhere(clone: Path) -> None:
    bootstrap(clone, PIP_USER="1")
    assert installs(clone) == ["user=0"]
