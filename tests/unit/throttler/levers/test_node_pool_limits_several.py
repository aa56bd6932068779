"""Which NodePools are a lever's, and of two that may serve the same pods which has room at a look, and how much."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import a_pool, claims, pool_body, room, term
from tests.unit.throttler.levers.test_pool_shares import Market
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.api.throttle import JoinThrottle, NodePoolLever
from throttler.joins.demand import Crowd
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.pod import Scheduling
from throttler.kube.quantities_and_durations import Resources
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.levers.lever_and_reasons import (
    Clocks,
    Holder,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverScene,
)
from throttler.levers.node_pool_limits import NODE_POOL_LIMITS, NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork, is_of

HOLDER = Holder(throttle="default", epoch=1)


class Pair:
    """A heavy pool and a light one, looked at again and again; Karpenter sees each ceiling and orders nothing."""

    def __init__(self, requests: Resources, machines: tuple[NodeClaim, ...] = (), **heavy: Any) -> None:
        body = pool_body(name="heavy", weight=100)
        self.servers = {
            "heavy": OwnedObject({**body, **{part: {**body.get(part, {}), **more} for part, more in heavy.items()}}),
            "light": OwnedObject(pool_body(name="light")),
        }
        self.waiting = WaitingWork(crowds=(Crowd(Scheduling(), requests, 10.0),))
        self.machines, self.memory = {"heavy": machines, "light": ()}, NodePoolMemory()

    def look(self, now_s: float = 0.0, **budget: Any) -> dict[str, LeverDecision]:
        views = [NodePoolView(pool=one.pool(), claims=self.machines[name]) for name, one in self.servers.items()]
        decisions, self.memory = decide_node_pools(views, room(**budget), self.waiting, HOLDER, self.memory, now_s)
        for name, decision in zip(sorted(self.servers), decisions, strict=True):
            for write in decision.writes:
                self.servers[name].carry_out(write)
                self.servers[name].observed()
        return {decision.name.removeprefix("NodePool/"): decision for decision in decisions}

    def cores(self, name: str) -> Any:
        return (self.servers[name].pool().spec.limits or {}).get("cpu")


def pair_with_pods_of_their_own(heavy: tuple[NodeClaim, ...], light: tuple[NodeClaim, ...] = ()) -> Pair:
    """Two pools with these machines, for each of which other pods wait."""
    pair = Pair({"cpu": 7000}, heavy)
    pair.machines["light"] = light
    selectors = ({"karpenter.sh/nodepool": name} for name in ("heavy", "light"))
    pair.waiting = WaitingWork(crowds=tuple(Crowd(Scheduling((), own), {"cpu": 7000}, 9.0) for own in selectors))
    return pair


def test_a_pool_whose_machines_are_being_replaced_has_its_share_for_pods_that_wait() -> None:
    """The replacements are for the work on the old machines, of which a roll-out always has some."""
    pair = pair_with_pods_of_their_own((*claims(5, 3, is_replaced=True), *claims(5, 1)))
    pair.look(allowance=4)
    assert (pair.cores("heavy"), pair.cores("light")) == ("56", "16"), "5 machines and 2, none and 2"


@pytest.mark.parametrize(
    ("heavy", "cores"),
    [
        ({}, "0"),
        ({"spec": {"replicas": 3}}, "32"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "32"),
        ({"spec": {"limits": {"nodes": "0"}}}, "32"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "32"),
    ],
    ids=["usual", "static", "not ready", "at its user's limit", "being deleted"],
)
def test_the_light_pool_has_room_at_once_where_the_heavy_one_can_order_nothing(
    heavy: dict[str, Any], cores: str
) -> None:
    pair = Pair({"cpu": 7000}, **heavy)
    pair.look(allowance=4)
    assert pair.cores("light") == cores


@pytest.mark.parametrize(
    ("requests", "heavy", "light"),
    [
        ({"cpu": 7000}, ["56", "56", "56", "32", "32", "32"], ["0", "0", "0", "0", "24", "24"]),
        ({"cpu": 9000}, ["56", "56", "88", "56", "56", "56"], ["0", "0", "0", "0", "48", "48"]),
    ],
)
def test_a_heavy_pool_that_has_run_dry_keeps_one_place_and_tries_room_for_machines_that_it_never_had(
    requests: Resources, heavy: list[str], light: list[str]
) -> None:
    """It has three machines of 8 cores, and four more may be ordered: one of up to four times that size at last.

    Its orders of the last moment may be unheard of, so the light pool has room a moment later.
    """
    pair, found = Pair(requests, claims(3, pool="heavy")), []
    for now_s in (0.0, 10.0, 20.0, 30.0, 37.0, 40.0):
        decisions = pair.look(now_s, allowance=4)
        found.append((pair.cores("heavy"), pair.cores("light")))
    assert found == [*zip(heavy, light, strict=True)]
    assert decisions["heavy"].because.reason is LeverReason.RAN_DRY
    assert decisions["heavy"].because.detail["waited"] == 40


def test_room_that_stood_while_the_view_was_away_goes_to_no_other_pool_at_once() -> None:
    """Then the pods are gone that the first might have served, and others wait for the second."""
    pair, found = Pair({"cpu": 7000}, claims(3, pool="heavy")), []
    pair.look(0.0, allowance=4)
    for now_s in (10.0, 20.0):
        pair.look(now_s, allowance=0, may_move=False)
    pair.waiting = WaitingWork(crowds=(Crowd(Scheduling((), {"karpenter.sh/nodepool": "light"}), {"cpu": 7000}, 9.0),))
    for now_s in (21.0, 25.0, 28.0):
        pair.look(now_s, allowance=4)
        found.append((pair.cores("heavy"), pair.cores("light")))
    assert found == [("24", "0"), ("24", "0"), ("24", "32")]


def test_machines_of_one_pool_that_nobody_has_heard_of_take_up_the_room_of_all() -> None:
    pair = pair_with_pods_of_their_own(claims(3, pool="heavy"))
    (pair.servers["heavy"].body or {})["status"] = {"resources": {"cpu": "48", "nodes": "6"}}
    pair.look(allowance=4)
    assert (pair.cores("heavy"), pair.cores("light")) == ("48", "8"), "3 of 4 are on their way"


def test_what_is_counted_and_not_heard_of_is_no_room_any_more() -> None:
    """Two pools had room for two machines each. Both ordered them; Karpenter's count tells of those of one so far."""
    pair = pair_with_pods_of_their_own(claims(3, pool="heavy"), claims(3, pool="light"))
    pair.look(0.0, allowance=4)
    assert (pair.cores("heavy"), pair.cores("light")) == ("40", "40")
    (pair.servers["light"].body or {})["status"] = {"resources": {"cpu": "40", "nodes": "5"}}
    pair.look(1.0, allowance=4)
    assert pair.cores("light") == "40", "of four places two are its own, and two may be taken"


