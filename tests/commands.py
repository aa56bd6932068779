"""Runs `balloons` as a process of its own that need not import anything: a fork of one that has done so.

Each run has arguments, environment, folder, streams and exit code of its own, as a command started by a shell. What
the interpreter itself reads before it runs anything (PYTHON... variables) is beyond that, and what is imported is
another matter: tests of those start an interpreter, and so do those of the commands that the pages show.
"""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

LONGEST_S = 120.0
FOR_ALL = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
_STREAMS = (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY))
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    [
        *(f"balloons.cli.{name}" for name in ("main", "plan_and_simulate_screen", "status_screen", "top_screen")),
        *("balloons.doctor.diagnose", "balloons.explain", "balloons.preview.forecast"),
        *("balloons.reading.read_cluster", "balloons.service.run"),
        "tests.commands",
    ]
)


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit code and what it wrote."""

    returncode: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        return self.out.decode()

    @property
    def stderr(self) -> str:
        return self.err.decode()


def balloons(*arguments: str, given: str = "", **environment: str) -> Ended:
    """Run it to its end; `given` is what it reads from its standard input."""
    assert not [name for name in environment if name.startswith("PYTHON")], "of the interpreter: see above"
    with TemporaryDirectory() as folder:
        for name, _ in _STREAMS:
            (Path(folder) / name).write_text(given if name == "stdin" else "")
        process = _PROCESSES.Process(target=_run, args=(arguments, {**FOR_ALL, **environment}, os.getcwd(), folder))
        process.start()
        process.join(LONGEST_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode
        process.close()
        assert code is not None
        return Ended(code, *((Path(folder) / name).read_bytes() for name in ("stdout", "stderr")))


def _run(arguments: tuple[str, ...], environment: Mapping[str, str], folder: str, streams: str) -> None:
    from balloons.__main__ import main

    for number, (name, how) in enumerate(_STREAMS):
        opened = os.open(Path(streams) / name, how)
        os.dup2(opened, number)
        os.close(opened)
        setattr(sys, name, os.fdopen(number, "r" if how == os.O_RDONLY else "w", encoding="utf-8", closefd=False))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [str(Path(sys.modules["balloons"].__path__[0]) / "__main__.py"), *arguments]
    with contextlib.suppress(BrokenPipeError):
        main()
