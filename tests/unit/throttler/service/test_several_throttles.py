"""Several throttles on one cluster that goes on, in virtual time: what each of them gets of the common window."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import CNI, LOGS, a_claim, a_node, a_world, daemons_on, pending
from tests.unit.throttler.levers.test_machine_deployments import body
from tests.unit.throttler.service.throttle_scene import a_pool, a_throttle, a_view
from throttler.api.throttle import JoinThrottle
from throttler.joins.joins import JoinWorld
from throttler.kube.cluster_autoscaler import MAX_SIZE, MachineDeployment
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.taints import Taint
from throttler.levers.lever_and_reasons import TURN_S, LeverWrite
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.decide_throttles import Memories, Turn, decide_throttles

pytestmark = pytest.mark.whole

PACED = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
STEP_S, LOOK_S, BOOT_S, JOIN_S = 2.0, 10.0, 20.0, 20.0
NARROW = {"initial": 4, "max": 4}


@dataclass
class Job:
    """A whole-node pod for nodes of one pool, and its machine; times are of the story, None before it happened."""

    name: str
    pool: str
    is_gated: bool = False
    is_tainted: bool = False
    ordered_s: float | None = None
    registered_s: float | None = None
    let_in_s: float | None = None
    usable_s: float | None = None

    def go_on(self, now_s: float) -> None:
        if self.registered_s is None and self.ordered_s is not None and now_s >= self.ordered_s + BOOT_S:
            self.registered_s, self.let_in_s = now_s, None if self.is_tainted else now_s
        elif self.usable_s is None and self.let_in_s is not None and now_s >= self.let_in_s + JOIN_S:
            self.usable_s = now_s


def labels_of(pool: str) -> dict[str, str]:
    return {"pool": pool, KARPENTER_POOL_LABEL: pool}


def jobs(pool: str, count: int, **more: bool) -> list[Job]:
    return [Job(f"{pool}{at}", pool, **more) for at in range(count)]


@dataclass
class Story:
    """The cluster; `ceilings` name the throttle whose ceiling bounds what is ordered of a pool, if one does."""

    throttles: tuple[JoinThrottle, ...]
    jobs: list[Job]
    ceilings: dict[str, str] = field(default_factory=dict)
    now_s: float = 0.0
    memories: Memories = field(default_factory=dict)

    def usable(self) -> dict[str, int]:
        return {pool: sum(job.usable_s is not None for job in self.jobs if job.pool == pool) for pool in self.pools}

    @property
    def pools(self) -> list[str]:
        return sorted({job.pool for job in self.jobs})

    def after(self, seconds: float) -> tuple[Turn, ...]:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += STEP_S
            for job in self.jobs:
                job.go_on(self.now_s)
            names = tuple(throttle.metadata.name for throttle in self.throttles)
            view = a_view(self.now_s, self._world(), names=names)
            turns, self.memories = decide_throttles(self.throttles, view, self.memories)
            self._write(write for turn in turns for write in turn.lever_writes)
            if self.now_s % LOOK_S == 0.0:
                self._order({turn.name: turn for turn in turns})
        return turns

    def _write(self, writes: Iterable[LeverWrite]) -> None:
        known = {job.name: job for job in self.jobs}
        for job in (known[write.key.name] for write in writes if write.key.name in known):
            job.is_gated = False
            job.let_in_s = self.now_s if job.registered_s is not None and job.let_in_s is None else job.let_in_s

    def _order(self, turns: dict[str, Turn]) -> None:
        for pool in self.pools:
            todo = [job for job in self.jobs if job.pool == pool and not job.is_gated and job.ordered_s is None]
            if pool in self.ceilings:
                verdict = turns[self.ceilings[pool]].findings.verdict
                assert verdict is not None
                todo = todo[: verdict.allowance + verdict.spare]
            for job in todo:
                job.ordered_s = self.now_s

    def _world(self) -> JoinWorld:
        nodes = [a_node(f"old-{pool}", age_s=9999, labels=labels_of(pool)) for pool in self.pools]
        pods = [pod for node in nodes for pod in daemons_on(node.name, CNI, LOGS)]
        waiting, claims = [], []
        for job in self.jobs:
            is_usable, gates = job.usable_s is not None, (PACED_GATE,) if job.is_gated else ()
            if job.ordered_s is not None:
                is_registered, pool = job.registered_s is not None, job.pool
                claim = a_claim(f"c-{job.name}", age_s=-job.ordered_s, is_registered=is_registered, **labels_of(pool))
                node = job.name if is_registered else ""
                status = msgspec.structs.replace(claim.status, node_name=node)
                claims.append(msgspec.structs.replace(claim, status=status))
            if job.registered_s is not None:
                taints = (Taint(PACED, "NoSchedule"),) if job.let_in_s is None else ()
                more: dict[str, Any] = {"is_ready": is_usable or bool(taints), "taints": taints}
                nodes.append(a_node(job.name, age_s=-job.registered_s, labels=labels_of(job.pool), **more))
                pods += daemons_on(job.name, CNI, LOGS, is_running=is_usable)
            how = {"node_selector": {"pool": job.pool}, "gates": gates, "is_gated": job.is_gated}
            pod = pending(job.name, is_tried=not job.is_gated, **how)
            if is_usable:
                pods.append(msgspec.structs.replace(pod, node=job.name, scheduling=None))
            else:
                waiting.append(pod)
        return replace(a_world(*nodes, pods=pods, claims=tuple(claims)), unplaced=tuple(waiting))


def of_pool(pool: str, **spec: Any) -> JoinThrottle:
    """A throttle of the same name."""
    return a_throttle(pool, nodes={"matchLabels": {"pool": pool}}, **spec)


CEILING = {"nodePoolLimits": {}}
LEVERS: dict[str, dict[str, Any]] = {
    "gates": {"schedulingGates": {}},
    "taints": {"startupTaint": {"key": PACED}},
    "ceilings": CEILING,
}


@pytest.mark.parametrize("lever", LEVERS)
def test_a_full_window_gives_each_throttle_its_turn(lever: str) -> None:
    """Each join that ends leaves one place: all of them went to the throttle whose name comes first."""
    throttles = tuple(of_pool(pool, window=NARROW, levers=LEVERS[lever]) for pool in "ab")
    marks = {"is_gated": lever == "gates", "is_tainted": lever == "taints"}
    ceilings = {"a": "a", "b": "b"} if lever == "ceilings" else {}
    story = Story(throttles, jobs("a", 40, **marks) + jobs("b", 40, **marks), ceilings)
    story.after(200)
    usable = story.usable()
    assert sum(usable.values()) >= 16
    assert min(usable.values()) >= 0.7 * max(usable.values())


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("karpenter", [{}, {"nodePoolLimits": {"names": ["pool-a"]}}], ids=["", "Karpenter as well"])
@pytest.mark.parametrize("names", ["ab", "a"])
def test_turns_are_not_in_step_with_those_of_their_objects(names: str, karpenter: dict[str, Any], count: int) -> None:
    """The only place went to one half of each throttle's MachineDeployments, whatever waited for the others."""
    deployments = {pool: [f"{pool}{at}" for at in range(count)] for pool in names}
    levers = {pool: {"machineDeployments": {"namespace": "capi", "names": deployments[pool]}} for pool in names}
    throttles = tuple(of_pool(pool, window=NARROW, levers={**levers[pool], **karpenter}) for pool in names)
    groups = tuple(msgspec.convert(body(name), MachineDeployment) for pool in names for name in deployments[pool])
    story = Story(throttles, jobs("a", 40) + jobs("b", 40))
    served = set[str]()
    for turn in range(8, 8 + 16 * count):
        for job in story.jobs[:3]:
            job.ordered_s = job.registered_s = job.let_in_s = (turn - 8) * TURN_S
        view = a_view(turn * TURN_S, story._world(), names=tuple(names), scene={"limited": (*groups, a_pool())})
        turns, _ = decide_throttles(throttles, view, {})
        assert sum(turn.findings.verdict.allowance for turn in turns if turn.findings.verdict) == 1
        sizes = {
            write.key.name: write.body for turn in turns for write in turn.lever_writes if "capi" in str(write.key)
        }
        served |= {name for name, body in sizes.items() if body["metadata"]["annotations"][MAX_SIZE] == "5"}  # type: ignore[call-overload]
    assert served == {name for pool in names for name in deployments[pool]}


