"""One process of the control plane, with the ways of chaos: kill, pause, resume, start again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail

ANSWER_WITHIN_S = 5.0


async def answers_ok(url: str, tls: ssl.SSLContext | None) -> bool:
    """Return whether GET `url` answers 200; silence, refusal and a stranger's certificate are False."""
    try:
        return await asyncio.wait_for(_status(url, tls), ANSWER_WITHIN_S) == b"200"
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False


async def _status(url: str, tls: ssl.SSLContext | None) -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
    try:
        writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status_line = await reader.readuntil(b"\r\n")
        return status_line.split()[1]
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


POLL_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """How a component is started and how it is asked whether it is ready."""

    name: str
    command: Sequence[str]
    ready_urls: tuple[str, ...]
    tls: ssl.SSLContext | None
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)


class Component:
    """A running (or killed, or paused) process of the control plane."""

    def __init__(self, spec: ComponentSpec, group: ProcessGroup) -> None:
        self.spec = spec
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; raises LabError when it does not run."""
        return self._running().pid

    def start(self) -> None:
        """Start the process; it need not be ready yet."""
        if self.is_running:
            raise LabError(f"{self.spec.name} runs already")
        environment = dict(self.spec.environment)
        self._process = self._group.spawn(self.spec.command, log=self.spec.log, env=environment)

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would, and wait until it is gone."""
        process = self._running()
        process.kill()
        process.wait()

    def pause(self) -> None:
        """Stop the process with SIGSTOP: its connections stay open and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._running().send_signal(signal.SIGCONT)

    async def wait_until_ready(self, deadline_s: float) -> None:
        """Return once all its ready URLs answer; raises LabError with the end of its log if it is not."""
        end = time.monotonic() + deadline_s
        for url in self.spec.ready_urls:
            while not await answers_ok(url, self.spec.tls):
                if not self.is_running:
                    raise self._failure("ended before it was ready")
                if time.monotonic() > end:
                    raise self._failure(f"was not ready after {deadline_s:.0f} s ({url})")
                await asyncio.sleep(POLL_EVERY_S)
        if not self.is_running:
            raise self._failure("ended just when it became ready")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"{self.spec.name} does not run")
        return self._process

    def _failure(self, what: str) -> LabError:
        code = self._process.poll() if self._process else None
        ended = f" with code {code}" if code is not None else ""
        return LabError(f"{self.spec.name} {what}{ended}. The end of its log:\n{log_tail(self.spec.log)}")
