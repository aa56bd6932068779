"""Pods that fit nowhere: the throttle comes to rest beside them, and wakes for everything else."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import CNI, LOGS, a_claim, a_node, a_world, daemons_on, pending
from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import pool_body
from tests.unit.throttler.service.throttle_scene import WALL_S as EPOCH_S
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.api.throttle import JoinThrottle
from throttler.joins.demand import ORDERS_ALL_S, SEARCH_S
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind
from throttler.law.verdict import Phase
from throttler.levers.ceiling import QUIET_S, STEPS, STUCK_S
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.decide_throttles import Memories, Turn, decide_throttles
from throttler.service.throttle_status import conditions

LOOK_S = 5.0
HOPELESS = pending("lost", owner="lost")
THROTTLE = a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers={"nodePoolLimits": {"names": ["default"]}})


@cache
def machine(name: str) -> tuple[Node, tuple[Pod, ...]]:
    """A node, and with its DaemonSets' pods the one that it was ordered for."""
    work = msgspec.structs.replace(pending(f"on-{name}"), node=name, kind=PodKind.WORK)
    return a_node(name, age_s=9999), (*daemons_on(name, CNI, LOGS), work)


class Plant:
    """One NodePool, and a Karpenter that takes up every ceiling and orders only what the test says."""

    def __init__(self, *unplaced: Pod, throttle: JoinThrottle = THROTTLE) -> None:
        self.throttle = throttle
        self.unplaced = unplaced
        self.groups: tuple[NodeGroup, ...] = ()
        self.age_s = 0.0
        self.claims: tuple[NodeClaim, ...] = ()
        self.nodes = ["old"]
        self.pool = OwnedObject(pool_body({"cpu": "1000"}))
        self.pool.observed()
        self.is_there = True
        self.memories: Memories = {}
        self.now_s = 1000.0

    def look(self) -> Turn:
        self.now_s += LOOK_S
        world = a_world(
            *(machine(name)[0] for name in self.nodes),
            pods=[pod for name in self.nodes for pod in machine(name)[1]],
            claims=self.claims,
            unplaced=self.unplaced,
            autoscaler=AutoscalerStatus(self.groups, EPOCH_S + self.now_s) if self.groups else None,
        )
        view = a_view(self.now_s, world, scene={"limited": (self.pool.pool(),)}, age_s=self.age_s)
        (turn,), self.memories = decide_throttles((self.throttle,), view, self.memories)
        for write in turn.lever_writes:
            self.pool.carry_out(write)
            if self.is_there:
                self.pool.observed()
        return turn

    def looks(self, seconds: float) -> Turn:
        for _ in range(int(seconds / LOOK_S) - 1):
            self.look()
        return self.look()

    @property
    def has_ceiling(self) -> bool:
        return self.pool.pool().spec.limits != {"cpu": "1000"}


def at_rest(*unplaced: Pod) -> Plant:
    plant = Plant(*unplaced)
    plant.looks(SEARCH_S + QUIET_S + 6 * LOOK_S)
    return plant


def test_a_whole_search_takes_less_than_until_pods_are_given_up() -> None:
    assert SEARCH_S >= 2 * STUCK_S * (STEPS + 1)


def test_beside_a_pod_that_fits_nowhere_ceilings_are_handed_back_and_the_law_is_idle() -> None:
    plant = Plant(HOPELESS)
    first = plant.looks(2 * LOOK_S)
    assert (first.findings.joins.waiting, plant.has_ceiling) == (1, True)
    turn = at_rest(HOPELESS).look()
    joins, verdict = turn.findings.joins, turn.findings.verdict
    assert (joins.waiting, joins.hopeless, joins.hopeless_pods, turn.is_busy) == (0, 1, 1, False)
    assert verdict is not None
    assert (verdict.phase, verdict.because.code) == (Phase.IDLE, "NoHope")
    assert "1 pod is not counted" in verdict.because.sentence
    told = conditions(THROTTLE, turn.findings, datetime.fromtimestamp(EPOCH_S, UTC))
    assert any("1 pod fits nowhere and is not counted" in each.message for each in told)


