"""CPU of one process: what it used, and a share of a core as its limit, so that it binds and not the machine.

The limit is a cgroup of its own. Both hierarchies are tried, v2 (`cpu.max`) and v1 (`cpu.cfs_quota_us`). Neither is to
be had in most containers and without root; then the process runs free and the caller is told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PERIOD_US = 20_000
"""Short, so that a held server stutters by milliseconds; the kernel's default is five times as long."""
V2, V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far, by all its threads, in user and system mode."""
    # The second field is the command in brackets, which may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextlib.contextmanager
def held_to(pid: int, cores: float) -> Iterator[bool]:
    """Let all threads of `pid` together use so many cores until left; yields whether the machine allows it."""
    folder = _make_group(f"kube-balloons-{pid}", cores)
    is_held = folder is not None and _write(folder / "cgroup.procs", str(pid))
    try:
        yield is_held
    finally:
        if folder is not None:
            if is_held:
                _write(folder.parent / "cgroup.procs", str(pid))
            # It stays, empty, where the process has not left it in time.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_group(name: str, cores: float) -> Path | None:
    quota = int(cores * PERIOD_US)
    for root, limits in (
        (V2, {"cpu.max": f"{quota} {PERIOD_US}"}),
        (V1, {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}),
    ):
        folder = root / name
        if not os.access(root, os.W_OK) or not (root / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            if all(_write(folder / file, text) for file, text in limits.items()):
                return folder
            folder.rmdir()
    return None


def _write(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError:
        return False
    return True
