"""Renewing the Lease: on connections of its own, past every gate, and only while decisions are being made.

A service that hangs must lose what it holds, so the heartbeat of its loop decides, not that this task still runs; and a
service under load must not lose its Lease to its own pacing (reliability.md, finding 4).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from throttler.client.attempts import AttemptObserver, ignore_attempt
from throttler.client.connection import Connection
from throttler.client.errors import ApiError, NotFoundError
from throttler.client.kube_client import KubeClient, open_client
from throttler.service.lease import LEASE_NAME, LEASES

ATTEMPT_S = 2.0
"""The longest that one attempt may take: two fit into what a holder may miss."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalSettings:
    """Which Lease, in whose name, and how often."""

    namespace: str
    identity: str
    """Who renews: unique per process."""
    name: str = LEASE_NAME
    period_s: float = 2.0
    duration_s: int = 9
    """Written for readers who know Leases; the guard does not look at it."""


@asynccontextmanager
async def open_lease_client(
    connection: Connection, *, observer: AttemptObserver = ignore_attempt
) -> AsyncIterator[KubeClient]:
    """A client for Lease traffic alone: own TCP connections, no gate, short attempts."""
    async with open_client(connection, "lease", observer=observer, timeout_s=ATTEMPT_S) as client:
        yield client


class Renewal:
    """Keeps the Lease moving while `is_deciding` says so; `clock` is monotonic."""

    def __init__(
        self,
        client: KubeClient,
        settings: RenewalSettings,
        is_deciding: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._settings = settings
        self._is_deciding = is_deciding
        self._clock = clock
        self._problem = ""
        self.renewed_at: float | None = None
        """When the last renewal that succeeded was begun; None before the first."""

    @property
    def lease(self) -> str:
        """`namespace/name`, as objects that we change name it."""
        return f"{self._settings.namespace}/{self._settings.name}"

    async def run(self) -> None:
        """Renew for ever, at the period; a renewal that fails is logged, and tried again at the next."""
        while True:
            begun_at = self._clock()
            if self._is_deciding():
                await self._try_to_renew()
            else:
                self._say("no decision is being made")
            await asyncio.sleep(max(0.0, begun_at + self._settings.period_s - self._clock()))

    async def renew(self) -> None:
        """Renew once; raises ApiError."""
        begun_at = self._clock()
        await self._write(self._settings.identity)
        self.renewed_at = begun_at

    async def give_up(self) -> None:
        """Say that nobody holds it any more; the last act of an orderly stop, after everything was given back."""
        self.renewed_at = None
        try:
            await self._write("")
        except ApiError as error:
            log.warning("lease not released", lease=self.lease, problem=error.message)

    async def _try_to_renew(self) -> None:
        try:
            await self.renew()
        except ApiError as error:
            self._say(error.message)
        else:
            self._say("")

    async def _write(self, holder: str) -> None:
        settings = self._settings
        spec: dict[str, Any] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": settings.duration_s,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        try:
            await self._client.patch(LEASES, {"spec": spec}, settings.name, settings.namespace)
        except NotFoundError:
            metadata = {"name": settings.name, "namespace": settings.namespace}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, body, settings.namespace)

    def _say(self, problem: str) -> None:
        """One line when it stops being renewed, and one when it is renewed again."""
        if problem and problem != self._problem:
            log.warning("lease not renewed", lease=self.lease, problem=problem)
        if self._problem and not problem:
            log.info("lease renewed again", lease=self.lease)
        self._problem = problem
