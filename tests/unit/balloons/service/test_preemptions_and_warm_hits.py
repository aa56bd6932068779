"""How long real work waits for a balloon's node, and how often it finds one.

Preempt to bind: which pair of events counts, and for how long. Warm or cold: a pod that was seen to wait, and whether
its node was there before it.
"""

import msgspec
import pytest

from balloons.api.pool import PoolStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.service.metrics import Metrics
from balloons.service.preemptions_and_warm_hits import FORGET_S, Found, GaveWay, Leaving, Preemptions, Taken, found_by
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.reasons_and_events import because

BALLOON = Pod(ObjectKey("ns", "b"), "b", "1", "n1", -10, {}, PodKind.BALLOON)
PREEMPTED = msgspec.structs.replace(BALLOON, is_preempted=True)
WAITING = Pod(ObjectKey("ns", "job"), "j", "1", "", 0, {})
BOUND = msgspec.structs.replace(WAITING, node="n1")
CREATED_EARLIER = Pod(ObjectKey("ns", "job"), "j", "1", "", 0, {}, created_s=100.0)
BOUND_LATER = msgspec.structs.replace(CREATED_EARLIER, node="n1")
POOL = ObjectKey("ns", "gpu")


def test_preempted_balloon_is_timed_until_real_work_is_bound() -> None:
    seen = Preemptions()
    assert seen.pod_changed(BALLOON, PREEMPTED, 10.0) is None
    assert seen.pod_changed(PREEMPTED, None, 10.1) == GaveWay(Leaving.PREEMPTED)
    assert seen.pod_changed(None, WAITING, 10.2) is None
    assert seen.pod_changed(WAITING, BOUND, 10.6) == Taken(0.5)
    assert seen.pod_changed(WAITING, BOUND, 11.0) is None


def test_balloon_that_terminates_slowly_counts_once_from_the_start() -> None:
    seen, leaving = Preemptions(), msgspec.structs.replace(PREEMPTED, is_terminating=True)
    assert seen.pod_changed(BALLOON, leaving, 1.0) == GaveWay(Leaving.PREEMPTED)
    assert seen.pod_changed(leaving, None, 31.0) is None
    assert seen.pod_changed(WAITING, BOUND, 32.0) == Taken(31.0)


def test_released_balloon_counts_as_released() -> None:
    seen = Preemptions()
    seen.expect_release(BALLOON.uid, 1.0)
    assert seen.pod_changed(BALLOON, None, 1.5) == GaveWay(Leaving.RELEASED)


def test_balloon_that_was_surplus_is_not_measured() -> None:
    seen = Preemptions()
    assert seen.pod_changed(BALLOON, msgspec.structs.replace(BALLOON, is_terminating=True), 0.5) is None
    assert seen.pod_changed(BALLOON, None, 1.0) is None
    assert seen.pod_changed(WAITING, BOUND, 2.0) is None


@pytest.mark.parametrize("changes", [{"node": ""}, {"is_finished": True}], ids=["not scheduled", "ended before"])
def test_balloon_that_leaves_no_node_gives_none(changes: dict[str, object]) -> None:
    seen, balloon = Preemptions(), msgspec.structs.replace(PREEMPTED, **changes)
    seen.expect_release(balloon.uid, 1.0)
    assert seen.pod_changed(balloon, None, 1.5) is None


def test_pods_that_run_already_take_nothing() -> None:
    """A node's other pods change all the time; only one that is bound now ends the wait."""
    seen = Preemptions()
    seen.pod_changed(PREEMPTED, None, 1.0)
    assert seen.pod_changed(BOUND, msgspec.structs.replace(BOUND, is_ready=True), 2.0) is None
    daemon = msgspec.structs.replace(BOUND, kind=PodKind.DAEMON)
    assert seen.pod_changed(None, daemon, 2.5) is None
    assert seen.pod_changed(BOUND, None, 2.7) is None
    assert seen.pod_changed(None, BOUND, 3.0) == Taken(2.0)


