"""One call: what is retried, after how long, what is counted, and what becomes of refused credentials."""

import asyncio
import json
from itertools import pairwise

import pytest

from tests.unit.throttler.kube.fake_list_and_watch import THINGS, FakeApi, FakeResponse, client_for, down, status_answer
from throttler.kube.connection import CredentialKeeper, Credentials
from throttler.kube.decoding import Identity
from throttler.kube.errors import (
    AlreadyExistsError,
    ApiError,
    AttemptTimeoutError,
    ConflictError,
    ForbiddenError,
    ServerError,
    TlsRefusedError,
    TooManyRequestsError,
    UnauthorizedError,
    UndecodableError,
    UnreachableError,
)
from throttler.kube.kube_client import Attempt, CeilingGate, decode
from throttler.kube.requests import CONFIG_MAPS, EVERYTHING, PODS, PatchKind, Resource, Selection

pytestmark = pytest.mark.virtual_time


def api_that_answers(*faults) -> FakeApi:
    api = FakeApi()
    api.faults.extend(faults)
    return api


def waits(api: FakeApi) -> list[float]:
    at = [sent_at for sent_at, _, _ in api.sent]
    return [later - earlier for earlier, later in pairwise(at)]


@pytest.mark.parametrize(
    ("retry_after", "least_s", "most_s"),
    [
        (None, 0.5, 0.75),
        ("0", 0.5, 0.75),
        ("-1", 0.5, 0.75),
        ("junk", 0.5, 0.75),
        ("3", 3, 4.5),
        ("10", 10, 15),
        ("Sat, 21 Nov 2026 04:00:08 GMT", 8, 12),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_a_minimum_of_the_wait(status, retry_after, least_s, most_s):
    headers = {"Date": "Sat, 21 Nov 2026 04:00:00 GMT"} | ({"Retry_After": retry_after} if retry_after else {})
    api = api_that_answers(status_answer(status, **headers))
    await client_for(api).get(THINGS, "n1")
    (wait_s,) = waits(api)
    assert least_s <= wait_s <= most_s


@pytest.mark.parametrize("retry_after", ["60", "3600", "21"])
async def test_a_wait_beyond_the_deadline_is_handed_to_the_caller_instead(retry_after):
    api = api_that_answers(status_answer(429, Retry_After=retry_after))
    with pytest.raises(TooManyRequestsError) as caught:
        await client_for(api).get(THINGS, "n1")
    assert caught.value.retry_after_s == min(60, int(retry_after))
    assert len(api.sent) == 1


@pytest.mark.parametrize(
    "date", ["junk", "Sat, 21 Nov 2026 04:00:00 +9999999999999999", "Sat, 21 Nov 99999 04:00:00 GMT"]
)
async def test_a_date_that_no_calendar_has_says_nothing(date):
    api = api_that_answers(status_answer(403, Date=date))
    with pytest.raises(ForbiddenError):
        await client_for(api).get(THINGS, "n1")


async def test_never_more_than_one_retry():
    api = api_that_answers(*(status_answer(503, "", "still down") for _ in range(10)))
    with pytest.raises(ServerError, match="still down"):
        await client_for(api).get(THINGS, "n1")
    assert len(api.sent) == 2


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [
        (down(), 2),
        (status_answer(429), 2),
        (status_answer(502), 2),
        (status_answer(504), 2),
        (status_answer(500), 1),
        (status_answer(500, Retry_After="1"), 2),
        (status_answer(409, "Conflict", Retry_After="1"), 1),
        (status_answer(404), 1),
        (status_answer(403), 1),
        (status_answer(410), 1),
        (status_answer(422), 1),
    ],
)
async def test_only_passing_failures_are_retried(fault, attempts):
    api = api_that_answers(fault, fault)
    with pytest.raises(ApiError):
        await client_for(api).get(THINGS, "n1")
    assert len(api.sent) == attempts


async def test_a_failure_that_comes_with_a_status_of_200_is_one():
    """Some proxies answer so. Of its body a list of nothing would be made, as if all nodes were gone."""
    body = {"kind": "Status", "metadata": {}, "status": "Failure", "message": "upstream is away", "code": 503}
    api = api_that_answers(*(FakeResponse(200, json.dumps(body).encode()) for _ in range(2)))
    codes: list[str] = []
    client = client_for(api, observer=lambda attempt: codes.append(attempt.code))
    with pytest.raises(ServerError, match="upstream is away"):
        await anext(client.pages(PODS, Identity))
    assert codes == ["503", "503"]


async def test_a_success_in_words_is_none_the_worse():
    done = b'{"kind":"Status","metadata":{},"status":"Success","details":{"name":"Failure"}}'
    assert await client_for(api_that_answers(FakeResponse(200, done))).delete(THINGS, "n", uid="u") == done


calls = {
    "create": lambda client: client.create(THINGS, {"metadata": {"name": "n"}}),
    "json patch": lambda client: client.patch(THINGS, [], "n", kind=PatchKind.JSON),
    "delete by name": lambda client: client.delete(THINGS, "n"),
}


@pytest.mark.parametrize("call", calls.values(), ids=calls.keys())
async def test_what_may_do_harm_twice_is_sent_once(call):
    api = api_that_answers(down(), down())
    with pytest.raises(UnreachableError):
        await call(client_for(api))
    assert len(api.sent) == 1


safe_calls = {
    "merge patch": lambda client: client.patch(THINGS, {}, "n"),
    "apply": lambda client: client.apply(THINGS, {}, "n", field_manager="us"),
    "delete by uid": lambda client: client.delete(THINGS, "n", uid="u"),
}


@pytest.mark.parametrize("call", safe_calls.values(), ids=safe_calls.keys())
async def test_what_may_be_repeated_is_sent_again_after_a_lost_answer(call):
    api = api_that_answers(down())
    await call(client_for(api))
    assert len(api.sent) == 2


async def test_conflicts_come_back_as_what_they_are():
    api = api_that_answers(status_answer(409, "AlreadyExists"), status_answer(409, "Conflict"))
    client = client_for(api)
    with pytest.raises(AlreadyExistsError):
        await client.create(THINGS, {})
    with pytest.raises(ConflictError):
        await client.patch(THINGS, {}, "n")


async def never(request):
    await asyncio.sleep(3600)


async def test_every_attempt_is_counted_below_the_retries():
    seen: list[Attempt] = []
    api = api_that_answers(never, status_answer(429), down(), FakeResponse(200, b"12345"))
    client = client_for(api, observer=seen.append)
    with pytest.raises(TooManyRequestsError):
        await client.get(THINGS, "n1")
    assert await client.get(THINGS, "n1") == b"12345"
    assert [(a.verb, a.resource, a.code) for a in seen] == [
        ("get", "nodes", "timeout"),
        ("get", "nodes", "429"),
        ("get", "nodes", "error"),
        ("get", "nodes", "200"),
    ]
    assert seen[0].seconds == pytest.approx(10)
    assert seen[3].size_bytes == 5


@pytest.mark.parametrize(
    ("words", "is_of_webhook"),
    [
        ('Internal error occurred: failed calling webhook "x.example": context deadline exceeded', True),
        ("conversion webhook for cluster.x-k8s.io/v1beta1, Kind=MachineDeployment failed: no route to host", True),
        ("etcdserver: request timed out", False),
    ],
)
async def test_an_attempt_that_a_webhook_spoilt_says_so(words, is_of_webhook):
    seen: list[Attempt] = []
    api = api_that_answers(status_answer(500, "InternalError", words))
    with pytest.raises(ServerError):
        await client_for(api, observer=seen.append).get(THINGS, "n1")
    assert [(attempt.code, attempt.is_of_webhook) for attempt in seen] == [("500", is_of_webhook)]


async def test_a_timeout_says_what_was_asked():
    api = api_that_answers(never, never)
    with pytest.raises(AttemptTimeoutError, match=r"get /api/v1/nodes/n1 in 10\.0 s"):
        await client_for(api).get(THINGS, "n1")


async def test_an_attempt_given_up_by_the_caller_is_no_sign_of_ill_health():
    seen: list[Attempt] = []
    api = api_that_answers(never)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await client_for(api, observer=seen.append).get(THINGS, "n1")
    assert [attempt.code for attempt in seen] == ["cancelled"]


async def test_retries_pass_the_gate_too(throttler_clock):
    seen: list[Attempt] = []
    api = api_that_answers(status_answer(503), status_answer(503))
    client = client_for(api, gate=CeilingGate(0.2, 1), observer=seen.append)
    with pytest.raises(ServerError):
        await client.get(THINGS, "n1")
    assert waits(api)[0] >= 5
    assert all(attempt.seconds < 1 for attempt in seen)


class RotatingSource:
    """Gives the texts one after the other, the last one for ever."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.reads: list[bool] = []

    async def read(self, afresh: bool) -> Credentials:
        self.reads.append(afresh)
        return Credentials(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0])


def keeper(source: RotatingSource, first: str = "old") -> CredentialKeeper:
    return CredentialKeeper(source, Credentials(first))


async def test_401_reads_the_token_again_and_sends_once_more_even_a_create():
    source = RotatingSource("new")
    api = api_that_answers(status_answer(401))
    await client_for(api, credentials=keeper(source)).create(THINGS, {})
    assert [used.authorization for _, _, used in api.sent] == ["old", "new"]
    assert source.reads == [True]
    assert waits(api) == [0]


async def test_401_with_an_unchanged_token_is_final():
    source = RotatingSource("old")
    api = api_that_answers(*(status_answer(401) for _ in range(9)))
    client = client_for(api, credentials=keeper(source))
    for _ in range(4):
        with pytest.raises(UnauthorizedError):
            await client.get(THINGS, "n1")
    assert len(api.sent) == 4
    assert source.reads == [True]


async def test_a_second_401_with_the_new_token_is_final():
    api = api_that_answers(status_answer(401), status_answer(401), status_answer(401))
    with pytest.raises(UnauthorizedError):
        await client_for(api, credentials=keeper(RotatingSource("a", "b", "c"))).get(THINGS, "n1")
    assert len(api.sent) == 2


async def test_many_calls_refused_together_read_the_token_once():
    source, api = RotatingSource("new", "newer"), FakeApi()
    api.accepted = "new"
    client = client_for(api, credentials=keeper(source))
    await asyncio.gather(*(client.get(THINGS, f"n{i}") for i in range(20)))
    assert source.reads == [True]


async def test_a_refused_certificate_makes_the_trust_be_read_again():
    source = RotatingSource("new trust")
    api = api_that_answers(TlsRefusedError("certificate verify failed"))
    await client_for(api, credentials=keeper(source)).get(THINGS, "n1")
    assert source.reads == [True]
    assert len(api.sent) == 2


async def test_a_watch_is_opened_again_only_for_new_credentials():
    api = api_that_answers(status_answer(401))
    client = client_for(api, credentials=keeper(RotatingSource("new")))
    selection = {"resource_version": "100", "lifetime_s": 300}
    async with client.watch(THINGS, EVERYTHING, **selection) as response:
        assert response.status == 200
    api.faults.append(status_answer(503))
    with pytest.raises(ServerError):
        async with client.watch(THINGS, EVERYTHING, **selection):
            pass
    assert api.verbs() == ["watch"] * 3


async def test_dry_runs_mark_every_write_and_no_read():
    api = FakeApi()
    client = client_for(api, is_dry_run=True)
    await client.get(THINGS, "n")
    for call in (*calls.values(), *safe_calls.values()):
        await call(client)
    assert "dryRun" not in api.sent[0][1].query
    assert all(request.query["dryRun"] == "All" for _, request, _ in api.sent[1:])


async def test_pages_follow_the_continue_token_to_the_end(monkeypatch):
    monkeypatch.setattr("throttler.kube.kube_client.PAGE_LIMIT", 3)
    api = FakeApi()
    for index in range(7):
        api.put(f"n{index}")
    names = [item.metadata.name async for page in client_for(api).pages(THINGS, Identity) for item in page.items]
    assert names == [f"n{index}" for index in range(7)]
    assert [request.query.get("continue") for _, request, _ in api.sent] == [None, "3", "6"]


def test_decode_refuses_what_is_not_asked_for():
    assert decode(json.dumps({"a": 1}).encode(), dict[str, int]) == {"a": 1}
    with pytest.raises(UndecodableError):
        decode(b'{"a": "x"}', dict[str, int])


@pytest.mark.parametrize(
    ("resource", "selection", "path", "fields"),
    [
        (THINGS, EVERYTHING, "/api/v1/nodes", "metadata.name=kube-balloons-asks-for-the-version"),
        (
            PODS,
            Selection(labels="pool", fields="status.phase=Failed"),
            "/api/v1/namespaces/default/pods",
            "metadata.name=kube-balloons-asks-for-the-version",
        ),
        (
            CONFIG_MAPS,
            Selection(namespace="kube-system", fields="metadata.name=status"),
            "/api/v1/namespaces/kube-system/configmaps",
            "metadata.name=status",
        ),
    ],
)
async def test_the_version_is_asked_for_by_one_name(
    resource: Resource, selection: Selection, path: str, fields: str
) -> None:
    """A server that looked for one of few objects by a selector would read all pods from etcd."""
    api = api_that_answers(FakeResponse(200, b'{"metadata": {"resourceVersion": "77"}, "items": []}'))
    assert await client_for(api).newest_version(resource, selection) == "77"
    (_, request, _) = api.sent[0]
    assert (request.path, request.query) == (path, {"fieldSelector": fields, "limit": "1"})