@pytest.mark.whole
def test_a_ceiling_that_was_handed_back_stays_away() -> None:
    plant = at_rest(HOPELESS)
    assert not plant.has_ceiling
    writes = plant.pool.writes
    plant.looks(1800)
    assert plant.pool.writes == writes


def test_other_demand_is_paced_beside_it() -> None:
    plant = at_rest(HOPELESS)
    plant.unplaced = (HOPELESS, *(pending(f"p{i}") for i in range(60)))
    turn = plant.looks(2 * LOOK_S)
    assert (turn.findings.joins.waiting, turn.findings.joins.hopeless) == (60, 1)
    assert plant.has_ceiling


def raise_limit(plant: Plant) -> None:
    assert plant.pool.body is not None
    plant.pool.apply({**pool_body({"cpu": "2000"})}, "kubectl", is_forced=True)
    plant.pool.observed()


def order(plant: Plant) -> None:
    plant.claims = (a_claim("c1"),)


def replace_pod(plant: Plant) -> None:
    plant.unplaced = (pending("again", owner="lost"),)


def repair_pool(plant: Plant) -> None:
    assert plant.pool.body is not None
    plant.pool.body["status"]["conditions"] = [{"type": "NodeClassReady", "status": "True"}]


def add_group(plant: Plant) -> None:
    plant.groups = (NodeGroup("new"),)


@pytest.mark.parametrize("change", [raise_limit, repair_pool, add_group, order, replace_pod])
def test_it_hopes_again_when_the_pod_the_pool_or_the_autoscaler_gives_reason(change: Callable[[Plant], None]) -> None:
    plant = at_rest(HOPELESS)
    change(plant)
    joins = plant.look().findings.joins
    assert (joins.hopeless, joins.waiting + joins.booting) == (0, 1)


@pytest.mark.whole
def test_whoever_waits_because_the_window_is_small_is_not_given_up() -> None:
    """Karpenter looks once a minute and orders all that it may; machines join a minute later."""
    plant = Plant(*(pending(f"p{i}") for i in range(400)))
    for wave in range(12):
        turn = plant.looks(60)
        assert turn.findings.joins.hopeless == 0
        assert turn.findings.verdict is not None
        plant.nodes += [claim.metadata.name for claim in plant.claims]
        plant.unplaced = plant.unplaced[len(plant.claims) :]
        plant.claims = tuple(a_claim(f"c{wave}-{i}") for i in range(min(8, turn.findings.verdict.allowance)))
    assert len(plant.unplaced) > 200


@pytest.mark.whole
def test_more_than_a_window_of_such_pods_does_not_take_the_ceiling_away() -> None:
    """On the day when they fit they must not start all at once."""
    plant = at_rest(*(pending(f"p{i}") for i in range(500)))
    turn = plant.looks(600)
    assert (turn.findings.joins.waiting, turn.findings.joins.hopeless) == (0, 500)
    assert turn.findings.verdict is not None
    assert (turn.findings.verdict.phase, plant.has_ceiling) == (Phase.IDLE, True)


@pytest.mark.whole
@pytest.mark.parametrize("more", [{}, {"schedulingGates": {}}], ids=["", "gates as well"])
@pytest.mark.parametrize("changes", [{"is_there": False}, {"age_s": 31.0}], ids=["Karpenter", "the view"])
def test_nobody_is_given_up_while_karpenter_or_the_view_is_away(changes: dict[str, Any], more: dict[str, Any]) -> None:
    levers = {"nodePoolLimits": {"names": ["default"]}, **more}
    plant = Plant(HOPELESS, throttle=a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers=levers))
    plant.looks(2 * LOOK_S)
    plant.__dict__.update(changes)
    turn = plant.looks(3600)
    assert (turn.findings.joins.waiting, turn.findings.joins.hopeless) == (1, 0)
    assert plant.has_ceiling


@pytest.mark.whole
def test_it_is_given_up_beside_demand_that_is_served_at_once() -> None:
    """A stream of small demand: each machine is ordered at the next look, and one pod is left over every time."""
    plant = Plant(HOPELESS)
    for number in range(60):
        plant.unplaced = (HOPELESS, pending(f"p{number}"))
        plant.looks(10)
        plant.claims = (a_claim(f"c{number}"),)
        turn = plant.looks(10)
        plant.claims, plant.unplaced = (), (HOPELESS,)
        plant.nodes.append(f"c{number}")
        plant.look()
    assert turn.findings.joins.hopeless_pods == 1


