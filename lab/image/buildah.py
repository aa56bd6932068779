"""What is asked of buildah, which builds as root in a chroot and needs neither a daemon nor namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from filecmp import cmpfiles, dircmp
from pathlib import Path

from lab.errors import LabError

PROGRAM = "buildah"
EPOCH = 1_700_000_000
"""The time of every file and of the image: any, as long as it is the same in both builds."""
PIP_SETTINGS = ("PIP_INDEX_URL", "PIP_CERT", "PIP_PROXY")
"""What this machine says about where packages come from; it is mounted, and is no part of the image."""


def why_not() -> str:
    """Why no image can be built here; empty if one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed"
    if os.geteuid() != 0:
        return "an image is built as root here"
    return ""


@dataclass(frozen=True)
class Image:
    """An image in the local storage."""

    name: str
    digest: str
    """Of its manifest, and so of everything in it; a registry packs layers anew, and gives it another."""
    config: str
    """Of its configuration, which names the layers unpacked, and is the same in every registry."""
    layers: tuple[str, ...]
    """Digests of its layers, base first."""
    sizes: tuple[int, ...]
    """Bytes of each layer, unpacked."""

    @property
    def size(self) -> int:
        """Bytes of all layers."""
        return sum(self.sizes)

    @property
    def own_size(self) -> int:
        """Bytes of the last layer, which is ours."""
        return self.sizes[-1]


class Buildah:
    """One storage of its own below `folder`, removed with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str) -> str:
        """Run it; raises LabError with what it says."""
        places = ("--root", str(self._folder / "root"), "--runroot", str(self._folder / "run"))
        command = [PROGRAM, *places, "--storage-driver", "vfs", *arguments]
        # It keeps layers it works on there.
        environment = {**os.environ, "TMPDIR": str(self._folder), "BUILDAH_ISOLATION": "chroot"}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise LabError(f"{PROGRAM} {arguments[0]}: {(answer.stderr or answer.stdout)[-4000:]}")
        return answer.stdout.strip()

    def make_base(self, name: str, rootfs: Path) -> None:
        """An image of one layer, from a packed root file system."""
        container = self.run("from", "scratch")
        self.run("add", "--quiet", container, str(rootfs), "/")
        self.run("commit", "--quiet", f"--timestamp={EPOCH}", container, name)
        self.run("rm", container)

    def build(self, name: str, context: Path, arguments: Mapping[str, str]) -> Image:
        """Build the context's Containerfile from the beginning."""
        build_arguments = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
        how = ("--no-cache", "--quiet", f"--timestamp={EPOCH}", "--network=host", *self._mounts(), *build_arguments)
        self.run("build", *how, "--file", str(context / "Containerfile"), "--tag", name, str(context))
        return self.image(name)

    def image(self, name: str) -> Image:
        """What is known of an image of this storage."""
        facts = json.loads(self.run("inspect", "--type=image", name))
        layers = tuple(facts["OCIv1"]["rootfs"]["diff_ids"])
        return Image(
            name,
            facts["FromImageDigest"],
            facts["FromImageID"],
            layers,
            _sizes(self._folder / "root" / "vfs-layers", layers),
        )

    def change_entry_point(self, name: str, other: str, command: Sequence[str]) -> None:
        """An image like `name` that runs something else."""
        container = self.run("from", "--pull-never", name)
        self.run("config", "--entrypoint", json.dumps(list(command)), "--cmd", "", container)
        self.run("commit", "--quiet", f"--timestamp={EPOCH}", container, other)
        self.run("rm", container)

    def save(self, name: str, archive: Path) -> None:
        """Write it as a file that containerd and docker import."""
        self.run("push", "--quiet", name, f"docker-archive:{archive}:{name}")

    @contextmanager
    def files(self, name: str) -> Iterator[Path]:
        """The root of an image's files, while the block lasts."""
        container = self.run("from", "--pull-never", name)
        try:
            yield Path(self.run("mount", container))
        finally:
            self.run("rm", container)

    def differences(self, one: str, other: str, folder: str) -> list[str]:
        """Paths below a folder that only one of two images has, or that differ in it."""
        with self.files(one) as first, self.files(other) as second:
            return sorted(_different(dircmp(first / folder, second / folder, ignore=[]), ""))

    def _mounts(self) -> Sequence[str]:
        """The certificates of this machine, and how its pip reaches packages."""
        settings = {name: os.environ[name] for name in PIP_SETTINGS if os.environ.get(name)}
        lines = [f"{name.removeprefix('PIP_').lower().replace('_', '-')} = {value}" for name, value in settings.items()]
        configuration = self._folder / "pip.conf"
        configuration.write_text("\n".join(["[global]", *lines, ""]))
        certificates = "/etc/ssl/certs/ca-certificates.crt"
        shared = [f"--volume={configuration}:/etc/pip.conf:ro"]
        return [*shared, f"--volume={certificates}:{certificates}:ro"] if Path(certificates).exists() else shared


def _different(folders: dircmp[str], below: str) -> Iterator[str]:
    # Same size and time is not the same bytes: every time is the same here.
    _, differing, _ = cmpfiles(folders.left, folders.right, folders.common_files, shallow=False)
    yield from (f"{below}{name}" for name in (*folders.left_only, *folders.right_only, *differing))
    for name, part in folders.subdirs.items():
        yield from _different(part, f"{below}{name}/")


def _sizes(folder: Path, layers: Sequence[str]) -> tuple[int, ...]:
    """Bytes of these layers' files, as the storage counted them when they were made."""
    known = {layer["diff-digest"]: layer["diff-size"] for layer in json.loads((folder / "layers.json").read_text())}
    return tuple(known[layer] for layer in layers)
