"""The watch of all pods: moments of binding, and what happens when the server forgets where it was."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from benchmarks import pod_watch
from benchmarks.pod_watch import PodWatch
from throttler.kube.pod import POOL_LABEL


def pod(name: str, version: int, node: str = "", *, is_balloon: bool = False, reason: str = "") -> dict[str, Any]:
    labels = {POOL_LABEL: "gpu"} if is_balloon else {}
    conditions = [{"type": "DisruptionTarget", "reason": reason}] if reason else []
    return {
        "metadata": {"name": name, "namespace": "jobs", "resourceVersion": str(version), "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }


class FakeServer:
    """Answers lists and watches one after the other, then keeps the last watch open."""

    def __init__(self, lists: list[list[dict[str, Any]]], watches: list[list[tuple[str, dict[str, Any]]]]) -> None:
        self.lists, self.watches = lists, watches
        self.asked_from: list[str] = []

    def __call__(self, access: object, *, user_agent: str) -> "FakeServer":
        return self

    async def __aenter__(self) -> "FakeServer":
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def get(self, path: str) -> bytes:
        return json.dumps({"metadata": {"resourceVersion": "100"}, "items": self.lists.pop(0)}).encode()

    async def watch(self, path: str, **query: str) -> AsyncIterator[bytes]:
        self.asked_from.append(query["resourceVersion"])
        if not self.watches:
            await asyncio.Event().wait()
        for kind, found in self.watches.pop(0):
            yield json.dumps({"type": kind, "object": found}).encode()


GONE = ("ERROR", {"kind": "Status", "code": 410, "metadata": {}})


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Any:
    def serve(lists: list[Any], watches: list[Any]) -> tuple[PodWatch, FakeServer]:
        server = FakeServer(lists, watches)
        monkeypatch.setattr(pod_watch, "ApiClient", server)
        return PodWatch(access=None), server  # type: ignore[arg-type]

    return serve


async def test_balloons_that_held_a_node_and_went_are_kept_with_the_reason(watching: Any) -> None:
    held = pod("b", 1, "n", is_balloon=True)
    events = [("MODIFIED", pod("b", 2, "n", is_balloon=True, reason="PreemptionByScheduler")), ("DELETED", held)]
    watch, _ = watching([[held]], [events])
    async with watch:
        await watch.until(lambda: bool(watch.gone), "the balloon is gone")
    (gone,) = watch.gone
    assert (gone.node, gone.is_preempted, gone.is_balloon) == ("n", True, True)


async def test_a_version_that_the_server_forgot_is_listed_anew(watching: Any) -> None:
    lists = [[pod("a", 1), pod("lost", 1, "n")], [pod("a", 9, "n")]]
    watch, server = watching(lists, [[("MODIFIED", pod("a", 5))], [GONE]])
    async with watch:
        await watch.until(lambda: bool(watch.pods["jobs", "a"].node), "the pod is bound")
        watch.expect(("jobs", "new"))
    assert server.asked_from[:2] == ["100", "5"]
    assert set(watch.pods) == {("jobs", "a"), ("jobs", "new")}


async def test_an_end_of_the_watch_is_told_at_once(watching: Any) -> None:
    watch, _ = watching([[]], [[("ADDED", {"spec": 5})]])
    with pytest.raises(Exception, match="Expected"):
        async with watch:
            await watch.until(lambda: False, "never", timeout_s=5)


async def test_a_state_that_does_not_come_is_named(watching: Any) -> None:
    watch, _ = watching([[]], [])
    with pytest.raises(TimeoutError, match="300 nodes held"):
        async with watch:
            await watch.until(lambda: False, "300 nodes held", timeout_s=0.01)
