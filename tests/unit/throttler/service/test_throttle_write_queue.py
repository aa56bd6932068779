"""What goes out for throttles, in which order, and what rests after what."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from balloons.service.metrics import Metrics
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.levers.lever_and_reasons import How, LeverDecision, LeverReason, LeverState, LeverWrite
from throttler.service.decide_throttles import Findings, Turn
from throttler.service.lever_calls import LeverWriteOutcome, WriteResult
from throttler.service.throttle_write_queue import AT_ONCE, RESTS_S, TOLD_S, UNSEEN_S, Place, ThrottleWrites, version_of

pytestmark = pytest.mark.virtual_time

WHY = because(LeverReason.NOTHING_WAITS)


def a_write(name: str, version: str = "1", note: str = "") -> LeverWrite:
    metadata = {"name": name, "resourceVersion": version, "annotations": {"note": note}}
    body = {"metadata": metadata}
    key = ObjectKey("", name)
    return LeverWrite(api_version="karpenter.sh/v1", kind="NodePool", key=key, how=How.MERGE, body=body, because=WHY)


def a_release(name: str) -> LeverWrite:
    body = {"metadata": {"name": name, "resourceVersion": "1", "annotations": {"note": "gate"}}}
    key = ObjectKey("team", name)
    return LeverWrite(api_version="v1", kind="Pod", key=key, how=How.MERGE, body=body, because=WHY)


def a_turn(*writes: LeverWrite) -> Turn:
    decision = LeverDecision(name="NodePool/a", state=LeverState.CONFIRMED, because=WHY, writes=writes)
    return Turn(stored=a_throttle(), findings=Findings(now_s=0.0, levers=(decision,)))


class FakeWriter:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.ends: dict[str, LeverWriteOutcome] = {}
        self.takes_s = 0.0
        self.hanging: dict[str, float] = {}

    async def carry_out(self, writes: Iterable[LeverWrite]) -> tuple[WriteResult, ...]:
        results = []
        for write in writes:
            await asyncio.sleep(self.hanging.get(write.key.name, self.takes_s))
            self.sent.append((write.key.name, str(write.body["metadata"]["annotations"]["note"])))  # type: ignore[call-overload]
            outcome = self.ends.get(write.key.name, LeverWriteOutcome.DONE)
            results.append(WriteResult(write=write, outcome=outcome, message=f"no {write.key.name}"))
            if outcome is not LeverWriteOutcome.DONE:
                break
        return tuple(results)


class FakeStatusWriter:
    def __init__(self) -> None:
        self.told: list[Any] = []
        self.problems: list[str] = []
        self.statuses = 0
        self.is_due = False
        self.takes_s = 0.0

    def due(self, turn: Turn, problem: str) -> Any:
        self.problems.append(problem)
        return "a status" if self.is_due else None

    def forget(self, known: Any) -> None:
        """Nothing is kept."""

    async def write(self, turn: Turn, status: Any) -> None:
        self.told.append(turn.stored)
        await asyncio.sleep(self.takes_s)
        self.statuses += 1


class Scene:
    def __init__(self, *, is_dry_run: bool = False) -> None:
        self.writer, self.status_writer, self.metrics = FakeWriter(), FakeStatusWriter(), Metrics("test")
        writer: Any = self.writer
        status_writer: Any = self.status_writer
        clock = asyncio.get_running_loop().time
        self.writes = ThrottleWrites(writer, writer, status_writer, self.metrics.throttle, clock, is_dry_run=is_dry_run)

    def start(self, *writes: LeverWrite) -> frozenset[Place]:
        turn = a_turn(*writes)
        return self.writes.start(turn.name, turn.lever_writes, turn)

    async def write(self, *writes: LeverWrite) -> list[tuple[str, str]]:
        self.writer.sent.clear()
        assert not self.start(*writes)
        await self.writes.drain(60)
        return self.writer.sent


async def test_nothing_is_kept_of_node_pools_and_throttles_that_came_and_went() -> None:
    scene = Scene()
    scene.writer.ends["job-1"] = LeverWriteOutcome.FORBIDDEN
    for at in range(50):
        await scene.write(a_write(f"job-{at}"))
    await asyncio.sleep(TOLD_S)
    scene.writes.forget(())
    parts: tuple[object, ...] = (scene.writes, scene.writes._jobs)
    kept = {name: filed for part in parts for name, filed in vars(part).items() if isinstance(filed, dict) and filed}
    assert kept == {}


async def test_writes_on_one_object_keep_their_order_and_one_that_fails_stops_no_other() -> None:
    scene = Scene()
    scene.writer.ends["a"] = LeverWriteOutcome.CONFLICT
    sent = await scene.write(
        a_write("a", note="1"), a_write("a", note="2"), a_write("b", note="1"), a_write("b", note="2")
    )
    assert sorted(sent) == [("a", "1"), ("b", "1"), ("b", "2")]
    assert [note for name, note in sent if name == "b"] == ["1", "2"]


async def test_an_object_is_not_written_again_before_the_caches_show_the_write() -> None:
    scene = Scene()
    assert await scene.write(a_write("a"))
    assert not await scene.write(a_write("a", note="decided on the same version"))
    assert await scene.write(a_write("a", version="2"))
    await asyncio.sleep(UNSEEN_S)
    assert await scene.write(a_write("a", version="2")), "a watch that never shows it does not block for ever"


async def test_an_object_is_not_made_twice_before_the_caches_show_it() -> None:
    scene = Scene()
    assert await scene.write(a_write("new", version=""))
    assert not await scene.write(a_write("new", version="", note="decided before it was seen"))
    assert await scene.write(a_write("new", version="2"))


async def test_an_object_rests_after_a_refusal_and_the_user_is_told() -> None:
    scene = Scene()
    scene.writer.ends["a"] = LeverWriteOutcome.FORBIDDEN
    await scene.write(a_write("a"))
    assert scene.status_writer.problems[-1] == "NodePool a: no a"
    assert not await scene.write(a_write("a", version="2"))
    await asyncio.sleep(RESTS_S[LeverWriteOutcome.FORBIDDEN])
    assert await scene.write(a_write("a", version="3"))


@pytest.mark.parametrize("outcome", LeverWriteOutcome)
async def test_who_rests_because_of_a_refusal_is_told_apart(outcome: LeverWriteOutcome) -> None:
    scene = Scene()
    scene.writer.ends["p"] = outcome
    await scene.write(a_release("p"))
    may_be_done = outcome not in (LeverWriteOutcome.FORBIDDEN, LeverWriteOutcome.INVALID, LeverWriteOutcome.WEBHOOK)
    assert scene.writes.refused == (set() if may_be_done else {("Pod", ObjectKey("team", "p"))})
    await asyncio.sleep(60)
    assert not scene.writes.refused


@pytest.mark.parametrize("outcome", [LeverWriteOutcome.CONFLICT, LeverWriteOutcome.GONE])
async def test_somebody_who_was_faster_is_no_problem(outcome: LeverWriteOutcome) -> None:
    scene = Scene()
    scene.writer.ends["a"] = outcome
    await scene.write(a_write("a"))
    assert scene.status_writer.problems[-1] == ""
    for _ in range(10):
        assert not await scene.write(a_write("a")), "the watch is behind, and the same would be refused again"
        await asyncio.sleep(1)
    assert await scene.write(a_write("a", version="2"))


async def test_a_ceiling_waits_for_no_other_that_gets_no_answer() -> None:
    """The server, or a webhook on one NodePool, may take 20 s until the client gives up; the others go on meanwhile."""
    scene = Scene()
    scene.status_writer.is_due = True
    scene.writer.hanging["a"] = 20.0
    assert not scene.start(a_write("a"), a_write("b"))
    await asyncio.sleep(1)
    assert scene.start(a_write("a", note="again"), a_write("b", version="2", note="lowered")) == {
        ("NodePool", ObjectKey("", "a"))
    }
    await asyncio.sleep(1)
    assert scene.writer.sent == [("b", ""), ("b", "lowered")]
    assert scene.status_writer.statuses == 1, "the user is told meanwhile"
    await scene.writes.drain(60)
    assert scene.writer.sent[2:] == [("a", "")], "one write of an object at a time"


async def test_a_turn_whose_write_ends_late_tells_nothing_after_a_newer_one() -> None:
    scene = Scene()
    scene.status_writer.is_due = True
    scene.writer.hanging["a"] = 20.0
    old, new = a_turn(a_write("a")), a_turn()
    new = replace(new, stored=a_throttle("default", paused=True))
    scene.writes.start(old.name, old.lever_writes, old)
    await asyncio.sleep(1)
    scene.writes.start(new.name, new.lever_writes, new)
    await scene.writes.drain(60)
    assert scene.status_writer.told == [new.stored]
    scene.writes.forget(())
    assert not scene.writes._newest


async def test_a_ceiling_waits_for_no_release_of_the_same_turn_or_of_one_before() -> None:
    scene = Scene()
    scene.writer.takes_s = 1.0
    assert not scene.start(*(a_release(f"p{number}") for number in range(10 * AT_ONCE)), a_write("a"))
    await asyncio.sleep(1.1)
    assert ("a", "") in scene.writer.sent
    assert not scene.start(a_write("a", version="2", note="raised")), "ceilings are planned on"
    await asyncio.sleep(1.1)
    assert ("a", "raised") in scene.writer.sent
    assert len(scene.writer.sent) < 10 * AT_ONCE
    await scene.writes.drain(60)


async def test_a_node_waits_for_no_pod_that_is_let_go() -> None:
    """Thousands of pods take ten minutes at five calls a second: a node that keeps its taint for so long is lost."""
    scene = Scene()
    scene.writer.takes_s = 1.0
    pods = [a_release(f"pod-{at}") for at in range(10 * AT_ONCE)]
    scene.start(*pods)
    node = replace(a_release("node"), kind="Node", key=ObjectKey("", "node"))
    scene.start(*pods, node)
    await asyncio.sleep(1.5)
    assert ("node", "gate") in scene.writer.sent
    await asyncio.sleep(10)
    assert len(scene.writer.sent) == len(pods) + 1


async def test_pods_of_one_throttle_do_not_wait_for_all_of_another() -> None:
    scene = Scene()
    scene.writer.takes_s = 1.0
    scene.start(*(a_release(f"pod-{at}") for at in range(10 * AT_ONCE)))
    scene.writes.start("other", [a_release("other")])
    await asyncio.sleep(2.5)
    assert ("other", "gate") in scene.writer.sent
    await scene.writes.drain(60)


async def test_releases_that_were_not_begun_are_taken_back() -> None:
    scene = Scene()
    scene.writer.takes_s = 1.0
    node = replace(a_release("node"), kind="Node", key=ObjectKey("", "node"))
    nodes = [replace(node, key=ObjectKey("", f"node-{at}")) for at in range(2 * AT_ONCE)]
    scene.start(*(a_release(f"pod-{at}") for at in range(AT_ONCE + 2)), *nodes)
    taken_back = {"default": [ObjectKey("team", f"pod-{at}") for at in range(AT_ONCE, AT_ONCE + 2)]}
    assert scene.writes.take_back() == taken_back, "no decision on nodes is remembered"
    await asyncio.sleep(10)
    assert len(scene.writer.sent) == 2 * AT_ONCE
    assert scene.writes.take_back() == {}


async def test_a_stop_waits_for_no_release_that_was_not_begun() -> None:
    scene = Scene()
    scene.writer.takes_s = 1.0
    scene.start(*(a_release(f"pod-{at}") for at in range(10 * AT_ONCE)))
    await scene.writes.drain(60)
    assert len(scene.writer.sent) == AT_ONCE


async def test_a_ceiling_waits_for_no_status_and_no_event() -> None:
    """A busy server takes its time for each of them, and it is the one that a lower ceiling is to spare."""
    scene = Scene()
    scene.status_writer.takes_s = 60.0
    assert not scene.start(a_write("a"))
    await asyncio.sleep(1)
    assert not scene.start(a_write("a", version="2", note="lowered"))
    await asyncio.sleep(1)
    assert scene.writer.sent == [("a", ""), ("a", "lowered")]
    await scene.writes.drain(100)
    assert scene.status_writer.statuses == 1, "one at a time"


async def test_what_could_not_be_released_is_told_with_the_next_turn() -> None:
    scene = Scene()
    scene.writer.ends["p"] = LeverWriteOutcome.FORBIDDEN
    await scene.write(a_release("p"))
    scene.start()
    assert scene.status_writer.problems[-1] == "Pod team/p: no p"


@pytest.mark.parametrize("write", [a_write("a"), a_release("a")])
async def test_what_could_not_be_written_is_told_until_it_is_or_is_not_tried_any_more(write: LeverWrite) -> None:
    """Else the condition Ready would go to and fro while figures change and the object rests."""
    scene = Scene()
    scene.status_writer.is_due = True
    scene.writer.ends["a"] = LeverWriteOutcome.FORBIDDEN
    for _ in range(20):
        await scene.write(write)
        await asyncio.sleep(5)
    assert set(scene.status_writer.problems[2:]) == {f"{write.kind} {write.key}: no a"}
    scene.writer.ends.clear()
    await asyncio.sleep(RESTS_S[LeverWriteOutcome.FORBIDDEN])
    assert await scene.write(write)
    await scene.write(write)
    assert scene.status_writer.problems[-1] == ""
    scene.writer.ends["b"] = LeverWriteOutcome.WEBHOOK
    await scene.write(a_write("b"))
    assert scene.status_writer.problems[-1] == "NodePool b: no b"
    await asyncio.sleep(TOLD_S)
    await scene.write()
    assert scene.status_writer.problems[-1] == ""


async def test_what_takes_too_long_is_cancelled_on_a_stop() -> None:
    scene = Scene()
    scene.writer.takes_s = 1e6
    scene.start(a_write("a"))
    started_at = asyncio.get_running_loop().time()
    await scene.writes.drain(3)
    assert asyncio.get_running_loop().time() - started_at <= 3.1


async def test_a_dry_run_writes_nothing() -> None:
    scene = Scene(is_dry_run=True)
    assert not await scene.write(a_write("a"))
    assert scene.status_writer.statuses == 0


async def test_writes_are_counted() -> None:
    scene = Scene()
    await scene.write(a_write("a"))
    labels = {"kind": "NodePool", "outcome": "done"}
    assert scene.metrics.registry.get_sample_value("kube_balloons_throttle_lever_writes_total", labels) == 1


async def test_the_version_that_was_decided_on_is_found_in_every_kind_of_write() -> None:
    patch = [{"op": "replace", "path": "/metadata/resourceVersion", "value": "9"}]
    write = a_write("a")
    assert version_of(write) == "1"
    json_write = LeverWrite(
        api_version="v1", kind="Pod", key=write.key, how=How.JSON, body=patch, because=write.because
    )
    assert version_of(json_write) == "9"
