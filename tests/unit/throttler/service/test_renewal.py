"""Renewing: only while decisions are made, whatever the server says, and never as a failure of the service."""

import asyncio

import pytest

from tests.unit.throttler.service.kube_fake import FakeCluster
from throttler.client.errors import ServerError
from throttler.service.lease import LEASE_NAME
from throttler.service.renewal import Renewal, RenewalSettings

pytestmark = pytest.mark.virtual_time


class Service:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.is_deciding = True
        settings = RenewalSettings(namespace="kube-balloons", identity="pod-1")
        clock = asyncio.get_running_loop().time
        self.renewal = Renewal(self.cluster.client, settings, lambda: self.is_deciding, clock)

    def lease(self) -> dict[str, object]:
        spec: dict[str, object] = self.cluster.objects["leases"][LEASE_NAME]["spec"]
        return spec

    def renewals(self) -> int:
        return sum(call[0] in ("patch", "create") for call in self.cluster.calls)

    async def run_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.renewal.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait([task])


async def test_lease_is_made_and_then_renewed_at_the_period() -> None:
    service = Service()
    await service.run_for(9.0)
    assert service.lease()["holderIdentity"] == "pod-1"
    assert [call[0] for call in service.cluster.calls] == ["patch", "create", "patch", "patch", "patch", "patch"]
    assert service.renewal.lease == f"kube-balloons/{LEASE_NAME}"


async def test_each_renewal_changes_the_lease() -> None:
    service = Service()
    await service.renewal.renew()
    before = service.lease()
    await service.renewal.renew()
    assert service.lease() != before


async def test_nothing_is_renewed_while_no_decision_is_made() -> None:
    service = Service()
    service.is_deciding = False
    await service.run_for(60.0)
    assert service.cluster.calls == []
    assert service.renewal.renewed_at is None


async def test_renewing_stops_by_itself_when_decisions_stop() -> None:
    service = Service()
    task = asyncio.create_task(service.renewal.run())
    await asyncio.sleep(5.0)
    service.is_deciding, done = False, service.renewals()
    await asyncio.sleep(60.0)
    task.cancel()
    assert service.renewals() == done


async def test_failed_renewal_is_tried_again_and_moves_nothing() -> None:
    service = Service()
    await service.run_for(3.0)
    renewed_at = service.renewal.renewed_at
    service.cluster.faults["patch", "leases"] = ServerError("etcd leader changed", status=500)
    await service.run_for(10.0)
    assert service.renewal.renewed_at == renewed_at
    del service.cluster.faults["patch", "leases"]
    await service.run_for(3.0)
    assert service.renewal.renewed_at is not None
    assert renewed_at is not None
    assert service.renewal.renewed_at > renewed_at


async def test_renewal_counts_from_its_start() -> None:
    service = Service()
    begun_at = asyncio.get_running_loop().time()
    patch = service.cluster.patch

    async def slowly(*args: object, **named: object) -> bytes:
        await asyncio.sleep(1.5)
        return await patch(*args, **named)  # type: ignore[arg-type]

    service.cluster.patch = slowly  # type: ignore[method-assign]
    await service.renewal.renew()
    assert service.renewal.renewed_at == begun_at


async def test_giving_up_empties_the_holder_and_never_fails() -> None:
    service = Service()
    await service.renewal.renew()
    await service.renewal.give_up()
    assert service.lease()["holderIdentity"] == ""
    assert service.renewal.renewed_at is None
    service.cluster.faults["patch", "leases"] = ServerError("gone", status=500)
    await service.renewal.give_up()
