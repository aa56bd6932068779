"""Two real replicas on a real API server: whatever becomes of the leader, one writes, and the other takes over.

Only what must hold is asserted here; how soon is measured by `python -m benchmarks.takeover`.
"""

import json
from collections.abc import AsyncIterator

import pytest

from benchmarks.takeover.replicas import NAMES, NAMESPACE, Replica, open_replicas
from benchmarks.takeover.trial import Fault, Ring
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from throttler.service.lease import LEASE_NAME

pytestmark = pytest.mark.lab


@pytest.fixture
async def ring() -> AsyncIterator[tuple[ControlPlane, tuple[Replica, Replica], Ring]]:
    """A plane of its own: the Lease is the whole cluster's."""
    async with start_control_plane(ControlPlaneSettings(audit=True)) as plane, open_replicas(plane) as replicas:
        yield plane, replicas, Ring(plane, replicas)


async def test_one_replica_writes_whatever_becomes_of_the_leader(
    ring: tuple[ControlPlane, tuple[Replica, Replica], Ring],
) -> None:
    plane, replicas, on = ring
    epochs = [await transitions(plane)]
    for fault in Fault:
        await on.run(fault)
        epochs.append(await transitions(plane))
        leaders = [replica for replica in replicas if await replica.leads()]
        assert len(leaders) == 1, "each replica says of itself whether it leads"
        assert all([await replica.is_ready() for replica in replicas]), "who stands by is ready to lead"
    assert epochs == sorted(set(epochs)), "each leadership has an epoch of its own, and a higher one"
    assert on.writes > 4 * len(Fault), "too little was written to see two writers"
    assert on.two_writers == []
    assert {write.who for write in on._tail.writes} == set(NAMES)


async def transitions(plane: ControlPlane) -> int:
    lease = json.loads(await plane.kubectl_async("get", "lease", LEASE_NAME, "-n", NAMESPACE, "-o", "json"))
    return int(lease["spec"]["leaseTransitions"])
