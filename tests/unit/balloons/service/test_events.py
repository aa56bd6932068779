"""Events: on change, never twice a minute for the same thing, never many."""

from datetime import UTC, datetime

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.decide.plan import Because, PoolDecision, Reason, because
from balloons.service.events import Announcer
from throttler.kube.because import EVENTS_PER_MIN
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.selectors import LabelSelector

WALL = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
STEADY = because(Reason.STEADY, warm=3, target=3)
PAUSED = because(Reason.PAUSED)
CONFLICT = because(Reason.CONFLICT, nodes=2, other="ns/old")


def pool(name: str = "gpu", told: str = "") -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD)
    return BalloonPool(Metadata(name, "ns", uid=name), spec, PoolStatus(because=told))


def due(
    announcer: Announcer, why: Because, at_s: float, notes: tuple[Because, ...] = (), told: str = "", name: str = "gpu"
) -> list[str]:
    decision = PoolDecision(ObjectKey("ns", name), why, PoolStatus(), (), notes)
    return [event["reason"] for event in announcer.due(pool(name, told), decision, at_s, WALL)]


def test_change_is_told_once() -> None:
    announcer = Announcer("me")
    assert due(announcer, STEADY, 0) == ["Steady"]
    assert due(announcer, STEADY, 100) == []
    assert due(announcer, PAUSED, 101) == ["Paused"]


def test_restart_repeats_nothing() -> None:
    assert due(Announcer("me"), STEADY, 0, told="Steady") == []


def test_reason_that_flaps_is_told_once_a_minute() -> None:
    announcer = Announcer("me")
    told = [due(announcer, why, at_s) for at_s, why in enumerate([STEADY, PAUSED] * 30)]
    assert sum(map(len, told)) == 2
    assert due(announcer, STEADY, 61) == ["Steady"]


def test_many_pools_do_not_flood() -> None:
    announcer = Announcer("me")
    told = [due(announcer, STEADY, 0, name=f"pool-{i}") for i in range(1000)]
    assert sum(map(len, told)) == EVENTS_PER_MIN
    assert due(announcer, PAUSED, 60, name="pool-0") == ["Paused"]


def test_note_is_told_when_it_appears() -> None:
    announcer = Announcer("me")
    assert due(announcer, STEADY, 0, (CONFLICT,), told="Steady") == ["Conflict"]
    assert due(announcer, STEADY, 100, (CONFLICT,)) == []
    assert due(announcer, STEADY, 101) == []
    assert due(announcer, STEADY, 200, (CONFLICT,)) == ["Conflict"]


def test_forgotten_pool_is_new_again() -> None:
    announcer = Announcer("me")
    due(announcer, STEADY, 0)
    announcer.forget(set())
    assert due(announcer, STEADY, 101) == ["Steady"]


def test_event_has_what_the_api_asks_for() -> None:
    decision = PoolDecision(ObjectKey("ns", "gpu"), CONFLICT, PoolStatus())
    (event,) = Announcer("me").due(pool("a" * 199 + "-.b"), decision, 0, WALL)
    assert event["type"] == "Warning"
    assert event["metadata"]["generateName"] == "a" * 199 + "-"
    assert event["eventTime"] == "2026-11-21T05:00:00.000000Z"
    assert event["note"] == "2 nodes also match ns/old, which keeps them"
    assert event["regarding"]["kind"] == "BalloonPool"
    assert event["action"]
    assert event["reportingController"]
    assert event["reportingInstance"] == "me"
