"""Status: what kstatus makes of it, when it is written, and that no long text costs the whole of it."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus, ZoneStatus
from balloons.decide.plan import PoolDecision, Reason, because
from balloons.service.standing import HOLDS, Standing, standing
from balloons.service.status import next_status, status_manifest
from balloons.view.snapshot import RefusedPool
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.selectors import LabelSelector

WALL = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
LATER = WALL + timedelta(minutes=5)
KEY = ObjectKey("ns", "gpu")
STEADY = because(Reason.STEADY, warm=3, target=3)
WARMING = because(Reason.WARMING, warm=1, target=3, pending=2)
PAUSED = because(Reason.PAUSED)
NO_BUFFERS = because(Reason.NO_BUFFERS)
BLIND = because(Reason.INCOMPLETE_VIEW, missing="nodes")


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
    ],
)
def test_conditions_say_what_kstatus_reads(why: object, expected: dict[str, str]) -> None:
    assert conditions(next_status(stored(), decision(why), "", WALL)) == expected


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


def test_status_belongs_to_the_generation_that_is_stored() -> None:
    status = next_status(stored(), decision(observed_generation=3), "", WALL)
    assert status is not None
    assert status.observed_generation == 7
    assert {c.observed_generation for c in status.conditions} == {7}


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
    body = status_manifest(stored(), status)
    assert body["metadata"] == {"name": "gpu", "namespace": "ns", "uid": "u1"}
    assert body["status"]["warm"] == 3
    assert body["status"]["observedGeneration"] == 7
    assert msgspec.convert(body["status"], PoolStatus) == status


def test_every_hold_is_a_reason_and_nothing_settled_is_stuck() -> None:
    assert set(Reason) >= HOLDS
    assert {standing(reason) for reason in Reason} == set(Standing)
    assert all(reason in HOLDS for reason in Reason if standing(reason) in (Standing.STUCK, Standing.BLIND))
