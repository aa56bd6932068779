"""Preempt to bind: which pair of events counts, and for how long."""

import msgspec

from balloons.service.preemptions import FORGET_S, GaveWay, Leaving, Preemptions, Taken
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Pod, PodKind

BALLOON = Pod(ObjectKey("ns", "b"), "b", "1", "n1", -10, {}, PodKind.BALLOON)
PREEMPTED = msgspec.structs.replace(BALLOON, is_preempted=True)
WAITING = Pod(ObjectKey("ns", "job"), "j", "1", "", 0, {})
BOUND = msgspec.structs.replace(WAITING, node="n1")


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
    assert seen.pod_changed(BALLOON, None, 1.0) is None
    assert seen.pod_changed(WAITING, BOUND, 2.0) is None


def test_pods_that_run_already_take_nothing() -> None:
    """A node's other pods change all the time; only one that is bound now ends the wait."""
    seen = Preemptions()
    seen.pod_changed(PREEMPTED, None, 1.0)
    assert seen.pod_changed(BOUND, msgspec.structs.replace(BOUND, is_ready=True), 2.0) is None
    daemon = msgspec.structs.replace(BOUND, kind=PodKind.DAEMON)
    assert seen.pod_changed(None, daemon, 2.5) is None
    assert seen.pod_changed(None, BOUND, 3.0) == Taken(2.0)


def test_node_that_nobody_takes_is_forgotten() -> None:
    seen = Preemptions()
    seen.pod_changed(PREEMPTED, None, 0.0)
    seen.prune(FORGET_S)
    assert seen.pod_changed(WAITING, BOUND, FORGET_S + 1) is None
