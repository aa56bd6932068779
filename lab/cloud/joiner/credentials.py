"""Who a joiner is to the API server: by impersonation on a shared connection, or by a certificate of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from lab.cloud.joiner.bootstrap import request_certificate
from lab.cloud.joiner.connection import Connection, NodeClient
from lab.cloud.joiner.settings import JoinerSettings
from lab.cloud.joiner.turns import Turns
from lab.controlplane.access import ApiAccess

CertificateOf = Callable[[str], ApiAccess]
"""Returns the access of one node by its name (`plane.access("system:node:NAME", ("system:nodes",))`)."""


class Credentials:
    """Makes each joiner's client. Connections that are made here are closed by the stack they are given."""

    def __init__(self, shared: Connection, access: ApiAccess, certificate_of: CertificateOf | None) -> None:
        self._shared = shared
        self._access = access
        self._certificate_of = certificate_of

    async def client_of(self, settings: JoinerSettings, stack: AsyncExitStack, total: Counter[int]) -> NodeClient:
        """Return the client of a joiner; with a bootstrap token only once its certificate is issued.

        `total` counts the attempts of that way, which are made by another client.
        """
        turns = Turns(settings.qps, settings.burst, asyncio.get_running_loop().time())
        if settings.bootstrap_token is not None:
            access = await self._bootstrap(settings, settings.bootstrap_token, turns, stack, total)
        elif self._certificate_of is not None:
            access = self._certificate_of(settings.name)
        else:
            return NodeClient(self._shared, _impersonation(settings.name), turns)
        return NodeClient(await stack.enter_async_context(Connection(access)), {}, turns)

    async def _bootstrap(
        self, settings: JoinerSettings, token: str, turns: Turns, stack: AsyncExitStack, total: Counter[int]
    ) -> ApiAccess:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-joiner-")))
        async with Connection(self._access, shows_certificate=False) as connection:
            client = NodeClient(connection, {"Authorization": f"Bearer {token}"}, turns)
            pair = await request_certificate(client, settings.name, folder)
            total.update(client.attempts)
        return replace(self._access, client=pair)


def _impersonation(name: str) -> dict[str, str]:
    # The server adds system:authenticated by itself.
    return {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}
