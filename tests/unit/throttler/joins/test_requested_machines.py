"""Which NodeClaims boot, and whose machines cluster-autoscaler's groups boot: by nodes, selectors, or a guess."""

from typing import Any

import msgspec
import pytest

from tests.counted_work import counting
from tests.unit.throttler.joins.cluster import RULES, UNREGISTERED, a_claim, a_node, a_world
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.api.throttle import JoinThrottle
from throttler.joins.count_joins import count_joins
from throttler.joins.join_memory import JoinMemory
from throttler.joins.requested_machines import share_groups
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import KARPENTER_POOL_LABEL, Node

EKS = "eks.amazonaws.com/nodegroup"
GKE = "cloud.google.com/gke-nodepool"
GPU_MIG = "https://compute.test/compute/v1/projects/p/zones/z/instanceGroups/gke-main-gpu-1a2b-grp"


def throttle(name: str, quota: str = "", **labels: str) -> JoinThrottle:
    levers: dict[str, Any] = {"capacityQuota": {"name": quota}} if quota else {}
    return a_throttle(name, nodes={"matchLabels": labels}, levers=levers)


GPU, WEB = throttle("gpu", pool="gpu"), throttle("web", pool="web")


def shared(
    groups: dict[str, int], nodes: tuple[Node, ...], *throttles: JoinThrottle
) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Throttle -> how many machines boot for it, and which groups are guessed."""
    status = AutoscalerStatus(tuple(NodeGroup(name, target=count) for name, count in groups.items()), 7.0)
    found = share_groups(status, nodes, throttles)
    assert all(each.status.at_s == 7.0 for each in found.values())
    return {name: (each.status.booting, each.guessed) for name, each in found.items()}


def node(name: str, pool: str, **labels: str) -> Node:
    return a_node(name, labels={"pool": pool, **labels})


@pytest.mark.parametrize(
    ("group", "label", "value"),
    [
        ("workers-1", "example.com/group", "workers-1"),
        ("eks-workers-8ac1f7e2-11aa", EKS, "workers"),
        (GPU_MIG, GKE, "gpu"),
        ("aks-gpu-12345678-vmss", "kubernetes.azure.com/agentpool", "gpu"),
        ("aks-gpu-12345678-vmss", "agentpool", "gpu"),
        ("aksgpu", "kubernetes.azure.com/agentpool", "gpu"),
        ("nodes-eu-1a.k8s.example.com", "kops.k8s.io/instancegroup", "nodes-eu-1a"),
    ],
)
def test_nodes_tell_of_which_throttle_their_group_is(group: str, label: str, value: str) -> None:
    there = (node("n1", "web", **{label: value}), node("n2", "gpu", **{label: "other"}))
    assert shared({group: 20}, there, GPU, WEB) == {"gpu": (0, ()), "web": (20, ())}


def test_four_times_the_groups_are_about_four_times_the_work() -> None:
    """It is done at each look. Each group's name was held against each node's: four times as long for twice as many."""
    steps: dict[str, int] = {}
    for count in (20, 80):
        groups = {f"eks-team-{number}-pool-8ac1f7e2": 1 for number in range(count)}
        there = tuple(node(f"n{number}", "web", **{EKS: f"team-{number}-pool"}) for number in range(count))
        with counting(steps, str(count)):
            found = shared(groups, there, GPU, WEB)
        assert found == {"gpu": (0, ()), "web": (count, ())}
    assert steps["80"] / steps["20"] <= 5


def test_a_group_whose_nodes_no_throttle_selects_is_nobodys() -> None:
    there = (node("n1", "batch", **{EKS: "batch"}),)
    assert shared({"eks-batch-1": 20}, there, GPU, WEB) == {"gpu": (0, ()), "web": (0, ())}


def test_the_longer_of_two_names_that_fit_is_the_groups() -> None:
    there = (node("n1", "web", **{EKS: "large"}), node("n2", "gpu", **{EKS: "large-gpu"}))
    assert shared({"eks-large-gpu-1": 3, "eks-large-1": 4}, there, GPU, WEB) == {"gpu": (3, ()), "web": (4, ())}


def test_a_group_without_nodes_is_told_by_the_selector_that_names_it() -> None:
    by_cloud = throttle("later", **{EKS: "fresh"})
    assert shared({"eks-fresh-1": 5}, (), GPU, by_cloud) == {"gpu": (0, ()), "later": (5, ())}
    more = {"matchLabels": {EKS: "fresh"}, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    unsure = a_throttle("later", nodes=more, levers={})
    told = shared({"eks-fresh-1": 5}, (), GPU, unsure)
    assert told == {"gpu": (5, ("eks-fresh-1",)), "later": (0, ())}, "whether its nodes have a zone is not known"


def test_who_selects_every_node_has_every_group() -> None:
    assert shared({"a": 2, "b": 3}, (), throttle("all"), WEB) == {"all": (5, ()), "web": (0, ())}


def test_what_nobody_tells_counts_once_and_is_said() -> None:
    assert shared({"asg-1": 5}, (), GPU, WEB) == {"gpu": (5, ("asg-1",)), "web": (0, ())}
    quota = throttle("quota", "q", pool="web")
    assert shared({"asg-1": 5}, (), GPU, quota) == {"gpu": (0, ()), "quota": (5, ("asg-1",))}


def test_nodes_that_contradict_each_other_tell_nothing() -> None:
    there = (node("n1", "web", **{EKS: "odd"}), node("n2", "gpu", **{EKS: "odd"}))
    assert shared({"eks-odd-1": 5}, there, GPU, WEB)["gpu"] == (5, ("eks-odd-1",))


def test_nodes_of_karpenter_are_of_no_group() -> None:
    there = (node("n1", "web", **{KARPENTER_POOL_LABEL: "asg-1"}),)
    assert shared({"asg-1": 5}, there, GPU, WEB)["gpu"] == (5, ("asg-1",))


def test_without_throttles_or_machines_nothing_is_shared() -> None:
    assert shared({"a": 5}, ()) == {}
    assert shared({"a": 0}, (), GPU) == {"gpu": (0, ())}


def test_a_machine_deployment_is_of_the_throttle_that_names_it() -> None:
    lever = {"machineDeployments": {"namespace": "capi", "names": ["gpu"]}}
    first = throttle("first", "quota", team="a")
    second = a_throttle("second", nodes={"matchLabels": {"team": "b"}}, levers=lever)
    groups = (NodeGroup("MachineDeployment/capi/gpu", target=3), NodeGroup("MachineDeployment/other/gpu", target=2))
    found = share_groups(AutoscalerStatus(groups), (), (first, second))
    assert (found["second"].status.booting, found["second"].guessed) == (3, ())
    assert (found["first"].status.booting, found["first"].guessed) == (2, ("MachineDeployment/other/gpu",))
    third = a_throttle("third", nodes={"matchLabels": {"team": "c"}}, levers=lever)
    found = share_groups(AutoscalerStatus(groups[:1]), (), (first, second, third))
    assert [(name, one.status.booting, one.guessed) for name, one in found.items()] == [
        ("first", 0, ()),
        ("second", 3, ()),
        ("third", 0, ()),
    ], "of two that name it the older one has it"


def test_a_machine_whose_node_is_there_no_longer_boots_whatever_karpenter_has_said_so_far() -> None:
    claims = [
        _on_machine(a_claim("c1", age_s=40), "aws:///a/i-1"),
        _on_machine(a_claim("c2", age_s=40), "aws:///a/i-2"),
    ]
    nodes = [a_node(f"n{number}", is_ready=False, provider_id=f"aws:///a/i-{number}") for number in (1, 3)]
    joins, memory = count_joins(a_world(claims=claims), JoinMemory(), RULES, 0.0)
    assert (joins.booting, joins.in_flight) == (2, 2)
    joins, memory = count_joins(a_world(*nodes, claims=claims), memory, RULES, 5.0)
    assert (joins.booting, joins.joining, joins.boot_s) == (1, 2, 45.0), "c1 has come; of the other node no claim tells"
    said = [a_claim("c1", age_s=40, is_registered=True), claims[1]]
    joins, memory = count_joins(a_world(*nodes, claims=said), memory, RULES, 6.0)
    assert (joins.booting, joins.joining, joins.boot_s) == (1, 2, 45.0), "and has not come once more"
    joins, _ = count_joins(a_world(nodes[1], claims=claims), memory, RULES, 7.0)
    assert (joins.booting, joins.lost) == (2, 0), "a node that went, before Karpenter had seen it, is made anew"


def test_nodes_that_have_no_name_of_their_cloud_yet_take_the_place_of_as_many_claims() -> None:
    claims = [_on_machine(a_claim(f"c{number}"), f"gce://p/z/{number}") for number in range(3)]
    named = a_node("n0", is_ready=False, taints=(UNREGISTERED,), provider_id="gce://p/z/0")
    unnamed = a_node("n1", is_ready=False, taints=(UNREGISTERED,))
    joins, _ = count_joins(a_world(named, unnamed, claims=claims), JoinMemory(), RULES, 0.0)
    assert (joins.booting, joins.joining) == (1, 2)


def _on_machine(claim: NodeClaim, machine: str) -> NodeClaim:
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, provider_id=machine))
