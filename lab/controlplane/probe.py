"""Ask a component whether it is ready, with a connection of its own each time: bound to no event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

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
