"""Events about throttles: news only, and never a flood."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.api.throttle import LeverStatus, ThrottleStatus
from throttler.kube.reasons_and_events import EVENTS_PER_MIN, Because, because
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.levers.lever_and_reasons import LeverDecision, LeverReason, LeverState
from throttler.service.decide_throttles import Findings, Turn
from throttler.service.throttle_status import ThrottleAnnouncer

WALL = datetime(2026, 11, 21, 12, tzinfo=UTC)
IDLE = because(ThrottleReason.IDLE)
ERRORS = because(ThrottleReason.ERRORS, server="a", share=0.1, window=8.0)
STARTING = because(ThrottleReason.STARTING, window=8.0)
LOST = LeverDecision(name="CapacityQuota/q", state=LeverState.LOST, because=because(LeverReason.QUOTA_LOST))


def a_turn(why: Because, phase: Phase, *levers: LeverDecision, name: str = "default") -> Turn:
    verdict = Verdict(phase=phase, window=8.0, admit=0, allowance=0, pace_per_min=1.0, because=why)
    return Turn(stored=a_throttle(name), findings=Findings(now_s=0.0, verdict=verdict, levers=levers))


def reasons(events: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(event["reason"], event["type"]) for event in events]


def test_a_phase_that_changes_is_told_once() -> None:
    announcer, stored = ThrottleAnnouncer("me"), ThrottleStatus(phase="Idle")
    assert announcer.due(a_turn(IDLE, Phase.IDLE), stored, 0.0, WALL) == []
    told = announcer.due(a_turn(STARTING, Phase.SLOW_START), stored, 1.0, WALL)
    assert reasons(told) == [("Starting", "Normal")]
    assert announcer.due(a_turn(STARTING, Phase.SLOW_START), stored, 2.0, WALL) == []
    assert told[0]["metadata"]["namespace"] == "default"


def test_nothing_is_told_of_a_pace_that_nobody_keeps() -> None:
    turn = a_turn(ERRORS, Phase.BRAKE)
    paused = replace(turn, stored=a_throttle(paused=True))
    assert ThrottleAnnouncer("me").due(paused, ThrottleStatus(phase="Paused"), 0.0, WALL) == []


def test_what_is_wrong_is_told_again_after_a_minute_and_not_before() -> None:
    announcer, stored = ThrottleAnnouncer("me"), ThrottleStatus(phase="Brake")
    turn = a_turn(ERRORS, Phase.BRAKE)
    told = [reasons(announcer.due(turn, stored, at_s, WALL)) for at_s in (0.0, 30.0, 61.0)]
    assert told == [[("Errors", "Warning")], [], [("Errors", "Warning")]]


def test_a_lever_that_breaks_is_told_and_one_that_an_earlier_process_told_is_not() -> None:
    turn = a_turn(IDLE, Phase.IDLE, LOST)
    assert reasons(ThrottleAnnouncer("me").due(turn, ThrottleStatus(phase="Idle"), 0.0, WALL)) == [
        ("QuotaLost", "Warning")
    ]
    stored = msgspec.structs.replace(
        ThrottleStatus(phase="Idle"), levers=(LeverStatus(name=LOST.name, state=LOST.state.value),)
    )
    assert ThrottleAnnouncer("me").due(turn, stored, 0.0, WALL) == []


def test_a_broken_lever_is_told_once_and_one_that_is_in_force_never() -> None:
    announcer, stored = ThrottleAnnouncer("me"), ThrottleStatus(phase="Idle")
    turn = a_turn(IDLE, Phase.IDLE, LOST, replace(LOST, name="NodePool/a", state=LeverState.CONFIRMED))
    (told,) = announcer.due(turn, stored, 0.0, WALL)
    assert told["note"].startswith("CapacityQuota/q: somebody deleted the quota")
    assert announcer.due(turn, stored, 100.0, WALL) == []


@pytest.mark.parametrize(("known", "told"), [((), ["Starting", "QuotaLost"]), (("default",), [])])
def test_a_throttle_that_is_gone_is_forgotten_and_no_other(known: tuple[str, ...], told: list[str]) -> None:
    announcer, stored = ThrottleAnnouncer("me"), ThrottleStatus(phase="Idle")
    turn = a_turn(STARTING, Phase.SLOW_START, LOST)
    announcer.due(turn, stored, 0.0, WALL)
    announcer.forget(known)
    assert [event["reason"] for event in announcer.due(turn, stored, 100.0, WALL)] == told


def test_levers_that_break_together_are_told_together_and_by_name() -> None:
    """Nobody knew which of fifty NodePools somebody else writes."""
    contested = because(LeverReason.CONTESTED, period=30)
    pools = (LeverDecision(name=f"NodePool/{at}", state=LeverState.CONTESTED, because=contested) for at in "ab")
    told = ThrottleAnnouncer("me").due(a_turn(IDLE, Phase.IDLE, *pools, LOST), ThrottleStatus(phase="Idle"), 0.0, WALL)
    assert reasons(told) == [("Contested", "Warning"), ("QuotaLost", "Warning")]
    assert told[0]["note"].startswith("NodePool/a, NodePool/b: somebody else writes")
    assert told[1]["note"].startswith("CapacityQuota/q: somebody deleted the quota")


def test_many_throttles_do_not_make_a_flood() -> None:
    announcer = ThrottleAnnouncer("me")
    told = [
        event
        for i in range(200)
        for event in announcer.due(a_turn(ERRORS, Phase.BRAKE, name=f"t{i}"), ThrottleStatus(), 0.0, WALL)
    ]
    assert len(told) == EVENTS_PER_MIN
