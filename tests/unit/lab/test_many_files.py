"""A herd has thousands of connections, and most shells allow a process 1,024 files."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.cloud.kubelet_joiner import Herd
from lab.controlplane.credentials import ApiAccess
from lab.controlplane.plain_requests import PlainRequests
from tests.unit.throttler.kube.loopback_api import authority, loopback_api

NODES, FILES_OF_A_NODE = 150, 7
"""Of the demo's rush: each watch is a connection."""


@contextmanager
def files_allowed(number: int) -> Iterator[int]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


async def test_a_herd_lets_its_process_open_as_many_files_as_it_may(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    access = ApiAccess("https://127.0.0.1:1", ca.pair.certificate, ca.issue_client("client", "somebody", ()))
    with files_allowed(1024) as hard:
        async with Herd(access):
            allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allowed == hard or allowed > NODES * FILES_OF_A_NODE


async def test_the_plane_is_asked_beside_them(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    async with loopback_api(pair=ca.issue_server("server")) as api:
        access = ApiAccess(api.url, ca.pair.certificate, ca.issue_client("client", "somebody", ()))
        requests = PlainRequests(lambda: access)
        with files_allowed(2048), ExitStack() as herd:
            for _ in range(1024):
                herd.enter_context(os.fdopen(os.open(os.devnull, os.O_RDONLY)))
            # The second time on the connection of the first.
            for _ in range(2):
                await asyncio.to_thread(requests.send, "GET", "/api")
            requests.close()
