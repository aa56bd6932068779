"""CPU of one process: what it used, a share of a core as its limit, and the right to go before everybody else.

Limit and right are those of a cgroup of its own. Both hierarchies are tried, v2 (`cpu.max`, `cpu.weight`) and v1
(`cpu.cfs_quota_us`, `cpu.shares`). Neither is to be had in most containers and without root; then the process runs like
any other and the caller is told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PERIOD_US = 20_000
"""Short, so that a held server stutters by milliseconds; the kernel's default is five times as long."""
MOST_WEIGHT, MOST_SHARES = "10000", "262144"
"""A hundred and 256 times what a process has by default: the most that v2 and v1 take."""
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
    quota = int(cores * PERIOD_US)
    v1 = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    with _in_group(pid, {"cpu.max": f"{quota} {PERIOD_US}"}, v1) as is_held:
        yield is_held


@contextlib.contextmanager
def served_first(pid: int) -> Iterator[bool]:
    """Let `pid` have the CPU before others until left, as on a machine of its own; yields whether that is allowed."""
    with _in_group(pid, {"cpu.weight": MOST_WEIGHT}, {"cpu.shares": MOST_SHARES}) as is_first:
        yield is_first


@contextlib.contextmanager
def _in_group(pid: int, v2: dict[str, str], v1: dict[str, str]) -> Iterator[bool]:
    folder = _make_group(f"kube-balloons-{pid}", v2, v1)
    is_in = folder is not None and _write(folder / "cgroup.procs", str(pid))
    try:
        yield is_in
    finally:
        if folder is not None:
            if is_in:
                _write(folder.parent / "cgroup.procs", str(pid))
            # It stays, empty, where the process has not left it in time.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_group(name: str, v2: dict[str, str], v1: dict[str, str]) -> Path | None:
    for root, values in ((V2, v2), (V1, v1)):
        folder = root / name
        if not os.access(root, os.W_OK) or not (root / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            if all(_write(folder / file, text) for file, text in values.items()):
                return folder
            folder.rmdir()
    return None


def _write(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError:
        return False
    return True
