"""`python -m lab image`: builds the image twice, compares, and writes it with what says what it is made of."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from lab.cloud.machines.real_files import SANDBOX_IMAGE
from lab.errors import LabError
from lab.image import buildah
from lab.image.advisories import Advisories, read_advisories, scan_result
from lab.image.buildah import EPOCH, Buildah, Image
from lab.image.provenance import BUILDER, Commit, ImageBuild, bill_differences, read_commit, statement

ROOT = Path(__file__).resolve().parents[2]
NAME = "localhost/kube-balloons:0.1.0"
LARGEST_MB = 350
OURS, NAMED = "opt/kube-balloons", 10
SBOM, ARCHIVE, SANDBOX_ARCHIVE = "kube-balloons.cdx.json", "kube-balloons.tar", "kube-balloons-sandbox.tar"
PROVENANCE, SCAN = "kube-balloons.provenance.json", "kube-balloons.vulnerabilities.json"
LOCK = "requirements-image.lock"
LOCKS = (LOCK, "requirements-image-build.lock")
ROOTFS_MAKER = "mmdebstrap"
"""Makes a stand-in for a public base image, which no registry serves here: a small Debian with Python."""
SUITE = "bookworm"
PYTHON = "3.11.2"
"""As that suite has it; the lab and the lock have 3.11 too."""
RUNTIME_PACKAGES = ("python3", "libstdc++6", "ca-certificates")
"""numpy's wheels want the C++ library of the system, which every base that has apt has."""
BUILD_PACKAGES = (*RUNTIME_PACKAGES, "python3-venv")
BUILD_BASE, RUNTIME_BASE = "localhost/debian-python-venv:12", "localhost/debian-python:12"
_UNNEEDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")
ARGUMENTS = {"BASE": BUILD_BASE, "RUNTIME_BASE": RUNTIME_BASE}
WAIT_FOR_EVER = ("python3", "-c", "import signal; signal.pause()")
"""A pod's sandbox for the lab's real nodes, which can pull no other."""


ADVISORIES = click.option(
    "--advisories", type=click.Path(path_type=Path), help="Folder or zip of OSV records to hold the locks against."
)


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "dist", help="Folder of all that is written.")
@click.option("--builder", default=BUILDER, show_default=True, help="Who builds, as a URI, for the provenance.")
@ADVISORIES
def image(output: Path, builder: str, advisories: Path | None) -> None:
    """Build the image twice on a small Debian, compare, write it with its SBOM, provenance and scan."""
    if reason := buildah.why_not():
        raise LabError(f"no image can be built here: {reason}")
    if not shutil.which(ROOTFS_MAKER):
        raise LabError(f"no image can be built here: {ROOTFS_MAKER} is not installed")
    known = read_advisories(advisories) if advisories else None
    commit, started = read_commit(ROOT, ("Containerfile", *_let_in())), datetime.now(UTC)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kube-balloons-image-") as folder:
        storage = Buildah(Path(folder) / "storage")
        prepare(storage, Path(folder))
        context = snapshot(Path(folder) / "context")
        first, second = build(storage, f"{NAME}-first", context), build(storage, NAME, context)
        _tell(storage, first, second)
        storage.change_entry_point(NAME, SANDBOX_IMAGE, WAIT_FOR_EVER)
        storage.save(NAME, fresh(output / ARCHIVE))
        storage.save(SANDBOX_IMAGE, fresh(output / SANDBOX_ARCHIVE))
        with storage.files(NAME) as files:
            shutil.copyfile(files / OURS / SBOM, output / SBOM)
        _check_bill(output / SBOM, context / LOCK)
        scan = _write_scan(output, context, known)
        build_done = ImageBuild(
            commit=commit,
            context=context,
            locks=LOCKS,
            arguments=ARGUMENTS,
            bases={name: storage.image(name).digest for name in (BUILD_BASE, RUNTIME_BASE)},
            epoch=EPOCH,
            tool=storage.run("--version"),
            builder=builder,
            started=started,
            finished=datetime.now(UTC),
            config=second.config,
            files=(output / ARCHIVE,),
            byproducts=(output / SBOM, *([output / SCAN] if scan else [])),
        )
        _write_json(output / PROVENANCE, statement(build_done))
    _tell_commit(commit)
    click.echo(f"written: {', '.join(str(output / name) for name in (ARCHIVE, SBOM, PROVENANCE))}")
    _judge(scan)