def test_whose_machine_takes_long_to_boot_is_not_given_up_with_the_others() -> None:
    plant = Plant(HOPELESS, *(pending(f"p{i}") for i in range(10)))
    plant.looks(10)
    plant.claims = tuple(a_claim(f"c{i}") for i in range(10))
    assert plant.looks(600).findings.joins.hopeless_pods == 1
    plant.nodes += [claim.metadata.name for claim in plant.claims]
    plant.claims, plant.unplaced = (), (HOPELESS,)
    assert plant.looks(300).findings.joins.hopeless_pods == 1


def gates_alone(**spec: Any) -> JoinThrottle:
    window = {"initial": 4, "min": 4, "max": 500}
    return a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers={"schedulingGates": {}}, window=window, **spec)


GATES_ALONE = gates_alone(maxInFlight=6)


class GatedPlant:
    """Gates as the only lever, and a Karpenter that orders at once for all that are let go, but not for `lost` ones.

    What stands before a hyphen is the name of a pod's owner.
    """

    def __init__(self, *names: str, throttle: JoinThrottle = GATES_ALONE) -> None:
        self.throttle = throttle
        self.waiting = dict.fromkeys(names, False)
        """Whether each was let go."""
        self.ordered: dict[str, float] = {}
        self.nodes = ["old"]
        self.is_there = True
        self.memories: Memories = {}
        self.now_s = 1000.0

    def look(self) -> Turn:
        self.now_s += LOOK_S
        for name, at_s in list(self.ordered.items()):
            if self.now_s - at_s >= 60.0:
                self.nodes.append(f"n-{name}")
                del self.ordered[name], self.waiting[name]
        if self.is_there:
            new = (name for name, is_free in self.waiting.items() if is_free and not name.startswith("lost"))
            self.ordered = {**dict.fromkeys(new, self.now_s), **self.ordered}
        world = a_world(
            *(machine(name)[0] for name in self.nodes),
            pods=[pod for name in self.nodes for pod in machine(name)[1]],
            claims=tuple(a_claim(f"c-{name}") for name in self.ordered),
            unplaced=tuple(
                pending(
                    name,
                    cpu="7" if name.startswith("lost") else "6",
                    owner=name.partition("-")[0],
                    is_gated=not is_free,
                    is_tried=is_free,
                    gates=() if is_free else (PACED_GATE,),
                )
                for name, is_free in self.waiting.items()
            ),
        )
        (turn,), self.memories = decide_throttles((self.throttle,), a_view(self.now_s, world), self.memories)
        for write in turn.lever_writes:
            self.waiting[write.key.name] = True
        return turn


def test_what_was_let_go_and_fits_nowhere_is_given_up_beside_others_by_the_same_rule() -> None:
    plant = GatedPlant("lost", *(f"p{number}" for number in range(30)))
    for _ in range(int((SEARCH_S + ORDERS_ALL_S + 60) / LOOK_S)):
        turn = plant.look()
        assert turn.findings.joins.hopeless_pods <= 1
    assert (turn.findings.joins.hopeless_pods, len(plant.waiting) > 6) == (1, True)
    while len(plant.waiting) > 1:
        turn = plant.look()
    turn = plant.look()
    joins, verdict = turn.findings.joins, turn.findings.verdict
    assert (joins.waiting, joins.in_flight, joins.hopeless_pods, turn.is_busy) == (0, 0, 1, False)
    assert verdict is not None
    assert verdict.because.code == "NoHope"


@pytest.mark.whole
def test_nothing_that_was_let_go_is_given_up_while_nobody_orders() -> None:
    plant = GatedPlant(*(f"p{number}" for number in range(30)))
    for _ in range(4):
        plant.look()
    plant.is_there = False
    for _ in range(400):
        turn = plant.look()
    assert turn.findings.joins.hopeless_pods == 0
    assert sum(plant.waiting.values()) == 6


def crowd(owner: str, count: int = 8) -> list[str]:
    return [f"{owner}-{number:02}" for number in range(count)]


