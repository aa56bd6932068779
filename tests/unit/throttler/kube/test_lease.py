"""The campaign: one leader at a time, renewed only while decisions are made, let go in order."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from throttler.kube.election import RENEW_DEADLINE_S
from throttler.kube.errors import ForbiddenError, ServerError
from throttler.kube.lease import LEASE_NAME, Elector, ElectorSettings, own_identity

pytestmark = pytest.mark.virtual_time


class Replica:
    """One elector, its heart and what it told; `delay_s` is how long its requests take, `etcd_s` how long the server
    writes, which goes on with what nobody waits for any more."""

    def __init__(self, cluster: FakeCluster, name: str, *, is_alone: bool = False) -> None:
        self.is_deciding = True
        self.changes = 0
        self.delay_s = 0.01
        self.is_answer_lost = False
        self.etcd_s = 0.0
        settings = ElectorSettings(namespace="kube-balloons", identity=name, is_alone=is_alone)
        self.clock = asyncio.get_running_loop().time
        client: Any = self
        self.elector = Elector(client, settings, self.clock)
        self._cluster = cluster
        self._running: asyncio.Task[None] | None = None

    def start(self) -> "Replica":
        campaign = self.elector.run(lambda: self.is_deciding, self._changed)
        self._running = asyncio.create_task(campaign)
        return self

    def kill(self) -> None:
        assert self._running is not None
        self._running.cancel()

    def _changed(self) -> None:
        self.changes += 1

    async def get(self, *args: Any) -> bytes:
        return await self._call(lambda: self._cluster.get(*args))

    async def patch(self, *args: Any) -> bytes:
        async def write() -> bytes:
            await asyncio.sleep(self.etcd_s)
            return await self._cluster.patch(*args)

        def begin() -> Awaitable[bytes]:
            writing = asyncio.create_task(write())
            writing.add_done_callback(lambda ended: ended.exception())
            return asyncio.shield(writing)

        return await self._call(begin)

    async def create(self, *args: Any) -> bytes:
        return await self._call(lambda: self._cluster.create(*args))

    async def _call(self, call: Callable[[], Awaitable[bytes]]) -> bytes:
        await asyncio.sleep(self.delay_s)
        answer = await call()
        if self.is_answer_lost:
            await asyncio.sleep(60)
        return answer


class Scene:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.objects["leases"] = {}

    def replica(self, name: str, **more: Any) -> Replica:
        return Replica(self.cluster, name, **more)

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.cluster.objects["leases"][LEASE_NAME]["spec"]
        return spec

    async def two(self) -> tuple[Replica, Replica]:
        """A leader, and one that stands by."""
        leader = self.replica("a").start()
        await asyncio.sleep(1)
        other = self.replica("b").start()
        await asyncio.sleep(20)
        assert leader.elector.may_write()
        assert not other.elector.may_write()
        return leader, other


async def until_leading(replica: Replica) -> float:
    """Seconds until it may write."""
    begun_at = replica.clock()
    async with asyncio.timeout(60):
        while not replica.elector.may_write():
            await asyncio.sleep(0.05)
    return replica.clock() - begun_at


async def test_the_first_leads_at_once_and_goes_on_leading() -> None:
    scene = Scene()
    leader, other = await scene.two()
    await asyncio.sleep(600)
    assert leader.elector.may_write()
    assert (leader.changes, other.changes, leader.elector.epoch) == (1, 0, 1)
    assert scene.spec["holderIdentity"] == "a"
    assert leader.elector.lease == f"kube-balloons/{LEASE_NAME}"


async def test_a_leader_renews_every_two_seconds_and_one_that_stands_by_looks_more_often() -> None:
    scene = Scene()
    await scene.two()
    scene.cluster.calls.clear()
    await asyncio.sleep(600)
    renewals = sum(call[0] == "patch" for call in scene.cluster.calls)
    looks = sum(call[0] == "get" for call in scene.cluster.calls)
    assert renewals in range(295, 301)
    assert looks > 600 / 1.2


@pytest.mark.parametrize("how", ["killed", "stalled", "hung"])
async def test_another_takes_over_within_15_s_and_never_before_the_first_has_stopped(how: str) -> None:
    scene = Scene()
    leader, other = await scene.two()
    if how == "killed":
        leader.kill()
    elif how == "stalled":
        leader.delay_s = 1e6
    else:
        leader.is_deciding = False
    waited_s = 0.0
    while not other.elector.may_write():
        await asyncio.sleep(0.05)
        waited_s += 0.05
    assert waited_s < 15
    assert not leader.elector.may_write()
    assert other.elector.epoch == 2
    if how == "stalled":
        assert leader.changes == 2, "it knows that it leads no longer"
        leader.delay_s = 0.01
        await asyncio.sleep(30)
        assert other.elector.may_write()
        assert not leader.elector.may_write()


async def test_a_lease_that_was_let_go_is_taken_at_the_next_look() -> None:
    scene = Scene()
    leader, other = await scene.two()
    await leader.elector.release()
    assert not leader.elector.may_write()
    assert (scene.spec["holderIdentity"], scene.spec["leaseTransitions"]) == ("", 1)
    assert await until_leading(other) < 1.5
    await asyncio.sleep(20)
    assert not leader.elector.may_write(), "who has let go does not come back"


async def test_letting_go_meets_a_renewal_whose_answer_was_lost() -> None:
    scene = Scene()
    leader, other = await scene.two()
    leader.is_answer_lost = True
    await asyncio.sleep(2.5)
    leader.is_answer_lost = False
    await leader.elector.release()
    assert await until_leading(other) < 1.5


async def test_letting_go_is_tried_again_where_it_had_no_answer() -> None:
    """A server that takes longer for once cost a roll-out the nine seconds of a Lease that stands still."""
    scene = Scene()
    leader, other = await scene.two()
    leader.delay_s = 2.0
    asyncio.get_running_loop().call_later(0.5, setattr, leader, "delay_s", 0.01)
    await leader.elector.release()
    assert await until_leading(other) < 1.5


async def test_letting_go_never_fails() -> None:
    scene = Scene()
    leader, _ = await scene.two()
    scene.cluster.faults["get", "leases"] = ServerError("down", status=500)
    await leader.elector.release()
    leader.delay_s = 1e6
    await leader.elector.release()
    assert not leader.elector.may_write()


async def test_who_stands_by_lets_nothing_go() -> None:
    scene = Scene()
    _, other = await scene.two()
    await other.elector.release()
    assert scene.spec["holderIdentity"] == "a"


async def test_lost_answers_cost_nothing_as_long_as_some_arrive() -> None:
    scene = Scene()
    leader, _ = await scene.two()
    for _ in range(20):
        leader.is_answer_lost = True
        await asyncio.sleep(2.5)
        leader.is_answer_lost = False
        await asyncio.sleep(2.5)
        assert leader.elector.may_write()
    assert leader.elector.epoch == 1


@pytest.mark.parametrize("etcd_s", [0.9, 1.2, 1.7])
async def test_a_leader_whose_writes_take_longer_than_it_waits_for_them_goes_on_leading(etcd_s: float) -> None:
    """As where etcd's disk is slow. The Lease shows at the next look that the write was done."""
    scene = Scene()
    leader, other = await scene.two()
    leader.etcd_s = other.etcd_s = etcd_s
    for _ in range(600):
        await asyncio.sleep(0.1)
        assert leader.elector.may_write()
        assert not other.elector.may_write()
    assert leader.elector.epoch == 1


