"""The ceiling on a real Karpenter: paces a burst, lets replacements start, gives way to its user, leaves no trace."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from tests.lab.ceiling_driver import CeilingDriver, driving, in_background
from tests.lab.cluster_view import ClusterView, deployment, until
from throttler.kube.karpenter import NodeClaim
from throttler.levers.lever_and_reasons import LeverReason, LeverState

pytestmark = pytest.mark.lab

POOLS_PATH = "/apis/karpenter.sh/v1/nodepools"
POOL_PATH = f"{POOLS_PATH}/default"
EIGHT_CORES = paper_type("paper-8", cores=8, memory_gib=32)
WHOLE_NODE = "7"
USERS_LIMITS = {"cpu": "1000", "memory": "10Ti"}
WINDOW = 8
MANY = 28
"""More than three windows: a burst that nobody paced would be in flight all at once."""
OTHER_LIMIT = "160"
"""Cores of 20 machines: above the ceiling of one window, and too few for all pods."""


def _node_pool(**more: Any) -> NodePoolSettings:
    return NodePoolSettings(consolidate_after_s=None, limits=USERS_LIMITS, **more)


def settings(boot_s: float = 2) -> KarpenterSettings:
    pool = _node_pool()
    boot_time = BootTime(median_s=boot_s, jitter=0.2)
    return KarpenterSettings(node_pools=(pool,), instance_types=(EIGHT_CORES,), boot_time=boot_time)


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Karpenter leaves NodeClaims behind."""
    manager = ControllerManagerSettings(kube_api_qps=200, kube_api_burst=300)
    async with start_control_plane(ControlPlaneSettings(controller_manager=manager)) as plane:
        yield plane


@pytest.fixture
async def view(plane: ControlPlane) -> AsyncIterator[ClusterView]:
    async with JsonApi(plane.access()) as api:
        yield ClusterView(api)


async def pool(view: ClusterView) -> Json:
    found = await view.api.get(POOL_PATH)
    assert found is not None
    return found


def trace_of(pool: Json) -> Json:
    """What must be the same before and after."""
    metadata = pool["metadata"]
    entries = [entry for entry in metadata["managedFields"] if "f:limits" in entry["fieldsV1"].get("f:spec", {})]
    owners = sorted((entry["manager"], entry["operation"]) for entry in entries)
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if not k.startswith("karpenter.sh/")}
    return {"limits": pool["spec"].get("limits"), "labels": metadata.get("labels"), "other": annotations, "who": owners}


async def test_replacement_starts_under_a_tight_ceiling(plane: ControlPlane, view: ClusterView) -> None:
    async with start_karpenter(plane, settings(1)) as karpenter, driving(plane, WINDOW) as driver:
        await view.deploy(deployment("work", 3, WHOLE_NODE))
        await view.wait_running("work", 3)
        # Where Karpenter stood still before, three machines would count as booting, and the three pods wait for those.
        await until("Karpenter has initialized all", lambda: view.are_initialized(3))
        async with in_background(driver.run_node_pools()):
            driver.window = 0
            # It might be quicker than the driver to answer the three pods, and have machines for all of them.
            os.kill(karpenter.pid, signal.SIGSTOP)
            try:
                await view.scale("work", 6)
                await until("the ceiling is tight", lambda: _is_tight(view))
                old = set(await view.claims())
            finally:
                os.kill(karpenter.pid, signal.SIGCONT)
            await view.api.merge(POOL_PATH, {"spec": {"template": {"metadata": {"labels": {"revision": "2"}}}}})
            await until("a replacement is ordered", lambda: _has_new(view, old))
            await until("all are replaced", lambda: _has_none_of(view, old))


