"""Balloons that are given a priority of work's, by a webhook or by a PriorityClass that was another one for a while.

They look like work, and give way to none. They go, and are not made over and over."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest

from balloons.api.pool import Mode, PoolNodes
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Memory, PoolDecision, Reason
from balloons.decide.pools_left_alone import FIRST_TRY_S
from balloons.view.index_and_snapshot import Circumstances, Deployment, Index, PriorityClass
from balloons.view.tenancy_and_claim import Tenancy
from tests.world import CLASS, NOW, POOL_KEY, World, a_lane, a_node, a_pool, later, nodes, work
from throttler.kube.pod import POOL_LABEL, Pod, PodKind
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import Lane

SETTINGS = ImageSettings()


@dataclass
class Ranked(World):
    """A world in which pods of the pool's Deployments are given this priority."""

    priority: int = 100
    value: int = CLASS.value

    def settle(self) -> None:
        before = set(self.pods)
        super().settle()
        for key in self.pods.keys() - before if self.priority >= 0 else ():
            # The cost stands for their age: a ReplicaSet removes the younger ones first.
            lifted = {"kind": PodKind.WORK, "priority": self.priority, "deletion_cost": -1}
            self.pods[key] = msgspec.structs.replace(self.pods[key], **lifted)

    def _made_for(self, deployment: Deployment) -> list[Pod]:
        pool = deployment.metadata.labels[POOL_LABEL]
        return [pod for pod in self.pods.values() if pod.pool == pool]

    def seen(self) -> Index:
        """All of it, with the value that the class has now."""
        index = self.index()
        index.change_priority_class(CLASS, PriorityClass(CLASS.metadata, self.value, CLASS.preemption_policy))
        return index


@dataclass
class Service:
    """Decides every few seconds, and counts what it writes."""

    world: Ranked
    memory: Memory
    sizes: list[int]
    now = NOW

    def run(self, ticks: int, step_s: float = 5.0, lanes: Sequence[Lane] | None = None) -> PoolDecision:
        for _ in range(ticks):
            self.now = later(self.now, step_s)
            snapshot = self.world.seen().snapshot(Circumstances())
            decided, self.memory = decide(snapshot, self.memory, SETTINGS, self.now, lanes)
            pool = decided.pools[0]
            self.sizes += [action.replicas for action in pool.actions if isinstance(action, ApplyObject)]
            self.world.apply(decided)
            self.world.settle()
        return pool


def a_service(**changes: object) -> Service:
    world = Ranked.of(a_pool(**changes), nodes=nodes(4))
    return Service(world, Memory(), [])


@pytest.mark.parametrize("priority", [0, 100])
def test_balloons_that_a_webhook_lifts_above_work_are_not_made_over_and_over(priority: int) -> None:
    service = a_service()
    service.world.priority = priority
    pool = service.run(120)
    assert service.sizes[:2] == [4, 0], "they go as soon as they are seen"
    assert set(service.sizes[2:]) == {0, 1}, "one at a time is enough to see that nothing has changed"
    assert len(service.sizes) <= 14, "ever less often"
    assert pool.because.reason is Reason.OUTRANKING
    assert not service.world.replicas()


def test_all_are_made_as_soon_as_one_is_given_the_right_priority() -> None:
    service = a_service()
    service.run(3)
    service.world.priority = -10
    pool = service.run(5)
    assert pool.because.reason is Reason.STEADY
    assert pool.status.warm == 4


def test_balloons_that_take_long_to_go_put_off_no_later_try() -> None:
    """The same ones are seen at each look until their kubelets have ended them."""
    service = a_service()
    service.run(1)
    lifted = {key: pod for key, pod in service.world.pods.items() if pod.pool}
    for _ in range(6):
        service.run(1)
        service.world.pods |= lifted
    service.world.pods, service.world.priority = {}, -10
    assert service.run(int(FIRST_TRY_S / 5.0) + 3).status.warm == 4


def test_headroom_asks_for_no_node_in_place_of_one_that_its_own_balloon_has() -> None:
    service = a_service(mode=Mode.HEADROOM, size=4, max_size=9)
    pool = service.run(2)
    assert pool.because.reason is Reason.OUTRANKING
    assert not service.world.replicas()
    service.world.add(*(work(f"w{i}", name) for i, name in enumerate(service.world.nodes)))
    service.run(3)
    assert service.sizes == [4, 0, 1, 0], "where no node is idle, one that waits tells as well"
    service.world.priority = -10
    pool = service.run(6)
    assert pool.because.reason is Reason.GROWING
    assert service.sizes[4:] == [1, 4]


