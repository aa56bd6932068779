"""An orderly stop: what is in force is handed over to a replica seen to lead, or the last one gives it back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from tests.unit.throttler.service.test_restore_all import MOVED
from throttler.kube.election import HAND_OVER_S
from throttler.kube.errors import ApiError, ForbiddenError, ServerError
from throttler.kube.lease import LEASE_NAME, Elector, ElectorSettings
from throttler.levers.lever_and_reasons import HOLDER_ANNOTATION, THROTTLE_LABEL
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION
from throttler.service import restore_all as room
from throttler.service.restore_all import LOOK_S, InForce

pytestmark = pytest.mark.virtual_time

OWN = "kube-balloons"
KILLED_S = 30.0
"""What a pod has from SIGTERM on."""


class Scene:
    """A NodePool whose ceiling is ours, and our Deployment, which wants two replicas."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster()
        self.cluster.objects |= {kind: {} for kind in ("leases", "nodes", "pods", "jointhrottles", "capacityquotas")}
        notes = {ORIGINAL_ANNOTATION: MOVED, HOLDER_ANNOTATION: f"{OWN}/{LEASE_NAME}"}
        marked = {"labels": {THROTTLE_LABEL: "default"}, "annotations": notes}
        self.cluster.put("nodepools", "gpu", metadata=marked, spec={"limits": {"cpu": "8"}})
        self.cluster.put("deployments", OWN, spec={"replicas": 2})
        self.is_mute = False

        @asynccontextmanager
        async def open_client(connection: Any, component: str, **more: Any) -> AsyncIterator[Any]:
            if self.is_mute and component == "hand-over":
                await asyncio.sleep(1e6)
            yield self.cluster

        monkeypatch.setattr(room, "open_client", open_client)

    @property
    def is_held(self) -> bool:
        """Whether our ceiling is in force."""
        return bool(self.cluster.objects["nodepools"]["gpu"]["spec"]["limits"] == {"cpu": "8"})

    @property
    def holder(self) -> str:
        return str(self.cluster.objects["leases"][LEASE_NAME]["spec"]["holderIdentity"])


class Replica:
    """One process: it campaigns, and stops as the service does."""

    def __init__(self, scene: Scene, name: str, deployment: str = OWN, *, is_alone: bool = False) -> None:
        self._cluster = scene.cluster
        self.is_answer_lost = False
        self.delay_s = self.drain_s = 0.01
        client: Any = self
        nobody: Any = None
        settings = ElectorSettings(namespace=OWN, identity=name, is_alone=is_alone)
        self.clock = asyncio.get_running_loop().time
        self.elector = Elector(client, settings, self.clock)
        self.holding = InForce(nobody, self.elector, deployment)
        self.holding.follow(is_needed=True)
        self._campaign = asyncio.create_task(self.elector.run(lambda: True, lambda: None))

    async def stop(self, *, may_hand_over: bool = True) -> float:
        """SIGTERM; returns how long it took."""
        begun_at = self.clock()
        await self.holding.stop(self._drain, may_hand_over=may_hand_over)
        await self.elector.release()
        self.kill()
        return self.clock() - begun_at

    def kill(self) -> None:
        self._campaign.cancel()

    async def _drain(self, timeout_s: float) -> None:
        await asyncio.sleep(self.drain_s)

    async def get(self, *args: Any) -> bytes:
        return await self._call(self._cluster.get, *args)

    async def patch(self, *args: Any) -> bytes:
        return await self._call(self._cluster.patch, *args)

    async def create(self, *args: Any) -> bytes:
        return await self._call(self._cluster.create, *args)

    async def _call(self, call: Any, *args: Any) -> bytes:
        await asyncio.sleep(self.delay_s)
        answer: bytes = await call(*args)
        if self.is_answer_lost:
            await asyncio.sleep(60)
        return answer


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def two(scene: Scene) -> tuple[Replica, Replica]:
    """A leader, and one that stands by."""
    leader = Replica(scene, "a")
    await asyncio.sleep(1)
    other = Replica(scene, "b")
    await asyncio.sleep(15)
    assert leader.elector.may_write()
    return leader, other


async def test_a_leader_that_is_replaced_leaves_the_ceiling_to_the_one_that_leads_next(scene: Scene) -> None:
    leader, other = await two(scene)
    took_s = await leader.stop()
    assert took_s < 2.5
    assert (scene.is_held, scene.holder, other.elector.may_write()) == (True, "b", True)
    assert not leader.elector.may_write()
    assert not [call for call in scene.cluster.written() if call[1] == "nodepools"]
    other.kill()