async def test_a_burst_is_paced_comes_from_the_heavy_pool_and_leaves_both_as_before(
    plane: ControlPlane, view: ClusterView
) -> None:
    """At its ceiling the heavy pool is an error in Karpenter's round, and the light one is tried at once."""
    dear = paper_type("paper-8-dear", cores=8, memory_gib=32)
    heavy = _node_pool(name="spot", weight=100, instance_types=(EIGHT_CORES.name,))
    light = _node_pool(name="on-demand", weight=1, instance_types=(dear.name,))
    two = replace(settings(), node_pools=(heavy, light), instance_types=(EIGHT_CORES, dear))
    async with (
        start_karpenter(plane, two) as karpenter,
        driving(plane, WINDOW) as driver,
        in_background(driver.run_node_pools()),
    ):
        before = await _traces(view)
        await asyncio.sleep(2)
        assert driver.record.writes == [], "nothing waits"
        await view.deploy(deployment("work", MANY, WHOLE_NODE))
        await view.wait_running("work", MANY, deadline_s=400)
        await until("both pools are as before", lambda: _are_as(view, before))
        print_looks(driver)
        # Karpenter may order a machine twice: pods of its last round were not bound when it looked again.
        (pool_name, spot), *others = (await _by_pool(view)).items()
        assert (pool_name, others) == ("spot", [])
        made = [msgspec.convert(claim, NodeClaim) for claim in (await view.claims()).values()]
        assert all(claim.is_of_one_type for claim in made), "Karpenter names the types that each may be of"
        assert MANY <= spot <= MANY + WINDOW
        assert driver.record.most_in_flight <= WINDOW + WINDOW, "the window and at most one batch"
        states = {decision.state for decision in driver.record.decisions}
        assert LeverState.CONFIRMED in states
        odd = {
            decision.because.reason for decision in driver.record.decisions if decision.state is LeverState.UNCONFIRMED
        }
        # A busy Karpenter takes a ceiling up late, and may pass it by the batch allowed above, which is told.
        assert odd <= {LeverReason.LEVER_UNCONFIRMED, LeverReason.OVERRUN}
        usual = {LeverState.HANDED_BACK, LeverState.PENDING, LeverState.CONFIRMED}
        assert states <= usual | {LeverState.UNCONFIRMED}
        await karpenter.offer([dear])
        await view.scale("work", spot + WINDOW)
        await view.wait_running("work", spot + WINDOW, deadline_s=200)
        more = await _by_pool(view)
        assert (more["spot"], more["on-demand"] >= WINDOW, len(more)) == (spot, True, 2)
        await until("both pools are as before once more", lambda: _are_as(view, before))


async def test_user_who_writes_the_limit_again_and_again_wins(plane: ControlPlane, view: ClusterView) -> None:
    async with start_karpenter(plane, settings(60)), driving(plane, WINDOW) as driver:
        # More than fit into the user's other limit, or nothing would wait and ours would be given back.
        await view.deploy(deployment("work", MANY, WHOLE_NODE))
        async with in_background(driver.run_node_pools()):
            await until("we hold the limit", lambda: _holds(view, driver))
            before, began_s = len(driver.record.writes), driver.now_s
            for _ in range(8):
                await view.api.merge(POOL_PATH, {"spec": {"limits": {"cpu": OTHER_LIMIT}}})
                await asyncio.sleep(5)
            assert driver.record.decisions[-1].state is LeverState.CONTESTED
            assert len(driver.record.writes) - before <= 1 + (driver.now_s - began_s) / 30, "one in 30 s"
            driver.is_stopping = True
            await until("the user's value stands", lambda: _has_cpu(view, OTHER_LIMIT))
            await until("the mark is gone", lambda: _has_no_mark(view))


def print_looks(driver: CeilingDriver) -> None:
    """The figures for docs/levers.md, seen with `pytest -s`."""
    for at_s, in_flight, usable, ceiling in driver.record.looks[::4]:
        print(f"{at_s:6.1f} s  in flight {in_flight:3d}  usable {usable:3d}  {ceiling}")
    print("writes", len(driver.record.writes), "most in flight", driver.record.most_in_flight)


async def _by_pool(view: ClusterView) -> dict[str, int]:
    return Counter(claim["metadata"]["labels"]["karpenter.sh/nodepool"] for claim in (await view.claims()).values())


async def _cpu(view: ClusterView) -> str | None:
    limits: Json = (await pool(view))["spec"].get("limits") or {}
    return limits.get("cpu")


async def _has_cpu(view: ClusterView, cpu: str) -> bool:
    return await _cpu(view) == cpu


async def _is_tight(view: ClusterView) -> bool:
    """Of the machines of this moment: an order that was sent before Karpenter stopped may arrive after it."""
    return await _has_cpu(view, str(8 * len(await view.claims())))


async def _holds(view: ClusterView, driver: CeilingDriver) -> bool:
    """And its record has the write, which it notes once the server has answered."""
    return await _cpu(view) != USERS_LIMITS["cpu"] and bool(driver.record.writes)


async def _has_no_mark(view: ClusterView) -> bool:
    return "kube-balloons.github.io/original" not in (await pool(view))["metadata"].get("annotations", {})


async def _traces(view: ClusterView) -> Json:
    return {each["metadata"]["name"]: trace_of(each) for each in await view.api.items(POOLS_PATH)}


async def _are_as(view: ClusterView, before: Json) -> bool:
    return await _traces(view) == before


async def _has_new(view: ClusterView, old: set[str]) -> bool:
    return bool(set(await view.claims()) - old)


async def _has_none_of(view: ClusterView, old: set[str]) -> bool:
    return not set(await view.claims()) & old
