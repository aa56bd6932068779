"""Balloons that were told to end and do not: a kubelet that cannot end them, or a finalizer. Their nodes look idle."""

import msgspec
import pytest

from balloons.api.pool import Mode
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Decision, Memory, PoolDecision, Reason, ReleaseBalloon
from tests.world import NOW, World, a_pool, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Pod, Scheduling

SETTINGS = ImageSettings()
STEP_S = 10.0


class Service:
    """Decides every ten seconds on a world in which nothing else happens."""

    def __init__(self, world: World) -> None:
        self.world, self.memory, self.now = world, Memory(), NOW

    def decide(self) -> Decision:
        self.now = later(self.now, STEP_S)
        decided, self.memory = decide(self.world.snapshot(), self.memory, SETTINGS, self.now)
        return decided

    def after(self, seconds: float) -> PoolDecision:
        """The decision after so many seconds without a change."""
        pool = self.decide().pools[0]
        for _ in range(int(seconds / STEP_S)):
            pool = self.decide().pools[0]
        return pool


def a_service(**spec: object) -> tuple[Service, Pod]:
    """Three held nodes; the balloon of the first was told to end, by whomever, and stays."""
    service = Service(World.of(a_pool(**spec), nodes=nodes(3)))
    service.world.apply(service.decide())
    service.world.settle()
    service.decide()
    balloon = next(pod for pod in service.world.balloons() if pod.node == "n000")
    leaving = msgspec.structs.replace(balloon, is_terminating=True)
    service.world.add(leaving)
    return service, leaving


def told(pool: PoolDecision) -> list[str]:
    return [note.sentence for note in pool.notes if note.reason is Reason.ENDLESS]


def test_work_is_given_another_node_while_its_turn_lasts() -> None:
    service, _ = a_service()
    service.world.add(work("w", scheduling=Scheduling(is_tried=True, cannot_preempt=True)))
    assert not [a for a in service.after(20).actions if isinstance(a, ReleaseBalloon)], "the balloon may still end"
    released = [a.node for _ in range(2) for a in service.decide().pools[0].actions if isinstance(a, ReleaseBalloon)]
    assert released, "nobody makes room for this pod, and the first node's will never be free"
    assert "n000" not in released


def test_no_balloon_waits_for_the_node_until_it_is_free() -> None:
    service, leaving = a_service()
    assert not told(service.after(20))
    pool = service.decide().pools[0]
    assert told(pool) == ["1 node keeps a balloon that should have ended: n000"]
    assert [a.replicas for a in pool.actions if isinstance(a, ApplyObject)] == [2]
    assert (pool.status.sick, pool.status.idle) == (1, 0)
    del service.world.pods[leaving.key]
    pool = service.decide().pools[0]
    assert not told(pool)
    assert pool.status.idle == 1


def test_headroom_has_another_node_in_its_place() -> None:
    service, _ = a_service(mode=Mode.HEADROOM, size=3, max_size=4)
    pool = service.after(40)
    assert pool.because.reason is Reason.GROWING
    assert told(pool)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_node_that_has_its_next_balloon_is_held(is_running: bool) -> None:
    service, leaving = a_service()
    next_one = {"key": ObjectKey("team-a", "next"), "uid": "next", "is_terminating": False, "is_running": is_running}
    service.world.add(msgspec.structs.replace(leaving, **next_one))
    pool = service.after(40)
    assert not told(pool)
    assert pool.status.warm + pool.status.idle == 3
