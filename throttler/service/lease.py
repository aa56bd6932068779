"""The Lease by which a service says that it leads and decides: only its holder writes, and the guard watches it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from throttler.client.attempts import AttemptObserver, ignore_attempt
from throttler.client.connection import Connection
from throttler.client.kube_client import KubeClient, decode, open_client
from throttler.client.resource import Resource
from throttler.lead.election import Record
from throttler.lead.timing import LeadTiming

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAME = "kube-balloons-throttle"
"""In the namespace of the service."""
RELEASED_S = 1
"""The duration in a Lease that was given up in order, as client-go writes it: one that somebody merely emptied keeps
another, and its leader may still be writing."""


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`renew_time` is the holder's wall clock: to be compared with itself, never with ours."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    lease_duration_seconds: int | None = None


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Which version it is."""

    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """What is read of the object."""

    spec: LeaseSpec = LeaseSpec()
    metadata: LeaseMeta = LeaseMeta()


ABSENT = LeaseSpec()
"""No Lease: nobody renews it."""


@asynccontextmanager
async def open_lease_client(
    connection: Connection, *, observer: AttemptObserver = ignore_attempt
) -> AsyncIterator[KubeClient]:
    """A client for Lease traffic alone: own TCP connections, no gate, short attempts."""
    async with open_client(connection, "lease", observer=observer, timeout_s=LeadTiming().attempt_s) as client:
        yield client


def record_in(body: bytes) -> Record:
    """A Lease as the server answered it; raises UndecodableError."""
    lease = decode(body, Lease)
    holder, spec = lease.spec.holder_identity or "", lease.spec
    return Record(
        version=lease.metadata.resource_version,
        holder=holder,
        transitions=max(0, spec.lease_transitions or 0),
        is_released=not holder and spec.lease_duration_seconds == RELEASED_S,
    )


def spec_of(holder: str, transitions: int, duration_s: float, *, is_acquired: bool = False) -> dict[str, Any]:
    """What is written of a Lease; the times are for people, nobody of ours compares them."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    acquired = {"acquireTime": now} if is_acquired else {}
    spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": int(duration_s), "renewTime": now}
    return {**spec, **acquired, "leaseTransitions": transitions}
