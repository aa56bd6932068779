"""The innocent client in a process of its own, so that only the servers and the machine's cores are shared."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from lab.controlplane import ApiAccess
from lab.errors import LabError
from lab.scaleup.innocent_client import as_argument

END_S = 10.0


@dataclass(slots=True)
class Bystander:
    """Latencies of the requests that were answered well, in seconds, and how many were not; there once it was left."""

    latencies_s: list[float] = field(default_factory=list)
    failures: int = 0


@contextlib.asynccontextmanager
async def bystander(*accesses: ApiAccess) -> AsyncIterator[Bystander]:
    """Ask the servers in turn until left. The process ends with ours: its standard input does. Raises LabError."""
    seen = Bystander()
    program = (sys.executable, "-m", "lab.scaleup.innocent_client", as_argument(accesses))
    process = await asyncio.create_subprocess_exec(
        *program, stdin=PIPE, stdout=PIPE, limit=2**26, start_new_session=True
    )
    try:
        await _line(process)
        yield seen
        found = json.loads(await _told_to_end(process))
        seen.latencies_s, seen.failures = found["latencies_s"], found["failures"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _told_to_end(process: Process) -> bytes:
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(END_S):
        line = await _line(process)
        await process.wait()
    return line


async def _line(process: Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise LabError(f"the innocent client ended by itself, with status {await process.wait()}")
    return line
