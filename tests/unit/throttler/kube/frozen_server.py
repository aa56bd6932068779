"""A TLS server that freezes as a process under SIGSTOP does, and what a loop leaves open when it ends."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from lab.controlplane.credentials import KeyPair

BEGINNING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
"""The head of an answer, and `one`."""


@contextmanager
def frozen_server(pair: KeyPair, answer: bytes = b"") -> Iterator[tuple[str, threading.Event]]:
    """Its address, and what is set once it has answered one request and neither reads nor writes any more."""
    is_frozen, is_over = threading.Event(), threading.Event()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)

    def serve() -> None:
        with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as secure:
            secure.recv(65536)
            secure.sendall(answer)
            is_frozen.set()
            is_over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}", is_frozen
        finally:
            is_over.set()
            thread.join()


def left_open_by(story: Coroutine[Any, Any, None]) -> list[str]:
    """What is still open when the story and its loop have ended."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(story)
        gc.collect()
    return [str(warning.message) for warning in seen]


async def cancelled(request: Coroutine[Any, Any, Any], is_frozen: threading.Event) -> None:
    """Give a request up once the server that has it is frozen."""
    task = asyncio.create_task(request)
    await asyncio.to_thread(is_frozen.wait)
    task.cancel()
    await asyncio.wait([task])
