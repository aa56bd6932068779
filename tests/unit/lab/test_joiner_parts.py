"""The parts of a joiner against a fake API, in virtual time."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from lab.cloud.kubelet_joiner import JoinerSettings
from lab.cloud.kubelet_joiner.joiner import Joiner
from lab.cloud.kubelet_joiner.node import LeaseKeeper, initialise_csi_node, register
from lab.cloud.kubelet_joiner.object_bodies import NODES
from lab.cloud.kubelet_joiner.reflector import Reflector
from lab.errors import LabError
from tests.unit.lab.fake_node_api import FakeNodeApi

pytestmark = pytest.mark.virtual_time
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
PODS = "/api/v1/pods"
READY = [{"type": "Ready", "status": "True"}]


@contextlib.asynccontextmanager
async def running(*lives: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(life) for life in lives]
    yield
    for task in tasks:
        assert not task.done() or task.exception() is None
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def a_pod(number: int, **meta: Any) -> dict[str, Any]:
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    return {
        "metadata": {
            "name": f"p{number}",
            "namespace": "ns",
            "uid": f"u{number}",
            "ownerReferences": [{"kind": "DaemonSet"}],
            **meta,
        },
        "spec": {
            "containers": [{"name": "c", "image": "pause"}],
            "volumes": [{"name": "t", "projected": {"sources": sources}}],
        },
    }


@contextlib.asynccontextmanager
async def a_node_that_runs_a_pod() -> AsyncIterator[FakeNodeApi]:
    api = FakeNodeApi()
    async with running(Joiner(JoinerSettings(name="n1"), api).run()):
        await asyncio.sleep(2)
        api.feed(PODS, "ADDED", **a_pod(0))
        await asyncio.sleep(2)
        yield api


async def test_registers_at_growing_intervals_until_it_is_let_in() -> None:
    api = FakeNodeApi()
    api.refuse[("POST", NODES)] = [500] * 8
    await register(api, JoinerSettings(name="n1", taints=("team=a:NoSchedule",), extended_resources={"gpu": 8}))
    gaps = [later - earlier for earlier, later in itertools.pairwise(api.times("POST", NODES))]
    assert gaps == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 7.0, 7.0])
    node = api.sent("POST", NODES)[-1]
    assert node["spec"]["taints"] == [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["gpu"] == "8"


async def test_takes_over_a_node_that_is_there_already() -> None:
    api = FakeNodeApi()
    api.refuse[("POST", NODES)] = [409]
    await register(api, JoinerSettings(name="n1", labels={"pool": "a"}))
    assert [patch["metadata"]["labels"]["pool"] for patch in api.sent("PATCH", "/status")] == ["a"]
    assert len(api.sent("POST", NODES)) == 1


async def test_the_csi_node_is_created_once_the_node_exists() -> None:
    api = FakeNodeApi()
    api.refuse[("GET", f"{NODES}/n1")] = [404, 404, 404]
    api.refuse[("GET", "/apis/storage.k8s.io/v1/csinodes/n1")] = [404, 404]
    await initialise_csi_node(api, "n1")
    first, *later = api.times("GET", f"{NODES}/n1")
    assert [at - first for at in later] == pytest.approx([0.01, 0.06, 0.31])
    assert len(api.sent("POST", "csinodes")) == 1


async def test_the_lease_waits_for_the_node_and_is_then_renewed_every_ten_seconds() -> None:
    api = FakeNodeApi()
    api.refuse[("GET", LEASE)] = [404, 404]
    api.refuse[("GET", f"{NODES}/n1")] = [404]
    start = asyncio.get_running_loop().time()
    async with running(LeaseKeeper(api, "n1").run()):
        await asyncio.sleep(32)
    assert [at - start for at in api.times("POST", "leases")] == [pytest.approx(10.2, abs=0.21)]
    assert [at - start for at in api.times("PUT", LEASE)] == [
        pytest.approx(20.4, abs=0.41),
        pytest.approx(30.6, abs=0.61),
    ]
    assert api.sent("PUT", LEASE)[0]["metadata"]["resourceVersion"] == "7"


async def test_a_conflicting_renewal_looks_at_the_lease_again() -> None:
    api = FakeNodeApi()
    api.refuse[("PUT", LEASE)] = [409]
    async with running(LeaseKeeper(api, "n1").run()):
        await asyncio.sleep(12)
    assert [method for _, method, _, _ in api.requests] == ["GET", "PUT", "GET", "PUT"]


async def test_a_watch_resumes_where_it_ended_and_starts_over_after_an_error() -> None:
    api = FakeNodeApi()
    async with running(Reflector(api, PODS).run()):
        await asyncio.sleep(1)
        api.end_watch(PODS)
        await asyncio.sleep(1)
        api.feed(PODS, "ERROR", metadata={}, code=410)
        api.end_watch(PODS)
        await asyncio.sleep(1)
    first, second, third = [query for _, query in api.watches]
    assert first["sendInitialEvents"] == third["sendInitialEvents"] == "true"
    assert second["resourceVersion"] == "5"
    assert "sendInitialEvents" not in second


async def test_a_refused_watch_waits_longer_each_time() -> None:
    api = FakeNodeApi()
    api.refuse[("WATCH", PODS)] = [429] * 20
    async with running(Reflector(api, PODS).run()):
        await asyncio.sleep(120)
    assert 5 <= len(api.watches) <= 9


async def test_a_join_is_done_when_the_api_says_ready_and_all_daemons_run() -> None:
    api, clock = FakeNodeApi(), asyncio.get_running_loop().time
    joiner = Joiner(JoinerSettings(name="n1", daemon_pods=2), api)
    async with running(joiner.run()):
        await asyncio.sleep(2)
        assert joiner.milestones.registered_s is not None
        for number in (0, 1):
            api.feed(PODS, "ADDED", **a_pod(number))
        await asyncio.sleep(2)
        api.feed(PODS, "MODIFIED", **a_pod(0), status={"phase": "Running", "conditions": READY})
        api.feed(NODES, "MODIFIED", metadata={}, status={"conditions": READY})
        assert not joiner.milestones.is_done.is_set()
        api.feed(PODS, "MODIFIED", **a_pod(1), status={"phase": "Running", "conditions": READY})
        assert joiner.milestones.is_done.is_set()
        assert joiner.milestones.daemons_ready_s == clock()
    assert len(api.sent("POST", "serviceaccounts/default/token")) == 2
    assert [path for path, _ in api.watches].count("/api/v1/namespaces/ns/configmaps") == 1
    last = {path: body for _, method, path, body in api.requests if method == "PATCH" and "/pods/" in path}
    assert [body["status"]["phase"] for body in last.values()] == ["Running", "Running"]
    for patch in api.sent("PATCH", "/pods/"):
        order = [one["type"] for one in patch["status"].get("$setElementOrder/conditions", [])]
        given = [one["type"] for one in patch["status"].get("conditions", [])]
        assert given == [kind for kind in order if kind in given]


async def test_reports_merge_when_the_server_is_slow() -> None:
    patches = {}
    for takes_s in (0.001, 2.0):
        api = FakeNodeApi()
        api.takes_s = takes_s
        joiner = Joiner(JoinerSettings(name="n1"), api)
        async with running(joiner.run()):
            await asyncio.sleep(20)
            api.feed(PODS, "ADDED", **a_pod(0))
            await asyncio.sleep(60)
        patches[takes_s] = len(api.sent("PATCH", "/pods/p0/status"))
    assert patches == {0.001: 3, 2.0: 2}


async def test_a_report_that_failed_is_sent_again() -> None:
    api = FakeNodeApi()
    api.refuse[("PATCH", "/api/v1/namespaces/ns/pods/p0/status")] = [500]
    joiner = Joiner(JoinerSettings(name="n1"), api)
    async with running(joiner.run()):
        await asyncio.sleep(2)
        api.feed(PODS, "ADDED", **a_pod(0))
        await asyncio.sleep(15)
    assert api.sent("PATCH", "/pods/p0/status")[-1]["status"]["phase"] == "Running"
    assert api.sent("PATCH", "/pods/p0/status")[1]["status"]["hostIP"]


async def test_what_somebody_else_said_of_a_running_pod_is_taken_back() -> None:
    async with a_node_that_runs_a_pod() as api:
        said = len(api.sent("PATCH", "/pods/p0/status"))
        marked = [{"type": "Ready", "status": "False"}]
        api.feed(PODS, "MODIFIED", **a_pod(0), status={"phase": "Running", "conditions": marked})
        await asyncio.sleep(12)
        again = api.sent("PATCH", "/pods/p0/status")[said:]
        api.feed(PODS, "MODIFIED", **a_pod(0), status={"phase": "Running", "conditions": READY})
        await asyncio.sleep(30)
    assert [(one["type"], one["status"]) for one in again[0]["status"]["conditions"]] == [("Ready", "True")]
    assert len(api.sent("PATCH", "/pods/p0/status")) == said + 1, "once is enough"


async def test_a_deleted_pod_is_ended_and_removed_once() -> None:
    async with a_node_that_runs_a_pod() as api:
        for _ in range(2):
            api.feed(PODS, "MODIFIED", **a_pod(0, deletionTimestamp="2026-11-21T00:00:00Z"))
        await asyncio.sleep(12)
        api.feed(PODS, "DELETED", **a_pod(0))
        await asyncio.sleep(12)
    assert api.sent("DELETE", "/pods/p0") == [{"gracePeriodSeconds": 0, "preconditions": {"uid": "u0"}}]


async def test_reports_the_node_when_images_are_new_and_otherwise_every_five_minutes() -> None:
    api = FakeNodeApi()
    joiner = Joiner(JoinerSettings(name="n1"), api)
    async with running(joiner.run()):
        await asyncio.sleep(2)
        api.feed(PODS, "ADDED", **a_pod(0))
        await asyncio.sleep(650)
    first, is_ready, images, *later = api.sent("PATCH", "/nodes/n1/status")
    assert first == {}
    assert {c["type"]: c.get("status") for c in is_ready["status"]["conditions"]}["Ready"] == "True"
    assert images["status"]["images"] == [{"names": ["pause"]}]
    assert len(later) == 2


async def test_has_the_devices_of_a_plugin_once_that_runs_and_tells_them_with_its_next_report() -> None:
    api = FakeNodeApi()
    settings = JoinerSettings(name="n1", extended_resources={"nvidia.com/gpu": 8}, device_plugin="plugin")
    async with running(Joiner(settings, api).run()):
        await asyncio.sleep(2)
        api.feed(PODS, "ADDED", **a_pod(0, ownerReferences=[{"kind": "DaemonSet", "name": "logs"}]))
        await asyncio.sleep(15)
        told = len(api.sent("PATCH", "/nodes/n1/status"))
        api.feed(PODS, "ADDED", **a_pod(1, ownerReferences=[{"kind": "DaemonSet", "name": "plugin"}]))
        await asyncio.sleep(60)
    assert "nvidia.com/gpu" not in api.sent("POST", NODES)[0]["status"]["allocatable"]
    reports = [body["status"] for body in api.sent("PATCH", "/nodes/n1/status")[told:]]
    assert [(one["capacity"], one["allocatable"]) for one in reports if "capacity" in one] == [
        ({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"})
    ], "once"


async def test_writes_events_only_when_asked() -> None:
    counts = {}
    for wanted in (False, True):
        api = FakeNodeApi()
        joiner = Joiner(JoinerSettings(name="n1", reports_events=wanted), api)
        async with running(joiner.run()):
            await asyncio.sleep(2)
            api.feed(PODS, "ADDED", **a_pod(0))
            await asyncio.sleep(5)
        counts[wanted] = len(api.sent("POST", "/events"))
    assert counts == {False: 0, True: 4 + 3}


async def test_forgets_a_pod_that_is_gone_before_it_was_reported() -> None:
    api = FakeNodeApi()
    api.refuse[("GET", "/api/v1/namespaces/ns/pods/p0")] = [404]
    joiner = Joiner(JoinerSettings(name="n1"), api)
    async with running(joiner.run()):
        await asyncio.sleep(2)
        api.feed(PODS, "ADDED", **a_pod(0))
        api.feed(PODS, "DELETED", **a_pod(0))
        await asyncio.sleep(30)
    assert api.sent("PATCH", "/pods/p0/status") == []


@pytest.mark.parametrize("wrong", [{"taints": ("oops",)}, {"daemon_pods": -1}, {"qps": 0.0}])
def test_refuses_settings_that_mean_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(LabError):
        JoinerSettings(name="n1", **wrong)