@pytest.mark.whole
@pytest.mark.parametrize("bounds", [{}, {"maxInFlight": 6}, {"maxInFlight": 4, "reserved": {"nodes": 1}}])
def test_a_crowd_that_fits_nowhere_keeps_nobody_behind_it_waiting(bounds: dict[str, Any]) -> None:
    plant = GatedPlant(*crowd("lost", 13), *crowd("others"), throttle=gates_alone(**bounds))
    for _ in range(int(10 * SEARCH_S / LOOK_S)):
        plant.look()
    assert sorted(plant.waiting) == crowd("lost", 13)


def test_a_small_job_passes_a_crowd_that_fits_nowhere_and_fills_all_that_the_user_allows() -> None:
    plant = GatedPlant(*crowd("lost"), throttle=GATES_ALONE)
    for _ in range(20):
        plant.look()
    plant.waiting["job-00"] = False
    for _ in range(3):
        plant.look()
    assert "job-00" in plant.ordered


def test_a_job_that_comes_beside_one_that_fits_nowhere_has_the_whole_window_at_once() -> None:
    plant = GatedPlant("lost-00", throttle=gates_alone(reserved={"demandAtMost": 0}))
    for _ in range(int(2 * SEARCH_S / LOOK_S)):
        plant.look()
    plant.waiting |= dict.fromkeys(crowd("others"), False)
    plant.look()
    assert sum(plant.waiting.values()) == 4


@pytest.mark.whole
def test_two_crowds_that_fit_nowhere_keep_nobody_behind_them_waiting() -> None:
    plant = GatedPlant(*crowd("lost"), *crowd("lostalso"), *crowd("others"))
    for _ in range(int(20 * SEARCH_S / LOOK_S)):
        plant.look()
    assert sorted(plant.waiting) == [*crowd("lost"), *crowd("lostalso")]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("bounds", "most"),
    [({"reserved": {"nodes": 0}}, 9), ({}, 9 + 2), ({"maxInFlight": 6}, 6)],
)
def test_an_autoscaler_that_is_away_finds_no_more_than_the_reserve_beyond_what_is_usual(
    bounds: dict[str, Any], most: int
) -> None:
    """Nine are let go where the user sets no bound: the window, and those that are to come when its joins end."""
    owners = ("a", "b", "c", "d", "e")
    plant = GatedPlant(*(name for owner in owners for name in crowd(owner)), throttle=gates_alone(**bounds))
    plant.is_there = False
    for _ in range(int(7 * SEARCH_S / LOOK_S)):
        turn = plant.look()
        assert sum(plant.waiting.values()) <= most
    assert (turn.findings.joins.hopeless_pods, sum(plant.waiting.values())) == (0, most)


def test_an_autoscaler_that_comes_back_and_orders_one_by_one_finds_no_more_than_the_user_allows() -> None:
    plant = GatedPlant(*crowd("a", 60), throttle=gates_alone(maxInFlight=12, reserved={"nodes": 0}))
    plant.is_there = False
    for _ in range(int(2 * SEARCH_S / LOOK_S)):
        plant.look()
    assert sum(plant.waiting.values()) == 9
    for _ in range(9):
        free = (name for name, is_free in plant.waiting.items() if is_free and name not in plant.ordered)
        plant.ordered[next(free)] = plant.now_s
        assert plant.look().findings.joins.hopeless_pods == 0


def test_who_stayed_behind_a_gate_in_vain_keeps_the_turn_and_counts_as_held() -> None:
    """A type is out of stock, and a crowd comes later: once there is stock again, who waits for it came first."""
    plant = GatedPlant(*crowd("lost"))
    for number in range(80):
        plant.waiting |= {} if number % 10 else {f"job{number}-00": False}
        turn = plant.look()
    held = [name for name, is_free in plant.waiting.items() if name.startswith("lost") and not is_free]
    assert turn.findings.joins.hopeless_pods == 8
    assert turn.findings.levers[0].ceiling == f"{len(held)} held"
    plant.waiting |= dict.fromkeys(crowd("after", 12), False)
    plant.look()
    for name in [name for name in crowd("lost") if name not in held]:
        del plant.waiting[name]
    while not all(plant.waiting[name] for name in held):
        plant.look()
    assert not all(plant.waiting.get(name, True) for name in crowd("after", 12))