def test_node_that_nobody_takes_is_forgotten() -> None:
    seen = Preemptions()
    seen.pod_changed(PREEMPTED, None, 0.0)
    seen.prune(FORGET_S)
    assert seen.pod_changed(WAITING, BOUND, FORGET_S + 1) is None


def test_node_that_is_taken_late_is_still_measured() -> None:
    seen = Preemptions()
    seen.pod_changed(PREEMPTED, None, 10.0)
    seen.prune(FORGET_S + 9)
    assert seen.pod_changed(WAITING, BOUND, FORGET_S + 9) == Taken(FORGET_S - 1)


@pytest.mark.parametrize(("pruned_s", "told"), [(9.0, GaveWay(Leaving.RELEASED)), (10.0, None)])
def test_release_that_comes_to_nothing_is_forgotten_in_time(pruned_s: float, told: GaveWay | None) -> None:
    seen = Preemptions()
    seen.expect_release(BALLOON.uid, 10.0)
    seen.prune(FORGET_S + pruned_s)
    assert seen.pod_changed(BALLOON, None, FORGET_S + 10.0) == told


def node(created_s: float) -> Node:
    return Node(name="n1", uid="n1", resource_version="1", labels={}, allocatable={}, created_s=created_s)


@pytest.mark.parametrize(("created_s", "found"), [(99.0, Found.WARM), (100.0, Found.WARM), (101.0, Found.COLD)])
def test_node_that_was_there_first_was_warm(created_s: float, found: Found) -> None:
    assert found_by(CREATED_EARLIER, BOUND_LATER, node(created_s)) is found


def test_only_the_binding_of_real_work_counts() -> None:
    there = node(99.0)
    assert found_by(None, BOUND_LATER, there) is None
    assert found_by(BOUND_LATER, msgspec.structs.replace(BOUND_LATER, is_ready=True), there) is None
    assert found_by(CREATED_EARLIER, msgspec.structs.replace(CREATED_EARLIER, is_finished=True), there) is None
    assert found_by(BOUND_LATER, None, there) is None
    assert found_by(CREATED_EARLIER, BOUND_LATER, None) is None
    daemon = msgspec.structs.replace(BOUND_LATER, kind=PodKind.DAEMON)
    assert found_by(msgspec.structs.replace(daemon, node=""), daemon, there) is None


def test_counts_and_standing_begin_and_end_with_the_pool() -> None:
    metrics = Metrics("1.2.3")
    labels = {"namespace": "ns", "pool": "gpu"}

    def bound(found: str) -> float | None:
        return metrics.registry.get_sample_value("kube_balloons_pool_bound_pods_total", {**labels, "found": found})

    def stands(standing: str) -> float | None:
        return metrics.registry.get_sample_value("kube_balloons_pool_standing", {**labels, "standing": standing})

    metrics.show([PoolDecision(POOL, because(Reason.NO_PRIORITY_CLASS, problem="missing"), PoolStatus())])
    assert (bound("warm"), bound("cold")) == (0, 0)
    assert (stands("stuck"), stands("settled"), stands("moving"), stands("blind")) == (1, 0, 0, 0)
    metrics.bound(POOL, Found.WARM)
    assert bound("warm") == 1
    metrics.show([])
    assert bound("warm") is None
    assert stands("stuck") is None


def test_a_pool_in_a_dry_run_is_not_on_its_way() -> None:
    """It gets no balloons, and no alert that it is cold."""
    metrics = Metrics("1.2.3")
    decision = PoolDecision(POOL, because(Reason.GROWING, growth=4, target=4), PoolStatus(target=4), is_dry_run=True)
    metrics.show([decision])
    labels = {"namespace": "ns", "pool": "gpu"}
    stands = {
        standing: metrics.registry.get_sample_value("kube_balloons_pool_standing", {**labels, "standing": standing})
        for standing in ("settled", "moving")
    }
    assert stands == {"settled": 1, "moving": 0}
