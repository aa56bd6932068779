"""A pool's status and its Events.

Status: what kstatus makes of it, when it is written, and that no long text costs the whole of it. Events: on change,
never twice a minute for the same thing, never many.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus, ZoneStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.service.pool_status_and_events import HELD_UP, Announcer, Standing, next_status, standing
from balloons.service.watched_kinds import POOLS
from balloons.view.index_and_snapshot import RefusedPool
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.reasons_and_events import EVENTS_PER_MIN, Because, because
from throttler.kube.selectors import LabelSelector
from throttler.kube.write_queue_and_status import status_manifest

WALL = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
LATER = WALL + timedelta(minutes=5)
KEY = ObjectKey("ns", "gpu")
STEADY = because(Reason.STEADY, warm=3, target=3)
WARMING = because(Reason.WARMING, warm=1, target=3, pending=2)
PAUSED = because(Reason.PAUSED)
NO_BUFFERS = because(Reason.NO_BUFFERS)
BLIND = because(Reason.INCOMPLETE_VIEW, missing="nodes")
CONFLICT = because(Reason.CONFLICT, nodes=2, other="ns/old")


def stored(status: PoolStatus | None = None) -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD)
    return BalloonPool(Metadata("gpu", "ns", uid="u1", generation=7), spec, status or PoolStatus())


def decision(why: object = STEADY, **counts: object) -> PoolDecision:
    return PoolDecision(KEY, why, PoolStatus(**counts))  # type: ignore[arg-type]


def conditions(status: PoolStatus | None) -> dict[str, str]:
    assert status is not None
    return {each.type: each.status for each in status.conditions}


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        (STEADY, {"Ready": "True"}),
        (PAUSED, {"Ready": "True"}),
        (WARMING, {"Ready": "False", "Reconciling": "True"}),
        (NO_BUFFERS, {"Ready": "False", "Stalled": "True"}),
        (BLIND, {"Ready": "Unknown", "Reconciling": "True"}),
        (because(Reason.FAILED, error="KeyError: 'x'"), {"Ready": "False", "Stalled": "True"}),
    ],
)
def test_conditions_say_what_kstatus_reads(why: object, expected: dict[str, str]) -> None:
    assert conditions(next_status(stored(), decision(why), "", WALL)) == expected


def test_a_dry_run_is_not_on_its_way_to_anything() -> None:
    """Whoever waited for it to be Ready waited for ever."""
    moving, stuck = (replace(decision(why), is_dry_run=True) for why in (WARMING, NO_BUFFERS))
    assert conditions(next_status(stored(), moving, "", WALL)) == {"Ready": "True"}
    assert conditions(next_status(stored(), stuck, "", WALL)) == {"Ready": "False", "Stalled": "True"}


def test_who_edits_a_pool_on_and_on_that_is_not_served_makes_us_write_once() -> None:
    away = decision(because(Reason.BOUND, bound="maxSize", message="maxSize is 90; accepted: up to 9"))
    told = next_status(stored(), away, "", WALL)
    edited = msgspec.structs.replace(stored(told), metadata=Metadata("gpu", "ns", uid="u1", generation=8))
    assert told is not None
    assert next_status(edited, away, "", LATER) is None
    served = next_status(edited, decision(NO_BUFFERS), "", LATER)
    assert served is not None
    assert served.observed_generation == 8


def test_failed_write_stalls_the_pool_and_says_why() -> None:
    status = next_status(stored(), decision(), "could not apply: webhook x says no", WALL)
    assert conditions(status) == {"Ready": "False", "Stalled": "True"}
    assert status is not None
    assert {(c.reason, c.message) for c in status.conditions} == {("WriteFailed", "could not apply: webhook x says no")}


def test_unchanged_status_is_not_written_again() -> None:
    first = next_status(stored(), decision(warm=3), "", WALL)
    assert next_status(stored(first), decision(warm=3), "", LATER) is None


def test_transition_time_moves_only_with_the_condition() -> None:
    first = next_status(stored(), decision(warm=3), "", WALL)
    counted = next_status(stored(first), decision(warm=4), "", LATER)
    moving = next_status(stored(first), decision(WARMING), "", LATER)
    assert counted is not None
    assert moving is not None
    assert counted.conditions[0].last_transition_time == "2026-11-21T05:00:00Z"
    assert moving.conditions[0].last_transition_time == "2026-11-21T05:05:00Z"


@pytest.mark.parametrize(("decided_on", "told"), [(6, 6), (0, 7)], ids=["before an edit", "spec not looked at"])
def test_status_belongs_to_the_generation_that_was_decided_on(decided_on: int, told: int) -> None:
    """Whoever waits for a change to be Ready must not be told so of what was there before it."""
    status = next_status(stored(), decision(observed_generation=decided_on), "", WALL)
    assert status is not None
    assert status.observed_generation == told
    assert {c.observed_generation for c in status.conditions} == {told}


def test_refused_pool_keeps_its_figures() -> None:
    """Nothing of it has been counted; zeros would look as if its balloons were gone."""
    refused = RefusedPool(Metadata("gpu", "ns", generation=2), "size -1", PoolStatus(warm=5, target=5))
    status = next_status(refused, decision(because(Reason.INVALID, message="size -1")), "", WALL)
    assert status is not None
    assert (status.warm, status.because, status.message) == (5, "Invalid", "size -1")


def test_status_stays_within_what_the_api_takes() -> None:
    zones = tuple(ZoneStatus(f"z{i}", 1, 0, 1) for i in range(100))
    why = because(Reason.INVALID, message="x" * 5000)
    status = next_status(stored(), PoolDecision(KEY, STEADY, PoolStatus(zones=zones), (), (why,)), "", WALL)
    assert status is not None
    assert len(status.zones) == 64
    assert len(status.conditions[0].message) == 1024


def test_manifest_names_the_very_pool() -> None:
    status = next_status(stored(), decision(warm=3), "", WALL)
    assert status is not None
    body = status_manifest(POOLS, stored().metadata, status)
    assert body["metadata"] == {"name": "gpu", "namespace": "ns", "uid": "u1"}
    assert body["status"]["warm"] == 3
    assert body["status"]["observedGeneration"] == 7
    assert msgspec.convert(body["status"], PoolStatus) == status


def test_every_hold_is_a_reason_and_nothing_settled_is_stuck() -> None:
    assert set(Reason) >= HELD_UP
    assert {standing(reason) for reason in Reason} == set(Standing)
    assert all(reason in HELD_UP for reason in Reason if standing(reason) in (Standing.STUCK, Standing.BLIND))


def pool(name: str = "gpu", told: str = "") -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD)
    return BalloonPool(Metadata(name, "ns", uid=name), spec, PoolStatus(because=told))


def due(
    announcer: Announcer, why: Because, at_s: float, notes: tuple[Because, ...] = (), told: str = "", name: str = "gpu"
) -> list[str]:
    announcer.notice(pool(name, told), PoolDecision(ObjectKey("ns", name), why, PoolStatus(), (), notes), WALL)
    return [event["reason"] for _, event in announcer.due(at_s)]


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
    assert announcer.due(200) == []


def test_many_pools_do_not_flood() -> None:
    announcer = Announcer("me")
    told = [due(announcer, STEADY, 0, name=f"pool-{i}") for i in range(4 * EVENTS_PER_MIN)]
    assert sum(map(len, told)) == EVENTS_PER_MIN


def test_what_the_limit_held_back_is_told_later_and_warnings_first() -> None:
    announcer = Announcer("me")
    for i in range(EVENTS_PER_MIN):
        due(announcer, STEADY, 0, name=f"pool-{i}")
    assert due(announcer, PAUSED, 1, name="late") == []
    assert due(announcer, PAUSED, 2, (CONFLICT,), name="late") == []
    assert due(announcer, PAUSED, 3, name="late") == []
    assert [event["reason"] for _, event in announcer.due(60)] == ["Conflict", "Paused"]
    assert announcer.due(200) == []


def test_an_event_that_could_not_be_written_is_told_again_unless_there_is_a_newer_one() -> None:
    announcer = Announcer("me")
    announcer.notice(pool(), PoolDecision(KEY, CONFLICT, PoolStatus()), WALL)
    ((_, old),) = announcer.due(0)
    announcer.tell_again(KEY, old)
    assert announcer.due(59) == []
    assert announcer.due(60) == [(KEY, old)]
    announcer.notice(pool(), PoolDecision(KEY, PAUSED, PoolStatus()), WALL)
    announcer.notice(pool(), PoolDecision(KEY, CONFLICT, PoolStatus()), LATER)
    announcer.tell_again(KEY, old)
    assert [event["eventTime"][:16] for _, event in announcer.due(120)] == ["2026-11-21T05:05"]


def test_note_is_told_when_it_appears() -> None:
    announcer = Announcer("me")
    assert due(announcer, STEADY, 0, (CONFLICT,), told="Steady") == ["Conflict"]
    assert due(announcer, STEADY, 100, (CONFLICT,)) == []
    assert due(announcer, STEADY, 101) == []
    assert due(announcer, STEADY, 200, (CONFLICT,)) == ["Conflict"]


def test_pods_beside_a_balloon_are_in_the_condition_and_no_event() -> None:
    shared = because(Reason.SHARED_NODES, nodes=1, names="n1")
    assert due(Announcer("me"), STEADY, 0, (shared,), told="Steady") == []
    status = next_status(stored(), PoolDecision(KEY, STEADY, PoolStatus(), (), (shared,)), "", WALL)
    assert status is not None
    assert status.conditions[0].message.endswith("; 1 warm node runs other pods beside its balloon: n1")


def test_a_condition_says_once_what_is_both_the_reason_and_a_note() -> None:
    status = next_status(stored(), PoolDecision(KEY, CONFLICT, PoolStatus(), (), (CONFLICT, CONFLICT)), "", WALL)
    assert status is not None
    assert {condition.message for condition in status.conditions} == {CONFLICT.sentence}


def test_forgotten_pool_is_new_again() -> None:
    announcer = Announcer("me")
    due(announcer, STEADY, 0)
    due(announcer, PAUSED, 1)
    due(announcer, STEADY, 2)
    announcer.forget(set())
    assert announcer.due(100) == [], "nor is late news of it told"
    assert due(announcer, STEADY, 101) == ["Steady"]


def test_pool_that_stays_is_not_forgotten_with_others() -> None:
    announcer = Announcer("me")
    assert due(announcer, PAUSED, 0, (CONFLICT,)) == ["Conflict", "Paused"]
    due(announcer, STEADY, 1, (CONFLICT,))
    due(announcer, PAUSED, 2, (CONFLICT,))
    announcer.forget({KEY})
    assert [event["reason"] for _, event in announcer.due(100)] == ["Paused"]
    assert due(announcer, PAUSED, 200, (CONFLICT,)) == []


def test_event_has_what_the_api_asks_for() -> None:
    decision = PoolDecision(ObjectKey("ns", "gpu"), CONFLICT, PoolStatus())
    announcer = Announcer("me")
    announcer.notice(pool("a" * 199 + "-.b"), decision, WALL)
    ((key, event),) = announcer.due(0)
    assert key == ObjectKey("ns", "gpu")
    assert event["type"] == "Warning"
    assert event["metadata"]["generateName"] == "a" * 199 + "-"
    assert event["eventTime"] == "2026-11-21T05:00:00.000000Z"
    assert event["note"] == "2 nodes also match ns/old, which keeps them"
    assert event["regarding"]["kind"] == "BalloonPool"
    assert event["action"]
    assert event["reportingController"]
    assert event["reportingInstance"] == "me"
