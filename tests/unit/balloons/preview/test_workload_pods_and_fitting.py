"""Where pods go: onto what is there, onto new machines, or nowhere; and gangs whole."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from msgspec import structs

from balloons.decide.release_to_waiting_work import PodClass, admits
from balloons.preview import workload_pods_and_fitting
from balloons.preview.inputs import Ceiling, NodeShape, PlanInputs, assumed_inputs, stopped
from balloons.preview.workload_pods_and_fitting import AskedClass, Fitting, Place, PodsError, asked_pods, fit_pods
from balloons.view.node_load_and_devices import load_of
from tests.world import a_node, work
from throttler.kube.node import Node
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.taints import Taint

ROOM = parse_resources({"cpu": "15", "memory": "60Gi", "pods": "110"})
_OWN_KIND = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_OWN_KIND]}}


def inputs(**shape: Any) -> PlanInputs:
    found = assumed_inputs()
    given = {"instance_type": "big", "room": ROOM, "labels": {"pool": "gpu"}, **shape}
    return replace(found, pools=(replace(found.pools[0], name="gpu", shape=NodeShape(**given)),))


def job(cpu: str = "8", parallelism: int = 4, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    template = {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"parallelism": parallelism, "template": template},
    }


def fitted(document: dict[str, Any], nodes: int = 0, given: PlanInputs | None = None, gang: bool = True) -> Fitting:
    pods = asked_pods([document], is_gang=gang)
    return fit_pods(pods, [a_node(f"n{index}") for index in range(nodes)], {}, given or inputs())


def test_what_is_null_is_absent_and_a_date_is_a_text() -> None:
    """As charts write it, and as kubectl applies it."""
    null = dict.fromkeys(("nodeSelector", "tolerations", "affinity", "initContainers", "overhead", "schedulerName"))
    made = job(parallelism=2, **null)
    made["metadata"] = {**made["metadata"], "creationTimestamp": None, "namespace": None}
    made["spec"]["completions"] = None
    template = made["spec"]["template"]
    template["metadata"] = {**template["metadata"], "annotations": {"on": date(2026, 11, 21)}, "labels": None}
    template["spec"]["containers"][0] |= {"ports": None}
    template["spec"]["containers"][0]["resources"]["requests"]["memory"] = None
    assert asked_pods([made], is_gang=False)[0].pod.requests["cpu"] == 8000
    assert len(asked_pods([made, {"kind": "Pod", "metadata": None, "spec": None}], is_gang=False)) == 3


@pytest.mark.parametrize("items", [5, "pods", {"kind": "Pod"}, True])
def test_a_list_whose_items_are_none_is_refused(items: Any) -> None:
    with pytest.raises(PodsError, match=r"of a List is no list; accepted: a list of objects$"):
        asked_pods([{"kind": "List", "items": items}], is_gang=False)
    with pytest.raises(PodsError, match=r"^there are no pods in it"):
        asked_pods([{"kind": "List", "items": None}], is_gang=False)


def test_gang_that_fits_warm_nodes_goes_now() -> None:
    found = fitted(job(parallelism=4), nodes=2)
    assert (found.on_there, found.on_new, dict(found.new_nodes)) == (4, 0, {})
    assert [(gang.name, gang.fits_now) for gang in found.gangs] == [("ml/train", True)]


@pytest.mark.parametrize(("others", "on_there"), [((), 4), ((0,), 2)])
def test_nodes_that_placeholders_of_others_keep_warm_take_the_pods(others: tuple[int, ...], on_there: int) -> None:
    """A plan counted them as warm, and ordered nodes for jobs that start on them at once."""
    placed = [work("placeholder", "n0", cpu="7", priority=-10), *(work("w", "n0", cpu="1", priority=p) for p in others)]
    pods, loads = asked_pods([job(cpu="4")], is_gang=False), {"n0": load_of(placed, -10)}
    found = fit_pods(pods, [a_node("n0")], loads, inputs())
    assert (found.on_there, found.on_there + found.on_new) == (on_there, 4)


def test_gang_that_does_not_fit_whole_waits_for_new_nodes() -> None:
    found = fitted(job(parallelism=5), nodes=2)
    # Two pods of 8 cores fit a node of 16 that is there, one a new one that keeps 15.
    assert (found.on_there, found.on_new, dict(found.new_nodes)) == (4, 1, {"gpu": 1})
    assert not found.gangs[0].fits_now
    assert found.gangs[0].is_placeable


def test_room_is_what_running_pods_leave() -> None:
    busy = work("w", "n0", cpu="12")
    pods = asked_pods([job(parallelism=1)], is_gang=False)
    found = fit_pods(pods, [a_node("n0")], {"n0": load_of([busy], -10)}, inputs())
    assert (found.on_there, found.on_new) == (0, 1)


@pytest.mark.parametrize(("claims_devices", "on_there"), [(True, 1), (False, 2)])
def test_pods_with_claims_go_where_no_work_has_claimed_devices(*, claims_devices: bool, on_there: int) -> None:
    """By its cpu alone a node with eight claimed GPUs has room for many more."""
    other = work("notebook", "n0", cpu="1", claims_devices=claims_devices)
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight-gpus"}]
    pods = asked_pods([job(cpu="1", parallelism=2, resourceClaims=claims)], is_gang=False)
    found = fit_pods(pods, [a_node("n0"), a_node("n1")], {"n0": load_of([other], -10)}, inputs())
    assert (found.on_there, found.on_new, found.unjudged) == (on_there, 2 - on_there, 2)


def test_work_that_has_claimed_devices_keeps_out_no_pod_that_only_wants_to_be_alone_of_its_kind() -> None:
    other = work("notebook", "n0", cpu="1", claims_devices=True)
    pods = asked_pods([job(cpu="1", parallelism=2, affinity=APART)], is_gang=False)
    found = fit_pods(pods, [a_node("n0"), a_node("n1")], {"n0": load_of([other], -10)}, inputs())
    assert (found.on_there, found.on_new) == (2, 0)


@pytest.mark.parametrize(
    ("spec", "shape", "reason"),
    [
        ({"nodeSelector": {"pool": "cpu"}}, {}, "labels it asks for"),
        ({}, {"taints": (Taint("dedicated", "NoSchedule", "x"),)}, "labels it asks for"),
        ({"cpu": "64"}, {}, "larger than a new node"),
        ({"overhead": {"nvidia.com/gpu": "1"}}, {}, "no pool that takes it has nodes with nvidia.com/gpu (what a DRA"),
    ],
)
def test_pods_that_fit_nowhere_are_named_with_the_reason(
    spec: dict[str, Any], shape: dict[str, Any], reason: str
) -> None:
    found = fitted(job(**spec), given=inputs(**shape))
    assert found.unplaceable[0].pods == 4
    assert reason in found.unplaceable[0].reason
    assert dict(found.new_nodes) == {}
    (gang,) = found.gangs
    assert (gang.is_placeable, gang.fits_now) == (False, False)


def test_toleration_lets_pods_in() -> None:
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    found = fitted(job(tolerations=tolerations), given=inputs(taints=(Taint("dedicated", "NoSchedule", "x"),)))
    assert (found.on_new, dict(found.new_nodes)) == (4, {"gpu": 4})


@pytest.mark.parametrize(("zone", "nodes"), [("a", {"gpu": 4}), ("b", {"gpu": 4}), ("c", {})])
def test_a_new_node_may_come_in_any_zone_of_its_pool(zone: str, nodes: dict[str, int]) -> None:
    """The newest node, which speaks for those to come, is in one of them by chance."""
    key = "topology.kubernetes.io/zone"
    given = inputs(labels={"pool": "gpu", key: "a"}, zones=("a", "b"))
    fit = fitted(job(nodeSelector={key: zone}), given=given)
    assert (dict(fit.new_nodes), bool(fit.unplaceable)) == (nodes, not nodes)


def test_pods_that_keep_each_other_away_get_a_node_each() -> None:
    found = fitted(job(cpu="1", affinity=APART), nodes=1)
    assert (found.on_there, dict(found.new_nodes)) == (1, {"gpu": 3})


def spread(skew: int = 1, **selector: str) -> list[dict[str, Any]]:
    labels = selector or {"app": "train"}
    return [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": skew,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def test_pods_spread_evenly_over_hosts() -> None:
    even = fitted(job(cpu="1", parallelism=6, topologySpreadConstraints=spread()), nodes=3)
    assert (even.on_there, even.on_new, even.unjudged) == (6, 0, 0)


def test_host_that_is_full_holds_an_even_spread_back() -> None:
    pods = asked_pods([job(cpu="1", parallelism=5, topologySpreadConstraints=spread())], is_gang=False)
    full = load_of([work("w", "n0", cpu="16")], -10)
    found = fit_pods(pods, [a_node("n0"), a_node("n1")], {"n0": full}, inputs())
    # One on n1, then n0 has none and can take none: each further pod needs a host of its own.
    assert (found.on_there, dict(found.new_nodes)) == (1, {"gpu": 4})
    wide = asked_pods([job(cpu="1", parallelism=5, topologySpreadConstraints=spread(skew=3))], is_gang=False)
    found = fit_pods(wide, [a_node("n0"), a_node("n1")], {"n0": full}, inputs())
    assert (found.on_there, dict(found.new_nodes)) == (3, {"gpu": 1})


def test_tainted_hosts_hold_an_even_spread_back_unless_it_honors_taints() -> None:
    """Kubernetes' default nodeTaintsPolicy is Ignore: a host that the pods cannot go to counts, and has none."""
    tainted = structs.replace(a_node("t"), taints=(Taint("dedicated", "NoSchedule", "x"),))
    document = job(cpu="1", parallelism=6, topologySpreadConstraints=spread())
    honoring = [{**spread()[0], "nodeTaintsPolicy": "Honor"}]
    nodes = [a_node("n0"), a_node("n1"), tainted]
    found = fit_pods(asked_pods([document], is_gang=False), nodes, {}, inputs())
    assert (found.on_there, dict(found.new_nodes)) == (2, {"gpu": 4})
    honored = asked_pods([job(cpu="1", parallelism=6, topologySpreadConstraints=honoring)], is_gang=False)
    assert fit_pods(honored, nodes, {}, inputs()).on_there == 6


