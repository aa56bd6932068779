"""Runs beside a group of processes and ends them when their owner is gone. Started by `group.py` as a script.

The owner holds the other end of standard input. End of file, or another parent process, means that the owner
closed the group or died, however it died: then every member of this process group gets SIGKILL and the folder
given as the only argument is removed. A process group, unlike PR_SET_PDEATHSIG, does not end its children
when merely the *thread* that started them ends.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time

CHECK_OWNER_EVERY_S = 1.0
SETTLE_S = 0.1
"""A child forked just before its owner died needs a moment until it has joined the group."""


def members(group: int) -> list[int]:
    """Return the live processes of `group` except this one; zombies do not count."""
    return [pid for pid in _all_processes() if pid != os.getpid() and _is_live_member(pid, group)]


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_live_member(pid: int, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            stat = handle.read()
    except OSError:
        return False
    # The command name in parentheses may itself hold spaces and parentheses: split after the last one.
    state, _parent, member_of = stat.rpartition(b")")[2].split()[:3]
    return int(member_of) == group and state != b"Z"


def wait_for_end_of(owner: int) -> None:
    """Return when standard input is closed at the other end or `owner` is no longer this process's parent."""
    while os.getppid() == owner:
        readable, _, _ = select.select([0], [], [], CHECK_OWNER_EVERY_S)
        if readable and not os.read(0, 4096):
            return


def kill_members(group: int) -> None:
    """Kill until nobody is left."""
    while alive := members(group):
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def main() -> None:
    """Wait for the owner's end, then leave nothing behind."""
    owner = int(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_for_end_of(owner)
    if os.getppid() != owner:
        time.sleep(SETTLE_S)
    kill_members(os.getpgrp())
    if len(sys.argv) > 2:
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