async def test_where_writes_are_slow_another_takes_over_and_leads() -> None:
    scene = Scene()
    leader, other = await scene.two()
    leader.etcd_s = other.etcd_s = 1.5
    leader.kill()
    await asyncio.sleep(17)
    assert (other.elector.may_write(), other.elector.epoch) == (True, 2)


async def test_who_lets_go_does_not_lead_by_a_write_of_before() -> None:
    scene = Scene()
    leader, other = await scene.two()
    leader.etcd_s = 1.3
    await asyncio.sleep(2.3)
    await leader.elector.release()
    for _ in range(100):
        await asyncio.sleep(0.1)
        assert not leader.elector.may_write()
    assert other.elector.may_write()


async def test_a_brief_outage_is_survived_and_a_long_one_ends_the_leadership_and_no_more() -> None:
    scene = Scene()
    leader, other = await scene.two()
    for verb in ("get", "patch"):
        scene.cluster.faults[verb, "leases"] = ServerError("etcd leader changed", status=500)
    await asyncio.sleep(4)
    assert leader.elector.may_write()
    await asyncio.sleep(30)
    assert not leader.elector.may_write()
    scene.cluster.faults.clear()
    await asyncio.sleep(3)
    assert leader.elector.may_write() != other.elector.may_write()


async def test_what_counts_is_when_a_renewal_was_begun() -> None:
    scene = Scene()
    leader = scene.replica("a").start()
    leader.delay_s = 0.4
    await asyncio.sleep(0.85)
    assert leader.elector.may_write()
    leader.kill()
    await asyncio.sleep(RENEW_DEADLINE_S - 0.4)
    assert not leader.elector.may_write()