def test_an_even_spread_over_many_new_hosts_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each host that came all others were looked at again."""
    looks, has = 0, Place.has

    def counted(place: Place, asked: AskedClass) -> int:
        nonlocal looks
        looks += 1
        return has(place, asked)

    monkeypatch.setattr(Place, "has", counted)
    full = {f"n{index}": load_of([work("w", f"n{index}", cpu="16")], -10) for index in range(20)}
    document = job(cpu="1", parallelism=300, topologySpreadConstraints=spread())
    fit = fit_pods(asked_pods([document], is_gang=False), [a_node(name) for name in full], full, inputs())
    assert (fit.on_there, dict(fit.new_nodes)) == (0, {"gpu": 300})
    assert looks < 20 * 320


def test_karpenter_puts_no_more_than_the_skew_on_a_host_that_it_buys() -> None:
    """Five hosts are full with two each; cluster-autoscaler would put two on a new one as well, Karpenter one."""
    document = job(cpu="8", parallelism=12, topologySpreadConstraints=spread())
    given = inputs(room=parse_resources({"cpu": "16", "memory": "60Gi", "pods": "110"}))
    assert dict(fitted(document, nodes=5, given=given).new_nodes) == {"gpu": 1}
    bought = inputs(room=given.pools[0].shape.room, labels={"karpenter.sh/nodepool": "gpu"})  # type: ignore[union-attr]
    assert dict(fitted(document, nodes=5, given=bought).new_nodes) == {"gpu": 2}


def test_hosts_of_karpenter_that_are_there_take_as_many_as_their_skew_allows() -> None:
    """Only of a host that it has yet to buy Karpenter takes the fewest to be none."""
    document = job(cpu="1", parallelism=6, topologySpreadConstraints=spread())
    bought = [a_node(f"n{index}", labels={"pool": "gpu", "karpenter.sh/nodepool": "gpu"}) for index in range(2)]
    found = fit_pods(asked_pods([document], is_gang=False), bought, {}, inputs())
    assert (found.on_there, dict(found.new_nodes)) == (6, {})


@pytest.mark.parametrize("name", ["gpu", ""])
def test_hosts_to_come_take_one_more_of_an_even_spread_with_each_that_is_bought(name: str) -> None:
    """Two a host: of seven pods the fourth machine gets the last one."""
    document = job(cpu="7", parallelism=7, topologySpreadConstraints=spread())
    given = inputs()
    given = replace(given, pools=(replace(given.pools[0], name=name),))
    found = fitted(document, given=given, gang=False)
    assert (found.on_there, found.on_new, dict(found.new_nodes), found.unplaceable) == (0, 7, {name: 4}, ())


def test_no_more_pods_are_put_than_there_are() -> None:
    assert fitted(job(parallelism=3), nodes=2).on_there == 3
    document = job(cpu="1", parallelism=4, topologySpreadConstraints=spread())
    assert fitted(document, nodes=3).on_there == 4


def test_what_several_pods_take_is_taken_off_before_the_next_kind_comes() -> None:
    """Two of six cores leave four of sixteen."""
    documents = [job(cpu="6", parallelism=2), job(cpu="4", parallelism=3)]
    found = fit_pods(asked_pods(documents, is_gang=False), [a_node("n")], {}, inputs())
    assert (found.on_there, found.on_new) == (3, 2)


def test_pods_that_keep_each_other_away_do_so_however_wide_their_spread_may_be() -> None:
    document = job(cpu="1", parallelism=4, affinity=APART, topologySpreadConstraints=spread(skew=3))
    found = fitted(document, nodes=1)
    assert (found.on_there, dict(found.new_nodes)) == (1, {"gpu": 3})


def test_a_host_that_comes_lets_those_that_are_there_take_one_more() -> None:
    """n0 is full with one; n1 has one of two and may have another only once a new host has one, too."""
    document = job(cpu="7", parallelism=4, topologySpreadConstraints=spread())
    half = load_of([work("w", "n0", cpu="9")], -10)
    pods = asked_pods([document], is_gang=False)
    found = fit_pods(pods, [a_node("n0"), a_node("n1")], {"n0": half}, inputs())
    assert (found.on_there, found.on_new, dict(found.new_nodes)) == (3, 1, {"gpu": 1})


@pytest.mark.parametrize(
    "more",
    [
        {"minDomains": 3},
        {"nodeAffinityPolicy": "Ignore"},
        {"topologyKey": "topology.kubernetes.io/zone"},
        {"labelSelector": {}},
        {
            "labelSelector": {
                "matchLabels": {"app": "train"},
                "matchExpressions": [{"key": "app", "operator": "Exists"}],
            }
        },
    ],
)
def test_spread_with_rules_beyond_the_skew_is_not_judged(more: dict[str, Any]) -> None:
    assert fitted(job(topologySpreadConstraints=[{**spread()[0], **more}]), nodes=2).unjudged == 4


def test_spread_of_other_pods_is_not_judged() -> None:
    assert fitted(job(topologySpreadConstraints=spread(app="other")), nodes=2).unjudged == 4


def test_kinds_that_differ_in_size_alone_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 kinds on 5,000 nodes were judged 15 million times."""
    judged = list[str]()

    def spy(node: Node, wanted: PodClass) -> bool:
        judged.append(node.name)
        return admits(node, wanted)

    monkeypatch.setattr(workload_pods_and_fitting, "admits", spy)
    pods = asked_pods([job(cpu=f"{cpu}m", parallelism=1) for cpu in range(100, 140)], is_gang=False)
    assert fit_pods(pods, [a_node("n0"), a_node("n1")], {}, inputs()).on_there == 40
    assert judged == ["n0", "n1"]