@click.command()
@ADVISORIES
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "dist", help="Folder of the result.")
def audit(advisories: Path | None, output: Path) -> None:
    """Hold the image's locks against advisories, without building it."""
    if advisories is None:
        raise LabError("--advisories: name a folder or a zip of OSV records (docs/image.md)")
    output.mkdir(parents=True, exist_ok=True)
    _judge(_write_scan(output, ROOT, read_advisories(advisories)))


def _write_scan(output: Path, context: Path, advisories: Advisories | None) -> Mapping[str, Any] | None:
    """Write what the advisories say; without any, nothing lies there that an earlier build has written."""
    if advisories is None:
        (output / SCAN).unlink(missing_ok=True)
        return None
    locks = {lock: (context / lock).read_text(encoding="utf-8") for lock in LOCKS}
    result = scan_result(advisories, locks, datetime.now(UTC))
    _write_json(output / SCAN, result)
    click.echo(f"written: {output / SCAN}")
    return result


def _judge(scan: Mapping[str, Any] | None) -> None:
    if scan is None:
        click.echo("not held against known vulnerabilities: no --advisories (make image ADVISORIES=...; docs/image.md)")
        return
    result, newest = scan["scanner"]["result"], scan["scanner"]["db"]["lastUpdate"]
    click.echo(f"held against {result['advisories']} advisories, the newest of {newest}")
    if result["unreadable"]:
        click.echo(f"{len(result['unreadable'])} of them cannot be read: {', '.join(result['unreadable'][:NAMED])}")
    if result["vulnerabilities"]:
        lines = [f"{one['lock']}: {one['package']} {one['version']}: {one['id']}" for one in result["vulnerabilities"]]
        raise LabError("known vulnerabilities:\n  " + "\n  ".join(lines))


def _tell_commit(commit: Commit) -> None:
    if commit.changed:
        names = ", ".join(commit.changed[:NAMED])
        click.echo(f"not built from a commit: {len(commit.changed)} files differ from {commit.sha[:12]}: {names}")


def _check_bill(bill: Path, lock: Path) -> None:
    differences = bill_differences(json.loads(bill.read_text()), lock.read_text(encoding="utf-8"), PYTHON)
    if differences:
        raise LabError(f"the bill of materials is not the lock: {'; '.join(differences[:NAMED])}")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def prepare(builder: Buildah, folder: Path) -> None:
    """The two bases of this machine's own making."""
    for name, packages in ((BUILD_BASE, BUILD_PACKAGES), (RUNTIME_BASE, RUNTIME_PACKAGES)):
        click.echo(f"making {name} ...", err=True)
        rootfs = folder / "rootfs.tar"
        make_rootfs(rootfs, packages)
        builder.make_base(name, rootfs)
        rootfs.unlink()


def snapshot(folder: Path) -> Path:
    """What the image is built from, as it is now: two builds of a tree that is being worked on would differ."""
    for name in ("Containerfile", *_let_in()):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return folder


def _let_in() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def build(builder: Buildah, name: str, context: Path) -> Image:
    """One build from the beginning."""
    click.echo(f"building {name} ...", err=True)
    return builder.build(name, context, ARGUMENTS)


def fresh(archive: Path) -> Path:
    """A place at which nothing lies: an archive is not written over."""
    archive.unlink(missing_ok=True)
    return archive


def _tell(builder: Buildah, first: Image, second: Image) -> None:
    click.echo(
        f"{second.digest}: {second.size / 1e6:.0f} MB unpacked, of which {second.own_size / 1e6:.0f} MB are ours"
    )
    if first.layers != second.layers:
        names = builder.differences(first.name, second.name, OURS)
        raise LabError(f"two builds differ, in {len(names)} files: {', '.join(names[:NAMED])}")
    click.echo("two builds are the same, byte by byte")
    if second.size > LARGEST_MB * 1e6:
        raise LabError(f"larger than {LARGEST_MB} MB")


def make_rootfs(archive: Path, packages: tuple[str, ...]) -> None:
    """Pack a root file system with these packages; raises LabError with what the program says."""
    without = [f"--dpkgopt=path-exclude={path}" for path in _UNNEEDED]
    wanted = f"--include={','.join(packages)}"
    command = [ROOTFS_MAKER, "--quiet", "--variant=essential", *without, wanted, SUITE, str(archive)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise LabError(f"{ROOTFS_MAKER}: {answer.stderr[-4000:]}")
