"""The judge of takeovers must itself be judged: it refuses histories in which two write."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.takeover.judge import AuditTail, Write, second_writers, tenures, write_in
from benchmarks.takeover.trial import Fault, faults


def lease(who: str, at_s: float, *, is_done: bool = True) -> Write:
    return Write(who=who, what="leases", received_s=at_s - 0.1, done_s=at_s, is_done=is_done)


def write(who: str, at_s: float, *, took_s: float = 0.1) -> Write:
    return Write(who=who, what="deployments", received_s=at_s, done_s=at_s + took_s, is_done=True)


GOOD = [lease("a", 1), write("a", 2), lease("a", 3), write("a", 4), lease("b", 20), write("b", 21), lease("b", 22)]


def test_one_after_the_other_is_well() -> None:
    assert second_writers(GOOD) == []
    assert [(each.who, each.since_s, each.first_write_s) for each in tenures(GOOD)] == [("a", 1, 2.1), ("b", 20, 21.1)]


@pytest.mark.parametrize(
    "wrong",
    [write("a", 20.5), write("a", 30), write("b", 5)],
    ids=["late", "long after", "before its turn"],
)
def test_a_write_in_anothers_tenure_is_found(wrong: Write) -> None:
    assert second_writers([*GOOD, wrong]) == [wrong]


def test_a_write_that_was_refused_counts_as_well() -> None:
    wrong = Write(who="a", what="deployments", received_s=25, done_s=25.1, is_done=False)
    assert second_writers([*GOOD, wrong]) == [wrong]


def test_a_lease_that_was_refused_begins_no_tenure() -> None:
    assert [each.who for each in tenures([lease("a", 1), lease("b", 2, is_done=False), write("a", 3)])] == ["a"]


def test_the_way_back_is_a_tenure_of_its_own() -> None:
    back = [*GOOD, lease("a", 40), write("a", 41)]
    assert second_writers(back) == []
    assert [each.who for each in tenures(back)] == ["a", "b", "a"]


def event(verb: str = "patch", user: str = "a", stage: str = "ResponseComplete", **about: str) -> dict[str, Any]:
    return {
        "verb": verb,
        "stage": stage,
        "user": {"username": user},
        "objectRef": about or {"resource": "balloonpools", "subresource": "status"},
        "requestReceivedTimestamp": "2026-01-01T00:00:01.500000Z",
        "stageTimestamp": "2026-01-01T00:00:02.000000Z",
        "responseStatus": {"code": 200},
    }


def test_events_are_read_as_writes() -> None:
    found = write_in(event(), ("a", "b"))
    assert found is not None
    assert (found.who, found.what, found.done_s - found.received_s, found.is_done) == (
        "a",
        "balloonpools/status",
        0.5,
        True,
    )
    assert write_in(event("get"), ("a",)) is None
    assert write_in(event(user="c"), ("a",)) is None


def test_every_fault_has_its_turn() -> None:
    given = list(faults(6))
    assert [given.count(fault) for fault in Fault] == [2, 2, 2, 2]


def test_the_log_is_read_on_where_it_ended_and_others_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    ours, theirs = (json.dumps(event(user=user), separators=(",", ":")) for user in ("a", "c"))
    log.write_text(f"{ours}\n{theirs}\n{ours[:40]}")
    tail = AuditTail(log, ("a", "b"))
    assert [write.who for write in tail.read()] == ["a"]
    with log.open("a") as file:
        file.write(f"{ours[40:]}\n{ours}\n")
    assert [write.who for write in tail.read()] == ["a", "a", "a"]
    assert len(tail.read()) == 3
