"""Our place in the API server's queues, while others flood it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from benchmarks.takeover.pair import POOL, keep_busy
from lab.cloud.json_api import JsonApi
from lab.cloud.machines import PaperMachines, PaperNode
from lab.controlplane import ApiServerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from lab.demo.service import ACCOUNT_NAMESPACE, FLOW_CONTROL, install, run_service
from tests.lab.flood import flood, slow_writes
from tests.lab.lever_view import eventually, view
from tests.lab.service_scene import ACCOUNT, pool_object

pytestmark = pytest.mark.lab

SEATS = ApiServerSettings(max_requests_inflight=20, max_mutating_requests_inflight=10)
"""A twentieth of the default: of 30 seats the flood's level has 12, leader-election 2 and ours 2."""
TURN_S = 0.5
REFUSALS = 100
RENEWALS = 7
"""A Lease lives for 15 s and is renewed every 2 s: without its place it would be lost by then."""
LOST = "no longer leading"
"""What the service logs when it loses its Lease."""


async def test_the_lease_scrapes_and_writes_pass_while_a_flood_is_refused(tmp_path: Path) -> None:
    settings = ControlPlaneSettings(api_servers=(SEATS,), audit=True)
    async with start_control_plane(settings) as plane, _busy_service(plane), slow_writes(plane, tmp_path):
        async with flood(plane) as answers:
            await eventually(lambda: _are_many(answers))
            since = len(_ours(plane))
            await eventually(lambda: _have_passed(plane, since))
            ours = _ours(plane)[since:]
        codes = Counter(each["responseStatus"]["code"] for each in ours)
        assert not [code for code in codes if code >= HTTPStatus.TOO_MANY_REQUESTS], codes
        assert LOST not in _log(plane)

        # Without our place the Lease waits its turn behind thirty others, for longer than it lives.
        await plane.kubectl_async("delete", "-f", str(FLOW_CONTROL))
        async with flood(plane):
            await eventually(lambda: _has_lost(plane))


@asynccontextmanager
async def _busy_service(plane: ControlPlane) -> AsyncIterator[None]:
    """The service as its own ServiceAccount, scraping, and with something to write twice a second."""
    await install(plane)
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    nodes = [PaperNode(name=f"n{i}", labels={"test": "flood"}, allocatable=allocatable) for i in range(3)]
    selector = {"selector": {"matchLabels": {"test": "flood"}}}
    async with (
        view(plane) as seen,
        PaperMachines(plane.access()) as machines,
        JsonApi(plane.access()) as api,
        run_service(plane),
    ):
        await machines.add(nodes)
        await seen.apply(_throttle(), pool_object(ACCOUNT_NAMESPACE, POOL, mode="Hold", size=1, nodes=selector))
        work = asyncio.create_task(keep_busy(api, ACCOUNT_NAMESPACE, TURN_S))
        try:
            for what in ("leases", "balloonpools", "jointhrottles"):
                await eventually(partial(_has_patched, plane, what))
            yield
        finally:
            work.cancel()


def _throttle() -> dict[str, Any]:
    """It makes the service scrape."""
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "JoinThrottle"}
    return {**kind, "metadata": {"name": "default"}, "spec": {"levers": {"schedulingGates": {}}}}


def _ours(plane: ControlPlane) -> list[dict[str, Any]]:
    """What the server has answered to the service."""
    events = plane.audit_events(ACCOUNT)
    return [each for each in events if each["user"]["username"] == ACCOUNT and each["stage"] == "ResponseComplete"]


def _is_patch(event: dict[str, Any], resource: str) -> bool:
    return bool(event["verb"] == "patch" and event["objectRef"]["resource"] == resource)


def _log(plane: ControlPlane) -> str:
    return (plane.directory / "logs" / "balloons.log").read_text(encoding="utf-8")


async def _has_patched(plane: ControlPlane, resource: str) -> bool:
    return any(_is_patch(each, resource) for each in _ours(plane))


async def _are_many(answers: Counter[int]) -> bool:
    return answers[HTTPStatus.TOO_MANY_REQUESTS] >= REFUSALS


async def _have_passed(plane: ControlPlane, since: int) -> bool:
    """More renewals than the Lease has in its life, as many writes, and a scrape."""
    ours = _ours(plane)[since:]
    patches = [sum(_is_patch(each, kind) for each in ours) for kind in ("leases", "balloonpools")]
    return min(patches) > RENEWALS and any(each["requestURI"].startswith("/metrics") for each in ours)


async def _has_lost(plane: ControlPlane) -> bool:
    return LOST in _log(plane)
