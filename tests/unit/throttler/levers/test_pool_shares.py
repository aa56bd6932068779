"""Which pools may serve waiting pods, and each one's share of the budget."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import START, a_pool, claim, pool_body, room, term
from tests.unit.throttler.service.throttle_scene import a_throttle
from tests.world import a_node, work
from throttler.joins.demand import Crowd
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.karpenter import NodeClaim
from throttler.kube.metadata import OwnerReference
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Toleration
from throttler.levers.lever_and_reasons import (
    Clocks,
    Holder,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverScene,
    PoolGrowth,
)
from throttler.levers.node_pool_ceiling import Charge
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import (
    Candidate,
    Need,
    WaitingWork,
    fair_shares,
    in_karpenters_order,
    may_have_accelerators,
    may_make,
    needs_of,
    node_pool_shares,
    waiting_work,
)

ZONE, TYPE, SPOT = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"


def test_the_heaviest_pool_comes_first_and_of_equal_ones_the_last_by_name() -> None:
    pools = [a_pool("a"), a_pool("b", 1), a_pool("c", 100), a_pool("d"), a_pool("e", 100)]
    assert [pool.metadata.name for pool in in_karpenters_order(pools)] == ["e", "c", "b", "d", "a"]


def test_a_pool_that_is_not_ready_is_not_usable() -> None:
    conditions = [{"type": "Ready", "status": "False"}]
    assert not a_pool(status={"conditions": conditions}).is_usable
    assert a_pool().is_usable


def waiting(*pods: Pod, growth: tuple[PoolGrowth, ...] = (), **joins: float | None) -> WaitingWork:
    """What waits for a throttle whose largest machine has 8 cores."""
    throttle = a_throttle(nodes={"matchLabels": {"pool": "gpu"}})
    context = LeverContext(
        throttle=throttle,
        rules=JoinRules.of(throttle, ""),
        scene=LeverScene(moment=Clocks(3.0, 7.0), unplaced=pods),
        room=room(),
        joins=Joins(**joins),  # type: ignore[arg-type]
        machines=(a_node("machine", allocatable={"cpu": 8000, "memory": 1 << 50, "pods": 110_000}),),
        growth=growth,
    )
    return waiting_work(context)


def test_pods_that_ask_the_same_are_one_crowd_whoever_owns_them() -> None:
    model = work("p", cpu="4")
    of_two_jobs = [
        msgspec.structs.replace(model, uid=f"{job}-{at}", owner=OwnerReference("Job", job, job, controller=True))
        for job in ("a", "b")
        for at in range(2)
    ]
    larger = work("q", cpu="8")
    assert [crowd.nodes for crowd in waiting(*of_two_jobs, larger).crowds] == [2.0, 1.0]


def test_balloons_that_a_pool_lacks_wait_for_its_own_nodes_whatever_their_taints() -> None:
    gpu, cpu = LabelSelector({"pool": "gpu"}), LabelSelector({"pool": "cpu"})
    growth = (PoolGrowth(gpu, lacking=3, granted=1), PoolGrowth(cpu, lacking=0, granted=0))
    (crowd,) = waiting(growth=growth).crowds
    assert (crowd.nodes, crowd.how.node_selector) == (3, {"pool": "gpu"})
    assert may_make(a_pool(labels={"pool": "gpu"}, taints=[{"key": "x", "effect": "NoSchedule"}]), crowd.how)


def test_balloons_wait_for_no_node_pool_that_their_pools_expressions_rule_out() -> None:
    """Room was given to the pool that Karpenter prefers, where no balloon could go, until it seemed to be dry."""
    web = Requirement(KARPENTER_POOL_LABEL, "In", ("web-a", "web-b"))
    (crowd,) = waiting(growth=(PoolGrowth(LabelSelector({}, (web,)), lacking=3, granted=0),)).crowds
    assert [may_make(a_pool(name), crowd.how) for name in ("web-a", "gpu")] == [True, False]


@pytest.mark.parametrize(
    ("boot_s", "join_s", "late_s"),
    [(None, None, 360.0), (None, 20.0, 360.0), (100.0, None, 300.0), (100.0, 20.0, 360.0)],
)
def test_machines_are_late_after_three_times_a_boot_and_a_join(
    boot_s: float | None, join_s: float | None, late_s: float
) -> None:
    found = waiting(boot_s=boot_s, join_s=join_s)
    assert (found.late_s, found.wall_s) == (late_s, 7.0)


class TestTaints:
    POOL = a_pool(taints=[{"key": "gpu", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}])

    def test_a_taint_needs_a_toleration(self) -> None:
        assert not may_make(self.POOL, Scheduling())
        assert not may_make(self.POOL, Scheduling((Toleration("other", "Exists"),)))

    def test_a_toleration_of_the_key_or_of_all_will_do(self) -> None:
        assert may_make(self.POOL, Scheduling((Toleration("gpu", "Exists"),)))
        assert may_make(self.POOL, Scheduling((Toleration(operator="Exists"),)))


@pytest.mark.parametrize(
    ("selector", "is_possible"),
    [
        ({"team": "a"}, True),
        ({"team": "b"}, False),
        ({"other": "a"}, False),
        ({"example.com/other": "a"}, False),
        ({"karpenter.sh/nodepool": "gpu"}, True),
        ({"karpenter.sh/nodepool": "cpu"}, False),
        ({SPOT: "spot"}, True),
        ({SPOT: "on-demand"}, False),
        ({ZONE: "zone-1"}, True),
        ({"karpenter.k8s.aws/instance-gpu-count": "8"}, True),
        ({"kubernetes.io/arch": "arm64"}, True),
        ({"node-restriction.kubernetes.io/team": "a"}, False),
        ({"kubernetes.io/hostname": "node-1"}, False),
        ({TYPE: "large"}, True),
        ({TYPE: "small"}, False),
    ],
)
def test_a_selector_is_met_by_labels_by_requirements_or_by_what_only_the_provider_knows(
    selector: dict[str, str], is_possible: bool
) -> None:
    requirements = [term(SPOT, "In", "spot"), term(TYPE, "NotIn", "small")]
    pool = a_pool(labels={"team": "a"}, requirements=requirements)
    assert may_make(pool, Scheduling(node_selector=selector)) is is_possible


def test_a_pool_that_asks_for_at_least_so_many_serves_who_asks_for_as_many() -> None:
    """Gte and Lte, which Karpenter has beside Gt and Lt. Pods that only this pool may serve would starve."""
    pool = a_pool(requirements=[term("cores", "Gte", "8"), term("cores", "Lte", "16")])
    served = [cores for cores in ("4", "8", "16", "32") if may_make(pool, Scheduling(node_selector={"cores": cores}))]
    assert served == ["8", "16"]


@pytest.mark.parametrize(
    ("part", "is_possible"),
    [
        (("team", "NotIn", "b"), True),
        (("team", "NotIn", "a"), False),
        (("team", "DoesNotExist"), False),
        (("other", "DoesNotExist"), True),
        (("other", "NotIn", "x"), True),
        (("other", "Exists"), False),
        ((ZONE, "In", "zone-2", "zone-9"), True),
        ((ZONE, "In", "zone-9"), False),
        ((ZONE, "NotIn", "zone-1", "zone-2"), False),
        ((ZONE, "Exists"), True),
        ((ZONE, "DoesNotExist"), False),
        (("cores", "Gt", "8"), True),
        (("cores", "In", "16"), True),
        (("cores", "In", "2"), False),
    ],
)
def test_node_affinity_has_to_leave_a_value_in_common(part: tuple[str, ...], is_possible: bool) -> None:
    requirements = [term(ZONE, "In", "zone-1", "zone-2"), term("cores", "Gt", "4")]
    pool = a_pool(labels={"team": "a"}, requirements=requirements)
    how = Scheduling(node_terms=((Requirement(part[0], part[1], part[2:]),),))
    assert may_make(pool, how) is is_possible


def test_one_of_several_terms_is_enough() -> None:
    terms = ((Requirement("team", "In", ("b",)),), (Requirement("team", "In", ("a",)),))
    assert may_make(a_pool(labels={"team": "a"}), Scheduling(node_terms=terms))
    assert not may_make(a_pool(labels={"team": "c"}), Scheduling(node_terms=terms))


def test_a_pool_that_never_had_the_accelerator_is_for_others() -> None:
    gpu, plain = {"cpu": 192_000, "nvidia.com/gpu": 8000}, {"cpu": 8000}
    assert not may_have_accelerators([plain], {"cpu": 1000, "nvidia.com/gpu": 1000})
    assert may_have_accelerators([plain, gpu], {"cpu": 1000, "nvidia.com/gpu": 1000})
    assert may_have_accelerators([], {"nvidia.com/gpu": 1000}), "nothing is known of a pool without machines"
    assert may_have_accelerators([plain], {"cpu": 64_000}), "it may have larger types"
    assert may_have_accelerators([plain], {"cpu": 1000, "nvidia.com/gpu": 0})
    assert may_have_accelerators([plain], {"pods": 1000, "ephemeral-storage": 1000}), "sizes do not tell of them"


def test_shares_are_max_min_fair() -> None:
    assert fair_shares(10, {"a": 2, "b": 7, "c": 9}) == {"a": 2, "b": 4, "c": 4}
    assert fair_shares(2, {"b": 5, "a": 5, "c": 5}) == {"a": 1, "b": 1, "c": 0}
    assert fair_shares(50, {"a": 2, "b": 0}) == {"a": 2, "b": 0}


def test_what_does_not_divide_goes_to_those_whose_turn_it_is() -> None:
    assert fair_shares(4, {"a": 5, "b": 5, "c": 5}, ("c", "a", "b")) == {"c": 2, "a": 1, "b": 1}


HOLDER = Holder(throttle="default", epoch=1)
CORES = 8
LOOK_S = 10.0
"""How often Karpenter looks at waiting pods."""


@cache
def a_claim(name: str, stage: int, pool: str, ordered_s: float) -> NodeClaim:
    return claim(name, stage, ordered_s=ordered_s, pool=pool)


@dataclass
class Machine:
    pool: str
    ordered_s: float
    usable_s: float


@dataclass
class Market:
    """NodePools on a fake server, a Karpenter that buys by weight and ceiling, and pods of one node each.

    `stock`: how many machines a pool may still order. `boot_s` is by pool; None never ends. A throttle looks every two
    seconds; `window` machines may be on their way.
    """

    weights: dict[str, int]
    window: int = 24
    stock: dict[str, int] = field(default_factory=dict)
    boot_s: dict[str, float | None] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    """Pods that wait, by the label `for` that their pools carry; "" may run in any pool."""
    urgent: frozenset[str] = frozenset()
    usual_s: float = 120.0
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.servers = {name: OwnedObject(self._body(name, weight)) for name, weight in self.weights.items()}
        self.machines: list[Machine] = []
        self.served: dict[str, int] = dict.fromkeys(self.pods, 0)
        self.memory = NodePoolMemory()
        self.decisions: dict[str, LeverDecision] = {}
        self.most_coming = 0

    def _body(self, name: str, weight: int) -> dict[str, Any]:
        template = {"metadata": {"labels": {"for": name}}, "spec": {"requirements": []}}
        return pool_body({"cpu": "10000", "memory": "100Ti"}, name, weight=weight, template=template)

    def run(self, seconds: int) -> "Market":
        for _ in range(seconds):
            self.now_s += 1.0
            if self.now_s % 2 == 0:
                self.throttle()
            if self.now_s % LOOK_S == 0:
                self.karpenter()
        return self

    def throttle(self) -> None:
        coming = [each for each in self.machines if each.usable_s > self.now_s]
        late = [each for each in coming if self.now_s - each.ordered_s > 3 * self.usual_s]
        self.most_coming = max(self.most_coming, len(coming) - len(late))
        allowance = max(0, self.window - len(coming) + len(late))
        crowds = tuple(
            Crowd(Scheduling(node_selector={"for": to} if to else {}), {"cpu": 7000}, count, to in self.urgent)
            for to, count in self.waiting.items()
            if count
        )
        wanted = max(0, sum(crowd.nodes for crowd in crowds) - len(coming))
        seen = [NodePoolView(pool=self.servers[name].pool(), claims=self.claims(name)) for name in self.servers]
        now = room(allowance, int(wanted))
        waiting = WaitingWork(crowds=crowds, wall_s=START.timestamp() + self.now_s, usual_s=self.usual_s)
        decisions, self.memory = decide_node_pools(seen, now, waiting, HOLDER, self.memory, self.now_s)
        for decision in decisions:
            name = decision.name.removeprefix("NodePool/")
            self.decisions[name] = decision
            for write in decision.writes:
                self.servers[name].carry_out(write)
                self.servers[name].observed()

    @property
    def waiting(self) -> dict[str, int]:
        """Pods without a usable node, by what they may use."""
        usable = {name: self.count(name, is_usable=True) for name in self.servers}
        left = {to: count - usable.pop(to, 0) for to, count in self.pods.items() if to}
        anywhere = {"": self.pods[""] - sum(usable.values())} if "" in self.pods else {}
        return {to: max(0, count) for to, count in {**left, **anywhere}.items()}

    def count(self, name: str, *, is_usable: bool = False) -> int:
        return sum(each.pool == name and (not is_usable or each.usable_s <= self.now_s) for each in self.machines)

    def claims(self, name: str) -> tuple[NodeClaim, ...]:
        own = [each for each in self.machines if each.pool == name]
        return tuple(
            a_claim(f"{name}-{at}", 3 if each.usable_s <= self.now_s else 2, name, each.ordered_s)
            for at, each in enumerate(own)
        )

    def karpenter(self) -> None:
        """One look: every pod that no machine is on its way for gets one from the first pool with room and stock."""
        order = sorted(sorted(self.weights, reverse=True), key=lambda name: -self.weights[name])
        coming = {name: self.count(name) - self.count(name, is_usable=True) for name in order}
        for to, count in self.waiting.items():
            able = [to] if to else order
            taken = 0
            for name in able:
                used = min(coming[name], count - taken)
                coming[name], taken = coming[name] - used, taken + used
            for _ in range(count - taken):
                name = next((each for each in able if self.has_room(each)), None)
                if name is None:
                    break
                boot_s = self.boot_s.get(name, 30.0)
                usable_s = self.now_s + boot_s if boot_s is not None else float("inf")
                self.machines.append(Machine(name, self.now_s, usable_s))
                self.stock[name] = self.stock.get(name, 10_000) - 1

    def has_room(self, name: str) -> bool:
        limit = float((self.servers[name].pool().spec.limits or {})["cpu"])
        return self.stock.get(name, 1) > 0 and (self.count(name) + 1) * CORES <= limit

    def bought(self) -> dict[str, int]:
        return {name: self.count(name) for name in self.servers}


def usable(market: Market, names: Iterable[str]) -> list[int]:
    return [market.count(name, is_usable=True) for name in names]


class TestNotDearer:
    @pytest.mark.whole
    def test_all_machines_come_from_the_heavy_pool(self) -> None:
        market = Market({"spot": 100, "on-demand": 1}, pods={"": 120}).run(300)
        assert market.bought() == {"spot": 120, "on-demand": 0}

    def test_without_weights_the_pool_that_karpenter_would_take_is_taken(self) -> None:
        market = Market({"spot": 0, "on-demand": 0}, pods={"": 60}).run(300)
        assert market.bought() == {"spot": 60, "on-demand": 0}

    def test_a_heavy_pool_out_of_stock_gives_way_within_two_looks(self) -> None:
        market = Market({"spot": 100, "on-demand": 1}, pods={"": 60}, stock={"spot": 0}).run(40)
        assert market.count("on-demand") >= 20
        assert market.decisions["spot"].because.reason is LeverReason.RAN_DRY
        limits = market.servers["spot"].pool().spec.limits or {}
        assert float(limits["cpu"]) > CORES, "none of its machines was seen: the one that is needed may be larger"
        market.run(200)
        assert market.bought() == {"spot": 0, "on-demand": 60}
        assert market.most_coming <= market.window + 1

    @pytest.mark.parametrize(("pods", "window"), [(1, 24), (60, 1)])
    def test_a_single_pod_or_place_shows_that_a_pool_is_out_of_stock(self, pods: int, window: int) -> None:
        market = Market({"spot": 100, "on-demand": 1}, window, pods={"": pods}, stock={"spot": 0}).run(50)
        assert market.bought() == {"spot": 0, "on-demand": 1}

    @pytest.mark.whole
    def test_the_light_pool_closes_as_soon_as_the_heavy_one_has_machines_again(self) -> None:
        market = Market({"spot": 100, "on-demand": 1}, pods={"": 120}, stock={"spot": 0}).run(60)
        before = market.count("on-demand")
        market.stock["spot"] = 1000
        market.run(40)
        assert market.decisions["on-demand"].because.reason is LeverReason.HEAVIER_FIRST
        market.run(300)
        assert market.count("on-demand") <= before + market.window
        assert market.count("spot") + market.count("on-demand") == 120
        assert market.most_coming <= 2 * market.window, "the window, and what the light pool had on its way"

    def test_a_heavy_pool_at_its_users_limit_gives_way_at_once(self) -> None:
        market = Market({"spot": 100, "on-demand": 1}, pods={"": 60})
        market.servers["spot"].merge({"metadata": {}, "spec": {"limits": {"cpu": "80"}}}, "kubectl")
        market.run(300)
        assert market.bought() == {"spot": 10, "on-demand": 50}

    def test_a_pool_for_other_pods_is_not_closed(self) -> None:
        market = Market({"spot": 100, "gpu": 1}, pods={"spot": 100, "gpu": 20}, window=8).run(100)
        assert market.count("gpu") >= 8, "pods that only it may serve wait"


class TestWidePools:
    """Machines of 8 cores from a pool whose types go up to 192: Karpenter sets aside the largest that still fits."""

    TYPES = (8, 16, 32, 48, 64, 96, 128, 192)

    def looks(self, types: tuple[int, ...], nodes: int = 120, share: int = 24) -> list[int]:
        """Machines ordered at each look until all are."""
        server, memory, orders = OwnedObject(pool_body({"cpu": "100000"})), NodePoolMemory(), list[int]()
        made: tuple[NodeClaim, ...] = ()
        for second in range(0, 2000, 2):
            left = nodes - len(made)
            if not left:
                break
            crowd = Crowd(Scheduling(), {"cpu": 6000}, left + len(made))
            seen = NodePoolView(pool=server.pool(), claims=made)
            now = room(min(share, left), left)
            decisions, memory = decide_node_pools(
                [seen], now, WaitingWork(crowds=(crowd,)), HOLDER, memory, float(second)
            )
            for write in decisions[0].writes:
                server.carry_out(write)
                server.observed()
            self.decision = decisions[0]
            if second % 10 == 4:
                free = float((server.pool().spec.limits or {})["cpu"]) - CORES * len(made)
                count = 0
                while count < left and free >= min(types):
                    count, free = count + 1, free - max(each for each in types if each <= free)
                made += tuple(claim(f"{second}-{at}", 1, ordered_s=float(second)) for at in range(count))
                orders.append(count)
        return orders

    def test_they_take_no_more_than_twice_the_looks(self) -> None:
        one, many = self.looks((8,)), self.looks(self.TYPES)
        assert sum(one) == sum(many) == 120
        assert len(many) <= 2 * len(one)
        assert max(many) <= 2 * 24
        assert self.decision.because.reason is LeverReason.WIDE_POOL

    @pytest.mark.parametrize(
        ("types", "reason"), [((8,), LeverReason.PACING), ((8, 16), LeverReason.WIDE_POOL)], ids=["one", "two"]
    )
    def test_types_of_similar_size_are_paced_exactly(self, types: tuple[int, ...], reason: LeverReason) -> None:
        assert max(self.looks(types)) <= 24
        assert self.decision.because.reason is reason

    def test_more_than_was_offered_takes_the_room_back(self) -> None:
        charge = Charge(factor=16).given(10, 10, 0.0).looked(dict.fromkeys(map(str, range(40)), False), 1.0)
        assert charge.looked(charge.coming, 5.0).factor == 4

    def test_room_that_was_raised_a_moment_ago_is_no_offer(self) -> None:
        charge = Charge().given(2, 2, 0.0).given(20, 20, 1.0).looked(dict.fromkeys("ab", False), 2.0)
        assert charge.looked(charge.coming, 6.0).factor == 1


class TestNotUnfair:
    NAMES = tuple(f"p{at}" for at in range(9))

    @pytest.mark.whole
    def test_ten_pools_have_the_same_part_although_one_of_them_is_broken(self) -> None:
        names = ("broken", *self.NAMES)
        pods = dict.fromkeys(names, 1000)
        market = Market(dict.fromkeys(names, 0), pods=pods, boot_s={"broken": None}, usual_s=30.0).run(240)
        healthy = usable(market, self.NAMES)
        assert min(healthy) >= 0.7 * max(healthy)
        before = market.count("broken")
        market.run(120)
        assert market.count("broken") == before, "it draws nothing once its machines are late"
        assert sum(usable(market, self.NAMES)) > 1.4 * sum(healthy)

    def test_a_hot_pool_leaves_the_others_their_first_machines(self) -> None:
        names = ("hot", *self.NAMES)
        pods = {"hot": 2000, **dict.fromkeys(self.NAMES, 2)}
        market = Market(dict.fromkeys(names, 0), pods=pods, window=12).run(110)
        assert usable(market, self.NAMES) == [2] * 9

    @pytest.mark.whole
    def test_a_single_place_goes_to_each_in_turn(self) -> None:
        market = Market(dict.fromkeys(self.NAMES, 0), pods=dict.fromkeys(self.NAMES, 50), window=1).run(400)
        assert set(market.bought().values()) <= {1, 2}

    def test_urgent_pods_have_the_place_although_others_wait(self) -> None:
        market = Market({"a": 0, "z": 0}, pods={"a": 100, "z": 2}, window=2, urgent=frozenset({"z"})).run(10)
        assert market.bought() == {"a": 0, "z": 2}

    @pytest.mark.whole
    def test_a_broken_pool_alone_is_not_held_up(self) -> None:
        market = Market({"slow": 0}, pods={"slow": 48}, boot_s={"slow": 600.0}, window=24).run(1300)
        assert market.count("slow", is_usable=True) == 48


NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(
    budget=st.integers(0, 60),
    wants=st.lists(st.tuples(st.integers(0, 40), st.sets(NAMES, min_size=1), st.booleans()), max_size=5),
    doubts=st.dictionaries(NAMES, st.sampled_from(["is_late", "is_dry", "is_full"])),
    coming=st.dictionaries(NAMES, st.integers(0, 30)),
)
def test_parts_add_up_to_no_more_than_the_budget(
    budget: int, wants: list[Any], doubts: dict[str, str], coming: dict[str, int]
) -> None:
    crowds = [Crowd(Scheduling(), {}, nodes, is_urgent) for nodes, _, is_urgent in wants]
    candidates = [
        Candidate(
            name=name,
            serves=frozenset(at for at, want in enumerate(wants) if name in want[1]),
            coming=coming.get(name, 0),
            **{doubts[name]: True} if name in doubts else {},
        )
        for name in "abcd"
    ]
    needs = needs_of(crowds, candidates)
    shares = node_pool_shares(budget, candidates, needs, 0.0)
    assert sum(share.nodes for share in shares.values()) <= budget
    assert all(share.nodes >= 0 for share in shares.values())
    for candidate in candidates:
        is_closed = bool(needs[candidate.name].heavier) and not needs[candidate.name].nodes
        assert not (is_closed or candidate.is_full) or shares[candidate.name].nodes == 0


def test_machines_on_their_way_are_for_pods_with_the_least_choice_first() -> None:
    anywhere, here = Crowd(Scheduling(), {}, 5), Crowd(Scheduling(), {}, 4)
    both, one = frozenset({0, 1}), frozenset({0})
    candidates = [Candidate(name="a", serves=both, coming=6), Candidate(name="b", serves=one, coming=1)]
    needs = needs_of([anywhere, here], candidates)
    assert needs["a"].nodes == pytest.approx(2), "6 on their way: 4 for those that can only go here, 2 for others"
    assert needs["b"] == Need(heavier="a")


def test_what_a_pool_is_passed_over_for_is_told_of_the_pods_with_the_least_choice() -> None:
    few, many = Crowd(Scheduling(), {}, 5), Crowd(Scheduling(), {}, 5)
    dry = [
        Candidate(name="a", serves=frozenset({0, 1}), coming=0, is_dry=True),
        Candidate(name="b", serves=frozenset({1}), coming=0),
        Candidate(name="c", serves=frozenset({0, 1}), coming=0),
    ]
    assert needs_of([few, many], dry)["a"].lighter == "c"
    ordered = [
        Candidate(name="a", serves=frozenset({0}), coming=0),
        Candidate(name="b", serves=frozenset({1}), coming=0),
        Candidate(name="c", serves=frozenset({0, 1}), coming=0),
    ]
    assert needs_of([few, many], ordered)["c"].heavier == "a"


def test_pods_and_balloons_that_gates_hold_are_no_demand_that_karpenter_sees() -> None:
    need = Need().and_also(Crowd(Scheduling(is_gated=True), {}, 3), 3.0).and_also(Crowd(Scheduling(), {}, 2, True), 2.0)
    assert (need.nodes, need.urgent, need.visible) == (5.0, 2.0, 2.0)


def test_a_single_place_is_no_probe_of_a_dry_pool() -> None:
    crowds = [Crowd(Scheduling(), {}, 5)]
    candidates = [
        Candidate(name="dry", serves=frozenset({0}), coming=0, is_dry=True),
        Candidate(name="good", serves=frozenset({0}), coming=0),
    ]
    needs = needs_of(crowds, candidates)
    shares = [
        {name: share.nodes for name, share in node_pool_shares(budget, candidates, needs, 0.0).items()}
        for budget in (1, 2)
    ]
    assert shares == [{"dry": 0, "good": 1}, {"dry": 1, "good": 1}]


@pytest.mark.parametrize(
    ("coming", "ordered_s", "first"), [((1, 0), (0, 0), "b"), ((0, 0), (9, 3), "b"), ((0, 0), (3, 9), "a")]
)
def test_what_does_not_divide_goes_to_who_has_the_fewest_and_ordered_longest_ago(
    coming: tuple[int, int], ordered_s: tuple[int, int], first: str
) -> None:
    candidates = [
        Candidate(name=name, serves=frozenset({at}), coming=coming[at], ordered_s=ordered_s[at])
        for at, name in enumerate("ab")
    ]
    needs = needs_of([Crowd(Scheduling(), {}, 9), Crowd(Scheduling(), {}, 9)], candidates)
    shares = node_pool_shares(3, candidates, needs, 0.0)
    assert max(shares, key=lambda name: shares[name].nodes) == first


def test_a_machine_is_late_after_three_of_the_usual_times() -> None:
    assert (WaitingWork().late_s, WaitingWork(usual_s=50.0).late_s) == (360.0, 150.0)


@pytest.mark.parametrize("doubt", ["is_late", "is_dry"])
def test_a_doubtful_pool_gets_what_the_others_leave(doubt: str) -> None:
    doubtful = Candidate(name="a", serves=frozenset({0}), coming=0, **{doubt: True})  # type: ignore[arg-type]
    candidates = [doubtful, Candidate(name="b", serves=frozenset({1}), coming=0)]
    needs = needs_of([Crowd(Scheduling(), {}, 3), Crowd(Scheduling(), {}, 3)], candidates)
    shares = [
        {name: share.nodes for name, share in node_pool_shares(budget, candidates, needs, 0.0).items()}
        for budget in (1, 3, 5, 6)
    ]
    assert shares == [{"a": 0, "b": 1}, {"a": 0, "b": 3}, {"a": 2, "b": 3}, {"a": 3, "b": 3}]


@pytest.mark.parametrize("doubt", ["is_late", "is_dry"])
def test_all_room_stands_open_in_a_doubtful_pool_where_there_is_no_other(doubt: str) -> None:
    alone = [Candidate(name="a", serves=frozenset({0}), coming=0, **{doubt: True})]  # type: ignore[arg-type]
    assert node_pool_shares(9, alone, needs_of([Crowd(Scheduling(), {}, 3)], alone), 0.0)["a"].nodes == 9


def test_a_full_pool_gets_nothing_and_an_idle_one_a_place() -> None:
    candidates = [
        Candidate(name="full", serves=frozenset({0}), coming=0, is_full=True),
        Candidate(name="idle", serves=frozenset(), coming=0),
        Candidate(name="wanted", serves=frozenset({0}), coming=0),
    ]
    needs = needs_of([Crowd(Scheduling(), {}, 3)], candidates)
    for budget, idle in ((2, 0), (9, 1)):
        shares = {name: share.nodes for name, share in node_pool_shares(budget, candidates, needs, 0.0).items()}
        assert shares == {"full": 0, "idle": idle, "wanted": budget - idle}


def test_a_dry_pool_is_probed_unless_a_heavier_one_serves_its_other_pods_or_it_is_needed_itself() -> None:
    """Pods that are for the two cannot be for the third."""
    heavy = Candidate(name="heavy", serves=frozenset({1}), coming=0)
    light = Candidate(name="light", serves=frozenset({0}), coming=0)
    shares = []
    for serves in ({0}, {0, 1}, {0, 2}):
        candidates = [heavy, Candidate(name="dry", serves=frozenset(serves), coming=0, is_dry=True), light]
        needs = needs_of(
            [Crowd(Scheduling(), {}, 5), Crowd(Scheduling(), {}, 5), Crowd(Scheduling(), {}, 1)], candidates
        )
        shares.append(node_pool_shares(4, candidates, needs, 0.0)["dry"].nodes)
    assert shares == [1, 0, 0]


def test_machines_on_their_way_are_for_urgent_pods_first() -> None:
    crowds = [Crowd(Scheduling(), {}, 5), Crowd(Scheduling(), {}, 2, is_urgent=True)]
    need = needs_of(crowds, [Candidate(name="a", serves=frozenset({0, 1}), coming=2)])["a"]
    assert (need.nodes, need.urgent) == (5.0, 0.0)


@pytest.mark.parametrize(("now_s", "first"), [(0.0, "a"), (29.9, "a"), (30.0, "b"), (60.0, "c"), (90.0, "a")])
def test_equal_pools_take_turns_of_half_a_minute(now_s: float, first: str) -> None:
    candidates = [Candidate(name=name, serves=frozenset({at}), coming=0) for at, name in enumerate("abc")]
    needs = needs_of([Crowd(Scheduling(), {}, 3)] * 3, candidates)
    shares = node_pool_shares(1, candidates, needs, now_s)
    assert [name for name, share in shares.items() if share.nodes] == [first]


@pytest.mark.parametrize(
    ("own", "operator", "is_possible"),
    [
        (("DoesNotExist",), "DoesNotExist", True),
        (("Exists",), "DoesNotExist", False),
        (("Exists", "DoesNotExist"), "DoesNotExist", True),
        (("Exists",), "Exists", True),
    ],
)
def test_where_no_values_are_listed_a_pool_may_have_the_label_or_rule_it_out(
    own: tuple[str, ...], operator: str, is_possible: bool
) -> None:
    pool = a_pool(requirements=[term("cores", part) for part in own])
    assert may_make(pool, Scheduling(node_terms=((Requirement("cores", operator),),))) is is_possible