def test_a_throttle_without_a_lever_takes_nothing_from_others() -> None:
    """It got its part of each place that became free, which nobody could use."""
    alone, beside = (
        Story((*others, of_pool("a", window=NARROW, levers=CEILING)), jobs("a", 60), {"a": "a"})
        for others in ((), (a_throttle("first"),))
    )
    alone.after(180)
    beside.after(180)
    assert beside.usable() == alone.usable()


def test_small_demand_of_one_throttle_passes_a_window_that_others_fill() -> None:
    """The reserved lane was for whoever's name comes first."""
    story = Story(tuple(of_pool(pool, window=NARROW, levers=CEILING) for pool in "abz"), jobs("a", 60) + jobs("b", 60))
    story.ceilings = {pool: pool for pool in "abz"}
    story.after(60)
    (small,) = jobs("z", 1)
    story.jobs.append(small)
    story.after(10)
    assert small.ordered_s is not None


@pytest.mark.parametrize("gates_are_older", [True, False])
def test_what_one_throttle_lets_go_of_is_ordered_under_the_ceiling_of_another(*, gates_are_older: bool) -> None:
    """Pods without their gate counted as ordered, filled the window, and so the ceiling gave no room for them."""
    gates = a_throttle("gates", window=NARROW, levers=LEVERS["gates"])
    ceiling = of_pool("a", window=NARROW, levers=CEILING)
    throttles = (gates, ceiling) if gates_are_older else (ceiling, gates)
    story = Story(throttles, jobs("a", 30, is_gated=True), {"a": "a"})
    story.after(180)
    assert 8 <= story.usable()["a"] <= 24


