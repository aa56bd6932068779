"""Every end of a write is a value; what follows a failure waits for the next tick."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from throttler.kube.errors import (
    ApiError,
    AttemptTimeoutError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.levers.lever_and_reasons import How, LeverReason, LeverWrite
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter, outcome_of, resource_of


def write(name: str, version: str, **spec: Any) -> LeverWrite:
    return LeverWrite(
        api_version="karpenter.sh/v1",
        kind="NodePool",
        key=ObjectKey("", name),
        how=How.MERGE,
        body={"metadata": {"resourceVersion": version}, "spec": spec},
        because=because(LeverReason.STOPPING),
    )


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    for name in ("a", "b"):
        cluster.put("nodepools", name, spec={})
    return cluster


def version(cluster: FakeCluster, name: str) -> str:
    return str(cluster.objects["nodepools"][name]["metadata"]["resourceVersion"])


async def test_second_write_on_an_object_expects_what_the_first_was_answered(cluster: FakeCluster) -> None:
    seen = version(cluster, "a")
    results = await LeverWriter(cluster.client).carry_out([write("a", seen, one=1), write("a", seen, two=2)])
    assert [result.outcome for result in results] == [LeverWriteOutcome.DONE] * 2
    assert cluster.objects["nodepools"]["a"]["spec"] == {"one": 1, "two": 2}
    assert results[1].resource_version == version(cluster, "a")


async def test_what_follows_a_conflict_is_left_for_the_next_tick(cluster: FakeCluster) -> None:
    writes = [write("a", "1", one=1), write("b", version(cluster, "b"), two=2)]
    results = await LeverWriter(cluster.client).carry_out(writes)
    assert [result.outcome for result in results] == [LeverWriteOutcome.CONFLICT]
    assert cluster.objects["nodepools"]["b"]["spec"] == {}


async def test_somebody_elses_write_in_between_is_a_conflict(cluster: FakeCluster) -> None:
    seen, calls = version(cluster, "a"), []

    def edit(plural: str, name: str) -> None:
        calls.append(name)
        if len(calls) == 2:
            cluster.put(plural, name, spec={"mine": True})

    cluster.before_write = edit
    results = await LeverWriter(cluster.client).carry_out([write("a", seen, one=1), write("a", seen, two=2)])
    assert [result.outcome for result in results] == [LeverWriteOutcome.DONE, LeverWriteOutcome.CONFLICT]
    assert cluster.objects["nodepools"]["a"]["spec"] == {"mine": True}


def test_a_patch_whose_elements_stand_elsewhere_by_now_is_a_conflict() -> None:
    """As of a node that has just lost another taint. A JSON patch is applied before versions are compared."""
    message = "the server rejected our request due to an error in our request"
    assert outcome_of(InvalidError(message, status=422, reason="Invalid")) is LeverWriteOutcome.CONFLICT
    refused = 'nodes "n" is forbidden: ValidatingAdmissionPolicy "x" denied request: no'
    assert outcome_of(InvalidError(refused, status=422, reason="Invalid")) is LeverWriteOutcome.INVALID


async def test_what_follows_a_fenced_write_is_not_sent_either(cluster: FakeCluster) -> None:
    cluster.faults["patch", "nodepools"] = FencedError("not the leader")
    writes = [write("a", version(cluster, "a"), one=1), write("b", version(cluster, "b"), two=2)]
    results = await LeverWriter(cluster.client).carry_out(writes)
    assert [result.outcome for result in results] == [LeverWriteOutcome.FENCED]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConflictError("the object has been modified", status=409), LeverWriteOutcome.CONFLICT),
        (ForbiddenError("may not", status=403), LeverWriteOutcome.FORBIDDEN),
        (UnauthorizedError("who?", status=401), LeverWriteOutcome.FORBIDDEN),
        (InvalidError("spec.limits: Invalid", status=422), LeverWriteOutcome.INVALID),
        (NotFoundError("no such object", status=404), LeverWriteOutcome.GONE),
        (TooManyRequestsError("later", status=429, retry_after_s=3.0), LeverWriteOutcome.BUSY),
        (AttemptTimeoutError("10 s"), LeverWriteOutcome.UNKNOWN),
        (ServerError("etcdserver: leader changed", status=500), LeverWriteOutcome.UNKNOWN),
        (ServerError('failed calling webhook "x.y": timeout', status=500), LeverWriteOutcome.WEBHOOK),
        (ForbiddenError('admission webhook "x.y" denied the request', status=403), LeverWriteOutcome.WEBHOOK),
        (ApiError("teapot", status=418), LeverWriteOutcome.UNKNOWN),
    ],
)
def test_every_error_has_its_outcome(error: ApiError, outcome: LeverWriteOutcome) -> None:
    assert outcome_of(error) is outcome


async def test_failure_carries_message_and_retry_after(cluster: FakeCluster) -> None:
    cluster.faults[("patch", "nodepools")] = TooManyRequestsError("later", status=429, retry_after_s=3.0)
    (result,) = await LeverWriter(cluster.client).carry_out([write("a", version(cluster, "a"))])
    assert (result.outcome, result.message, result.retry_after_s) == (LeverWriteOutcome.BUSY, "later", 3.0)


def test_kind_that_no_lever_writes_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        resource_of(replace(write("a", "1"), kind="Secret"))