def test_room_of_machines_that_were_never_usable_stands_again_and_goes_to_no_other_pool_at_once() -> None:
    """What stood for them admits others as soon as they are gone."""
    there = claims(3, pool="light")
    pair = pair_with_pods_of_their_own(claims(3, pool="heavy"), (*there, *claims(2, 1, pool="light")))
    pair.look(0.0, allowance=4)
    found = [(pair.cores("heavy"), pair.cores("light"))]
    pair.machines["light"] = there
    for now_s in (1.0, 6.0, 8.0):
        pair.look(now_s, allowance=6)
        found.append((pair.cores("heavy"), pair.cores("light")))
    assert found == [("40", "56"), ("40", "48"), ("40", "48"), ("48", "48")]


def test_a_pool_whose_usable_machines_go_leaves_the_room_of_others_alone() -> None:
    """Their going is no loss of an order: room that follows them down was never open for more."""
    pair = pair_with_pods_of_their_own(claims(3, pool="heavy"), claims(9, pool="light"))
    pair.waiting = replace(pair.waiting, crowds=pair.waiting.crowds[:1])
    for left in range(9, 0, -1):
        pair.machines["light"] = claims(left, pool="light")
        pair.look(9.0 - left, allowance=4)
    assert pair.cores("heavy") == "56"


