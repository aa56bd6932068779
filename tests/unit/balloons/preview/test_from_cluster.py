"""What a plan takes from a cluster: Karpenter's, cluster-autoscaler's, and one of which little can be read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import Listed, SeenCluster, Unread
from balloons.preview.calibrate import Birth
from balloons.preview.from_cluster import (
    PoolsWorld,
    applies,
    groups_by_pool,
    lift,
    loads_of,
    of_groups,
    of_node_pool,
    of_quota,
    plan_inputs,
    pools_of,
    price_of,
    with_ceilings,
)
from balloons.preview.inputs import (
    Ceiling,
    PlanInputs,
    PoolFacts,
    ResourceLimit,
    Source,
    Stated,
    assumed_inputs,
    with_stated,
)
from balloons.preview.plan_json import plan_json
from balloons.preview.scale_up_plan import Asked, make_plan
from balloons.preview.simulate import Sweep, simulate
from balloons.reading.read_cluster import read_archive, write_archive
from balloons.view.node_load_and_devices import load_of
from tests.world import a_node, daemon, work
from throttler.kube.cluster_autoscaler import CapacityQuota, NodeGroup
from throttler.kube.karpenter import NodePool
from throttler.kube.node import ZONE_LABEL, Node
from throttler.kube.pod import PodKind
from throttler.kube.taints import Taint

T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
STATUS = (Path(__file__).parents[3] / "recorded/cluster_autoscaler_status_1.36.1.yaml").read_text()


def at(seconds: float) -> str:
    return (T0 + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(index: int, **labels: str) -> dict[str, Any]:
    size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "metadata": {
            "name": f"n{index}",
            "uid": f"u{index}",
            "creationTimestamp": at(-3600 + index),
            "labels": {"kubernetes.io/hostname": f"n{index}", "node.kubernetes.io/instance-type": "m8", **labels},
        },
        "spec": {"providerID": f"kwok://n{index}"},
        "status": {
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(-3570 + index)}],
        },
    }


def pod(index: int, kind: str = "ReplicaSet", namespace: str = "a", **spec: Any) -> dict[str, Any]:
    owner = {"kind": kind, "name": "x", "uid": "x", "controller": True}
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {
            "name": f"{kind}-{index}".lower(),
            "namespace": namespace,
            "uid": f"{kind}{index}",
            "creationTimestamp": at(-3600 + index),
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": f"n{index}", "containers": [container], **spec},
        "status": {"phase": "Running", "conditions": [ready(-3560 + index)]},
    }


def ready(seconds: float) -> dict[str, str]:
    return {"type": "Ready", "status": "True", "lastTransitionTime": at(seconds)}


def claim(index: int) -> dict[str, Any]:
    metadata = {
        "name": f"c{index}",
        "creationTimestamp": at(-3690 + index),
        "labels": {"karpenter.sh/nodepool": "gpu"},
    }
    return {"metadata": metadata, "status": {"nodeName": f"n{index}", "conditions": []}}


def daemon_set(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "kube-system", "uid": name}, "spec": {"template": {"spec": {}}}}


def component(name: str, *flags: str) -> dict[str, Any]:
    container = {"name": name, "image": f"registry/{name}:v1.36.1", "command": [name, *flags]}
    found = pod(0, "Node", "kube-system", containers=[container])
    return {**found, "metadata": {**found["metadata"], "name": f"{name}-0"}}


def cluster(lists: Mapping[Kind, Sequence[Any]], unread: Mapping[Kind, Unread] | None = None) -> SeenCluster:
    texts = {kind.name: Listed(tuple(json.dumps(each).encode() for each in found)) for kind, found in lists.items()}
    missing = {kind.name: Listed(unread=why) for kind, why in (unread or {}).items()}
    return SeenCluster(taken_at=T0, lists={**texts, **missing}, version="v1.36.3")


def karpenter(limits: dict[str, Any] | None = None, **more: Any) -> SeenCluster:
    nodes = [node(index, **{"karpenter.sh/nodepool": "gpu"}) for index in range(6)]
    metadata = {"name": "gpu", **more}
    node_pool = {"metadata": metadata, "spec": {"limits": limits or {}}, "status": {"resources": {"cpu": "48"}}}
    return cluster(
        {
            kinds.NODES: nodes,
            kinds.PODS: [*(pod(index, "DaemonSet") for index in range(6)), pod(1), pod(2)],
            kinds.NODE_CLAIMS: [claim(index) for index in range(6)],
            kinds.NODE_POOLS: [node_pool],
            kinds.DAEMON_SETS: [daemon_set("cni"), daemon_set("csi")],
            kinds.API_SERVERS: [{"metadata": {"name": "k"}, "endpoints": [{"addresses": ["10.0.0.1"]}]}],
        }
    )


def test_karpenter_pool_is_learned_from_its_own_nodes() -> None:
    found = plan_inputs(karpenter())
    (pool,) = found.pools
    assert (pool.name, pool.nodes, pool.warm) == ("gpu", 6, 0)
    assert (pool.boot_s.value, pool.boot_s.detail) == (90, "6 nodes of the last 24 h")
    assert (found.join_s.value, found.join_s.source) == (40, Source.LEARNED)
    assert (found.controllers.daemon_sets.value, found.servers.count.value) == (2, 1)
    assert pool.shape is not None
    assert pool.shape.room["cpu"] == 7500
    assert "kubernetes.io/hostname" not in pool.shape.labels
    assert found.autoscaler.startswith("Karpenter")


@pytest.mark.parametrize(("limits", "room"), [({"cpu": "100"}, 6), ({"cpu": 48}, 0), ({"nodes": "10"}, 10), ({}, None)])
def test_limits_of_a_node_pool_are_a_ceiling(limits: dict[str, Any], room: int | None) -> None:
    (pool,) = plan_inputs(karpenter(limits)).pools
    assert [each.nodes for each in pool.ceilings] == ([] if room is None else [room])


def test_karpenter_counts_all_that_a_machine_has_and_not_what_pods_may_use() -> None:
    """Six nodes offer 8 of their 10 cores: 60 of 100 are used, and 4 more machines fit, not 6."""
    seen = karpenter({"cpu": "100"})
    claims = [{**claim(index), "status": {"nodeName": f"n{index}", "capacity": {"cpu": "10"}}} for index in range(6)]
    pool = {"metadata": {"name": "gpu"}, "spec": {"limits": {"cpu": "100"}}, "status": {"resources": {"cpu": "60"}}}
    lists = {**seen.lists}
    for kind, objects in ((kinds.NODE_CLAIMS, claims), (kinds.NODE_POOLS, [pool])):
        lists[kind.name] = Listed(tuple(json.dumps(each).encode() for each in objects))
    (found,) = plan_inputs(replace(seen, lists=lists)).pools
    assert [(each.nodes, each.detail) for each in found.ceilings] == [(4, "limits.cpu 100, used 60")]


def test_karpenters_reaction_is_learned_from_the_pods_that_its_nodes_were_made_for() -> None:
    seen = karpenter()
    waited = [{**pod(i), "metadata": {**pod(i)["metadata"], "creationTimestamp": at(-3693 + i)}} for i in range(6)]
    texts = tuple(json.dumps(each).encode() for each in waited)
    known = plan_inputs(replace(seen, lists={**seen.lists, kinds.PODS.name: Listed(texts)})).controllers.reaction_s
    assert (known.source, known.value) == (Source.LEARNED, 3)
    assert plan_inputs(karpenter()).controllers.reaction_s.source is Source.ASSUMED


def cores(most: float, used: float, per_node: float = 8.0) -> ResourceLimit:
    return ResourceLimit(resource="cpu", most=most, used=used, per_node=per_node)


def machines(most: float, used: float) -> ResourceLimit:
    return ResourceLimit(resource="nodes", most=most, used=used, per_node=1.0)


@pytest.mark.parametrize(
    ("limits", "used", "binding"),
    [
        ({"cpu": "100"}, {"cpu": "40"}, (7, "limits.cpu 100, used 40", cores(100, 40))),
        ({"cpu": "100"}, {}, (12, "limits.cpu 100, used 0", cores(100, 0))),
        ({"cpu": "10"}, {"cpu": "40"}, (0, "limits.cpu 10, used 40", cores(10, 40))),
        (
            {"nodes": "5", "cpu": "100"},
            {"cpu": "40", "nodes": "3"},
            (2, "limits.nodes 5, used 3", cores(100, 40), machines(5, 3)),
        ),
    ],
)
def test_a_ceiling_says_what_is_used_and_what_each_more_machine_takes(
    limits: dict[str, str], used: dict[str, str], binding: tuple[Any, ...]
) -> None:
    """Of machines with 8 cores."""
    found = ceiling_of(limits, used)
    assert found is not None
    assert (found.nodes, found.detail, *found.limits) == binding


@pytest.mark.parametrize(
    ("limits", "used"),
    [
        ({"cpu": "many"}, {"cpu": "40"}),
        ({"cpu": "100"}, {"cpu": "many"}),
        ({"cpu": True}, {}),
        ({"nvidia.com/gpu": "8"}, {}),
        ({}, {"cpu": "40"}),
    ],
)
def test_what_cannot_be_read_or_is_not_known_of_a_machine_is_no_ceiling(
    limits: dict[str, Any], used: dict[str, str]
) -> None:
    assert ceiling_of(limits, used) is None


def ceiling_of(limits: dict[str, Any], used: dict[str, str]) -> Ceiling | None:
    body = {"metadata": {"name": "x"}, "spec": {"limits": limits}, "status": {"resources": used}}
    return of_node_pool(msgspec.convert(body, NodePool), {"cpu": 8_000}, 0)


def test_limit_that_our_throttle_holds_is_no_ceiling_but_the_users_own_is() -> None:
    mark = json.dumps({"original": {"cpu": "100"}, "ceiling": {"cpu": "56"}})
    held = karpenter(
        {"cpu": "56"},
        labels={"kube-balloons.github.io/throttle": "all"},
        annotations={"kube-balloons.github.io/original": mark},
    )
    assert [each.nodes for each in plan_inputs(held).pools[0].ceilings] == [6]


def test_a_limit_that_only_our_throttle_has_set_does_not_bound_a_plan() -> None:
    mark = json.dumps({"original": {"nodes": None}, "ceiling": {"nodes": "6"}})
    body = {
        "metadata": {"name": "x", "annotations": {"kube-balloons.github.io/original": mark}},
        "spec": {"limits": {"nodes": "6", "cpu": "100"}},
        "status": {"resources": {"nodes": "5", "cpu": "40"}},
    }
    found = of_node_pool(msgspec.convert(body, NodePool), {"cpu": 8_000}, 0)
    assert found is not None
    assert (found.nodes, [limit.resource for limit in found.limits]) == (7, ["cpu"])


def ca() -> PlanInputs:
    status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": STATUS}}
    quota = {
        "metadata": {"name": "small"},
        "spec": {"limits": {"resources": {"nodes": 5}}},
        "status": {"conditions": [{"type": "Valid", "status": "True"}]},
    }
    invalid = {**quota, "metadata": {"name": "other"}, "spec": {"limits": {"resources": {"nodes": 1}}}, "status": {}}
    pods = [
        component("cluster-autoscaler", "--scan-interval=20s", "--max-node-provision-time=10m"),
        component("kube-controller-manager", "--kube-api-qps=100", "--kube-api-burst=200"),
        component("kube-scheduler"),
    ]
    lists = {
        kinds.NODES: [node(index) for index in range(3)],
        kinds.PODS: pods,
        kinds.AUTOSCALER_STATUS: [status],
        kinds.QUOTAS: [quota, invalid],
    }
    return plan_inputs(cluster(lists, {kinds.DAEMON_SETS: Unread.FORBIDDEN, kinds.API_SERVERS: Unread.FORBIDDEN}))


def test_flags_of_components_are_read() -> None:
    controllers = ca().controllers
    assert (controllers.reaction_s.value, controllers.kill_timer_s.value) == (20, 600)
    assert (controllers.pods_per_s.value, controllers.burst.value) == (100, 200)
    assert controllers.look_s.value == 20, "a wave waits for the next scan"
    assert not controllers.is_look_prompted
    assert controllers.look_s.spread > 0.0, "it takes a while to look, and Karpenter does not"
    assert controllers.pods_per_s.detail == "--kube-api-qps of kube-controller-manager"
    assert controllers.binds_per_s.source is Source.ASSUMED


def test_groups_and_valid_quotas_are_ceilings_and_invalid_ones_are_not() -> None:
    (pool,) = ca().pools
    assert pool.name == "m8"
    assert [(each.name, each.nodes) for each in pool.ceilings] == [
        ("CapacityQuota/small", 2),
        ("cluster-autoscaler's group gpu and 1 more", 11),
    ]


def test_a_plan_bounds_each_pool_by_its_own_groups() -> None:
    status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": STATUS}}
    nodes = [node(0, agentpool="workers"), node(1, agentpool="gpu")]
    pools = plan_inputs(cluster({kinds.NODES: nodes, kinds.AUTOSCALER_STATUS: [status]})).pools
    assert {pool.name: [ceiling.nodes for ceiling in pool.ceilings] for pool in pools} == {"gpu": [8], "workers": [3]}


def test_what_cannot_be_read_is_assumed_and_said() -> None:
    found = ca()
    assert found.controllers.daemon_sets.source is Source.ASSUMED
    assert found.servers.count.source is Source.ASSUMED
    assert found.unseen == (
        "daemonsets.apps not seen: their number is assumed",
        "endpointslices.discovery.k8s.io not seen: the number of API servers is assumed",
    )


def test_each_daemon_set_of_the_cluster_makes_a_join_dearer() -> None:
    two, assumed = plan_inputs(karpenter()).servers, assumed_inputs().servers
    assert two.join_cpu_s.value < assumed.join_cpu_s.value
    assert two.requests_per_join.value < assumed.requests_per_join.value


def test_on_nodes_of_which_none_is_ready_nobody_counts_daemon_sets() -> None:
    sick = node(0)
    sick["status"]["conditions"] = []
    found = plan_inputs(cluster({kinds.NODES: [sick], kinds.DAEMON_SETS: [daemon_set("cni")]}))
    assert found.controllers.daemon_sets.source is Source.ASSUMED


def test_pods_that_wait_load_no_node() -> None:
    assert loads_of((work("bound", "n"), work("waits"))).keys() == {"n"}


@pytest.mark.whole
def test_empty_cluster_can_be_planned_for() -> None:
    found = plan_inputs(cluster({kind: [] for kind in (kinds.NODES, kinds.PODS)}))
    made = make_plan(found, Asked(add=3), T0)
    assert made.coming == 3
    assert made.forecast is not None


@pytest.mark.whole
def test_dump_gives_the_same_plan_as_the_cluster(tmp_path: Path) -> None:
    """Whatever a plan reads of an object is among what is kept of it, and equal clusters give equal plans."""
    seen = karpenter(
        {"cpu": "56"},
        labels={"kube-balloons.github.io/throttle": "all"},
        annotations={"kube-balloons.github.io/original": '{"original": {"cpu": "90"}, "ceiling": {"cpu": "56"}}'},
    )
    with (tmp_path / "dump").open("wb") as file:
        write_archive(seen, file)
    dumped = read_archive(str(tmp_path / "dump"))
    live, offline = (plan_json(make_plan(plan_inputs(each), Asked(add=9), T0)) for each in (seen, dumped))
    assert json.dumps(live) == json.dumps(offline)
    assert live["nodesComing"] == 5


def test_what_the_throttle_reads_and_writes_is_told() -> None:
    signals = {"scrape": {"enabled": False}, "prometheus": {"url": "http://prometheus.example:9090"}}
    spec = {"signals": signals, "levers": {"nodePoolLimits": {"names": ["default"]}}}
    throttle = {"metadata": {"name": "all", "uid": "t"}, "spec": spec}
    found = plan_inputs(cluster({kinds.NODES: [node(0)], kinds.THROTTLES: [throttle]}))
    assert found.throttle is not None
    assert (found.throttle.scrape_s, found.throttle.has_ceiling) == (10.0, True)


@pytest.mark.whole
def test_throttle_that_acts_is_the_policy() -> None:
    learned = {
        "window": 40,
        "joinMilliseconds": 20_000,
        "loadPerJoinMillionths": 5000,
        "learnedAt": at(-600),
        "baselineMicroseconds": 2000,
    }
    throttle = {"metadata": {"name": "all", "uid": "t"}, "spec": {}, "status": {"learned": learned}}
    paused = {"metadata": {"name": "aaa", "uid": "p"}, "spec": {"paused": True}}
    dry = {"metadata": {"name": "aab", "uid": "d"}, "spec": {"dryRun": True}}
    lists = {kinds.NODES: [node(0)], kinds.THROTTLES: [paused, dry, throttle]}
    found = plan_inputs(cluster(lists))
    assert found.throttle is not None
    assert (found.throttle.name, found.throttle.learned and found.throttle.learned.window) == ("all", 40)
    assert (found.throttle.scrape_s, found.throttle.has_ceiling) == (5.0, False)
    assert (found.join_s.value, found.join_s.detail) == (20, "JoinThrottle/all")
    # 0.5 % of a server of 4 cores for 20 s, on each of two.
    assert found.servers.join_cpu_s.value == pytest.approx(0.005 * 4 * 20 * 2)
    small = with_stated(found, Stated(servers=1, server_cores=1))
    assert small.servers.join_cpu_s.value == pytest.approx(0.005 * 20)
    assert make_plan(found, Asked(add=3), T0).policy == "throttle"


@pytest.mark.parametrize(
    "odd",
    [{"joinMilliseconds": -1}, {"joinMilliseconds": 2**31 - 1}, {"loadPerJoinMillionths": -5}, {"learnedAt": "x"}],
)
def test_what_the_law_would_not_believe_of_a_status_no_plan_does(odd: dict[str, Any]) -> None:
    """Somebody edited it: a join of 25 days had no end, and one of less than nothing no meaning."""
    learned = {"joinMilliseconds": 20_000, "loadPerJoinMillionths": 5_000, "learnedAt": at(-600), **odd}
    throttle = {"metadata": {"name": "all", "uid": "t"}, "spec": {}, "status": {"learned": learned}}
    found = plan_inputs(cluster({kinds.NODES: [node(0)], kinds.THROTTLES: [throttle]}))
    assert found.servers.join_cpu_s.source is Source.ASSUMED
    is_join_odd = "loadPerJoinMillionths" not in odd
    assert found.join_s.source is (Source.ASSUMED if is_join_odd else Source.LEARNED)
    assert found.throttle is not None
    assert found.throttle.join_s == (None if is_join_odd else 20.0)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["servers", "server-cores"])
def test_a_sweep_over_servers_asks_about_other_ones_and_corrects_no_guess(name: str) -> None:
    """The cost of a join was learned on those that are there: half as many bear half as much."""
    learned = {"joinMilliseconds": 20_000, "loadPerJoinMillionths": 5_000, "learnedAt": at(-600)}
    throttle = {"metadata": {"name": "all", "uid": "t"}, "spec": {}, "status": {"learned": learned}}
    inputs = plan_inputs(cluster({kinds.NODES: [node(0)], kinds.THROTTLES: [throttle]}))
    less, more = simulate(inputs, "", 40, ["none"], Sweep(name, (1.0, 4.0)))
    assert less.side.peak_utilisation > 1.2 * more.side.peak_utilisation


@pytest.mark.parametrize(
    ("ceiling", "command"),
    [
        (Ceiling(name="NodePool/x", nodes=0), ""),
        (Ceiling(name="--max-nodes", nodes=0, limits=(machines(7, 7),)), ""),
        (
            Ceiling(name="NodePool/x", nodes=0, limits=(cores(8, 7.5, 4.0), machines(9, 7))),
            """kubectl patch nodepool x --type merge -p '{"spec":{"limits":{"cpu":"16"}}}'""",
        ),
        (
            Ceiling(name="NodePool/x", nodes=0, limits=(cores(8, 7.5, 4.0), machines(8, 7))),
            """kubectl patch nodepool x --type merge -p '{"spec":{"limits":{"cpu":"16","nodes":"9"}}}'""",
        ),
        (
            Ceiling(name="CapacityQuota/x", nodes=0, limits=(machines(7, 7),)),
            """kubectl patch capacityquota x --type merge -p '{"spec":{"limits":{"resources":{"nodes":9}}}}'""",
        ),
    ],
)
def test_a_ceiling_is_lifted_by_what_two_nodes_more_take(ceiling: Ceiling, command: str) -> None:
    assert lift(ceiling, 2) == command


def a_quota(nodes: Any, status: str | None = "True", selector: Any = None, **metadata: Any) -> CapacityQuota:
    conditions = [] if status is None else [{"type": "Valid", "status": status}]
    limits = {"resources": {} if nodes is None else {"nodes": nodes}}
    spec = {"limits": limits, **({"selector": {"matchLabels": selector}} if selector else {})}
    body = {"metadata": {"name": "q", **metadata}, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, CapacityQuota)


THREE = [a_node("a"), a_node("b"), a_node("c", labels={"pool": "cpu"})]


@pytest.mark.parametrize(
    ("quota", "left"),
    [
        (a_quota(5), (2, "nodes 5, used 3")),
        (a_quota("5500m"), (2, "nodes 5, used 3")),
        (a_quota(3), (0, "nodes 3, used 3")),
        (a_quota(1), (0, "nodes 1, used 3")),
        (a_quota(5, selector={"pool": "gpu"}), (3, "nodes 5, used 2")),
        (a_quota(5, "False"), None),
        (a_quota(5, "Unknown"), None),
        (a_quota(5, None), None),
        (a_quota(None), None),
        (a_quota("many"), None),
        (a_quota(5, labels={"kube-balloons.github.io/throttle": "joins"}), None),
    ],
)
def test_a_quota_leaves_what_its_nodes_do_not_use_while_it_is_in_force(
    quota: CapacityQuota, left: tuple[int, str] | None
) -> None:
    found = of_quota(quota, THREE)
    assert (None if found is None else (found.nodes, found.detail)) == left
    if found is not None:
        (limit,) = found.limits
        assert (found.name, limit.resource, limit.per_node) == ("CapacityQuota/q", "nodes", 1)
        assert found.detail == f"nodes {limit.most:.0f}, used {limit.used:.0f}"


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([(3, 5)], ("cluster-autoscaler's group g0", 2, "maxSize 5, now 3")),
        ([(3, 5), (2, 4)], ("cluster-autoscaler's group g0 and 1 more", 4, "maxSize 9, now 5")),
        ([(3, 2)], ("cluster-autoscaler's group g0", 0, "maxSize 2, now 3")),
        ([(9, 5), (2, 4)], ("cluster-autoscaler's group g0 and 1 more", 2, "maxSize 9, now 11")),
        ([(3, 5), (2, None)], None),
        ([], None),
    ],
)
def test_groups_leave_their_largest_sizes_less_what_they_have(
    sizes: list[tuple[int, int | None]], left: tuple[str, int, str] | None
) -> None:
    """One that is larger than it may be takes nothing from another."""
    found = of_groups(
        [NodeGroup(f"g{index}", target, target, max_size=most) for index, (target, most) in enumerate(sizes)]
    )
    assert (None if found is None else (found.name, found.nodes, found.detail)) == left


def growing(groups: Sequence[str], **nodes: dict[str, str]) -> dict[str, list[str]]:
    named = [NodeGroup(name=name) for name in groups]
    found = groups_by_pool(named, [a_node(name, labels=labels) for name, labels in nodes.items()])
    return {pool: [group.name for group in of_pool] for pool, of_pool in found.items()}


def test_a_pool_grows_by_the_groups_that_bear_its_name() -> None:
    """All groups bounded every pool: 400 nodes of a pool that may have 10 were promised."""
    gpu, cpu, large = ({"eks.amazonaws.com/nodegroup": name} for name in ("gpu", "cpu", "cpu-large"))
    assert growing(
        ["eks-gpu-1a2b", "eks-cpu-large-3c4d", "eks-cpu-5e6f", "eks-cpu-7a8b", "spare"], a=gpu, b=cpu, c=large
    ) == {
        "gpu": ["eks-gpu-1a2b"],
        "cpu": ["eks-cpu-5e6f", "eks-cpu-7a8b"],
        "cpu-large": ["eks-cpu-large-3c4d"],
    }


def test_a_pool_by_its_instance_type_grows_by_all_groups_that_are_not_anothers() -> None:
    m8 = {"node.kubernetes.io/instance-type": "m8"}
    gpu = {"node.kubernetes.io/instance-type": "g5", "group": "gpus"}
    web = {"node.kubernetes.io/instance-type": "m8", "agentpool": "web"}
    assert growing(["gpus", "m", "spare", "aks-web-1-vmss"], a=m8, b=gpu, c=web) == {
        "m8": ["m", "spare"],
        "g5": ["m", "spare", "gpus"],
        "web": ["aks-web-1-vmss"],
    }


def test_all_groups_count_where_no_name_tells() -> None:
    """As in a dump with hashed names: a bound that is too high is better than one that is too low."""
    assert growing(["x1", "x2"], a={"agentpool": "web"}) == {"web": ["x1", "x2"]}
    assert growing(["", ""], a={"agentpool": "web", "node-role.kubernetes.io/web": ""}) == {"web": ["", ""]}


@pytest.mark.parametrize(
    ("text", "price"),
    [("3", 3.0), ("3.5", 3.5), (".5", 0.5), ("0", 0.0), ("", None), (".", None), ("3.5.1", None), ("-1", None),
     ("1e3", None), ("\u0663", None), ("999999.9", 999999.9), ("1000000", None), ("9" * 63, None)],
)  # fmt: skip
def test_a_price_is_a_plain_number(text: str, price: float | None) -> None:
    assert price_of(a_node("n", labels={"kube-balloons.github.io/price-per-hour": text})) == price
    assert price_of(a_node("n")) is None


def group(*nodes: Node, **more: Any) -> PoolFacts:
    """The only group of these nodes."""
    (pool,) = pools_of(PoolsWorld(nodes=nodes, **{"loads": {}, "births": (), **more}))
    return pool


def test_the_newest_ready_node_speaks_for_those_to_come() -> None:
    lasting = Taint("team", "NoSchedule")
    startup = Taint("startup-taint.cluster-autoscaler.kubernetes.io/x", "NoSchedule")
    old = a_node("old", created_s=1.0, instance_type="old")
    status = Taint("status-taint.cluster-autoscaler.kubernetes.io/slow", "NoSchedule")
    new = a_node("new", created_s=2.0, instance_type="new", taints=(startup, status, lasting))
    twin = a_node("twin", created_s=2.0, instance_type="twin")
    broken = a_node("broken", created_s=3.0, is_ready=False)
    shape = group(old, new, broken, loads={"new": load_of([daemon("d", "new", cpu="1")], -10)}).shape
    assert shape is not None
    assert (shape.instance_type, shape.room["cpu"], shape.taints) == ("new", 15_000, (lasting,))
    assert "kubernetes.io/hostname" not in shape.labels
    zones = [a_node(f"z{number}", labels={ZONE_LABEL: zone}) for number, zone in enumerate(("b", "a", "a"))]
    spread = group(*zones, a_node("nowhere")).shape
    assert spread is not None
    assert spread.zones == ("a", "b")
    of_twins = group(new, twin).shape
    assert of_twins is not None
    assert of_twins.instance_type == "twin", "of equal ages the last by name"
    assert group(broken).shape is None


@pytest.mark.parametrize(
    "key",
    ["node.kubernetes.io/unschedulable", "node.kubernetes.io/memory-pressure", "karpenter.sh/disrupted",
     "ToBeDeletedByClusterAutoscaler", "readiness.k8s.io/gpu-driver"],
)  # fmt: skip
def test_what_happens_to_one_node_is_no_taint_of_those_to_come(key: str) -> None:
    """Somebody may have cordoned the newest node; no pod would have fitted a new one."""
    lasting = Taint("team", "NoSchedule")
    shape = group(a_node("n", is_cordoned=True, taints=(Taint(key, "NoSchedule"), lasting))).shape
    assert shape is not None
    assert shape.taints == (lasting,)


def test_ready_nodes_that_balloons_hold_are_warm() -> None:
    """As `top` counts them: an idle node is none, and others' placeholders hold a node as ours do."""
    balloons = [work(f"b-{name}", name, kind=PodKind.BALLOON) for name in ("held", "busy", "broken")]
    pods = [*balloons, daemon("d", "idle"), work("p", "placed", priority=-10), work("w", "busy")]
    loads = {name: load_of([pod for pod in pods if pod.node == name], -10) for name in {pod.node for pod in pods}}
    nodes = [a_node(name) for name in ("idle", "held", "placed", "busy")]
    pool = group(*nodes, a_node("broken", is_ready=False), loads=loads)
    assert (pool.nodes, pool.warm) == (5, 2)


