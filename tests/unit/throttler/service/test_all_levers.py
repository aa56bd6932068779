"""Which levers of a throttle move what: those that its spec names, on the objects that are its own."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import a_node, a_world, pending
from tests.unit.throttler.service.throttle_scene import QUOTAS_SERVED, a_pool, a_throttle, a_view
from throttler.api.throttle import NodePoolLever
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodePool, NodePoolSpec
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Taint
from throttler.levers.lever_and_reasons import LeverState
from throttler.levers.node_pool_limits import unpaced_pools
from throttler.levers.pool_shares import is_of, may_make
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.decide_throttles import Memories, decide_throttles
from throttler.service.throttle_status import conditions

POOL_A = LabelSelector({"pool": "a"})
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"


def reasons(levers: dict[str, Any], **view: Any) -> dict[str, str]:
    throttle = a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers=levers, maxWait="3m")
    turns, _ = decide_throttles((throttle,), a_view(1000.0, **view), {})
    return {lever.name: lever.because.code for lever in turns[0].findings.levers}


def test_no_lever_is_moved_that_the_spec_does_not_name() -> None:
    assert reasons({"headroom": True}, scene={"limited": (a_pool(),)}) == {}


def test_each_lever_that_is_named_says_why() -> None:
    levers = {
        "capacityQuota": {"name": "q"},
        "nodePoolLimits": {},
        "schedulingGates": {},
        "startupTaint": {"key": TAINT},
        "daemonSetLabel": {"key": "example.com/on"},
    }
    codes = reasons(levers, scene={"limited": (a_pool(),), "versions": QUOTAS_SERVED})
    assert len(codes) == 5
    assert {"CapacityQuota/q", "NodePool/pool-a", f"StartupTaint/{TAINT}"} <= codes.keys()


def test_a_quota_that_is_not_served_says_so() -> None:
    assert reasons({"capacityQuota": {"name": "q"}}) == {"CapacityQuota/q": "QuotaNotServed"}


def test_only_nodes_of_the_throttle_are_held() -> None:
    taints = (Taint(TAINT, "NoSchedule"),)
    nodes = [a_node("mine", taints=taints), a_node("theirs", taints=taints, labels={"pool": "b"})]
    throttle = a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers={"startupTaint": {"key": TAINT}}, paused=True)
    turns, _ = decide_throttles((throttle,), a_view(1000.0, a_world(*nodes)), {})
    assert [write.key.name for write in turns[0].lever_writes] == ["mine"]


def test_only_gated_pods_that_may_use_the_throttles_nodes_are_released() -> None:
    gated: dict[str, Any] = {"is_gated": True, "is_tried": False, "gates": (PACED_GATE,)}
    pods = (pending("mine", **gated), pending("theirs", node_selector={"pool": "b"}, **gated))
    throttle = a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers={"schedulingGates": {}}, paused=True)
    turns, _ = decide_throttles((throttle,), a_view(1000.0, a_world(unplaced=pods)), {})
    assert [write.key.name for write in turns[0].lever_writes] == ["mine"]


HOLDS_NOTHING = [{"paused": True}, {"dryRun": True}, {}]
"""How a throttle says so; the last one is merely younger."""


MARK: dict[str, Any] = {"startupTaint": {"key": TAINT}}


@pytest.mark.parametrize("how", HOLDS_NOTHING)
@pytest.mark.parametrize("mark", [MARK, {"daemonSetLabel": {"key": "example.com/on"}}])
def test_nodes_of_another_throttle_that_knows_nothing_of_the_mark_lose_it(
    how: dict[str, Any], mark: dict[str, Any]
) -> None:
    """Nobody else lets them in: they would be held for ever, and nothing would run on them."""
    taints = (Taint(TAINT, "NoSchedule"),)
    world = a_world(a_node("n", taints=taints), a_node("of no concern", taints=taints, labels={"pool": "b"}))
    older = a_throttle("older", levers={"nodePoolLimits": {}})
    own: dict[str, Any] = {"nodes": {"matchLabels": {"pool": "a"}}, "levers": mark, **how}
    marking = a_throttle("marking", created="2026-02-01T00:00:00Z", **own)
    turns, _ = decide_throttles((older, marking), a_view(1000.0, world, names=("older", "marking")), {})
    assert [[write.key.name for write in turn.lever_writes] for turn in turns] == [[], ["n"]]
    same = a_throttle("older", levers=mark, window={"min": 1, "initial": 1, "max": 1})
    turns, _ = decide_throttles((same, marking), a_view(1000.0, world, names=("older", "marking")), {})
    assert turns[1].lever_writes == (), "the other one lets it in"


def test_nodes_wait_for_their_turn_beside_an_older_throttle_and_those_that_cannot_be_let_in_take_none() -> None:
    nodes = [a_node(f"n{number:03}", taints=(Taint(TAINT, "NoSchedule"),)) for number in range(500)]
    refused = {node.name for node in nodes[:100]}
    scene = {"refused": frozenset(("Node", ObjectKey("", name)) for name in refused)}
    older, marking = (
        a_throttle(name, nodes={"matchLabels": {"pool": pool}}, levers=levers)
        for name, pool, levers in (("older", "b", {"nodePoolLimits": {}}), ("marking", "a", MARK))
    )
    view = a_view(0.0, a_world(*nodes), names=("older", "marking"), scene=scene)
    let_in = {write.key.name for write in decide_throttles((older, marking), view, {})[0][1].lever_writes}
    assert 0 < len(let_in) < 100
    assert let_in.isdisjoint(refused)


@pytest.mark.parametrize("how", HOLDS_NOTHING[:2])
def test_who_holds_nothing_lets_go_of_no_pod_that_another_throttle_holds(how: dict[str, Any]) -> None:
    gated: dict[str, Any] = {"is_gated": True, "is_tried": False, "gates": (PACED_GATE,)}
    pods = tuple(pending(f"p{number}", **gated) for number in range(500))
    levers: dict[str, Any] = {"levers": {"schedulingGates": {}}}
    older, acting = a_throttle("older", **levers, **how), a_throttle("acting", **levers)
    view = a_view(1000.0, a_world(unplaced=pods), names=("older", "acting"))
    turns, _ = decide_throttles((older, acting), view, {})
    assert turns[0].lever_writes == ()
    assert 0 < len(turns[1].lever_writes) < 100


def test_pods_that_several_throttles_may_let_go_are_the_oldest_ones() -> None:
    """Each let as many of them go as it may have in flight, and none knew of what the other let go."""
    gated: dict[str, Any] = {"is_gated": True, "is_tried": False, "gates": (PACED_GATE,)}
    pods = tuple(pending(f"p{number}", node_selector={"pool": "a"}, **gated) for number in range(50))
    own = pending("own", node_selector={"pool": "b", "zone": "z"}, **gated)
    bound: dict[str, Any] = {"levers": {"schedulingGates": {}}, "maxInFlight": 6, "reserved": {"nodes": 0}}
    older = a_throttle("older", nodes={"matchLabels": {"pool": "a"}}, **bound)
    younger = a_throttle("younger", created="2026-02-01T00:00:00Z", nodes={"matchLabels": {"zone": "z"}}, **bound)
    memories: Memories = {}
    for now_s in (1000.0, 1003.0):
        view = a_view(now_s, a_world(unplaced=(*pods, own)), names=("older", "younger"))
        turns, memories = decide_throttles((older, younger), view, memories)
        let_go = [{write.key.name for write in turn.lever_writes} for turn in turns]
        assert [len(names) for names in let_go] == [6, 1]
        assert let_go[1] == {"own"}
        assert turns[1].findings.joins.waiting <= 1, "the others are no demand of its own"


def with_requirement(pool: NodePool, key: str, *values: str) -> NodePool:
    template = {"spec": {"requirements": [{"key": key, "operator": "In", "values": list(values)}]}}
    spec = msgspec.convert({"template": template}, type(pool.spec))
    return msgspec.structs.replace(pool, spec=spec)


def test_waiting_pods_open_the_heavy_pool_alone() -> None:
    spot, on_demand = (msgspec.structs.replace(a_pool(name), spec=weighed(weight)) for name, weight in POOLS.items())
    throttle = a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers={"nodePoolLimits": {}})
    world = a_world(unplaced=tuple(pending(f"p{index}") for index in range(60)))
    scene = {"limited": (spot, on_demand)}
    _, memories = decide_throttles((throttle,), a_view(1000.0, world, scene=scene), {})
    turns, _ = decide_throttles((throttle,), a_view(1010.0, world, scene=scene), memories)
    found = {write.key.name: write.body["spec"]["limits"]["cpu"] for write in turns[0].lever_writes}  # type: ignore[call-overload]
    assert found["on-demand"] == "0"
    assert int(found["spot"]) >= 8


POOLS = {"spot": 100, "on-demand": 1}


def weighed(weight: int) -> NodePoolSpec:
    return msgspec.convert({"weight": weight, "template": {"metadata": {"labels": {"pool": "a"}}}}, NodePoolSpec)


@pytest.mark.parametrize(
    ("nodes", "is_own"),
    [
        (LabelSelector(), True),
        (POOL_A, True),
        (LabelSelector({"pool": "b"}), False),
        (LabelSelector({"karpenter.sh/nodepool": "pool-a"}), True),
        (LabelSelector({"team": "x"}), False),
        (LabelSelector(match_expressions=(Requirement("pool", "In", ("b", "c")),)), False),
    ],
)
def test_a_node_pool_is_moved_when_the_throttle_selects_its_nodes(nodes: LabelSelector, is_own: bool) -> None:
    assert is_of(a_pool(), NodePoolLever(), nodes) is is_own


def test_a_requirement_may_give_the_label_too() -> None:
    pool = with_requirement(a_pool(), "pool", "a", "z")
    assert is_of(pool, NodePoolLever(), POOL_A)


def test_names_go_before_the_selector() -> None:
    assert is_of(a_pool(), NodePoolLever(("pool-a",)), LabelSelector({"pool": "b"}))
    assert not is_of(a_pool(), NodePoolLever(("other",)), POOL_A)


@pytest.mark.parametrize("pools", [(), (a_pool(),)])
def test_a_lever_that_selects_no_node_pool_says_so(pools: tuple[NodePool, ...]) -> None:
    throttle = a_throttle(nodes={"matchLabels": {"pool": "z"}}, levers={"nodePoolLimits": {}})
    (turn,), _ = decide_throttles((throttle,), a_view(1000.0, scene={"limited": pools}), {})
    (lever,) = turn.findings.levers
    assert (lever.name, lever.state, lever.because.code) == ("NodePool/*", LeverState.REFUSED, "NoPoolSelected")
    ready = next(c for c in conditions(turn.stored, turn.findings, datetime.now(UTC)) if c.type == "Ready")
    assert ready.status == "False"
    (turn,), _ = decide_throttles((throttle,), a_view(1000.0, missing=("nodepools",)), {})
    assert turn.findings.levers == (), "nobody can say while not all of them are seen"


def test_a_name_of_a_node_pool_under_which_nothing_is_says_so() -> None:
    """A typing error paces nothing: the throttle was Ready all the same, and said that it uses no lever."""
    throttle = a_throttle(levers={"nodePoolLimits": {"names": ["pool-a", "pool-z"]}})
    (turn,), _ = decide_throttles((throttle,), a_view(1000.0, scene={"limited": (a_pool(),)}), {})
    told = {lever.name: (lever.state, lever.because.code) for lever in turn.findings.levers}
    assert told["NodePool/pool-z"] == (LeverState.REFUSED, "NoNodePool")
    assert told["NodePool/pool-a"][0] is LeverState.HANDED_BACK
    (turn,), _ = decide_throttles((throttle,), a_view(1000.0, missing=("nodepools",)), {})
    assert turn.findings.levers == (), "nobody can say while not all of them are seen"


@pytest.mark.parametrize(
    ("names", "pools", "told", "ready"),
    [
        ([], ("pool-a", "fixed"), ["NodePool/pool-a"], "True"),
        (["pool-a", "fixed"], ("pool-a", "fixed"), ["NodePool/fixed", "NodePool/pool-a"], "False"),
        ([], ("fixed",), ["NodePool/fixed"], "False"),
    ],
)
def test_a_static_pool_beside_others_is_nothing_to_tell_where_nobody_names_it(
    names: list[str], pools: tuple[str, ...], told: list[str], ready: str
) -> None:
    """The first static pool of a cluster left its throttle Stalled for good, unless all the other pools were named."""
    throttle = a_throttle(levers={"nodePoolLimits": {"names": names} if names else {}})
    replicas = {"fixed": 3}
    limited = tuple(
        msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, replicas=replicas.get(name)))
        for name in pools
        for pool in (a_pool(name),)
    )
    (turn,), _ = decide_throttles((throttle,), a_view(1000.0, scene={"limited": limited}), {})
    assert [lever.name for lever in turn.findings.levers] == told
    stored = next(c for c in conditions(turn.stored, turn.findings, datetime.now(UTC)) if c.type == "LeversConfirmed")
    assert stored.status == ready


@pytest.mark.parametrize(
    ("nodes", "names", "expected"),
    [
        ({}, ["spot"], ("on-demand",)),
        ({}, [], ()),
        ({"matchLabels": {"pool": "a"}}, ["spot"], ("on-demand",)),
        ({"matchLabels": {"karpenter.sh/nodepool": "spot"}}, [], ()),
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}, ["spot"], ()),
    ],
)
def test_pools_that_the_lever_leaves_out_are_named(
    nodes: dict[str, Any], names: list[str], expected: tuple[str, ...]
) -> None:
    levers = {"nodePoolLimits": {"names": names} if names else {}}
    throttle = a_throttle(nodes=nodes, levers=levers)
    pools = tuple(a_pool(name) for name in POOLS)
    turns, _ = decide_throttles((throttle,), a_view(1000.0, scene={"limited": pools}), {})
    assert turns[0].findings.unpaced_pools == expected
    other = a_throttle("other", levers={"nodePoolLimits": {"names": ["on-demand"]}}, created="2026-02-01T00:00:00Z")
    turns, _ = decide_throttles((throttle, other), a_view(1000.0, scene={"limited": pools}), {})
    assert turns[0].findings.unpaced_pools == (), "another throttle paces it"


def test_each_pool_is_looked_at_once_for_whether_it_is_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of which half are left out took a third of a second at each look."""
    looks: list[str] = []

    def counted(pool: NodePool, how: Scheduling) -> bool:
        looks.append(pool.metadata.name)
        return may_make(pool, how)

    monkeypatch.setattr("throttler.levers.node_pool_limits.may_make", counted)
    own = [a_pool(f"own-{number:02}") for number in range(20)]
    left = [a_pool(f"left-{number:02}") for number in range(20)]
    throttle = a_throttle(levers={"nodePoolLimits": {"names": [pool.metadata.name for pool in own]}})
    assert unpaced_pools([*own, *left], throttle, [throttle]) == tuple(pool.metadata.name for pool in left)
    assert len(looks) == 20


