"""Reading a cluster: which requests are sent, and what becomes of answers of every sort."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Unread
from balloons.reading import read_cluster as room
from balloons.reading.read_cluster import read_cluster
from tests.unit.throttler.kube.fake_list_and_watch import FakeResponse, client_for, down, status_answer
from throttler.kube.connection import Credentials, ServerClock
from throttler.kube.errors import UnreachableError
from throttler.kube.requests import Request

Answer = Callable[[Request], Any]


class Cluster:
    """Answers by path; what it does not know is not served."""

    def __init__(self, version: str = "v1.36.3", **answers: Answer) -> None:
        self.version, self.answers = version, answers
        self.asked: list[Request] = []

    @asynccontextmanager
    async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
        self.asked.append(request)
        if request.path == "/version":
            yield FakeResponse(200, json.dumps({"gitVersion": self.version}).encode())
            return
        answer = self.answers.get(request.path.rpartition("/")[2], lambda _: status_answer(404))(request)
        if isinstance(answer, Exception):
            raise answer
        yield answer


def pages(count: int) -> Answer:
    """A list of that many objects, in pages of what is asked for unless the cache answers."""

    def answer(request: Request) -> FakeResponse:
        limit = count if request.query.get("resourceVersion") == "0" else int(request.query["limit"])
        start = int(request.query.get("continue", 0))
        items = [{"metadata": {"name": f"o{i}"}} for i in range(start, min(count, start + limit))]
        meta = {"resourceVersion": "7"} | ({"continue": str(start + limit)} if start + limit < count else {})
        return FakeResponse(200, json.dumps({"metadata": meta, "items": items}).encode())

    return answer


async def test_pages_come_from_the_cache_where_the_server_can() -> None:
    api = Cluster(pods=pages(1200))
    seen = await read_cluster(client_for(api), [kinds.PODS])
    assert len(seen.listed(kinds.PODS).objects) == 1200
    queries = [request.query for request in api.asked[1:]]
    assert [query.get("continue") for query in queries] == [None, "500", "1000"]
    assert not any("resourceVersion" in query for query in queries)


async def test_a_cluster_is_dated_by_its_own_clock() -> None:
    """By a laptop's that was ten minutes ahead the service had not renewed its Lease for as long."""
    seen = await read_cluster(client_for(Cluster(), server_clock=ServerClock(lambda: 1.7e9)), [])
    assert seen.taken_at.timestamp() == 1.7e9


async def test_an_older_server_is_asked_for_the_whole_list_in_its_cache() -> None:
    api = Cluster("v1.33.4", pods=pages(1200))
    seen = await read_cluster(client_for(api), [kinds.PODS])
    assert len(seen.listed(kinds.PODS).objects) == 1200
    (request,) = api.asked[1:]
    assert request.query["resourceVersion"] == "0"


async def test_events_are_paged_on_any_server_as_nothing_caches_them() -> None:
    api = Cluster("v1.33.4", events=pages(600))
    await read_cluster(client_for(api), [kinds.EVENTS])
    assert len(api.asked[1:]) == 2


async def test_a_snapshot_that_is_gone_is_read_again_in_one_piece() -> None:
    def expired_at_500(request: Request) -> FakeResponse:
        return status_answer(410, "Expired") if "continue" in request.query else pages(1200)(request)

    api = Cluster(pods=expired_at_500)
    seen = await read_cluster(client_for(api), [kinds.PODS])
    assert len(seen.listed(kinds.PODS).objects) == 1200


async def test_one_kind_that_fails_leaves_the_others() -> None:
    api = Cluster(
        nodes=pages(3),
        pods=lambda _: status_answer(403, "Forbidden", "pods is forbidden"),
        deployments=lambda _: down(),
        daemonsets=lambda _: FakeResponse(200, b"<html>"),
    )
    wanted = [kinds.NODES, kinds.PODS, kinds.DEPLOYMENTS, kinds.DAEMON_SETS, kinds.NODE_POOLS]
    seen = await read_cluster(client_for(api), wanted)
    assert [seen.listed(kind).unread for kind in wanted] == [
        None,
        Unread.FORBIDDEN,
        Unread.FAILED,
        Unread.FAILED,
        Unread.NOT_SERVED,
    ]
    assert seen.listed(kinds.PODS).message == "pods is forbidden"
    assert sorted(seen.not_seen) == ["daemonsets.apps", "deployments.apps", "pods"]


async def test_the_newest_version_that_is_served_is_read() -> None:
    def only_alpha(request: Request) -> FakeResponse:
        return pages(1)(request) if "/v1alpha1/" in request.path else status_answer(404)

    api = Cluster(capacityquotas=only_alpha)
    seen = await read_cluster(client_for(api), [kinds.QUOTAS])
    assert len(seen.listed(kinds.QUOTAS).objects) == 1
    assert [request.path.split("/")[3] for request in api.asked[1:]] == ["v1beta1", "v1alpha1"]


async def test_a_server_that_does_not_answer_at_all_is_an_error() -> None:
    class Away(Cluster):
        @asynccontextmanager
        async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
            raise down()
            yield

    with pytest.raises(UnreachableError):
        await read_cluster(client_for(Away()), kinds.ALL_KINDS)


@pytest.mark.parametrize("page", [status_answer(404), FakeResponse(200, b"<html>Please log in</html>")])
async def test_a_web_server_is_no_cluster_in_which_every_check_passes(page: FakeResponse) -> None:
    class WebServer(Cluster):
        @asynccontextmanager
        async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
            yield page

    with pytest.raises(UnreachableError, match="at /version is no Kubernetes API server"):
        await read_cluster(client_for(WebServer()), kinds.ALL_KINDS)


async def test_who_may_not_ask_for_the_version_is_shown_the_rest() -> None:
    class Strict(Cluster):
        @asynccontextmanager
        async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
            if request.path == "/version":
                yield status_answer(403)
            else:
                async with super().open(request, credentials) as answer:
                    yield answer

    seen = await read_cluster(client_for(Strict(pods=pages(3))), [kinds.PODS])
    assert (seen.version, len(seen.listed(kinds.PODS).objects)) == ("", 3)


async def test_a_flood_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_OBJECTS", 700)
    api = Cluster(pods=pages(5000))
    listed = (await read_cluster(client_for(api), [kinds.PODS])).listed(kinds.PODS)
    assert (len(listed.objects), listed.left_out, listed.is_complete) == (700, 300, False)
    assert len(api.asked[1:]) == 2


async def test_a_broken_object_is_counted_and_left_out() -> None:
    body = b'{"metadata":{},"items":[{"metadata":{"name":"a"}},1,{"metadata":{"name":"b"}}]}'
    listed = (await read_cluster(client_for(Cluster(pods=lambda _: FakeResponse(200, body))), [kinds.PODS])).listed(
        kinds.PODS
    )
    assert (len(listed.objects), listed.unreadable) == (2, 1)


async def test_nothing_but_lists_is_asked_and_never_a_secret() -> None:
    api = Cluster()
    await read_cluster(client_for(api), kinds.ALL_KINDS)
    assert {request.verb for request in api.asked[1:]} == {"list"}
    assert not any("secret" in request.path for request in api.asked)
    (leases,) = [request for request in api.asked if request.path.endswith("/leases")]
    assert leases.query["fieldSelector"] == "metadata.name=kube-balloons-throttle"
    (config_maps,) = [request for request in api.asked if request.path.endswith("/configmaps")]
    assert config_maps.query["fieldSelector"] == "metadata.name=cluster-autoscaler-status"
