"""What happens to pools that are held still, to pools that nobody saw, and to balloons that nobody will make."""

from dataclasses import replace
from typing import Any

import msgspec

from balloons.api.pool import Mode
from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.plan import Action, ApplyObject, Plan
from balloons.decide.pool_reasons import Reason
from balloons.decide.settings import DecideSettings
from balloons.service.standing import Standing, standing
from balloons.view.snapshot import DeploymentCondition, DeploymentStatus, Now
from tests.world import NOW, POOL_KEY, World, a_node, a_pool, later, nodes, work

SETTINGS = DecideSettings()


class Story:
    """A world, what is remembered of it, and the time."""

    def __init__(self, count: int, **spec: Any) -> None:
        self.world = World.of(a_pool(**spec), nodes=nodes(count))
        self.memory = Memory()
        self.now: Now = NOW

    def step(self, seconds: float = 10.0, **changes: Any) -> Plan:
        plan, self.memory = decide(self.world.snapshot(**changes), self.memory, SETTINGS, self.now)
        self.world.apply(plan)
        self.world.settle()
        self.now = later(self.now, seconds)
        return plan

    def settled(self) -> "Story":
        for _ in range(4):
            self.step()
        return self


def actions(plan: Plan) -> list[Action]:
    return [*(action for decision in plan.pools for action in decision.actions), *plan.sweeps]


# -- maxSize -----------------------------------------------------------------------------------------------------------


def work_takes_every_warm_node(world: World) -> None:
    for balloon in [b for b in world.balloons() if b.node]:
        del world.pods[balloon.key]
        world.add(work(f"job-{balloon.node}", balloon.node))


def the_autoscaler_acts(world: World) -> None:
    """One node per Pending balloon, beyond those that a free node will take."""
    for _ in [b for b in world.balloons() if not b.node]:
        name = f"x{len(world.nodes):03}"
        world.nodes[name] = a_node(name)


def test_a_paused_pool_does_not_outgrow_max_size() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=3, max_size=6).settled()
    story.world.change_pool(paused=True)
    for _ in range(5):
        work_takes_every_warm_node(story.world)
        story.world.settle()
        story.step()
        the_autoscaler_acts(story.world)
        assert story.step().pools[0].because.reason is Reason.PAUSED
    assert len(story.world.nodes) <= 6


def test_a_frozen_pool_does_not_outgrow_max_size() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=6).settled()
    for name in list(story.world.nodes)[:3]:
        story.world.remove_node(name)
    story.world.settle()
    plan = story.step()
    assert plan.pools[0].because.reason is Reason.SHRUNKEN_VIEW
    assert not [balloon for balloon in story.world.balloons() if not balloon.node], "the three may still be there"


def test_a_pool_held_still_loses_no_balloon_that_holds_a_node() -> None:
    story = Story(6, mode=Mode.HEADROOM, size=6, max_size=6).settled()
    story.world.change_pool(paused=True, max_size=4, size=4)
    for _ in range(3):
        assert not actions(story.step())
    assert len(story.world.balloons()) == 6


def test_a_paused_pool_keeps_its_template() -> None:
    story = Story(3, mode=Mode.HEADROOM, size=3, max_size=6).settled()
    before = next(iter(story.world.deployments.values())).spec
    story.world.change_pool(paused=True, pre_pull=("registry.example/model:1",))
    work_takes_every_warm_node(story.world)
    story.world.settle()
    story.world.change_pool(max_size=4)
    changed = [action for action in actions(story.step()) if isinstance(action, ApplyObject)]
    assert [action.replicas for action in changed] == [1]
    assert changed[0].manifest["spec"] == {**before, "replicas": 1}


# -- what nobody saw ---------------------------------------------------------------------------------------------------


def test_blind_time_does_not_count_for_the_sweep() -> None:
    story = Story(3).settled()
    pools, story.world.pools = story.world.pools, {}
    story.step(60.0)
    for _ in range(3):
        assert not actions(story.step(300.0, missing=("balloonpools (404)",)))
    assert not actions(story.step(SETTINGS.sweep_after_s)), "the CRD is back, and its pools are not yet"
    story.world.pools = pools
    story.step()
    assert len(story.world.balloons()) == 3


def test_what_is_gone_in_full_view_is_swept() -> None:
    story = Story(3).settled()
    story.world.pools = {}
    story.step(SETTINGS.sweep_after_s)
    assert actions(story.step())


# -- what nobody makes -------------------------------------------------------------------------------------------------

QUOTA = 'pods "gpu-16cpu-64gi-7d9-x2k" is forbidden: exceeded quota: q, requested: cpu=15, used: cpu=0, limited: cpu=8'


def refused(world: World, message: str = QUOTA) -> None:
    status = DeploymentStatus(0, (DeploymentCondition("ReplicaFailure", "True", message),))
    world.deployments = {k: msgspec.structs.replace(d, status=status) for k, d in world.deployments.items()}


def test_balloons_that_admission_refuses_are_named_in_the_servers_words() -> None:
    story = Story(3)
    plan, story.memory = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)
    story.world.apply(plan)
    refused(story.world)
    found = decide(story.world.snapshot(), story.memory, SETTINGS, story.now)[0].pools[0]
    assert found.because.reason is Reason.REFUSED
    assert found.because.sentence == (
        "the API server refuses balloons: pods is forbidden: exceeded quota: q, "
        "requested: cpu=15, used: cpu=0, limited: cpu=8"
    )


def test_a_refusal_that_is_over_is_not_named() -> None:
    story = Story(3).settled()
    refused(story.world)
    assert story.step().pools[0].because.reason is Reason.STEADY


def test_a_refusal_needs_a_person() -> None:
    assert standing(Reason.REFUSED) is Standing.STUCK


def test_pending_balloons_are_counted_and_leaving_ones_are_not() -> None:
    story = Story(0, mode=Mode.HEADROOM, size=2, max_size=6)
    story.world.nodes = nodes(1)
    story.settled()
    assert story.step().pools[0].status.pending == 1
    snapshot = story.world.snapshot()
    leaving = tuple(msgspec.structs.replace(pod, is_terminating=True) for pod in snapshot.unbound[POOL_KEY])
    gone = replace(snapshot, unbound={POOL_KEY: leaving})
    assert decide(gone, story.memory, SETTINGS, story.now)[0].pools[0].status.pending == 0