@pytest.mark.parametrize(("bound", "expected"), [({}, "12"), ({"maxInFlight": 6}, "6")])
def test_a_quota_that_is_not_used_opens_for_the_largest_demand_of_one_owner(
    bound: dict[str, Any], expected: str
) -> None:
    quota = {"metadata": {"name": "q"}, "status": {"conditions": [{"type": "Valid", "status": "True"}]}}
    spec = {"window": {"initial": 2, "max": 2}, "levers": {"capacityQuota": {"name": "q"}}, **bound}
    throttle = a_throttle(**spec)
    memories: Memories = {}
    pods = tuple(pending(f"{owner}-{at}", owner=owner) for owner, most in (("a", 12), ("b", 8)) for at in range(most))
    scene = {"limited": (msgspec.convert(quota, CapacityQuota),), "versions": QUOTAS_SERVED}
    limits = []
    for second in range(0, 50, 10):
        view = a_view(1000.0 + second, a_world(unplaced=pods), scene=scene)
        turns, memories = decide_throttles((throttle,), view, memories)
        bodies = [msgspec.to_builtins(write.body) for write in turns[0].lever_writes]
        limits += [body["spec"]["limits"]["resources"]["nodes"] for body in bodies]
    assert limits[-1] == expected
    assert all(int(each) <= 2 for each in limits[:3])
