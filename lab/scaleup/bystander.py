"""The innocent client in a process of its own, so that only the servers and the machine's cores are shared."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

from lab.controlplane import ApiAccess
from lab.errors import LabError
from lab.scaleup.innocent_client import TIMEOUT_S, Met, as_argument

END_S = TIMEOUT_S + 10.0
"""It waits for what it asked last."""


@contextlib.asynccontextmanager
async def bystander(*accesses: ApiAccess) -> AsyncIterator[Met]:
    """Ask the servers in turn until left; what it met is there then.

    The process ends with ours, as its standard input does. Raises LabError if it ends by itself.
    """
    met = Met()
    program = (sys.executable, "-m", "lab.scaleup.innocent_client", as_argument(accesses))
    process = await asyncio.create_subprocess_exec(
        *program, stdin=PIPE, stdout=PIPE, limit=2**26, start_new_session=True
    )
    try:
        await _line(process)
        yield met
        figures = json.loads(await _told_to_end(process))
        met.latencies_s, met.refusals, met.failures = figures["latencies_s"], figures["refusals"], figures["failures"]
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