async def test_a_lease_that_could_not_be_made_is_made_at_the_next_look() -> None:
    """As on a server that has only just begun: to wait until a Lease has stood still would cost another 9 s."""
    scene = Scene()
    scene.cluster.faults["create", "leases"] = ServerError("etcd has no leader", status=500)
    replica = scene.replica("a").start()
    await asyncio.sleep(3)
    scene.cluster.faults.clear()
    assert await until_leading(replica) < 1.5
    assert replica.elector.epoch == 1


@pytest.mark.parametrize("answer", [b"{}", b'{"kind":"Status","metadata":{},"status":"Success"}'])
async def test_nobody_leads_by_an_answer_that_does_not_name_him(answer: bytes) -> None:
    scene = Scene()
    leader, other = await scene.two()
    leader.kill()

    async def say(*args: Any) -> bytes:
        return answer

    other.patch = say  # type: ignore[method-assign]
    await asyncio.sleep(60)
    assert other.changes == 0
    assert scene.spec["holderIdentity"] == "a"


async def test_nothing_is_sent_before_the_first_decision() -> None:
    scene = Scene()
    replica = scene.replica("a")
    replica.is_deciding = False
    replica.start()
    await asyncio.sleep(60)
    assert scene.cluster.calls == []
    replica.is_deciding = True
    assert await until_leading(replica) < 1.5


async def test_who_is_alone_takes_the_lease_of_a_dead_one_at_once() -> None:
    scene = Scene()
    leader, other = await scene.two()
    leader.kill()
    other.kill()
    alone = scene.replica("c", is_alone=True).start()
    assert await until_leading(alone) < 0.5
    assert alone.elector.epoch == 2


async def test_epochs_outgrow_what_objects_say() -> None:
    scene = Scene()
    leader, _ = await scene.two()
    leader.elector.outgrow(41)
    await asyncio.sleep(2.5)
    assert (leader.elector.epoch, scene.spec["leaseTransitions"]) == (42, 42)
    assert leader.elector.may_write()


async def test_a_lease_that_people_remove_or_empty_again_and_again_stays_with_its_leader() -> None:
    scene = Scene()
    leader, other = await scene.two()
    for number in range(50):
        if number % 2:
            scene.cluster.objects["leases"].pop(LEASE_NAME, None)
        else:
            scene.cluster.put("leases", LEASE_NAME, spec={**scene.spec, "holderIdentity": ""})
        await asyncio.sleep(3)
        assert leader.elector.may_write()
        assert not other.elector.may_write()


async def test_a_lease_without_rights_is_no_lease() -> None:
    scene = Scene()
    scene.cluster.faults["create", "leases"] = ForbiddenError("may not create leases", status=403)
    replica = scene.replica("a").start()
    await asyncio.sleep(30)
    assert not replica.elector.may_write()


def test_identities_differ_between_processes_and_restarts() -> None:
    assert own_identity() != own_identity()