def test_small_pods_share_new_nodes() -> None:
    found = fitted(job(cpu="1", parallelism=31), gang=False)
    assert (dict(found.new_nodes), found.gangs) == ({"gpu": 3}, ())


def test_pods_that_find_room_on_a_node_to_come_need_no_other() -> None:
    """One of eight cores leaves seven of fifteen, for one of four; three more of four fill the next."""
    documents = [job(cpu="8", parallelism=1), job(cpu="4", parallelism=4)]
    found = fit_pods(asked_pods(documents, is_gang=False), [], {}, inputs())
    assert (found.on_there, found.on_new, dict(found.new_nodes)) == (0, 5, {"gpu": 2})


def test_rules_that_are_not_judged_are_counted() -> None:
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert fitted(job(volumes=claims)).unjudged == 4


@pytest.mark.parametrize(
    ("document", "pods"),
    [
        ({"kind": "Deployment", "spec": {"replicas": 3, "template": {"spec": {"containers": []}}}}, 3),
        ({"kind": "List", "items": [{"spec": {"containers": []}}, {"kind": "Pod", "spec": {}}]}, 2),
        ({**job(parallelism=9), "spec": {**job()["spec"], "parallelism": 9, "completions": 5}}, 5),
    ],
)
def test_workloads_stand_for_their_pods(document: dict[str, Any], pods: int) -> None:
    assert len(asked_pods([document], is_gang=False)) == pods