@pytest.mark.parametrize("dry_s", [40, 80, 100])
def test_stock_that_comes_back_is_not_ordered_all_at_once(dry_s: int) -> None:
    """The pool had machines that hold what waits: room for ever more of them is no room for a larger one."""
    market = Market({"a": 0}, window=6, pods={"": 100}, stock={"a": 6}).run(dry_s)
    market.stock["a"] = 1000
    market.run(12)
    assert (market.count("a"), market.most_coming) == (12, 6)


@pytest.mark.parametrize(("allowance", "cores"), [(1, "88"), (2, "88"), (3, "72"), (6, "72"), (9, "96")])
def test_a_machine_that_is_larger_than_those_before_finds_room_where_it_alone_is_in_stock(
    allowance: int, cores: str
) -> None:
    """The pool has three machines of 8 cores."""
    pair = Pair({"cpu": 7000}, claims(3, pool="heavy"))
    del pair.servers["light"]
    for now_s in range(0, 60, 10):
        pair.look(float(now_s), allowance=allowance)
    assert pair.cores("heavy") == cores


TYPE = "node.kubernetes.io/instance-type"


def named(*types: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"requirements": [term(TYPE, "In", *types)]}}}}


def test_a_type_that_its_user_names_anew_is_searched_for_and_the_one_before_says_nothing_of_it() -> None:
    """Three machines of 8 cores, one more may be ordered, and the pods would run on such a machine."""
    pair = Pair({"cpu": 7000}, claims(3, labels={TYPE: "small"}), **named("small"))
    del pair.servers["light"]
    for now_s in (0.0, 30.0, 60.0):
        pair.look(now_s, allowance=1)
    assert pair.cores("heavy") == "32"
    assert pair.servers["heavy"].body is not None
    pair.servers["heavy"].body["spec"] |= named("large")["spec"]
    pair.look(62.0, allowance=1)
    assert pair.cores("heavy") == "88"
    pair.machines["heavy"] = claims(1, labels={TYPE: "large"}, capacity={"cpu": "64"}, ordered_s=63.0)
    pair.look(64.0, allowance=2)
    assert pair.cores("heavy") == "192"
    pair.servers["heavy"].body["spec"] |= named("small")["spec"]
    pair.machines["heavy"] += claims(2, labels={TYPE: "small"})
    pair.look(66.0, allowance=2)
    assert pair.cores("heavy") == "96", "64 and 16 there, and room for two small ones"


@pytest.mark.parametrize(
    ("allowance", "stage", "cores"), [(2, 3, "5656"), (2, 2, "5632"), (6, 3, "4848"), (7, 3, "4856")]
)
def test_what_is_tried_for_larger_machines_is_little_in_all_pools_and_minds_machines_that_join(
    allowance: int, stage: int, cores: str
) -> None:
    """Each pool has three machines of 8 cores, those of one usable or joining; pods of its own wait."""
    pair = pair_with_pods_of_their_own(claims(3, stage), claims(3))
    for now_s in range(0, 60, 10):
        pair.look(float(now_s), allowance=allowance)
    assert pair.cores("heavy") + pair.cores("light") == cores


def test_each_pool_has_its_turn_to_try_room_for_a_larger_machine() -> None:
    """Two pools have a place each, and five machines join."""
    pair, found = pair_with_pods_of_their_own(claims(5, 2), claims(5)), []
    for now_s in range(0, 60, 10):
        pair.look(float(now_s), allowance=2)
        found.append((pair.cores("heavy"), pair.cores("light")))
    assert found[3:] == [("56", "48"), ("48", "56"), ("56", "48")]


@pytest.mark.parametrize(("allowance", "heavy"), [(1, "24"), (2, "40"), (3, "40"), (4, "56"), (7, "56"), (8, "88")])
def test_room_that_is_tried_beside_another_pool_grows_with_the_allowance(allowance: int, heavy: str) -> None:
    """What the other pool has on its way and this room together are no more than twice the allowance."""
    pair = Pair({"cpu": 9000}, claims(3, pool="heavy"))
    for now_s in range(0, 50, 10):
        pair.look(float(now_s), allowance=allowance)
    assert pair.cores("heavy") == heavy


