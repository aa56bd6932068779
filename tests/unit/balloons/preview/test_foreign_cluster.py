"""What a plan takes of a cluster that says odd things, or of which nothing may be read."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.preview.from_cluster import KINDS, PoolsWorld, lift, of_groups, of_node_pool, plan_inputs, pools_of
from balloons.preview.inputs import Ceiling, Source, stopped
from tests.counted_work import counting
from tests.doctor_cases import Thing, daemon_set, meta, node, pod
from tests.seen_clusters import cluster
from tests.world import a_node
from throttler.kube.cluster_autoscaler import NodeGroup
from throttler.kube.karpenter import NodePool
from throttler.kube.taints import Taint


def component(name: str, *flags: str) -> Thing:
    container = {"name": name, "image": f"registry/{name}:v1.36.1", "command": [name, *flags]}
    return {"metadata": meta(f"{name}-0", "kube-system"), "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("name", "flag", "value", "detail"),
    [
        ("kube-controller-manager", "--kube-api-qps=100000", 1e5, "--kube-api-qps of kube-controller-manager"),
        (
            "kube-controller-manager",
            "--kube-api-qps=10000000000000000",
            1e5,
            "--kube-api-qps of kube-controller-manager, which says 1e+16",
        ),
        (
            "kube-controller-manager",
            "--kube-api-qps=0.0000000001",
            0.1,
            "--kube-api-qps of kube-controller-manager, which says 1e-10",
        ),
        (
            "cluster-autoscaler",
            "--max-node-provision-time=48h",
            86_400,
            "--max-node-provision-time of cluster-autoscaler, which says 172800",
        ),
        (
            "cluster-autoscaler",
            "--scan-interval=700h",
            3600,
            "--scan-interval of cluster-autoscaler, which says 2.52e+06",
        ),
    ],
)
def test_a_flag_beyond_what_an_option_may_say_counts_as_the_nearest(
    name: str, flag: str, value: float, detail: str
) -> None:
    """A plan with such a flag ran for longer than a minute, or could not be shown."""
    controllers = plan_inputs(cluster({kinds.NODES: [node("n1")], kinds.PODS: [component(name, flag)]})).controllers
    told = (controllers.pods_per_s, controllers.kill_timer_s, controllers.reaction_s)
    assert [(known.value, known.detail) for known in told if known.detail.startswith("--")] == [(value, detail)]


def test_more_servers_or_daemon_sets_than_options_may_say_count_as_so_many() -> None:
    endpoints = [{"addresses": [f"10.0.{number // 250}.{number % 250}"]} for number in range(5000)]
    found = plan_inputs(
        cluster(
            {
                kinds.NODES: [node("n1")],
                kinds.API_SERVERS: [{"metadata": {"name": "k"}, "endpoints": endpoints}],
                kinds.DAEMON_SETS: [daemon_set(f"agent-{number}") for number in range(300)],
            }
        )
    )
    assert (found.servers.count.value, found.controllers.daemon_sets.value) == (100, 200)


def test_a_plan_says_what_it_took_in_place_of_each_kind_that_it_reads() -> None:
    """Whoever may not see NodePools was told that all nodes can come, and a saved plan did not say on what ground."""
    found = plan_inputs(replace(cluster({}), lists={kind.name: Listed(unread=Unread.FORBIDDEN) for kind in KINDS}))
    assert [text.partition(" not seen: ")[0] for text in found.unseen] == sorted(kind.name for kind in KINDS)
    assert "nodepools.karpenter.sh not seen: they are taken to have no limits" in found.unseen


@pytest.mark.parametrize("limits", [{}, {"cpu": "100"}])
@pytest.mark.parametrize(
    ("message", "detail"),
    [("NodeClass gone is not found", "not Ready: NodeClass gone is not found"), ("", "not Ready")],
)
def test_a_node_pool_that_is_not_ready_gets_no_node(limits: dict[str, Any], message: str, detail: str) -> None:
    body = {
        "metadata": {"name": "x"},
        "spec": {"limits": limits},
        "status": {"conditions": [{"type": "Ready", "status": "False", "message": message}]},
    }
    found = of_node_pool(msgspec.convert(body, NodePool), {"cpu": 8_000}, 3)
    assert found == Ceiling(name="NodePool/x", nodes=0, detail=detail, is_closed=True)


@pytest.mark.parametrize(
    ("limits", "room", "detail", "spec"),
    [
        ({}, 4, "replicas 7, has 3", '{"replicas":9}'),
        ({"nodes": "20"}, 4, "replicas 7, has 3", '{"replicas":9}'),
        ({"nodes": "8"}, 4, "replicas 7, has 3", '{"limits":{"nodes":"9"},"replicas":9}'),
        ({"nodes": "5"}, 2, "limits.nodes 5, has 3", '{"limits":{"nodes":"9"},"replicas":9}'),
    ],
)
def test_a_static_pool_gets_as_many_nodes_as_it_has_replicas(
    limits: dict[str, Any], room: int, detail: str, spec: str
) -> None:
    """Karpenter orders nothing there for pods that wait; plans promised that as many came as were asked for."""
    body = {"metadata": {"name": "x"}, "spec": {"replicas": 7, "limits": limits}}
    found = of_node_pool(msgspec.convert(body, NodePool), None, 3)
    assert found is not None
    assert (found.name, found.nodes, found.detail) == ("NodePool/x", room, detail)
    assert lift(found, 6) == f"kubectl patch nodepool x --type merge -p '{{\"spec\":{spec}}}'"


def test_a_static_pool_that_is_full_is_told_in_a_plan_of_its_cluster() -> None:
    static = {"metadata": {"name": "x"}, "spec": {"replicas": 1}}
    seen = cluster(
        {kinds.NODES: [node("n1", metadata={"labels": {"karpenter.sh/nodepool": "x"}})], kinds.NODE_POOLS: [static]}
    )
    (pool,) = plan_inputs(seen).pools
    assert [(ceiling.name, ceiling.nodes) for ceiling in pool.ceilings] == [("NodePool/x", 0)]


def test_a_node_that_karpenter_has_not_initialised_speaks_for_none_to_come_where_another_does() -> None:
    """In a scale-up the newest is Ready before it has its GPUs: a plan said that their pods fit nowhere."""
    pool = {"karpenter.sh/nodepool": "gpu"}
    agents = Taint("example.com/agent-not-ready", "NoSchedule")
    done = a_node("done", labels={**pool, "karpenter.sh/initialized": "true"}, allocatable={"nvidia.com/gpu": 8_000})
    new = a_node("new", created_s=9.0, labels=pool, allocatable={}, taints=(agents,))
    (found,), (only,) = (pools_of(PoolsWorld(nodes=nodes, loads={}, births=())) for nodes in ((new, done), (new,)))
    shape, early = found.shape, only.shape
    assert shape is not None
    assert early is not None
    assert (shape.room, shape.taints) == ({"nvidia.com/gpu": 8_000}, ())
    assert early.taints == (agents,)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (
            "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/gke-c-gpu-0a-grp",
            "gke-c-gpu-0a-grp",
        ),
        ("eks-gpu-0a", "eks-gpu-0a"),
        ("MachineDeployment/capi/gpu", "MachineDeployment/capi/gpu"),
    ],
)
def test_a_node_group_is_called_by_what_tells_it_from_others(group: str, name: str) -> None:
    """On GKE the answer of a plan was cut before it said for how many nodes there is room."""
    ceiling = of_groups([NodeGroup(name=group, target=2, max_size=5)])
    assert ceiling is not None
    assert ceiling.name == f"cluster-autoscaler's group {name}"


def test_pools_whose_groups_are_equally_large_have_a_bound_each() -> None:
    """As in a regional cluster on GKE, where each pool has a group in each zone: one bound stopped what two allow."""
    sizes = "  health:\n    cloudProviderTarget: 1\n    maxSize: 3\n"
    names = [f"gke-c-{pool}-{zone}-grp" for pool in ("a", "b") for zone in range(3)]
    status = "nodeGroups:\n" + "".join(f"- name: {name}\n{sizes}" for name in names)
    config_map = {"metadata": meta("cluster-autoscaler-status", "kube-system"), "data": {"status": status}}
    nodes = [node(pool, metadata={"labels": {"cloud.google.com/gke-nodepool": pool}}) for pool in ("a", "b")]
    inputs = plan_inputs(cluster({kinds.NODES: nodes, kinds.AUTOSCALER_STATUS: [config_map]}))
    assert [[ceiling.nodes for ceiling in pool.ceilings] for pool in inputs.pools] == [[6], [6]]
    assert stopped({"a": 6, "b": 6}, inputs.pools) == []
    assert [beyond for beyond, _ in stopped({"a": 7, "b": 6}, inputs.pools)] == [1]


def test_a_windows_pool_of_aks_is_bounded_by_its_own_scale_set() -> None:
    text = "".join(
        f"- name: {name}\n  health:\n    maxSize: {most}\n" for name, most in (("akswin", 3), ("aks-lin-1-vmss", 9))
    )
    config_map = {
        "metadata": meta("cluster-autoscaler-status", "kube-system"),
        "data": {"status": f"nodeGroups:\n{text}"},
    }
    nodes = [node(pool, metadata={"labels": {"kubernetes.azure.com/agentpool": pool}}) for pool in ("win", "lin")]
    pools = plan_inputs(cluster({kinds.NODES: nodes, kinds.AUTOSCALER_STATUS: [config_map]})).pools
    assert {pool.name: [ceiling.nodes for ceiling in pool.ceilings] for pool in pools} == {"win": [3], "lin": [9]}


@pytest.mark.parametrize(("priority", "warm"), [(-10, 1), (-1, 1), (0, 0)])
def test_placeholders_of_any_priority_below_works_keep_a_node_warm(priority: int, warm: int) -> None:
    """Widely used charts make them at -1: `top` showed these nodes as warm, and a plan did not."""
    objects = {kinds.NODES: [node("n1")], kinds.PODS: [pod("room", "n1", priority=priority)]}
    (pool,) = plan_inputs(cluster(objects)).pools
    assert pool.warm == warm


def made_before(thing: Thing) -> Thing:
    return {**thing, "metadata": {**thing["metadata"], "creationTimestamp": "2026-11-21T10:59:20Z"}}


@pytest.mark.parametrize("label", [("eks.amazonaws.com/compute-type", "fargate"), ("type", "virtual-kubelet")])
def test_nodes_that_nobody_orders_are_no_pool(label: tuple[str, str]) -> None:
    """Karpenter itself often runs on Fargate: on a new cluster those nodes were the largest pool, and had no limits."""
    nodes = [a_node(f"f{number}", labels=dict([label])) for number in range(4)]
    nodes.append(a_node("n", labels={"karpenter.sh/nodepool": "default"}))
    (pool,) = pools_of(PoolsWorld(nodes=nodes, loads={}, births=()))
    assert (pool.name, pool.nodes) == ("default", 1)
    young = "2026-11-21T11:00:00Z"
    machines = [node(f"f{number}", created=young, metadata={"labels": dict([label])}) for number in range(4)]
    pods = [made_before(pod(f"p{number}", f"f{number}")) for number in range(4)]
    (pool,) = plan_inputs(cluster({kinds.NODES: machines, kinds.PODS: pods})).pools
    assert pool.boot_s.source is Source.ASSUMED, "no machine boots as fast"


@pytest.mark.parametrize("ready", [1, 0])
def test_nodes_that_are_switched_off_are_not_there(ready: int) -> None:
    """AKS' scale-down mode Deallocate keeps them registered: --to 200 made a plan for 120 where 170 had to join."""
    label = {"labels": {"kubernetes.azure.com/agentpool": "gpu"}}
    off = [{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]
    nodes = [node(f"n{number}", metadata=label) for number in range(ready)]
    nodes += [node(f"o{number}", ready="Unknown", taints=off, metadata=label) for number in range(5)]
    inputs = plan_inputs(cluster({kinds.NODES: nodes}))
    assert inputs.nodes == ready
    assert [(pool.name, pool.nodes) for pool in inputs.pools] == [("gpu", ready)]


@pytest.mark.parametrize("gpus", [None, "0", "7"])
def test_a_newest_node_whose_gpus_are_not_there_does_not_speak_for_those_to_come(gpus: str | None) -> None:
    """Without Karpenter a node is Ready before its device plugin runs: jobs were said to fit nowhere."""
    kind = {"node.kubernetes.io/instance-type": "a3"}
    usual = [node(f"n{number}", sizes={"nvidia.com/gpu": "8"}, metadata={"labels": kind}) for number in range(3)]
    sizes = {} if gpus is None else {"nvidia.com/gpu": gpus}
    newest = node("n9", created="2026-11-21T11:59:00Z", sizes=sizes, metadata={"labels": kind})
    (pool,) = plan_inputs(cluster({kinds.NODES: [*usual, newest]})).pools
    assert pool.shape is not None
    assert pool.shape.room["nvidia.com/gpu"] == 8000


def test_a_newest_machine_of_another_type_speaks_all_the_same() -> None:
    of_gpus = a_node("old", instance_type="a3", allocatable={"cpu": 8000, "nvidia.com/gpu": 8000})
    newest = a_node("new", created_s=9.0, instance_type="m5")
    (pool,) = pools_of(PoolsWorld(nodes=[of_gpus, newest], loads={}, births=()))
    assert pool.shape is not None
    assert pool.shape.instance_type == "m5"


def test_the_nodes_of_a_quota_are_counted_once_for_all_pools() -> None:
    """With a hundred pools of 30,000 nodes and five quotas that took seconds."""
    steps: dict[str, int] = {}
    valid = {"conditions": [{"type": "Valid", "status": "True"}]}
    quotas = [
        {"metadata": meta(f"q{number}"), "spec": {"limits": {"resources": {"nodes": 900}}}, "status": valid}
        for number in range(9)
    ]
    for pools in (2, 40):
        groups = [{"labels": {"agentpool": f"p{number % pools}"}} for number in range(80)]
        nodes = [node(f"n{number}", metadata=labels) for number, labels in enumerate(groups)]
        seen = cluster({kinds.NODES: nodes, kinds.QUOTAS: quotas})
        with counting(steps, str(pools)):
            assert len(plan_inputs(seen).pools) == pools
    assert steps["40"] < 3 * steps["2"], steps


def test_a_node_that_karpenter_has_not_initialised_speaks_only_where_there_is_no_other() -> None:
    """Its devices may be missing, and its taints those of a start."""
    labels = {"karpenter.sh/nodepool": "gpu"}
    initialized = {**labels, "karpenter.sh/initialized": "true"}
    done = a_node("done", created_s=1.0, labels=initialized, instance_type="done")
    starting = a_node("starting", created_s=2.0, labels=labels, instance_type="starting")
    for nodes, speaker in (([done, starting], "done"), ([starting], "starting")):
        (pool,) = pools_of(PoolsWorld(nodes=nodes, loads={}, births=()))
        assert pool.shape is not None
        assert pool.shape.instance_type == speaker