@pytest.mark.parametrize("replicas", [-1, True, "many", 10**9])
def test_impossible_numbers_of_pods_are_refused(replicas: Any) -> None:
    document = {"kind": "Deployment", "spec": {"replicas": replicas, "template": {}}}
    with pytest.raises(PodsError, match=r"^replicas .*; accepted: a whole number from 0 to 1,000,000"):
        asked_pods([document], is_gang=False)


def pods(count: int, **requests: str) -> dict[str, Any]:
    document = job(parallelism=count)
    container = {"name": "main", "resources": {"requests": {"cpu": "1", **requests}}}
    template = {**document["spec"]["template"], "spec": {"containers": [container]}}
    return {**document, "spec": {"parallelism": count, "template": template}}


@pytest.mark.parametrize(
    ("large", "small", "on_there"),
    [
        ({"cpu": "12"}, {"cpu": "1"}, 1 + 4),
        ({"memory": "40Gi"}, {"memory": "8Gi"}, 1 + 3),
        ({"nvidia.com/gpu": "1", "memory": "1Gi"}, {"cpu": "2"}, 1 + 7),
        ({"nvidia.com/gpu": "1"}, {"cpu": "2"}, 1 + 7),
    ],
)
def test_the_largest_pods_are_placed_first_in_whatever_order_they_are_given(
    large: dict[str, str], small: dict[str, str], on_there: int
) -> None:
    """By devices, then cores, then memory: eight or more small ones would fill the node on their own."""
    size = parse_resources({"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "1"})
    both = [pods(1, **large), pods(8, **small)]
    for documents in (both, both[::-1]):
        found = fit_pods(asked_pods(documents, is_gang=False), [a_node("n", allocatable=size)], {}, inputs())
        assert (found.on_there, found.unplaceable) == (on_there, ())


def test_a_gang_of_which_a_part_fits_nowhere_is_not_placeable_whatever_else_fits() -> None:
    pods = asked_pods([job(cpu="99", parallelism=1), job(cpu="8", parallelism=2)], is_gang=True)
    for order in (pods, tuple(reversed(pods))):
        (gang,) = fit_pods(order, [], {}, inputs()).gangs
        assert (gang.pods, gang.pods_on_new, gang.is_placeable) == (3, 2, False)


def test_a_pool_of_which_no_machine_is_known_takes_no_pod() -> None:
    found = inputs()
    blind = replace(found, pools=(replace(found.pools[0], name="blind", shape=None), *found.pools))
    assert dict(fitted(job(parallelism=1), given=blind).new_nodes) == {"gpu": 1}
    assert fit_pods(asked_pods([job()], is_gang=False), [], {}, blind, "blind").unplaceable
    assert dict(fit_pods(asked_pods([job()], is_gang=False), [], {}, blind, "gpu").new_nodes) == {"gpu": 4}


def two_pools(first: NodeShape, second: NodeShape) -> PlanInputs:
    known = inputs()
    (only,) = known.pools
    return replace(known, pools=(replace(only, name="a", shape=first), replace(only, name="b", shape=second)))


def bounded(given: PlanInputs, *ceilings: tuple[str, int]) -> PlanInputs:
    """The same pools with one ceiling each; of equal names it is one."""
    bounds = [(Ceiling(name=name, nodes=nodes),) for name, nodes in ceilings]
    pools = (replace(pool, ceilings=own) for pool, own in zip(given.pools, bounds, strict=True))
    return replace(given, pools=tuple(pools))


@pytest.mark.parametrize(
    ("ceilings", "new", "coming"),
    [
        ((("x", 9), ("y", 9)), {"a": 4}, 4),
        ((("x", 1), ("y", 9)), {"a": 1, "b": 3}, 4),
        ((("x", 0), ("y", 9)), {"b": 4}, 4),
        ((("x", 1), ("y", 2)), {"a": 2, "b": 2}, 3),
        ((("both", 3), ("both", 3)), {"a": 4}, 3),
    ],
)
def test_a_pool_at_its_ceiling_is_asked_last(
    ceilings: tuple[tuple[str, int], ...], new: dict[str, int], coming: int
) -> None:
    """As both autoscalers have it: a full pool is no reason for pods to wait that another one takes."""
    shape = NodeShape(instance_type="l", room=ROOM)
    given = bounded(two_pools(shape, shape), *ceilings)
    fitting = fitted(job(), given=given)
    assert dict(fitting.new_nodes) == new
    assert 4 - sum(nodes for nodes, _ in stopped(new, given.pools)) == coming


@pytest.mark.parametrize(
    ("ceilings", "beyond"),
    [
        ({"x": (1, "a"), "ab": (3, "ab")}, {"x": 3}),
        ({"x": (1, "a"), "ab": (2, "ab")}, {"x": 3, "ab": 1}),
        ({"ab": (2, "ab"), "bc": (3, "bc")}, {"ab": 4, "bc": 1}),
    ],
    ids=["there is room for the rest", "there is room for less than the rest", "half of a pool has been stopped"],
)
def test_a_node_that_one_ceiling_stops_takes_no_room_below_the_next(
    ceilings: dict[str, tuple[int, str]], beyond: dict[str, int]
) -> None:
    (only,) = inputs().pools
    bounds = {name: (Ceiling(name=name, nodes=nodes), pools) for name, (nodes, pools) in ceilings.items()}
    facts = [
        replace(only, name=name, ceilings=tuple(ceiling for ceiling, pools in bounds.values() if name in pools))
        for name in "abc"
    ]
    stops = stopped({"a": 4, "b": 2, "c": 2}, facts)
    assert {ceiling.name: nodes for nodes, ceiling in stops} == beyond


def test_the_first_pool_that_takes_a_class_gets_it_and_one_that_does_not_is_passed_over() -> None:
    small = NodeShape(instance_type="s", room=parse_resources({"cpu": "4", "memory": "60Gi", "pods": "110"}))
    large = NodeShape(instance_type="l", room=ROOM)
    assert dict(fitted(job(), given=two_pools(small, large)).new_nodes) == {"b": 4}
    assert dict(fitted(job(), given=two_pools(large, large)).new_nodes) == {"a": 4}


def test_pods_that_a_pool_would_take_if_its_machines_were_larger_are_told_so() -> None:
    closed = NodeShape(instance_type="c", room=ROOM, taints=(Taint("dedicated", "NoSchedule", "x"),))
    open_to = NodeShape(instance_type="o", room=ROOM)
    (nowhere,) = fitted(job(cpu="99"), given=two_pools(closed, open_to)).unplaceable
    assert nowhere.reason == "larger than a new node of any pool that takes it"
    (unknown,) = fitted(job(), given=replace(inputs(), pools=())).unplaceable
    assert unknown.reason == "no node fits, and no pool's machines are known"


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "spec": {"template": {"spec": {"containers": []}}, **spec}}


@pytest.mark.parametrize(
    ("document", "pods"),
    [
        (workload("Deployment"), 1),
        (workload("Job"), 1),
        (workload("Job", completions=3), 1),
        (workload("Job", parallelism=3), 3),
        (workload("StatefulSet", replicas=1_000_000), 1_000_000),
        ({"kind": "List", "items": [workload("ReplicaSet", replicas=2), workload("Deployment", replicas=0)]}, 2),
    ],
)
def test_what_a_workload_leaves_out_is_as_kubernetes_takes_it(document: dict[str, Any], pods: int) -> None:
    assert len(asked_pods([document], is_gang=False)) == pods


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([], "there are no pods in it; accepted: Pod, List, Job"),
        ([workload("Deployment", replicas=0)], "there are no pods in it"),
        ([{"kind": "List", "items": None}], "there are no pods in it"),
        ([workload("Job", parallelism=1_000_000), workload("Job")], "more than 1,000,000 pods"),
        ([workload("Deployment", replicas=1_000_001)], "replicas '1000001'; accepted: a whole number from 0 to"),
        ([workload("Deployment", replicas="9" * 50)], f"replicas '{'9' * 40}';"),
        (["x" * 50], f"'{'x' * 40}' is no object"),
        ([{"kind": "List", "items": [3]}], "'3' is no object"),
        ([{"kind": "K" * 70, "spec": {}}], f"kind '{'K' * 60}' has no pods that are known here"),
        ([{"kind": "Pod", "metadata": {"name": "n" * 90}, "spec": []}], None),
        (
            [{"kind": "Pod", "metadata": {"name": "n" * 90}, "spec": {"containers": 3}}],
            f"pod {'n' * 80}: ",
        ),
    ],
)
def test_what_is_no_pod_is_refused_with_what_is_accepted(documents: list[Any], words: str | None) -> None:
    if words is None:
        assert len(asked_pods(documents, is_gang=False)) == 1
        return
    with pytest.raises(PodsError) as refusal:
        asked_pods(documents, is_gang=False)
    assert words in str(refusal.value)