def test_no_new_node_is_asked_for_while_one_of_them_has_a_priority_of_works() -> None:
    """The next one may be given it as well."""
    service = a_service(mode=Mode.HEADROOM, size=6, max_size=9)
    service.world.priority = -10
    service.run(2)
    assert service.world.replicas() == 6
    del service.world.pods[service.world.balloons()[0].key]
    service.world.priority = 5
    service.world.settle()
    service.run(1)
    assert service.world.replicas() == 4, "as many as hold a node"


def test_one_that_is_tried_takes_one_node_of_the_allowance() -> None:
    service = a_service(mode=Mode.HEADROOM, size=4, max_size=9)
    service.run(2)
    service.world.priority = -10
    service.world.add(*(work(f"w{i}", name) for i, name in enumerate(service.world.nodes)))
    young = a_pool("young", created_s=9.0, nodes=PoolNodes(LabelSelector({"pool": "x"})), mode=Mode.HEADROOM, size=9)
    service.world.nodes |= {"x": a_node("x", labels={"pool": "x"})}
    service.world.pools[young.key] = young
    granted = []
    for _ in range(4):
        service.run(1, lanes=a_lane(3))
        granted.append(tuple(service.memory.pools[key].granted for key in (POOL_KEY, young.key)))
    assert granted[0] == (0, 3), "nothing is let out for a pool that makes none"
    assert (1, 2) in [(own, other - before) for (own, other), (_, before) in zip(granted[1:], granted, strict=False)]


def test_the_highest_priority_is_told_and_the_youngest_counts() -> None:
    service = a_service()
    service.run(1)
    first = next(pod for pod in service.world.pods.values() if pod.pool)
    service.world.add(msgspec.structs.replace(first, priority=7, created_s=first.created_s + 90))
    assert service.run(1).because.detail["priority"] == 100
    assert service.memory.pools[POOL_KEY].outranking is not None
    assert service.memory.pools[POOL_KEY].outranking.newest_s == first.created_s + 90


@pytest.mark.parametrize("paused", [False, True])
def test_those_made_while_the_class_was_another_one_go_and_the_others_stay(paused: bool) -> None:
    service = a_service()
    service.world.priority = -10
    service.run(2)
    service.world.change_pool(paused=paused)
    lost = next(iter(service.world.balloons()))
    del service.world.pods[lost.key]
    service.world.priority = service.world.value = 5
    service.world.settle()
    pool = service.run(2)
    assert pool.because.reason is (Reason.PAUSED if paused else Reason.NO_PRIORITY_CLASS)
    assert service.sizes == [4, 3], "nothing else is changed"
    assert len(service.world.balloons()) == 3
    service.world.priority, service.world.value = -10, CLASS.value
    service.world.change_pool(paused=False)
    assert service.run(4).status.warm == 4


def test_balloons_above_work_are_no_work_that_waits() -> None:
    world = Ranked.of(a_pool(), nodes={})
    service = Service(world, Memory(), [])
    world.nodes = nodes(1)
    service.run(1)
    balloon = next(pod for pod in world.pods.values() if pod.pool)
    waiting = msgspec.structs.replace(balloon, node="", is_running=False)
    world.pods = {waiting.key: waiting, work("w").key: work("w")}
    index = world.seen()
    snapshot = index.snapshot(Circumstances())
    assert [pod.key.name for pod in snapshot.waiting] == ["w"]
    assert snapshot.outranking == {POOL_KEY: (waiting,)}
    orphan = msgspec.structs.replace(waiting, owner=None)
    index.change_pod(waiting, orphan)
    assert not index.snapshot(Circumstances()).outranking, "nobody's pod is not ours"
    index.change_pod(orphan, waiting)
    assert [pod.key.name for pod in index.snapshot(Circumstances()).waiting] == ["w"], "adopted, it is no work again"
    index.change_pod(waiting, orphan)
    for gone in ({"is_terminating": True}, {"is_finished": True}):
        index.change_pod(orphan, msgspec.structs.replace(waiting, **gone))
        assert not index.snapshot(Circumstances()).outranking
    elsewhere = Index(Tenancy(namespaces=frozenset({"other"})))
    elsewhere.change_pod(None, waiting)
    assert not elsewhere.snapshot(Circumstances()).outranking, "another service may serve that pool"
    index.change_pod(None, waiting)
    index.change_pod(waiting, None)
    assert not index.snapshot(Circumstances()).outranking


def test_work_that_names_a_pool_is_not_ours_whatever_its_priority() -> None:
    index = Index()
    index.change_pod(None, msgspec.structs.replace(work("w"), pool="gpu", shape="m1"))
    assert not index.snapshot(Circumstances()).outranking
