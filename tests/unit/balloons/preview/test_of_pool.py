"""What a plan reckons with that differs from pool to pool."""

from dataclasses import replace
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.preview.from_cluster import plan_inputs
from balloons.preview.inputs import Known, Stated, join_cpu_s, of_pool, with_stated
from balloons.preview.workload_pods_and_fitting import asked_pods, fit_pods
from tests.unit.balloons.preview.test_from_cluster import cluster, daemon_set, node


def test_a_plan_reckons_with_the_daemon_sets_of_its_own_pool() -> None:
    """Those of GPU nodes put no pod on others; the median of all nodes is of neither."""
    of_gpus = daemon_set("device-plugin")
    of_gpus["spec"]["template"]["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": "gpu"}
    nodes = [node(index, **{"karpenter.sh/nodepool": "gpu" if index < 2 else "web"}) for index in range(7)]
    found = plan_inputs(cluster({kinds.NODES: nodes, kinds.PODS: [], kinds.DAEMON_SETS: [daemon_set("cni"), of_gpus]}))
    costs = {pool.name: of_pool(found, pool) for pool in found.pools}
    assert {name: own.controllers.daemon_sets.value for name, own in costs.items()} == {"gpu": 2, "web": 1}
    assert {name: own.servers.join_cpu_s for name, own in costs.items()} == {"gpu": join_cpu_s(2), "web": join_cpu_s(1)}
    stated = with_stated(found, Stated(daemonsets=9))
    assert {of_pool(stated, pool).controllers.daemon_sets.value for pool in stated.pools} == {9}
    learned = replace(found, servers=replace(found.servers, join_cpu_s=Known.learned(0.7, "x")))
    assert of_pool(learned, found.pools[0]).servers.join_cpu_s.value == 0.7


SELECTED = {name: {"nodes": {"matchLabels": {"karpenter.sh/nodepool": name}}} for name in ("gpu", "web")}
NAMED = {name: {"levers": {"nodePoolLimits": {"names": [name]}}} for name in ("gpu", "web")}


@pytest.mark.parametrize("specs", [SELECTED, NAMED], ids=["by labels", "by names"])
def test_a_plan_is_of_the_throttle_that_paces_its_own_pool(specs: dict[str, Any]) -> None:
    """It was of the oldest one's: nodes that nobody paces were said to join at the pace of those of another pool."""
    throttles = [{"metadata": {"name": name, "uid": name}, "spec": spec} for name, spec in specs.items()]
    nodes = [node(at, **{"karpenter.sh/nodepool": name}) for at, name in enumerate(("gpu", "web", "free"))]
    found = plan_inputs(cluster({kinds.NODES: nodes, kinds.PODS: [], kinds.THROTTLES: throttles}))
    pacing = {pool.name: of_pool(found, pool).throttle for pool in found.pools}
    assert {name: facts and facts.name for name, facts in pacing.items()} == {"gpu": "gpu", "web": "web", "free": None}
    unknown = replace(found.pools[0], shape=None)
    assert of_pool(found, unknown).throttle == found.throttle, "whose nodes they are is not known"


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [({"web": 10, "spot": 50}, "spot"), ({"web": 10, "gpu": 10}, "web"), ({"spot": 0}, "web"), ({"gpu": 1}, "gpu")],
)
def test_pods_get_new_nodes_of_the_pool_that_karpenter_tries_first(weights: dict[str, int], chosen: str) -> None:
    """It was the first by name, whatever the weights of the NodePools are."""
    names = ("gpu", "spot", "web")
    nodes = [node(at, **{"karpenter.sh/nodepool": name}) for at, name in enumerate(names)]
    pools = [{"metadata": {"name": name}, "spec": {"weight": weights.get(name)}} for name in names]
    found = plan_inputs(cluster({kinds.NODES: nodes, kinds.PODS: [], kinds.NODE_POOLS: pools}))
    pod = {"kind": "Pod", "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]}}
    assert dict(fit_pods(asked_pods([pod], is_gang=False), [], {}, found).new_nodes) == {chosen: 1}


@pytest.mark.parametrize(
    ("spec", "template", "is_paced"),
    [
        (SELECTED["gpu"], {}, True),
        (SELECTED["web"], {}, False),
        (NAMED["web"], {}, False),
        ({"nodes": {"matchLabels": {"team": "ml"}}}, {"metadata": {"labels": {"team": "ml"}}}, True),
        ({"nodes": {"matchLabels": {"team": "ml"}}}, {"metadata": {"labels": {"team": "ops"}}}, False),
        ({}, {}, True),
    ],
)
def test_a_node_pool_without_nodes_tells_itself_who_paces_them(
    spec: dict[str, Any], template: dict[str, Any], *, is_paced: bool
) -> None:
    """It was the oldest throttle, also where that one names another NodePool."""
    throttle = {"metadata": {"name": "x", "uid": "x"}, "spec": spec}
    pool = {"metadata": {"name": "gpu"}, "spec": {"template": template}}
    lists = {kinds.NODES: [], kinds.PODS: [], kinds.THROTTLES: [throttle], kinds.NODE_POOLS: [pool]}
    found = plan_inputs(cluster(lists))
    assert (of_pool(found, found.pools[0]).throttle is not None) is is_paced
