"""Reasons for which a pool is left as it is."""

from typing import Any

import msgspec
import pytest

from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.plan import PoolDecision
from balloons.decide.pool_reasons import Reason
from balloons.decide.settings import DecideSettings
from tests.world import CLASS, NOW, World, a_node, a_pool, nodes

SETTINGS = DecideSettings(allowed_images=("registry.example/warm/",))


def decision(world: World, **changes: Any) -> PoolDecision:
    return decide(world.snapshot(**changes), Memory(), SETTINGS, NOW)[0].pools[0]


def pool_of(**spec: Any) -> World:
    return World.of(a_pool(**spec), nodes=nodes(2))


@pytest.mark.parametrize("value", [-11, -1000, 0, 5])
def test_a_class_outside_the_accepted_priorities_freezes(value: int) -> None:
    found = decision(pool_of(), priority_classes={"kube-balloons": msgspec.structs.replace(CLASS, value=value)})
    assert (found.because.reason, found.actions) == (Reason.NO_PRIORITY_CLASS, ())
    assert str(value) in found.because.sentence


@pytest.mark.parametrize("value", [-10, -1])
def test_the_accepted_priorities_are_from_minus_ten_to_minus_one(value: int) -> None:
    assert decision(pool_of(), priority_classes={"kube-balloons": msgspec.structs.replace(CLASS, value=value)}).actions


def test_a_class_that_preempts_freezes() -> None:
    bad = msgspec.structs.replace(CLASS, preemption_policy="PreemptLowerPriority")
    assert decision(pool_of(), priority_classes={"kube-balloons": bad}).because.reason is Reason.NO_PRIORITY_CLASS


def test_only_images_on_the_list_run() -> None:
    assert decision(pool_of(image="registry.example/warm/pause:1")).actions
    for spec in ({"image": "docker.example/miner"}, {"pre_pull": ("docker.example/model",)}):
        found = decision(pool_of(**spec))
        assert (found.because.reason, found.actions) == (Reason.IMAGE_NOT_ALLOWED, ())


def test_without_a_list_only_the_default_image_runs() -> None:
    world = pool_of(image="registry.example/warm/pause:1")
    plan, _ = decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    assert plan.pools[0].because.reason is Reason.IMAGE_NOT_ALLOWED


@pytest.mark.parametrize(("minor", "may"), [(34, False), (35, True), (0, True)])
def test_image_volumes_need_their_version(minor: int, may: bool) -> None:
    found = decision(pool_of(pre_pull=("registry.example/warm/model:1",)), server_minor=minor)
    assert bool(found.actions) is may
    assert (found.because.reason is Reason.NO_IMAGE_VOLUMES) is not may


def test_a_paused_pool_is_left_alone() -> None:
    found = decision(pool_of(paused=True))
    assert (found.because.reason, found.actions) == (Reason.PAUSED, ())


def test_a_dry_run_plans_and_writes_nothing() -> None:
    world = pool_of(dry_run=True)
    plan, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert plan.pools[0].is_dry_run
    assert plan.pools[0].actions
    world.apply(plan)
    assert not world.deployments


def test_shapes_that_no_label_tells_apart_are_noted() -> None:
    world = pool_of()
    world.nodes["big"] = a_node("big", allocatable={**world.nodes["n000"].allocatable, "cpu": 32_000})
    assert [note.reason for note in decision(world).notes] == [Reason.SHAPES_ALIKE]


@pytest.mark.parametrize(
    ("prefix", "image", "is_allowed"),
    [
        ("registry.example.com", "registry.example.com/x:1", True),
        ("registry.example.com", "registry.example.com.attacker.net/x:1", False),
        ("registry.example.com", "registry.example.com:5000/x:1", False),
        ("registry.example.com/base", "registry.example.com/base-evil/x:1", False),
        ("registry.example.com/base", "registry.example.com/base:1", True),
        ("registry.example.com/base", "registry.example.com/base@sha256:0", True),
        ("registry.example.com/base/", "registry.example.com/base/x:1", True),
        ("registry.example.com/base:1", "registry.example.com/base:1", True),
        ("registry.example.com/base:1", "registry.example.com/base:12", False),
    ],
)
def test_images_are_allowed_by_whole_parts_of_their_name(prefix: str, image: str, is_allowed: bool) -> None:
    world = World.of(a_pool(image=image), nodes=nodes(1))
    plan, _ = decide(world.snapshot(), Memory(), DecideSettings(allowed_images=(prefix,)), NOW)
    assert (plan.pools[0].because.reason is not Reason.IMAGE_NOT_ALLOWED) is is_allowed