def test_a_pace_bounds_its_own_throttle_whatever_others_order() -> None:
    """The machines of others were paid for by it, so that it got a third of its pace."""
    slow, fast = of_pool("slow", pace={"maxPerMinute": 20}, levers=CEILING), of_pool("fast", levers=CEILING)
    story = Story((slow, fast), jobs("slow", 90) + jobs("fast", 150), {"slow": "slow", "fast": "fast"})
    story.after(180)
    ordered = sum(job.ordered_s is not None for job in story.jobs if job.pool == "slow")
    assert 45 <= ordered <= 66


POOL_A = {"matchLabels": {"pool": "a"}}
NAMING = {name: {"nodePoolLimits": {"names": [name]}} for name in "ab"}


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({}, {"nodes": POOL_A, "levers": CEILING}),
        ({"nodes": POOL_A}, {"nodes": POOL_A, "levers": CEILING}),
        ({"levers": NAMING["b"]}, {"levers": NAMING["a"]}),
    ],
    ids=["of all nodes", "of the same nodes", "of another NodePool by name"],
)
@pytest.mark.parametrize(
    ("bound", "least", "most_ordered", "most_at_once"),
    [({"pace": {"maxPerMinute": 20}}, 45, 66, 40), ({"maxInFlight": 6}, 24, 40, 6)],
    ids=["pace", "in flight"],
)
def test_bounds_hold_against_its_own_nodes_where_another_throttle_comes_first(
    first: dict[str, Any],
    later: dict[str, Any],
    bound: dict[str, Any],
    least: int,
    most_ordered: int,
    most_at_once: int,
) -> None:
    """They held against the joins of all: 14 machines in three minutes at 20 a minute, and 2 of 6 in flight."""
    throttles = a_throttle("first", **first), a_throttle("later", **later, **bound), of_pool("b", levers=CEILING)
    story = Story(throttles, jobs("a", 90) + jobs("b", 150), {"a": "later", "b": "b"})
    at_once = 0
    for _ in range(30):
        story.after(6)
        in_flight = [job for job in story.jobs if job.pool == "a" and job.ordered_s is not None and not job.usable_s]
        at_once = max(at_once, len(in_flight))
    assert least <= sum(job.ordered_s is not None for job in story.jobs if job.pool == "a") <= most_ordered
    assert at_once <= most_at_once


def test_the_reserved_lane_is_full_where_another_throttle_comes_first_too() -> None:
    """It always looked free, so that what was urgent got every place of a full window."""
    urgent = {"reserved": {"priorityAtLeast": 0}}
    first, later = (
        a_throttle("first", nodes=POOL_A),
        a_throttle("a", nodes=POOL_A, window=NARROW, levers=CEILING, **urgent),
    )
    story = Story((first, later, of_pool("b", window=NARROW, levers=CEILING)), jobs("a", 60) + jobs("b", 60))
    story.ceilings = {"a": "a", "b": "b"}
    story.after(180)
    usable = story.usable()
    assert usable["a"] <= 1.3 * usable["b"]


@pytest.mark.parametrize("lever", LEVERS)
def test_a_window_that_is_smaller_than_anothers_gets_its_own_part(lever: str) -> None:
    """It was full with what the other one had under way, for as long as that one grew."""
    marks = {"is_gated": lever == "gates", "is_tainted": lever == "taints"}
    fixed = {"initial": 4, "min": 4, "max": 4}
    throttles = of_pool("few", window=fixed, levers=LEVERS[lever]), of_pool("many", levers=LEVERS[lever])
    ceilings = {"few": "few", "many": "many"} if lever == "ceilings" else {}
    story = Story(throttles, jobs("few", 40, **marks) + jobs("many", 150, **marks), ceilings)
    most = 0
    for _ in range(30):
        story.after(6)
        most = max(most, sum(job.let_in_s is not None and job.usable_s is None for job in story.jobs[:40]))
    assert story.usable()["few"] >= 10
    assert most <= 6, "as alone"