def test_groups_are_told_by_labels_and_the_control_plane_is_none() -> None:
    labels = {"karpenter.sh/nodepool": "gpu"}
    nodes = [
        a_node("a", labels=labels),
        a_node("b", labels=labels),
        a_node("c"),
        a_node("m", labels={**labels, "node-role.kubernetes.io/control-plane": ""}),
    ]
    found = pools_of(PoolsWorld(nodes=nodes, loads={}, births=()), ["new"])
    assert [(pool.name, pool.nodes) for pool in found] == [("", 1), ("gpu", 2), ("new", 0)]
    assert [(pool.name, pool.nodes) for pool in pools_of(PoolsWorld(nodes=(), loads={}, births=()))] == [("", 0)]


@pytest.mark.parametrize(("own", "boot_s"), [(2, 60.0), (3, 90.0)])
def test_a_group_with_few_births_of_its_own_learns_from_all(own: int, boot_s: float) -> None:
    def born(name: str, boot_s: float) -> Birth:
        return Birth(name=name, pool="", created_s=1000.0, asked_s=1000.0 - boot_s, is_asked_by_claim=True)

    births = [*(born(f"n{number}", 90.0) for number in range(own)), *(born(f"o{number}", 60.0) for number in range(30))]
    nodes = [a_node(f"n{number}") for number in range(own)]
    assert group(*nodes, births=births).boot_s.value == boot_s


