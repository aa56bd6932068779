"""Warm or cold: a pod that was seen to wait, and whether its node was there before it."""

import msgspec
import pytest

from balloons.api.pool import PoolStatus
from balloons.decide.plan import PoolDecision, Reason, because
from balloons.service.arrivals import Found, found_by
from balloons.service.metrics import Metrics
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind

WAITING = Pod(ObjectKey("ns", "job"), "j", "1", "", 0, {}, created_s=100.0)
BOUND = msgspec.structs.replace(WAITING, node="n1")
POOL = ObjectKey("ns", "gpu")


def node(created_s: float) -> Node:
    return Node(name="n1", uid="n1", resource_version="1", labels={}, allocatable={}, created_s=created_s)


@pytest.mark.parametrize(("created_s", "found"), [(99.0, Found.WARM), (100.0, Found.WARM), (101.0, Found.COLD)])
def test_node_that_was_there_first_was_warm(created_s: float, found: Found) -> None:
    assert found_by(WAITING, BOUND, node(created_s)) is found


def test_only_the_binding_of_real_work_counts() -> None:
    there = node(99.0)
    assert found_by(None, BOUND, there) is None
    assert found_by(BOUND, msgspec.structs.replace(BOUND, is_ready=True), there) is None
    assert found_by(WAITING, msgspec.structs.replace(WAITING, is_finished=True), there) is None
    assert found_by(BOUND, None, there) is None
    assert found_by(WAITING, BOUND, None) is None
    daemon = msgspec.structs.replace(BOUND, kind=PodKind.DAEMON)
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
