"""When a throttle's status is written: news at once, figures now and then, and never twice the same."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.api.throttle import JoinThrottle
from throttler.joins.joins import Joins
from throttler.kube.errors import ForbiddenError
from throttler.kube.kube_client import KubeClient
from throttler.kube.reasons_and_events import EVENT_PERIOD_S, because
from throttler.kube.write_queue_and_status import LATE_S
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.levers.lever_and_reasons import LeverDecision, LeverState
from throttler.service.decide_throttles import Findings, Turn
from throttler.service.throttle_status import ThrottleAnnouncer
from throttler.service.throttle_write_queue import COUNTS_PERIOD_S, FAILED_REST_S, ThrottleStatusWriter

pytestmark = pytest.mark.virtual_time


class FakeClient:
    """Stores what is applied, and answers with the next version."""

    def __init__(self) -> None:
        self.throttle = a_throttle()
        self.writes = 0
        self.events: list[Any] = []
        self.fault: Exception | None = None
        self.is_seen = True
        self.of_others: list[dict[str, str]] = []
        """Conditions that another manager owns: an apply leaves them there."""

    async def apply(self, resource: Any, body: Any, name: str, namespace: str | None, **options: Any) -> bytes:
        if self.fault:
            raise self.fault
        self.writes += 1
        version = str(100 + self.writes)
        if self.is_seen:
            conditions = [*body["status"]["conditions"], *self.of_others]
            kept = {**msgspec.to_builtins(self.throttle), "status": {**body["status"], "conditions": conditions}}
            kept["metadata"]["resourceVersion"] = version
            self.throttle = msgspec.convert(kept, JoinThrottle)
        return msgspec.json.encode({"metadata": {"resourceVersion": version}})

    async def create(self, resource: Any, body: Any, namespace: str) -> bytes:
        self.events.append(body)
        return b"{}"

    def now_s(self) -> float:
        return 1.7e9


class Scene:
    def __init__(self) -> None:
        self.client = FakeClient()
        clock = asyncio.get_running_loop().time
        self.status_writer = ThrottleStatusWriter(cast(KubeClient, self.client), ThrottleAnnouncer("me"), clock)

    async def tell(
        self, waiting: int, phase: Phase = Phase.SLOW_START, problem: str = "", lever: LeverState = LeverState.CONFIRMED
    ) -> int:
        """One turn; returns how many status writes there were in all."""
        why = because(ThrottleReason.STARTING, window=8.0)
        verdict = Verdict(phase=phase, window=8.0, admit=0, allowance=0, pace_per_min=1.0, because=why)
        decision = LeverDecision(name="NodePool/a", state=lever, because=why)
        findings = Findings(now_s=0.0, verdict=verdict, joins=Joins(waiting=waiting), levers=(decision,))
        turn = Turn(stored=self.client.throttle, findings=findings)
        await self.status_writer.write(turn, self.status_writer.due(turn, problem))
        return self.client.writes


async def test_what_is_told_has_the_date_of_the_api_servers() -> None:
    """What was learned is dated by the clock that ages it; Events of one that is ahead were of the future."""
    scene = Scene()
    await scene.tell(5, Phase.BRAKE)
    assert {c.last_transition_time for c in scene.client.throttle.status.conditions} == {"2023-11-14T22:13:20Z"}
    assert {event["eventTime"] for event in scene.client.events} == {"2023-11-14T22:13:20.000000Z"}


async def test_what_the_status_says_already_is_not_written_again() -> None:
    scene = Scene()
    assert await scene.tell(5) == 1
    await asyncio.sleep(60)
    assert await scene.tell(5) == 1


async def test_figures_are_written_now_and_then_and_news_at_once() -> None:
    scene = Scene()
    await scene.tell(5)
    assert await scene.tell(6) == 1
    assert await scene.tell(6, Phase.BRAKE) == 2
    await asyncio.sleep(COUNTS_PERIOD_S)
    assert await scene.tell(7, Phase.BRAKE) == 3
    assert scene.client.throttle.status.waiting == 7


async def test_a_condition_of_somebody_else_is_no_reason_to_write() -> None:
    scene = Scene()
    scene.client.of_others = [{"type": "Audited", "status": "True", "reason": "Yes", "message": "by somebody"}]
    assert await scene.tell(5) == 1
    await asyncio.sleep(60)
    assert await scene.tell(5) == 1
    assert await scene.tell(6) == 2
    assert await scene.tell(7) == 2, "figures go out now and then"
    assert await scene.tell(7, Phase.BRAKE) == 3
    scene.client.throttle = msgspec.structs.replace(
        scene.client.throttle,
        metadata=msgspec.structs.replace(scene.client.throttle.metadata, resource_version="200"),
        status=msgspec.structs.replace(scene.client.throttle.status, phase="Idle"),
    )
    assert await scene.tell(7, Phase.BRAKE) == 4, "somebody changed ours"


async def test_a_ceiling_that_moves_is_no_news_until_somebody_does_not_follow() -> None:
    scene = Scene()
    await scene.tell(5)
    assert await scene.tell(4, lever=LeverState.PENDING) == 1
    assert await scene.tell(4, lever=LeverState.UNCONFIRMED) == 2


async def test_a_status_that_the_cache_does_not_show_yet_is_not_written_again() -> None:
    scene = Scene()
    scene.client.is_seen = False
    await scene.tell(5)
    await asyncio.sleep(COUNTS_PERIOD_S)
    assert await scene.tell(6, Phase.BRAKE) == 1


async def test_a_status_that_the_cache_never_shows_does_not_stop_all_later_ones() -> None:
    """etcd was restored from a backup: the versions of now are lower than that of our last write."""
    scene = Scene()
    await scene.tell(5)
    scene.client.throttle = a_throttle()
    await asyncio.sleep(LATE_S - 1)
    assert await scene.tell(6, Phase.BRAKE) == 1
    await asyncio.sleep(1)
    assert await scene.tell(6, Phase.BRAKE) == 2


async def test_after_a_refusal_there_is_a_rest() -> None:
    scene = Scene()
    scene.client.fault = ForbiddenError("may not patch jointhrottles/status", status=403)
    await scene.tell(5)
    scene.client.fault = None
    assert await scene.tell(5) == 0
    await asyncio.sleep(FAILED_REST_S)
    assert await scene.tell(5) == 1


async def test_an_answer_that_is_no_object_is_a_failure_to_rest_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a proxy's page to sign in: it was sent again at every tick."""
    scene = Scene()

    async def sign_in(*args: Any, **options: Any) -> bytes:
        return b"<html>Sign in</html>"

    with monkeypatch.context() as proxy:
        proxy.setattr(scene.client, "apply", sign_in)
        await scene.tell(5)
    assert await scene.tell(5) == 0
    await asyncio.sleep(FAILED_REST_S)
    assert await scene.tell(5) == 1


