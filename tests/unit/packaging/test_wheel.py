"""What users install: the two packages and their commands, nothing of the lab."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = "import sys, {backend} as backend; backend.build_wheel(sys.argv[1])"
"""What pip does, without pip (PEP 517)."""


def test_the_wheel_ships_the_product_and_nothing_else(tmp_path: Path) -> None:
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"]
    build = [sys.executable, "-c", BUILD.format(backend=backend), str(tmp_path)]
    subprocess.run(build, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"balloons", "throttler", "kube_balloons"}
    assert "kubectl-balloons = balloons.__main__:main" in entry_points
    assert "balloons = balloons.__main__:main" in entry_points
