"""`python -m lab image`: builds the image twice, says how large it is and whether both are the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from lab.cloud.machines.real_files import SANDBOX_IMAGE
from lab.errors import LabError
from lab.image import base, buildah
from lab.image.base import BUILD_BASE, BUILD_PACKAGES, RUNTIME_BASE, RUNTIME_PACKAGES, make_rootfs
from lab.image.buildah import Buildah, Image

ROOT = Path(__file__).resolve().parents[2]
NAME = "localhost/kube-balloons:0.1.0"
LARGEST_MB = 350
OURS, NAMED = "opt/kube-balloons", 10
SBOM, ARCHIVE, SANDBOX_ARCHIVE = "kube-balloons.cdx.json", "kube-balloons.tar", "kube-balloons-sandbox.tar"
WAIT_FOR_EVER = ("python3", "-c", "import signal; signal.pause()")
"""A pod's sandbox for the lab's real nodes, which can pull no other."""


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "dist", help="Folder of archive and SBOM.")
def image(output: Path) -> None:
    """Build the image twice on a small Debian, compare, write it and its SBOM as files."""
    if reason := buildah.why_not() or base.why_not():
        raise LabError(f"no image can be built here: {reason}")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kube-balloons-image-") as folder:
        builder = Buildah(Path(folder) / "storage")
        prepare(builder, Path(folder))
        context = snapshot(Path(folder) / "context")
        first, second = build(builder, f"{NAME}-first", context), build(builder, NAME, context)
        _tell(builder, first, second)
        builder.change_entry_point(NAME, SANDBOX_IMAGE, WAIT_FOR_EVER)
        builder.save(NAME, fresh(output / ARCHIVE))
        builder.save(SANDBOX_IMAGE, fresh(output / SANDBOX_ARCHIVE))
        with builder.files(NAME) as files:
            shutil.copyfile(files / OURS / SBOM, output / SBOM)
    click.echo(f"written: {output / ARCHIVE}, {output / SBOM}")


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
    return builder.build(name, context, {"BASE": BUILD_BASE, "RUNTIME_BASE": RUNTIME_BASE})


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
