"""The innocent client measures from a process of its own: a busy loop here is no slow server."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from lab.controlplane.credentials import ApiAccess
from lab.errors import LabError
from lab.scaleup.bystander import bystander
from tests.unit.throttler.kube.loopback_api import Handler, answer_empty, loopback_api
from tests.unit.throttler.kube.loopback_api import authority as an_authority


def refusing(most: int) -> Handler:
    """Refuse so many requests, and answer every other one."""
    left = [most]

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        left[0] -= 1
        if left[0] >= 0:
            return web.json_response({}, status=429, headers={"Retry-After": "0.5"})
        return await answer_empty(request)

    return handle


@pytest.mark.whole
@pytest.mark.parametrize("refusals", [0, 2])
async def test_what_it_met_is_known_once_it_was_left(tmp_path: Path, refusals: int) -> None:
    ca = an_authority(tmp_path)
    async with loopback_api(refusing(refusals), ca.issue_server("server")) as api:
        access = ApiAccess(api.url, ca.pair.certificate, ca.issue_client("client", "somebody", ()))
        async with bystander(access) as seen:
            while len(api.asked) < 3:
                await asyncio.sleep(0.01)
    assert (seen.refusals, seen.failures) == (refusals, 0)
    # Others may take as long where the machine does other work.
    assert sum(latency >= 0.5 for latency in seen.latencies_s) >= refusals
    assert len(seen.latencies_s) == len(api.asked) - refusals


@pytest.mark.whole
async def test_one_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    ca = an_authority(tmp_path)
    missing = ApiAccess("https://127.0.0.1:1", tmp_path / "missing", ca.issue_client("client", "somebody", ()))
    with pytest.raises(LabError, match="ended by itself"):
        async with bystander(missing):
            pass
