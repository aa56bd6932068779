"""Child processes end with their owner, however it ends, and not before."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail

FOREVER = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"]

OWNER = """
import sys, time
from pathlib import Path
from lab.processes import ProcessGroup
group = ProcessGroup(remove_at_end=Path(sys.argv[1]))
child = group.spawn([sys.executable, "-c", "import time; time.sleep(600)"], log=Path(sys.argv[1]) / "log")
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    with ProcessGroup() as group:
        yield group


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for another process: the one thing here that virtual time cannot move."""
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_closing_ends_all_children_and_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    with ProcessGroup(remove_at_end=folder) as group:
        children = [group.spawn(FOREVER, log=folder / "log") for _ in range(3)]
        assert [child.poll() for child in children] == [None] * 3
    assert [child.returncode for child in children] == [-signal.SIGKILL] * 3
    assert not folder.exists()


def test_paused_child_ends_too(tmp_path: Path) -> None:
    with ProcessGroup() as group:
        child = group.spawn(FOREVER, log=tmp_path / "log")
        child.send_signal(signal.SIGSTOP)
    assert child.returncode == -signal.SIGKILL


def test_child_that_ignores_signals_ends_too(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True)"
    with ProcessGroup() as group:
        child = group.spawn([sys.executable, "-c", f"{stubborn}; time.sleep(600)"], log=tmp_path / "log")
        eventually(lambda: log_tail(tmp_path / "log") == "on")
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_when_their_owner_is_killed(tmp_path: Path, ending: signal.Signals) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    command = [sys.executable, "-c", OWNER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        assert is_alive(child)
        owner.send_signal(ending)
        owner.wait()
    eventually(lambda: not is_alive(child) and not folder.exists())


def test_children_outlive_the_thread_that_started_them(group: ProcessGroup, tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    log = tmp_path / "log"
    thread = threading.Thread(target=lambda: started.append(group.spawn(FOREVER, log=log)))
    thread.start()
    thread.join()
    # A parent-death signal would have arrived by the time that the child has come to print.
    eventually(lambda: log_tail(log) == "started")
    assert started[0].poll() is None


def test_closing_one_group_leaves_another_alone(group: ProcessGroup, tmp_path: Path) -> None:
    mine = group.spawn(FOREVER, log=tmp_path / "mine")
    with ProcessGroup() as other:
        other.spawn(FOREVER, log=tmp_path / "other")
    assert mine.poll() is None


def test_command_that_does_not_exist_is_named(group: ProcessGroup, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="/no/such/program cannot be started"):
        group.spawn(["/no/such/program"], log=tmp_path / "log")


def test_closing_twice_is_harmless() -> None:
    group = ProcessGroup()
    group.close()
    group.close()


def test_children_do_not_hold_the_pipe_of_their_warden(group: ProcessGroup, tmp_path: Path) -> None:
    child = group.spawn(["/bin/ls", "-l", "/proc/self/fd"], log=tmp_path / "log")
    child.wait()
    assert "pipe:" not in (tmp_path / "log").read_text()


def test_log_tail_gives_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n\n" for number in range(100_000)))
    assert log_tail(log, lines=2) == "line 99998\nline 99999"
    assert log_tail(tmp_path / "absent") == ""
