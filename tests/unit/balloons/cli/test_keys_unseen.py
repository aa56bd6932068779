"""Keys that are pressed while a screen is drawn in place: the terminal shows none, and is as before however it ends."""

import asyncio
import fcntl
import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from balloons.cli.terminal import keys_unseen
from tests.unit.balloons.cli.test_small_commands import config_for
from tests.unit.balloons.cli.test_status_screen import Server
from tests.unit.throttler.kube.loopback_api import loopback_api

LOCAL_MODES = 3
"""Where `termios.tcgetattr` has the flags with ECHO."""


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """What a person has, and what a program has of it."""
    person, program = pty.openpty()
    try:
        yield person, program
    finally:
        os.close(person)
        os.close(program)


def shows_keys(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[LOCAL_MODES] & termios.ECHO)


def take_the_terminal() -> None:
    """As a shell gives it to the command that it starts."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def drawn(person: int, text: str) -> str:
    """What the terminal has got by the time that it shows this."""
    loop, got = asyncio.get_running_loop(), ""
    while text not in got:
        got += (await asyncio.wait_for(loop.run_in_executor(None, os.read, person, 4096), 30)).decode()
    return got


@pytest.mark.whole
@pytest.mark.parametrize(("end", "code"), [("ctrl-c", 130), ("SIGTERM", -signal.SIGTERM), ("SIGHUP", -signal.SIGHUP)])
async def test_keys_are_unseen_while_status_is_watched_and_seen_again_after(
    end: str, code: int, tmp_path: Path
) -> None:
    async with loopback_api(Server(100).handle) as api:
        with terminal() as (person, program):
            before = termios.tcgetattr(program)
            command = ["-m", "balloons", "status", "-w", "--kubeconfig", config_for(api, tmp_path)]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=program,
                stdout=program,
                stderr=program,
                start_new_session=True,
                preexec_fn=take_the_terminal,
            )
            await drawn(person, "gpu")
            assert not shows_keys(program)
            os.write(person, b"\rpressed\r")
            await asyncio.sleep(0.2)
            assert "pressed" not in await drawn(person, "gpu")
            if end == "ctrl-c":
                os.write(person, b"\x03")
            else:
                process.send_signal(signal.Signals[end])
            assert await asyncio.wait_for(process.wait(), 30) == code
            assert termios.tcgetattr(program) == before


def test_a_command_that_fails_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as (_, program), os.fdopen(program, "w", closefd=False) as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        before, handlers = termios.tcgetattr(program), signal.getsignal(signal.SIGTERM)
        shown = []
        with suppress(ValueError), keys_unseen():
            shown.append(shows_keys(program))
            raise ValueError
        assert shown == [False]
        assert termios.tcgetattr(program) == before
        assert signal.getsignal(signal.SIGTERM) is handlers


def test_a_signal_does_what_it_did_before_once_the_terminal_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's first process has a handler for SIGTERM, and the kernel would ignore it without one."""
    ended = []
    with terminal() as (_, program), os.fdopen(program, "w", closefd=False) as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        usual = signal.signal(signal.SIGTERM, lambda number, frame: ended.append(shows_keys(program)))
        try:
            with keys_unseen():
                signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, usual)
    assert ended == [True]


def test_in_the_background_the_terminal_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stop the process: only who has the terminal may change it."""
    with terminal() as (_, program), os.fdopen(program, "w", closefd=False) as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
        with keys_unseen():
            assert shows_keys(program)


def test_a_pipe_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with keys_unseen():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