async def test_a_rollout_of_all_replicas_hands_on_and_on(scene: Scene) -> None:
    replicas = [*await two(scene)]
    for name in ("c", "d", "e"):
        await replicas.pop(0).stop()
        replicas.append(Replica(scene, name))
        await asyncio.sleep(5)
        assert scene.is_held
        assert [each.elector.may_write() for each in replicas] == [True, False]
    for each in replicas:
        each.kill()


@pytest.mark.parametrize("late_s", [0.0, 0.3, 1.0, 1.3, 3.0])
async def test_all_replicas_told_to_stop_while_the_deployment_stays_leave_nothing_behind(
    scene: Scene, late_s: float
) -> None:
    """As when the namespace is deleted: pods go first. Whoever leads last gives back, with time to spare."""
    leader, other = await two(scene)
    first = asyncio.create_task(leader.stop())
    await asyncio.sleep(late_s)
    took_s = [await other.stop(), await first]
    assert not scene.is_held
    assert scene.holder == ""
    assert max(took_s) < HAND_OVER_S + 4


@pytest.mark.parametrize("early_s", [each / 10 for each in range(15)])
async def test_one_that_was_told_to_stop_never_takes_what_it_could_not_look_after(scene: Scene, early_s: float) -> None:
    """Its requests are slow, and its writes end at a moment when it might be taking the Lease."""
    leader, other = await two(scene)
    other.delay_s, other.drain_s = 0.45, 1.0
    second = asyncio.create_task(other.stop())
    await asyncio.sleep(early_s)
    await leader.stop()
    await second
    assert (scene.is_held, scene.holder) == (False, "")


async def test_one_that_nobody_follows_gives_back_after_a_while(scene: Scene) -> None:
    leader, other = await two(scene)
    other.kill()
    assert HAND_OVER_S <= await leader.stop() < KILLED_S / 2
    assert (scene.is_held, scene.holder) == (False, "")


@pytest.mark.parametrize("why", ["deleted", "leaving", "zero", "forbidden", "broken", "mute", "not named", "not asked"])
async def test_it_is_given_back_at_once_where_no_replica_is_wanted_or_nobody_knows(scene: Scene, why: str) -> None:
    leader, other = await two(scene)
    deployments = scene.cluster.objects["deployments"]
    faults: dict[str, ApiError] = {"forbidden": ForbiddenError("no", status=403)}
    faults["broken"] = ServerError("down", status=500)
    if why == "deleted":
        deployments.clear()
    elif why == "leaving":
        scene.cluster.put("deployments", OWN, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    elif why == "zero":
        scene.cluster.put("deployments", OWN, spec={"replicas": 0})
    elif why in faults:
        scene.cluster.faults["list", "deployments"] = faults[why]
    elif why == "not named":
        leader.holding = InForce(leader.holding._connection, leader.elector)
        leader.holding.follow(is_needed=True)
    scene.is_mute = why == "mute"
    took_s = await leader.stop(may_hand_over=why != "not asked")
    assert not scene.is_held
    assert took_s < (LOOK_S + 0.5 if why == "mute" else 0.5)
    other.kill()


async def test_one_that_is_alone_gives_back_at_once(scene: Scene) -> None:
    alone = Replica(scene, "a", is_alone=True)
    await asyncio.sleep(2)
    assert await alone.stop() < 0.5
    assert not scene.is_held


async def test_one_that_cannot_let_the_lease_go_gives_back(scene: Scene) -> None:
    leader, other = await two(scene)
    patch = scene.cluster.patch
    refused = 0

    async def patch_or_not(resource: Any, body: Any, *more: Any, **how: Any) -> bytes:
        nonlocal refused
        if resource.plural == "leases" and not body["spec"]["holderIdentity"]:
            refused += 1
            raise ServerError("down", status=500)
        return await patch(resource, body, *more, **how)

    scene.cluster.patch = patch_or_not  # type: ignore[method-assign]
    assert await leader.stop() < KILLED_S / 2
    assert refused
    assert not scene.is_held
    other.kill()


async def test_one_that_took_the_lease_without_hearing_of_it_gives_back(scene: Scene) -> None:
    """Its write was answered to nobody, and it is told to stop: nobody else would."""
    replica = Replica(scene, "a")
    replica.is_answer_lost = True
    await asyncio.sleep(1.05)
    assert (scene.holder, replica.elector.may_write()) == ("a", False)
    replica.is_answer_lost = False
    await replica.stop()
    assert (scene.is_held, scene.holder) == (False, "")
