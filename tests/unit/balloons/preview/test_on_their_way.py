"""What a plan makes of machines that are ordered already and are no nodes yet."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from balloons.cli.main import balloons as commands
from balloons.cluster import kinds
from balloons.cluster.seen_cluster import SeenCluster
from balloons.preview.from_cluster import plan_inputs
from balloons.preview.inputs import PlanInputs
from balloons.preview.scale_up_plan import Asked, ScaleUpPlan, make_plan
from balloons.reading.read_cluster import write_archive
from tests.unit.balloons.preview.test_from_cluster import T0, at, claim, cluster, node


def ordered(index: int, **status: Any) -> dict[str, Any]:
    return {**claim(index), "status": {"capacity": {"cpu": "8"}, **status}}


def seen(*claims: dict[str, Any], used: int = 10, most: int = 12, **condition: str) -> SeenCluster:
    conditions = [{"type": "Ready", **condition}] if condition else []
    resources = {"nodes": str(used), "cpu": str(8 * used)}
    pool = {
        "metadata": {"name": "gpu"},
        "spec": {"limits": {"nodes": str(most), "cpu": str(8 * most)}},
        "status": {"resources": resources, "conditions": conditions},
    }
    there = [node(index, **{"karpenter.sh/nodepool": "gpu"}) for index in range(4)]
    return cluster({kinds.NODES: there, kinds.NODE_CLAIMS: claims, kinds.NODE_POOLS: [pool]})


def karpenter(*claims: dict[str, Any], **condition: str) -> PlanInputs:
    return plan_inputs(seen(*claims, **condition))


def autoscaler(target: int, most: int) -> PlanInputs:
    counts = "{target}\n      nodeCounts:\n        registered:\n          total: 4\n      maxSize: {most}"
    text = "nodeGroups:\n  - name: gpu\n    health:\n      cloudProviderTarget: " + counts.format(
        target=target, most=most
    )
    status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": text}}
    return plan_inputs(cluster({kinds.NODES: [node(i) for i in range(4)], kinds.AUTOSCALER_STATUS: [status]}))


def planned(found: PlanInputs, add: int, *, is_total: bool) -> ScaleUpPlan:
    return make_plan(found, Asked(add=add, is_total=is_total), T0)


SIX = [ordered(index) for index in range(6)]


@pytest.mark.parametrize("found", [karpenter(*SIX), autoscaler(10, 12)], ids=["Karpenter", "cluster-autoscaler"])
def test_machines_on_their_way_are_among_the_nodes_that_a_pool_is_to_have(found: PlanInputs) -> None:
    """With four nodes, six machines booting and room for twelve, "6 of 8 nodes cannot come" was said."""
    assert planned(found, 8, is_total=True).coming == 8
    assert planned(found, 9, is_total=True).coming == 8
    assert planned(found, 2, is_total=False).coming == 2
    assert planned(found, 3, is_total=False).coming == 2


def test_the_command_asks_so_for_a_number_of_nodes_to_have_and_not_for_one_to_add(tmp_path: Path) -> None:
    with (tmp_path / "dump").open("wb") as file:
        write_archive(seen(*SIX), file)
    answers = [
        CliRunner().invoke(commands, ["plan", "--from", str(tmp_path / "dump"), *asked, "-o", "json"]).stdout
        for asked in (("--to", "12"), ("--add", "8"))
    ]
    assert [json.loads(answer)["nodesComing"] for answer in answers] == [8, 2]


def test_a_limit_is_lifted_to_what_the_pool_is_to_have() -> None:
    fix = planned(karpenter(*SIX), 16, is_total=True).fix
    assert '"nodes":"20"' in fix
    assert '"cpu":"160"' in fix
    assert '"nodes":"26"' in planned(karpenter(*SIX), 16, is_total=False).fix


def test_a_ceiling_says_how_many_machines_are_on_their_way() -> None:
    (pool,) = karpenter(*SIX).pools
    assert [(each.nodes, each.detail) for each in pool.ceilings] == [
        (2, "limits.cpu 96, used 80, machines on their way 6")
    ]
    (group,) = autoscaler(10, 12).pools
    assert [each.detail for each in group.ceilings] == ["maxSize 12, now 10, machines on their way 6"]


@pytest.mark.parametrize(
    "other",
    [
        ordered(9, nodeName="n0"),
        {**ordered(9), "status": {}},
        {**ordered(9), "metadata": {**claim(9)["metadata"], "deletionTimestamp": at(0)}},
        {**ordered(9), "metadata": {**claim(9)["metadata"], "labels": {"karpenter.sh/nodepool": "web"}}},
    ],
    ids=["registered", "not launched", "going", "another pool's"],
)
def test_what_karpenter_does_not_count_or_is_a_node_is_not_on_its_way(other: dict[str, Any]) -> None:
    (pool, *_) = karpenter(*SIX, other).pools
    assert [each.ordered for each in pool.ceilings] == [6]


def test_nodes_that_are_not_matched_with_their_claims_yet_are_there() -> None:
    nodes = [node(index, **{"karpenter.sh/nodepool": "gpu"}) for index in range(4)]
    for fresh in nodes[:2]:
        fresh["spec"]["taints"] = [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]
    pool = {"metadata": {"name": "gpu"}, "spec": {"limits": {"nodes": "12"}}, "status": {"resources": {"nodes": "8"}}}
    found = plan_inputs(cluster({kinds.NODES: nodes, kinds.NODE_CLAIMS: SIX, kinds.NODE_POOLS: [pool]}))
    assert [each.ordered for each in found.pools[0].ceilings] == [4]


def test_machines_on_their_way_come_also_where_their_pool_is_not_ready_any_more() -> None:
    found = karpenter(*SIX, status="False", message="no class")
    assert planned(found, 8, is_total=True).coming == 6
    assert planned(found, 8, is_total=False).coming == 0
