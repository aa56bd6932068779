"""The Lease by which the service says that it is alive and deciding: only meanwhile may anything hold nodes back."""

import msgspec

from throttler.client.resource import Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAME = "kube-balloons-throttle"
"""In the namespace of the service."""


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`renew_time` is the holder's wall clock: to be compared with itself, never with ours."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """What is read of the object."""

    spec: LeaseSpec = LeaseSpec()


ABSENT = LeaseSpec()
"""No Lease: nobody renews it."""