def test_a_workload_that_is_to_be_a_gang_is_one_whatever_gang_its_pods_name() -> None:
    document = job(parallelism=2)
    document["spec"]["template"]["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "other"}
    assert [gang.name for gang in fitted(document, nodes=1).gangs] == ["ml/train"]
    assert [gang.name for gang in fitted(document, nodes=1, gang=False).gangs] == ["ml/other"]


def test_a_priority_may_be_written_as_a_text() -> None:
    (asked,) = asked_pods([{"kind": "Pod", "spec": {"priority": "-5"}}], is_gang=False)
    assert asked.pod.priority == -5


def test_a_gang_without_a_name_is_called_pods() -> None:
    found = fit_pods(asked_pods([workload("Job", parallelism=2)], is_gang=True), [a_node("n")], {}, inputs())
    assert [gang.name for gang in found.gangs] == ["/pods"]


@pytest.mark.parametrize(
    ("spec", "on_there"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": 8}}}]}, 2),
        ({"containers": [{"resources": {"requests": {"cpu": "8"}}}]}, 2),
        ({"containers": [{"resources": {"requests": {"cpu": 2.5}}}]}, 6),
        ({"containers": [{}], "initContainers": [{"resources": {"requests": {"cpu": 8}}}]}, 2),
        ({"containers": [{}], "resources": {"requests": {"cpu": 4}}}, 4),
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": 3}}, 4),
    ],
)
def test_requests_may_be_written_as_numbers(spec: dict[str, Any], on_there: int) -> None:
    """Of eight pods so many fit a node of 16 cores."""
    document = {"kind": "Deployment", "spec": {"replicas": 8, "template": {"spec": spec}}}
    pods = asked_pods([document], is_gang=False)
    assert fit_pods(pods, [a_node("n")], {}, replace(inputs(), pools=())).on_there == on_there


@pytest.mark.parametrize(
    ("spec", "on_there"),
    [
        ({"containers": [{"resources": {"limits": {"cpu": 8}}}]}, 2),
        ({"containers": [{"resources": {"limits": {"cpu": "8"}, "requests": None}}]}, 2),
        ({"containers": [{"resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "2"}}}]}, 8),
        ({"containers": [{"resources": {"limits": {"cpu": "8"}, "requests": {"memory": "1Gi"}}}]}, 2),
        ({"containers": [{"resources": {"limits": {"cpu": "8"}}}, {"resources": {"requests": {"cpu": "8"}}}]}, 1),
        ({"containers": [{}], "initContainers": [{"resources": {"limits": {"cpu": "8"}}}]}, 2),
        ({"containers": [{}], "resources": {"limits": {"cpu": "8"}}}, 2),
        ({"containers": [{}], "resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "2"}}}, 8),
        ({"containers": [{"resources": {"requests": {"cpu": "4"}}}], "resources": {"limits": {"cpu": "8"}}}, 4),
        ({"containers": [{"resources": {"limits": {"cpu": "4"}}}], "resources": {"limits": {"cpu": "8"}}}, 4),
    ],
)
def test_what_is_only_limited_is_requested_up_to_its_limit(spec: dict[str, Any], on_there: int) -> None:
    """As a real API server has it; a node of 16 cores takes so many of eight pods."""
    document = {"kind": "Deployment", "spec": {"replicas": 8, "template": {"spec": spec}}}
    pods = asked_pods([document], is_gang=False)
    assert fit_pods(pods, [a_node("n")], {}, replace(inputs(), pools=())).on_there == on_there


@pytest.mark.parametrize("limits", [{"cpu": True}, {"cpu": "much"}])
def test_limits_that_are_no_amounts_are_refused(limits: Any) -> None:
    document = {"kind": "Pod", "spec": {"containers": [{"resources": {"limits": limits}}]}}
    with pytest.raises(PodsError, match="pod pod: "):
        asked_pods([document], is_gang=False)


@pytest.mark.parametrize("amounts", [{"cpu": True}, {"cpu": [8]}, ["cpu"], 8])
def test_requests_that_are_no_amounts_are_refused(amounts: Any) -> None:
    document = {"kind": "Pod", "spec": {"containers": [{"resources": {"requests": amounts}}]}}
    with pytest.raises(PodsError, match="pod pod: "):
        asked_pods([document], is_gang=False)


@pytest.mark.parametrize(("amounts", "kind"), [(["cpu"], "array"), (8, "int")])
def test_requests_that_are_no_object_are_called_what_they_are(amounts: Any, kind: str) -> None:
    document = {"kind": "Pod", "spec": {"containers": [{"resources": {"requests": amounts}}]}}
    with pytest.raises(PodsError, match=f"pod pod: Expected `object`, got `{kind}`"):
        asked_pods([document], is_gang=False)


@pytest.mark.parametrize("odd", ["main", 8, ["main"]])
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_what_is_no_container_is_refused(field: str, odd: Any) -> None:
    with pytest.raises(PodsError, match="pod pod: "):
        asked_pods([{"kind": "Pod", "spec": {"containers": [{}], field: [odd]}}], is_gang=False)


def test_a_spread_without_a_skew_is_as_even_as_can_be() -> None:
    """One of the two hosts is full, so the other gets one, and each further pod a host of its own."""
    bare = [{key: value for key, value in spread()[0].items() if key != "maxSkew"}]
    document = asked_pods([job(cpu="1", parallelism=4, topologySpreadConstraints=bare)], is_gang=False)
    full = load_of([work("w", "n0", cpu="16")], -10)
    found = fit_pods(document, [a_node("n0"), a_node("n1")], {"n0": full}, inputs())
    assert (found.on_there, dict(found.new_nodes)) == (1, {"gpu": 3})
