"""Who we are and whom we trust, kept fresh: tokens and certificates rotate under a running process."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from throttler.client.errors import ConfigError, cut

MAX_AGE_S = 30.0
"""A rotated token is in use well within a minute."""
AGAIN_AFTER_S = 5.0
"""How soon a failed or forced reading may be repeated: a refused exec plugin is not run in a loop."""
READ_LIMIT_S = 20.0
"""An exec plugin that hangs must not hang the service."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The Authorization header (None where a client certificate says who we are) and the TLS context."""

    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None


class CredentialSource(Protocol):
    """Where credentials come from."""

    async def read(self, afresh: bool) -> Credentials:
        """The credentials as of now; `afresh` distrusts everything remembered, expiry dates included.

        Raises ConfigError or OSError when there are none.
        """


class CredentialKeeper:
    """Holds the last good credentials, reads them again by age (monotonic) and when the server refuses."""

    def __init__(self, source: CredentialSource, first: Credentials) -> None:
        self._source = source
        self._held = first
        self._due_at = asyncio.get_running_loop().time() + MAX_AGE_S
        self._may_force_at = 0.0
        self._reading = asyncio.Lock()

    async def current(self) -> Credentials:
        """What to use for the next attempt; one caller reads again when due, the others go on."""
        if asyncio.get_running_loop().time() >= self._due_at and not self._reading.locked():
            async with self._reading:
                await self._read(afresh=False)
        return self._held

    async def renew(self, refused: Credentials) -> bool:
        """After a refusal: whether there now are others than those `refused`; reads at most once in 5 s."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if self._held == refused and now >= self._may_force_at:
                self._may_force_at = now + AGAIN_AFTER_S
                await self._read(afresh=True)
        return self._held != refused

    async def _read(self, afresh: bool) -> None:
        """A token file that is missing, empty or half-written for a moment leaves the old token in use."""
        wait_s = MAX_AGE_S
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                self._held = await self._source.read(afresh)
        except (ConfigError, OSError) as error:
            wait_s = AGAIN_AFTER_S
            log.warning("credentials could not be read again, the old ones stay", problem=cut(str(error)))
        self._due_at = asyncio.get_running_loop().time() + wait_s
