"""Connections that end with their session, those that aiohttp has let go of included."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import aiohttp

from throttler.client.errors import FencedError

CLOSED_WITHIN_S = 1.0
"""An end of file of our own making is read within a few turns of the loop; nothing here waits for the server."""

MaySend = Callable[[], bool]


def always() -> bool:
    """The fence of a client that has none."""
    return True


class EndingConnector(aiohttp.TCPConnector):
    """A TCPConnector that leaves no socket open once it is closed.

    aiohttp lets go of the connection of a cancelled request, and asyncio then waits up to 30 s for the server's
    goodbye over TLS, which a frozen server never says. Nobody knows of that socket any more: it would outlive the
    session, and be leaked by a loop that ends sooner.
    """

    def __init__(self, may_send: MaySend = always, **options: Any) -> None:
        self._opened = WeakSet[socket.socket]()
        self._may_send = may_send
        super().__init__(socket_factory=self._open, **options)

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """A connection to send on at once; raises FencedError.

        What is asked here is asked last: between the question and the request there is no turn of the loop, while
        making a connection takes several, and a process may be frozen in any of them.
        """
        connection = await super().connect(req, traces, timeout)
        if not self._may_send():
            connection.close()
            raise FencedError("not sent: not the leader, or not for sure")
        return connection

    async def close(self, **how: bool) -> None:
        """Close every connection; returns when all their sockets are closed.

        `how` is aiohttp's: its older versions of the range that we allow know no option.
        """
        await super().close(**how)
        left = [each for each in self._opened if each.fileno() >= 0]
        for each in left:
            with contextlib.suppress(OSError):
                # Its transport reads the end of the stream and closes it.
                each.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN_S):
                while any(each.fileno() >= 0 for each in left):
                    await asyncio.sleep(0.001)

    def _open(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family=family, type=kind, proto=protocol)
        self._opened.add(opened)
        return opened