@pytest.mark.parametrize(
    ("selector", "labels", "is_bound"),
    [
        (None, {"pool": "gpu"}, True),
        ({"pool": "gpu"}, {"pool": "gpu"}, True),
        ({"pool": "gpu"}, {"pool": "cpu"}, False),
        ({"karpenter.sh/nodepool": "x"}, None, True),
        ({"karpenter.sh/nodepool": "y"}, None, False),
    ],
)
def test_a_quota_bounds_a_pool_whose_new_nodes_it_counts(
    selector: dict[str, str] | None, labels: dict[str, str] | None, *, is_bound: bool
) -> None:
    pool = replace(assumed_inputs().pools[0], name="x")
    if labels is not None:
        shape = group(a_node("n", labels=labels)).shape
        assert shape is not None
        pool = replace(pool, shape=replace(shape, labels=labels))
    assert applies(a_quota(5, selector=selector), pool) is is_bound


def test_the_lowest_ceiling_comes_first_and_of_equal_ones_the_first_by_name() -> None:
    pool = replace(assumed_inputs().pools[0], ceilings=(Ceiling(name="b", nodes=7),))
    found = with_ceilings(
        pool, [Ceiling(name="c", nodes=9), None, Ceiling(name="a", nodes=7), Ceiling(name="d", nodes=1)]
    )
    assert [ceiling.name for ceiling in found.ceilings] == ["d", "a", "b", "c"]


@pytest.mark.parametrize(
    ("flag", "seconds"), [("2m", 120.0), ("45", 45.0), ("0", None), ("soon", None), ("\u0663", None), ("", None)]
)
def test_a_flag_is_a_number_or_a_time_above_nothing(flag: str, seconds: float | None) -> None:
    pods = [component("cluster-autoscaler", f"--max-node-provision-time={flag}")]
    found = plan_inputs(cluster({kinds.NODES: [node(0)], kinds.PODS: pods})).controllers.kill_timer_s
    assert (found.value, found.source) == ((seconds, Source.STATED) if seconds else (900.0, Source.ASSUMED))