async def test_what_went_wrong_when_a_lever_was_written_is_told() -> None:
    scene = Scene()
    await scene.tell(5, problem="NodePool a: forbidden")
    assert {c.reason for c in scene.client.throttle.status.conditions if c.type == "Stalled"} == {"WriteFailed"}


async def test_a_new_phase_is_announced() -> None:
    scene = Scene()
    await scene.tell(5)
    assert [event["reason"] for event in scene.client.events] == ["Starting"]


async def test_a_throttle_that_was_deleted_and_made_anew_is_told_like_any_other() -> None:
    scene = Scene()
    await scene.tell(5, lever=LeverState.REFUSED)
    before = len(scene.client.events)
    scene.status_writer.forget({"another"})
    scene.client.throttle = a_throttle()
    await asyncio.sleep(EVENT_PERIOD_S)
    await scene.tell(5, lever=LeverState.REFUSED)
    assert [event["reason"] for event in scene.client.events] == 2 * [e["reason"] for e in scene.client.events[:before]]


async def test_what_was_told_of_a_throttle_that_is_still_there_is_remembered() -> None:
    scene = Scene()
    await scene.tell(5)
    scene.status_writer.forget({scene.client.throttle.metadata.name})
    scene.client.throttle = a_throttle()
    await asyncio.sleep(EVENT_PERIOD_S)
    await scene.tell(5)
    assert len(scene.client.events) == 1


async def test_the_rest_after_a_refusal_ends_with_the_throttle() -> None:
    scene = Scene()
    scene.client.fault = ForbiddenError("may not patch jointhrottles/status", status=403)
    await scene.tell(5)
    scene.client.fault = None
    scene.status_writer.forget(())
    assert await scene.tell(5) == 1