@pytest.mark.parametrize(
    ("selector", "names", "is_its"),
    [
        (LabelSelector({"pool": "gpu"}), (), True),
        (LabelSelector({"pool": "cpu"}), (), False),
        (LabelSelector({"pool": "gpu", "zone": "z1"}), (), True),
        (LabelSelector({"pool": "gpu", "zone": "z3"}), (), False),
        (LabelSelector({"pool": "gpu", "tier": "a"}), (), False),
        (LabelSelector({"pool": "gpu", "other": "a"}), (), False),
        (LabelSelector({"karpenter.sh/nodepool": "gpu"}), (), True),
        (LabelSelector(match_expressions=(Requirement("pool", "In", ("gpu", "cpu")),)), (), True),
        (LabelSelector(match_expressions=(Requirement("pool", "NotIn", ("gpu",)),)), (), False),
        (LabelSelector({"pool": "cpu"}), ("gpu",), True),
        (LabelSelector({"pool": "gpu"}), ("other",), False),
    ],
)
def test_a_lever_moves_the_pools_that_it_names_or_whose_nodes_the_throttle_selects(
    selector: LabelSelector, names: tuple[str, ...], *, is_its: bool
) -> None:
    """Its nodes carry pool=gpu, and a zone that is z1 or z2; of their tier it only says that it is not a."""
    pool = a_pool(labels={"pool": "gpu"}, requirements=[term("zone", "In", "z1", "z2"), term("tier", "NotIn", "a")])
    assert is_of(pool, NodePoolLever(names=names), selector) is is_its


POOLS = tuple(a_pool(name, labels={"pool": own}) for name, own in (("a", "gpu"), ("b", "gpu"), ("c", "cpu")))


def decided(
    *pools: NodePool,
    claims: tuple[NodeClaim, ...] = (),
    names: tuple[str, ...] = (),
    older: tuple[JoinThrottle, ...] = (),
    **budget: Any,
) -> list[tuple[str, str, str]]:
    """(name, reason, ceiling) of what a throttle of the nodes of pool=gpu decides at its first look."""
    throttle = a_throttle(nodes={"matchLabels": {"pool": "gpu"}}, levers={"nodePoolLimits": {"names": [*names]}})
    scene = LeverScene(moment=Clocks(0.0, 0.0), epoch=1, limited=pools, claims=claims)
    rules = JoinRules.of(throttle, "")
    context = LeverContext(
        throttle=throttle, rules=rules, scene=scene, room=room(**budget), joins=Joins(), machines=(), older=older
    )
    decisions, _ = NODE_POOL_LIMITS.decide(context, NODE_POOL_LIMITS.fresh())
    return [(decision.name, decision.because.code, decision.ceiling) for decision in decisions]


def test_a_throttle_decides_for_its_own_pools_by_the_machines_of_each() -> None:
    machines = (*claims(3, pool="a"), *claims(1, pool="c"))
    assert decided(*POOLS, claims=machines, allowance=0) == [
        ("NodePool/a", "NotTakenUpYet", "cpu 24, memory 96Gi"),
        ("NodePool/b", "NotTakenUpYet", "cpu 0"),
    ]


def test_a_throttle_tells_of_pools_that_are_not_there_or_another_throttles() -> None:
    older = (a_throttle("older", levers={"nodePoolLimits": {"names": ["a", "b"]}}),)
    assert decided(*POOLS, names=("c", "z"), allowance=0)[1:] == [("NodePool/z", "NoNodePool", "")]
    assert decided(*POOLS, names=("z",), may_move=False) == [], "it may be there for all that is seen"
    assert decided(POOLS[2]) == [("NodePool/*", "NoPoolSelected", "")]
    others = [(f"NodePool/{name}", "OtherThrottle", "") for name in "ab"]
    assert decided(*POOLS, older=older) == others


def test_that_a_pool_is_static_is_told_where_somebody_named_it_or_nothing_is_paced() -> None:
    template = {"metadata": {"labels": {"pool": "gpu"}}, "spec": {"requirements": []}}
    static = msgspec.convert(pool_body(name="s", replicas=3, template=template), NodePool)
    told = ("NodePool/s", "StaticPool", "")
    assert told not in decided(*POOLS, static)
    assert told in decided(*POOLS, static, names=("a", "s"))
    assert decided(static) == [told]
