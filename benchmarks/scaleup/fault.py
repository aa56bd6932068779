"""What goes wrong half way: somebody lists everything again and again, or a server freezes."""

import asyncio
import contextlib
import enum

import aiohttp

from lab.controlplane import ControlPlane
from lab.scaleup.cluster import STRANGER

LISTERS = 4
LASTS_S = 20.0
"""How long the fault lasts."""


class Fault(enum.Enum):
    """The two kinds, and none."""

    NONE = "none"
    NOISY_LISTER = "noisy lister"
    FROZEN_SERVER = "frozen server"


async def inject(plane: ControlPlane, fault: Fault) -> None:
    """Cause it for `LASTS_S`; returns when it is over."""
    match fault:
        case Fault.NOISY_LISTER:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LASTS_S):
                    await asyncio.gather(*(_list_for_ever(plane) for _ in range(LISTERS)))
        case Fault.FROZEN_SERVER:
            last = f"kube-apiserver-{len(plane.server_urls) - 1}"
            plane.pause(last)
            try:
                await asyncio.sleep(LASTS_S)
            finally:
                plane.resume(last)


async def _list_for_ever(plane: ControlPlane) -> None:
    """All pods, from etcd and not from the cache, one list after the other: the dear kind of request."""
    access = plane.access(STRANGER)
    connector = aiohttp.TCPConnector(ssl=access.ssl_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{access.url.rstrip('/')}/api/v1/pods") as answer:
                    await answer.read()
