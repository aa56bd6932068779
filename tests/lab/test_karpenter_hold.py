"""The real Karpenter buys nothing for Pending balloons with the lock, and does buy without it.

What it does to nodes that our own service holds is in `test_service_on_karpenter.py`.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane, start_control_plane
from lab.processes import logged
from tests.lab.cluster_view import ClusterView, deployment, throughout, until

pytestmark = pytest.mark.lab

CONSOLIDATE_AFTER_S = 5
TYPES = (paper_type("paper-2", 2, 8), paper_type("paper-4", 4, 16), paper_type("paper-8", 8, 32))
WHOLE_NODE = "7500m"

# Karpenter's admission of a Pending pod reads the first term as "not on my nodes" and stays silent; the second
# names a label of its own domain, which it refuses to provision for. The scheduler takes either term.
NOT_FOR_KARPENTER = {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
ON_INITIALIZED = {"matchExpressions": [{"key": "karpenter.sh/initialized", "operator": "In", "values": ["true"]}]}
REQUIRED, ANTI = "requiredDuringSchedulingIgnoredDuringExecution", "podAntiAffinity"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Karpenter leaves NodeClaims behind."""
    async with start_control_plane() as plane:
        yield plane


@pytest.fixture
async def view(plane: ControlPlane) -> AsyncIterator[ClusterView]:
    async with JsonApi(plane.access()) as api:
        view = ClusterView(api)
        await view.allow_balloons()
        yield view


def settings() -> KarpenterSettings:
    pool = NodePoolSettings(consolidate_after_s=CONSOLIDATE_AFTER_S)
    return KarpenterSettings(node_pools=(pool,), instance_types=TYPES, boot_time=BootTime(median_s=1))


def balloons(replicas: int, terms: tuple[Mapping[str, Any], ...]) -> Json:
    apart = [{"labelSelector": {"matchLabels": {"app": "balloon"}}, "topologyKey": "kubernetes.io/hostname"}]
    affinity: dict[str, Any] = {ANTI: {REQUIRED: apart}}
    if terms:
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [dict(term) for term in terms]}}
    return deployment("balloon", replicas, WHOLE_NODE, priorityClassName="balloon", affinity=affinity)


async def test_pending_balloons_cause_no_node_claim_beside_real_work(plane: ControlPlane, view: ClusterView) -> None:
    async with start_karpenter(plane, settings()) as karpenter:
        await view.deploy(balloons(4, (NOT_FOR_KARPENTER, ON_INITIALIZED)))
        await view.deploy(deployment("impossible", 2, "64"))

        async def has_no_claims() -> bool:
            return not await view.claims()

        # Karpenter answers pods that wait within ten seconds.
        await throughout("there is no NodeClaim", has_no_claims, 5 * CONSOLIDATE_AFTER_S)
        await view.deploy(deployment("work", 2, WHOLE_NODE))
        await view.wait_running("work", 2)
        # Claims are not counted: where the scheduler tries a balloon first on a new node, and the work a moment later,
        # Karpenter may look in between, and buys one more node for the work.
        assert _bought_for(karpenter.log) == {"impossible", "work"}, "none for the balloons"
        assert await _karpenter_events(view, "balloon") == [], "Karpenter ignores them without a word"


async def test_balloons_without_the_lock_do_grow_the_cluster(plane: ControlPlane, view: ClusterView) -> None:
    async with start_karpenter(plane, settings()):
        await view.deploy(balloons(2, ()))

        async def has_two_claims() -> bool:
            return len(await view.claims()) == 2

        await until("Karpenter buys for Pending balloons", has_two_claims)


def _bought_for(log: Path) -> set[str]:
    """The Deployments whose pods Karpenter took into a round of buying; it names the first five pods of each."""
    pods = [pod.strip() for line in logged(log) for pod in line.get("Pods", "").split(",")]
    return {pod.partition("/")[2].rsplit("-", 2)[0] for pod in pods if pod}


async def _karpenter_events(view: ClusterView, app: str) -> list[str]:
    events = await view.api.items("/api/v1/namespaces/default/events")
    of_app = [e for e in events if e["involvedObject"].get("name", "").startswith(app)]
    return [e["message"] for e in of_app if e.get("source", {}).get("component") == "karpenter"]
