"""What the Containerfile says, and what goes into the image, without building one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
PICTURES = {"matplotlib", "jinja2", "pillow"}


def pinned(lock: str) -> dict[str, set[str]]:
    """Package -> its pins, each `version ; marker`."""
    found: dict[str, set[str]] = {}
    for name, pin in re.findall(r"^([\w.-]+)==([^\\\n]+?) *\\?$", (ROOT / lock).read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(pin.partition(" ")[0])
    return found


def hashes(lock: str) -> set[str]:
    return set(re.findall(r"sha256:[0-9a-f]{64}", (ROOT / lock).read_text()))


def test_the_image_has_the_versions_that_were_tested() -> None:
    tested, shipped = pinned("requirements.lock"), pinned("requirements-image.lock")
    assert len(shipped) > 30
    assert {name: pins for name, pins in shipped.items() if pins != tested.get(name)} == {}
    assert hashes("requirements-image.lock") <= hashes("requirements.lock")


def test_a_report_is_tried_with_the_versions_that_were_tested() -> None:
    tested, tried = pinned("requirements.lock"), pinned("requirements-report.lock")
    assert tried.keys() >= PICTURES
    assert {name: pins for name, pins in tried.items() if pins != tested.get(name)} == {}


def test_the_image_draws_no_pictures() -> None:
    assert pinned("requirements-image.lock").keys() & PICTURES == set()


def test_locks_name_no_index() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        assert "://" not in lock.read_text(), lock


def test_every_package_is_installed_by_its_hash_and_as_a_wheel() -> None:
    installs = [each for each in re.findall(r"pip[^&]*install[^&]*", CONTAINERFILE) if "-r requirements" in each]
    assert len(installs) == 2
    for each in installs:
        assert "--require-hashes" in each
        assert "--only-binary=:all:" in each


def test_it_runs_as_the_user_of_the_manifests_and_without_a_shell() -> None:
    deployment = yaml.safe_load((ROOT / "manifests/components/service/deployment.yaml").read_text())
    security = deployment["spec"]["template"]["spec"]["securityContext"]
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}\n" in CONTAINERFILE
    last = CONTAINERFILE.rpartition("FROM ")[2]
    assert "\nRUN " not in last
    assert re.search(r'^ENTRYPOINT \["python3", .*"balloons"\]$', last, re.MULTILINE)


def test_what_is_copied_is_let_into_the_build() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE)
    assert {source for each in copies for source in each.split()[:-1]} == let_in
    assert all((ROOT / each).exists() for each in let_in)


def test_bytecode_is_written_for_what_is_imported_and_twice_the_same(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        package = tmp_path / folder / "toy"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "used.py").write_text("VALUE = {'a': (1, 2), 'b': frozenset({3})}\n")
        (package / "drawn.py").write_text("import a_library_that_is_not_there\n")
        (tmp_path / folder / "unused.py").write_text("")
        setting = "from pathlib import Path; from lab.image import bytecode; bytecode.ROOTS = ('toy',)"
        script = f"{setting}; bytecode.main(Path({str(tmp_path / folder)!r}))"
        # As in the build: Python itself writes none.
        alone = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, env=alone)
    names = [path.relative_to(tmp_path / "one") for path in sorted((tmp_path / "one").rglob("*.pyc"))]
    assert {name.name.split(".")[0] for name in names} == {"__init__", "used"}
    # The path is part of the bytecode, and in an image it is always the same.
    one, two = ((tmp_path / folder / names[-1]).read_bytes() for folder in ("one", "two"))
    assert one.replace(b"/one/", b"/two/") == two
