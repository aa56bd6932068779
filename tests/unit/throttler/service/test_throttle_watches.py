"""What is followed when: nothing where the kind is not served, one cache without throttles, all with one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from throttler.api.throttle import JoinThrottle
from throttler.kube.errors import ForbiddenError, InvalidError, NotFoundError, ServerError, UnreachableError
from throttler.kube.kube_client import KubeClient
from throttler.kube.reflector import LONGEST_BACKOFF_S, ignore_cache_event
from throttler.kube.requests import Resource
from throttler.kube.store import CacheEvent
from throttler.kube.watch_set import REDISCOVER_S, RETRY_S
from throttler.service.throttle_watches import FORBIDDEN_S, ThrottleWatches

pytestmark = pytest.mark.virtual_time

KARPENTER = {"karpenter.sh/v1": ("nodepools", "nodeclaims")}
OURS = {"kube-balloons.github.io/v1alpha1": ("jointhrottles",)}
EVERYWHERE = {"daemonsets", "configmaps", "jointhrottles"}


class FakeServer(FakeCluster):
    """A cluster that serves groups, and tells watchers of what is put and removed."""

    def __init__(self, **served: Any) -> None:
        super().__init__()
        self.served: dict[str, tuple[str, ...]] = {**OURS, **KARPENTER, **served}
        self.objects = {plural: {} for plural in (*EVERYWHERE, "nodepools", "nodeclaims", "capacityquotas")}
        self.is_down = False
        self._lines: dict[str, asyncio.Queue[bytes]] = {}

    async def get_raw(self, path: str) -> bytes:
        if self.is_down:
            raise UnreachableError("down")
        names = self.served.get(path.removeprefix("/apis/"))
        if names is None:
            raise NotFoundError("not served", status=404)
        return msgspec.json.encode({"resources": [{"name": name} for name in names]})

    @asynccontextmanager
    async def streamed_list(self, resource: Resource, *given: Any, **options: Any) -> AsyncIterator[Any]:
        raise InvalidError("sendInitialEvents: forbidden", status=422)
        yield

    @asynccontextmanager
    async def watch(self, resource: Resource, *given: Any, **options: Any) -> AsyncIterator[Any]:
        self._called("watch", resource, "")
        queue = self._lines.setdefault(resource.plural, asyncio.Queue())
        yield cast(Any, _Stream(queue))

    def tell(self, plural: str, kind: str, thing: dict[str, Any]) -> None:
        self._lines.setdefault(plural, asyncio.Queue()).put_nowait(
            msgspec.json.encode({"type": kind, "object": thing}) + b"\n"
        )

    def add_throttle(self, **spec: Any) -> None:
        self.tell("jointhrottles", "ADDED", self.put("jointhrottles", "default", spec=spec))

    def remove_throttle(self) -> None:
        self.version += 1
        gone = self.objects["jointhrottles"].pop("default")
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.tell("jointhrottles", "DELETED", gone)

    def followed(self) -> set[str]:
        return {plural for verb, plural, _ in self.calls if verb == "list"}


class _Stream:
    def __init__(self, queue: "asyncio.Queue[bytes]") -> None:
        self._queue = queue

    async def read_chunk(self) -> bytes:
        return await self._queue.get()


@asynccontextmanager
async def following(server: FakeServer) -> AsyncIterator[ThrottleWatches]:
    watches = ThrottleWatches(cast(KubeClient, server), lambda seconds: None, ignore_cache_event)
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(1)
    try:
        yield watches
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_followed_where_throttles_are_not_served() -> None:
    server = FakeServer()
    del server.served["kube-balloons.github.io/v1alpha1"]
    async with following(server) as watches:
        assert watches.is_known
        assert (watches.throttles, watches.missing) == ((), ())
    assert server.followed() == set()


async def test_only_throttles_are_followed_while_there_are_none() -> None:
    server = FakeServer()
    async with following(server) as watches:
        assert watches.is_known
        assert server.followed() == {"jointhrottles"}


async def test_the_first_throttle_begins_what_it_needs_and_it_ends_when_the_last_one_has_given_all_back() -> None:
    server = FakeServer()
    async with following(server) as watches:
        server.add_throttle()
        await asyncio.sleep(1)
        assert server.followed() == EVERYWHERE | {"nodepools", "nodeclaims"}
        assert watches.missing == ()
        assert isinstance(watches.throttles[0], JoinThrottle)
        watches.end_unneeded()
        server.tell("nodepools", "ADDED", server.put("nodepools", "p1"))
        server.remove_throttle()
        await asyncio.sleep(1)
        assert watches.throttles == ()
        assert len(watches.limited) == 1, "its ceiling is still to be given back"
        watches.end_unneeded()
        await asyncio.sleep(1)
        assert watches.limited == ()
        assert len([task for task in asyncio.all_tasks() if task.get_name().startswith("watch ")]) == 1


async def test_of_claims_only_what_decisions_read_is_kept_and_what_they_have_in_common_once() -> None:
    """There is one per node: whole ones of 30,000 nodes took 216 MB."""
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    for name in ("gpu-1", "gpu-2"):
        annotations, owner = {"karpenter.sh/nodepool-hash": "1"}, {"kind": "NodePool", "name": "gpu"}
        metadata = {"labels": {"karpenter.sh/nodepool": "gpu"}, "annotations": annotations, "ownerReferences": [owner]}
        conditions = [{"type": "Launched", "status": "True"}]
        status = {"nodeName": f"n-{name}", "capacity": {"cpu": "8"}, "conditions": conditions}
        server.put("nodeclaims", name, metadata=metadata, status=status)
    async with following(server) as watches:
        one, other = watches.claims
    assert (one.metadata.name, one.node_name, one.pool, one.capacity) == ("gpu-1", "n-gpu-1", "gpu", {"cpu": 8_000})
    assert one.is_launched
    assert not one.metadata.annotations
    assert not one.metadata.owner_references
    assert one.metadata.labels is other.metadata.labels
    assert one.status.capacity is other.status.capacity
    assert one.status.conditions is other.status.conditions


async def test_a_throttle_that_cannot_be_read_is_there_all_the_same() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={"window": {"min": 9, "max": 2}})
    async with following(server) as watches:
        (found,) = watches.throttles
        assert not isinstance(found, JoinThrottle)
        assert found.problem


async def test_a_cache_that_cannot_be_read_makes_the_view_incomplete_and_says_why() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    server.faults["list", "nodeclaims"] = ForbiddenError("may not list nodeclaims", status=403)
    async with following(server) as watches:
        assert watches.missing == ("nodeclaims (may not list nodeclaims)",)


@pytest.mark.parametrize(
    ("levers", "missing"),
    [
        ({"schedulingGates": {}}, ()),
        ({"capacityQuota": {"name": "q"}}, ()),
        ({"nodePoolLimits": {}}, ("nodepools (conversion webhook failed)",)),
    ],
)
async def test_a_kind_that_is_broken_blinds_only_throttles_that_have_a_ceiling_on_it(
    levers: dict[str, Any], missing: tuple[str, ...]
) -> None:
    server = FakeServer(**{"autoscaling.x-k8s.io/v1alpha1": ("capacityquotas",)})
    server.put("jointhrottles", "default", spec={"levers": levers})
    server.faults["list", "nodepools"] = ServerError("conversion webhook failed", status=500)
    async with following(server) as watches:
        assert watches.missing == missing
        assert (watches.age_s > 0) == bool(missing), "nor does it grow old"
        assert ("nodepools" in watches.states) == bool(missing), "nor does an alert tell of it"


async def test_kinds_that_are_installed_later_are_noticed() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    async with following(server) as watches:
        assert not watches.limited
        server.served["autoscaling.x-k8s.io/v1alpha1"] = ("capacityquotas",)
        server.put("capacityquotas", "q", spec={})
        await asyncio.sleep(REDISCOVER_S + 1)
        assert watches.versions["CapacityQuota"] == "autoscaling.x-k8s.io/v1alpha1"
        assert watches.limited[0].api_version == "autoscaling.x-k8s.io/v1alpha1"


@pytest.mark.parametrize("group", [*OURS, *KARPENTER])
async def test_a_server_that_does_not_know_a_kind_yet_takes_nothing_away_that_its_watch_still_shows(group: str) -> None:
    """One of several behind a balancer was just started: discovery is answered with 404, and nothing is deleted."""
    server = FakeServer()
    server.put("jointhrottles", "default", spec={"levers": {"nodePoolLimits": {}}})
    for kind in KARPENTER["karpenter.sh/v1"]:
        server.put(kind, "p1", spec={})
    async with following(server) as watches:
        ours = server.served.pop(group)
        await asyncio.sleep(REDISCOVER_S + 1)
        server.served[group] = ours
        seen = len(watches.throttles), len(watches.limited), len(watches.claims)
        assert (seen, watches.missing) == ((1, 1, 1), ())


@pytest.mark.parametrize("error", [NotFoundError("no such kind", status=404), ForbiddenError("may not", status=403)])
async def test_a_kind_that_is_deleted_is_followed_no_longer(error: Exception) -> None:
    """The server ends its watch, and lists it no more."""
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    async with following(server) as watches:
        assert len(watches.throttles) == 1
        del server.served["kube-balloons.github.io/v1alpha1"]
        for verb in ("list", "watch"):
            server.faults[verb, "jointhrottles"] = error
        server.tell("jointhrottles", "ERROR", {"code": 500})
        await asyncio.sleep(REDISCOVER_S + 1)
        assert (watches.is_known, watches.throttles, watches.missing) == (True, (), ())


async def test_a_server_that_is_away_at_the_start_is_asked_again_soon_and_nothing_is_known_before() -> None:
    server = FakeServer()
    server.is_down = True
    async with following(server) as watches:
        before = watches.is_known
        server.is_down = False
        await asyncio.sleep(RETRY_S + 1)
        assert (before, watches.is_known) == (False, True)


async def test_throttles_that_we_may_not_read_are_none_of_ours_after_a_minute_and_theirs_again_with_the_right() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    server.faults["list", "jointhrottles"] = ForbiddenError("may not list jointhrottles", status=403)
    async with following(server) as watches:
        assert (watches.is_known, watches.is_forbidden) == (False, False), "the right may be on its way"
        await asyncio.sleep(FORBIDDEN_S + 1)
        assert (watches.is_known, watches.is_forbidden, watches.throttles) == (True, True, ())
        assert watches.states == {}, "nothing waits for it"
        server.faults.clear()
        await asyncio.sleep(LONGEST_BACKOFF_S + 1)
        assert (watches.is_known, watches.is_forbidden, len(watches.throttles)) == (True, False, 1)


async def test_nothing_is_known_of_throttles_whose_kind_came_later_until_they_have_been_listed() -> None:
    server = FakeServer()
    ours = server.served.pop("kube-balloons.github.io/v1alpha1")
    async with following(server) as watches:
        assert watches.is_known, "there are none"
        server.faults["list", "jointhrottles"] = ForbiddenError("may not list jointhrottles", status=403)
        server.served["kube-balloons.github.io/v1alpha1"] = ours
        await asyncio.sleep(REDISCOVER_S)
        assert (watches.is_known, watches.is_forbidden) == (False, False)
        await asyncio.sleep(FORBIDDEN_S + 1)
        assert (watches.is_known, watches.is_forbidden) == (True, True)


async def test_throttles_that_cannot_be_read_for_now_stay_unknown() -> None:
    server = FakeServer()
    server.faults["list", "jointhrottles"] = UnreachableError("no answer")
    async with following(server) as watches:
        await asyncio.sleep(10 * FORBIDDEN_S)
        assert (watches.is_known, watches.is_forbidden) == (False, False)
        assert not watches.states["jointhrottles"].is_complete


async def test_a_right_that_is_taken_away_leaves_the_throttles_as_they_were() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    async with following(server) as watches:
        assert watches.is_known
        for verb in ("list", "watch"):
            server.faults[verb, "jointhrottles"] = ForbiddenError("may not", status=403)
        await asyncio.sleep(10 * FORBIDDEN_S)
        assert (watches.is_known, watches.is_forbidden, len(watches.throttles)) == (True, False, 1)


async def test_throttles_stay_known_while_their_watch_is_away() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    events: list[CacheEvent] = []
    watches = ThrottleWatches(cast(KubeClient, server), lambda s: None, lambda plural, event: events.append(event))
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(1)
    assert watches.is_known
    server.faults["watch", "jointhrottles"] = UnreachableError("gone")
    await asyncio.sleep(80)
    assert CacheEvent.SILENT in events
    assert watches.is_known
    assert len(watches.throttles) == 1
    assert any(each.startswith("jointhrottles") for each in watches.missing)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_error_that_nobody_could_foresee_ends_nothing_for_good() -> None:
    server = FakeServer()
    server.put("jointhrottles", "default", spec={})
    server.faults["list", "nodeclaims"] = RuntimeError("a fault of ours")
    async with following(server) as watches:
        assert "nodeclaims" in watches.missing
        server.faults.clear()
        await asyncio.sleep(RETRY_S + 1)
        assert watches.missing == ()
        server.remove_throttle()
        await asyncio.sleep(1)
        assert watches.throttles == ()
