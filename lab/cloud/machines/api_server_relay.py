"""A way from a network namespace to the API server on this host's loopback, through a socket file.

Run as a script inside the namespace it listens on an address there; `serve_outside` is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

CHUNK = 64 * 1024


async def serve_outside(socket: Path, host: str, port: int) -> asyncio.Server:
    """Pass on what arrives at the socket file to an address of this host."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, await asyncio.open_connection(host, port))

    return await asyncio.start_unix_server(connected, path=str(socket))


async def _serve_inside(host: str, port: int, socket: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, await asyncio.open_unix_connection(socket))

    server = await asyncio.start_server(connected, host, port)
    async with server:
        await server.serve_forever()


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    await asyncio.gather(_pass_on(reader, other[1]), _pass_on(other[0], writer), return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(ConnectionError, RuntimeError):
        writer.close()


if __name__ == "__main__":
    asyncio.run(_serve_inside(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
