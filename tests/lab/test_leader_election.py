"""Two real replicas on a real API server: whatever becomes of the leader, one writes, and the other takes over.

Only what must hold is asserted here; how soon is measured by `python -m benchmarks.takeover`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from benchmarks.takeover.judge import tenures
from benchmarks.takeover.pair import SHARED_TURN_S, open_pairs
from benchmarks.takeover.replica import Replica
from benchmarks.takeover.trial import Fault, Ring
from lab.controlplane import ControlPlane, ControlPlaneSettings, binding, start_control_plane
from lab.demo.service import ACCOUNT_NAMESPACE
from tests.lab.lever_view import View, eventually, gated_deployment, view
from throttler.kube.lease import LEASE_NAME
from throttler.levers.scheduling_gate import PACED_GATE, is_held

pytestmark = pytest.mark.lab

THROTTLE = {
    "apiVersion": "kube-balloons.github.io/v1alpha1",
    "kind": "JoinThrottle",
    "metadata": {"name": "default"},
    "spec": {
        "nodes": {"matchLabels": {"test": "default"}},
        "window": {"initial": 1, "min": 1, "max": 1},
        "maxInFlight": 1,
        "signals": {"scrape": {"enabled": False}},
        "pace": {"safePerMinute": 60},
        "levers": {"schedulingGates": {}},
    },
}
"""One machine at a time; not by scrapes, because the replicas' way to the server is the proxy of their Lease."""


@pytest.fixture
async def ring() -> AsyncIterator[tuple[ControlPlane, Ring]]:
    """A plane of its own: the Lease is the whole cluster's."""
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        open_pairs(plane, turn_s=SHARED_TURN_S) as pairs,
    ):
        yield plane, Ring(pairs[0], plane.audit_logs[0])


async def test_one_replica_writes_whatever_becomes_of_the_leader(
    ring: tuple[ControlPlane, Ring],
) -> None:
    plane, on = ring
    replicas = on.pair.replicas
    epochs = [await transitions(plane)]
    for fault in Fault:
        await on.run(fault)
        epochs.append(await transitions(plane))
        # The former leader learns it a moment later: what it writes meanwhile is looked at below.
        await eventually(lambda: says_who_leads(replicas))
    assert epochs == sorted(set(epochs)), "each leadership has an epoch of its own, and a higher one"
    assert on.writes > 4 * len(Fault), "too little was written to see two writers"
    assert on.two_writers == []
    assert {write.who for write in on.all_writes} == set(on.pair.users)


async def test_what_is_held_is_given_back_before_the_lease_is(
    ring: tuple[ControlPlane, Ring],
) -> None:
    plane, on = ring
    users = [{"kind": "User", "name": user} for user in on.pair.users]
    await plane.apply_async(binding("replicas-gates", "kube-balloons-scheduling-gates", *users, namespace="default"))
    async with view(plane) as seen:
        await seen.apply(THROTTLE, gated_deployment("default", "job", 6, [PACED_GATE]))
        await eventually(lambda: is_let_in(seen, at_least=1))
        await asyncio.sleep(3)
        assert len(await gated(seen)) == 5, "one machine at a time"
        await on.run(Fault.TERMINATED)
        assert await gated(seen) == []
    assert on.two_writers == []
    reigns = tenures(on.all_writes)
    leaver, heir = reigns[-2], reigns[-1]
    # The heir writes pods too, but of balloons: no gate is left for it.
    releases = [write for write in on.all_writes if write.what == "pods" and write.is_done and write.who == leaver.who]
    assert len(releases) >= 6
    assert max(write.done_s for write in releases) < heir.since_s


async def says_who_leads(replicas: Sequence[Replica]) -> bool:
    """Each replica says of itself whether it leads, and one does; who stands by is ready to lead."""
    leaders = [replica for replica in replicas if await replica.leads()]
    return len(leaders) == 1 and all([await replica.is_ready() for replica in replicas])


async def gated(seen: View) -> list[str]:
    pods = await seen.pods("default")
    return [pod.key.name for pod in pods if is_held(pod)]


async def is_let_in(seen: View, at_least: int) -> bool:
    pods = await seen.pods("default")
    return len(pods) == 6 and len(pods) - len(await gated(seen)) >= at_least


async def transitions(plane: ControlPlane) -> int:
    lease = await plane.get_async("lease", LEASE_NAME, namespace=ACCOUNT_NAMESPACE)
    return int(lease["spec"]["leaseTransitions"])
