"""`balloons status --wait` against a server on loopback: lists, watches, ends, and is interrupted."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.unit.balloons.cli.test_small_commands import config_for
from tests.unit.throttler.kube.loopback_api import LoopbackApi, loopback_api

API_VERSION = "kube-balloons.github.io/v1alpha1"


def pool(warm: int, version: int) -> dict[str, Any]:
    metadata = {"name": "gpu", "namespace": "ml", "uid": "u", "resourceVersion": str(version)}
    spec = {"nodes": {"selector": {"matchLabels": {"a": "b"}}}, "mode": "Hold"}
    head = {"apiVersion": API_VERSION, "kind": "BalloonPool", "metadata": metadata}
    return {**head, "spec": spec, "status": {"warm": warm}}


class Server:
    """One pool, of which one more node is warm with every event of a watch; no throttles are served."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("jointhrottles"):
            return web.json_response({"kind": "Status", "message": "not found", "code": 404}, status=404)
        if "sendInitialEvents" in request.query:
            return web.json_response({"kind": "Status", "message": "no streamed lists", "code": 422}, status=422)
        if "watch" not in request.query:
            head = {"apiVersion": API_VERSION, "kind": "BalloonPoolList", "metadata": {"resourceVersion": "10"}}
            return web.json_response({**head, "items": [pool(0, 10)]})
        answer = web.StreamResponse()
        await answer.prepare(request)
        for warm in range(1, self.most + 1):
            await asyncio.sleep(0.05)
            event = {"type": "MODIFIED", "object": pool(warm, 10 + warm)}
            await answer.write(json.dumps(event).encode() + b"\n")
        await asyncio.sleep(60)
        return answer


async def started(api: LoopbackApi, folder: Path, *arguments: str) -> Process:
    command = ["-m", "balloons", "status", "--kubeconfig", config_for(api, folder), *arguments]
    return await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE, stderr=PIPE)


async def ended(process: Process) -> tuple[int | None, list[str], list[str]]:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode().splitlines(), err.decode().splitlines()


async def nothing_of_ours(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "message": "not found", "code": 404}, status=404)


async def test_day_0_says_what_works_without_our_crds(tmp_path: Path) -> None:
    async with loopback_api(nothing_of_ours) as api:
        code, out, err = await ended(await started(api, tmp_path))
        machine = await ended(await started(api, tmp_path, "-o", "json"))
        asked = await ended(await started(api, tmp_path, "gpu"))
    assert (code, out) == (0, [])
    assert "kubectl apply -k manifests/crds" in err[0]
    assert err[1].startswith("without it: balloons doctor, balloons plan --to N")
    assert (machine[0], json.loads("\n".join(machine[1]))["items"]) == (0, [])
    assert asked[0] == 1, "what was named cannot be shown"


async def test_waits_for_warm_nodes_and_shows_what_there_is_then(tmp_path: Path) -> None:
    async with loopback_api(Server(3).handle) as api:
        code, out, err = await ended(await started(api, tmp_path, "gpu", "--wait", "--for", "warm=3"))
    assert (code, out[1].split()[:2]) == (0, ["gpu", "3"])
    assert err == ["waiting: 0 of 3 nodes are warm"]


async def test_time_that_is_over_is_code_four_and_shows_what_there_is(tmp_path: Path) -> None:
    async with loopback_api(Server(2).handle) as api:
        waiting = await started(api, tmp_path, "--wait", "--for", "warm=3", "--timeout", "2s", "-o", "json")
        code, out, err = await ended(waiting)
    assert code == 4
    assert json.loads("\n".join(out))["items"][0]["status"]["warm"] == 2
    assert err[-1] == "not so after 2 s: 2 of 3 nodes are warm"


async def test_interrupted_wait_shows_what_there_is(tmp_path: Path) -> None:
    async with loopback_api(Server(2).handle) as api:
        waiting = await started(api, tmp_path, "--wait", "--for", "warm=3")
        assert waiting.stderr is not None
        assert await waiting.stderr.readline() == b"waiting: 0 of 3 nodes are warm\n"
        await asyncio.sleep(1)
        waiting.send_signal(signal.SIGINT)
        code, out, err = await ended(waiting)
    assert (code, out[1].split()[0], err) == (130, "gpu", [])


async def test_what_nobody_can_see_is_not_waited_for(tmp_path: Path) -> None:
    async with loopback_api(Server(0).handle) as api:
        code, out, err = await ended(await started(api, tmp_path, "--wait", "--for", "idle"))
    assert (code, out) == (1, [])
    assert err == ["error: --for idle is about throttles, which this cluster does not show"]


async def test_pool_that_is_not_there_is_waited_for_and_not_shown(tmp_path: Path) -> None:
    async with loopback_api(Server(0).handle) as api:
        awaited = await started(api, tmp_path, "cpu", "--wait", "--for", "warm=0", "--timeout", "0")
        assert await ended(awaited) == (4, [], ["waiting: cpu is not there", "not so after 0 s: cpu is not there"])
        code, out, err = await ended(await started(api, tmp_path, "cpu"))
    assert (code, out, err) == (2, [], ["error: there is no throttle 'cpu', and no pool in namespace ml"])
