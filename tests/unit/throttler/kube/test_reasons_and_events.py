"""Conditions and Events as the API takes them: no field too long, no time that moves without reason, no flood."""

import enum
from datetime import UTC, datetime

from throttler.kube.metadata import Condition, Metadata
from throttler.kube.reasons_and_events import (
    EVENT_PERIOD_S,
    EVENTS_PER_MIN,
    Because,
    EventAuthor,
    EventLimit,
    Sentence,
    conditions_since,
)

WALL = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EARLIER = "2026-11-20T00:00:00Z"


@enum.unique
class Said(Sentence):
    """One reason, with a text of any length."""

    LONG_WORDS = "{text}"


def author(instance: str = "replica-1") -> EventAuthor:
    return EventAuthor(controller="kube-balloons", instance=instance, action="Pace", api_version="v1", kind="Thing")


def condition(status: str, message: str = "", since: str = "") -> Condition:
    return Condition(type="Ready", status=status, reason="R", message=message, last_transition_time=since)


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    stored = [condition("True", since=EARLIER)]
    (same,) = conditions_since(stored, [condition("True")], WALL, 7)
    (other,) = conditions_since(stored, [condition("False")], WALL, 7)
    assert (same.last_transition_time, same.observed_generation) == (EARLIER, 7)
    assert other.last_transition_time == "2026-11-21T12:00:00Z"


def test_a_condition_is_cut_to_what_the_crd_takes() -> None:
    for length in (1024, 1025):
        (told,) = conditions_since((), [condition("True", "x" * length)], WALL, 1)
        assert len(told.message) == 1024


def test_an_event_is_cut_to_what_the_api_takes() -> None:
    about = Metadata("x" * 253, "")
    told = author("y" * 129).event(about, Because(Said.LONG_WORDS, {"text": "z" * 1001}), WALL, is_warning=True)
    assert (len(told["reportingInstance"]), len(told["note"])) == (128, 1000)
    assert told["metadata"] == {"generateName": "x" * 200 + "-", "namespace": "default"}
    assert (told["reason"], told["type"], told["eventTime"]) == ("LongWords", "Warning", "2026-11-21T12:00:00.000000Z")
    assert "namespace" not in told["regarding"]


def test_a_note_is_cut_by_what_the_api_counts_and_between_two_letters() -> None:
    """A webhook may say why in any language."""
    told = author().event(Metadata("gpu"), Because(Said.LONG_WORDS, {"text": "拒否" * 500}), WALL, is_warning=True)
    assert told["note"] == ("拒否" * 500)[:333]


def test_an_event_is_where_its_object_is() -> None:
    told = author().event(Metadata("gpu", "team"), Because(Said.LONG_WORDS, {"text": "t"}), WALL, is_warning=False)
    assert (told["metadata"]["namespace"], told["regarding"]["namespace"], told["type"]) == ("team", "team", "Normal")
    assert (told["reportingInstance"], told["note"]) == ("replica-1", "t")


def test_the_same_is_told_once_a_minute_and_all_together_thirty_times() -> None:
    limit = EventLimit()
    assert limit.may_tell("a", 0.0)
    assert not limit.may_tell("a", EVENT_PERIOD_S - 0.1)
    assert limit.may_tell("a", EVENT_PERIOD_S)
    told = [limit.may_tell(number, EVENT_PERIOD_S) for number in range(EVENTS_PER_MIN)]
    assert told.count(True) == EVENTS_PER_MIN - 1 == 29
    assert not limit.may_tell("more", 2 * EVENT_PERIOD_S - 0.1)
    assert limit.may_tell("more", 2 * EVENT_PERIOD_S)
