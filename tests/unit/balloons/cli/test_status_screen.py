"""`balloons status`: from a dump, live, and as things change.

`balloons status --from`: what a dump holds, as old as it was then. `balloons status --wait` against a server on
loopback: lists, watches, ends, and is interrupted. What `balloons status --watch` adds for each change, and what it
draws anew.
"""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from balloons.cli.main import balloons as commands
from balloons.cli.status_screen import AGE_S, REDRAW_S, Screen, outage, until_changed
from balloons.cli.status_text import Listing
from balloons.cli.terminal import Look
from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.reading.read_cluster import write_archive
from tests.seen_clusters import cluster
from tests.unit.balloons.cli.test_small_commands import config_for
from tests.unit.balloons.cli.throttle_and_pool import pool, throttle
from tests.unit.throttler.kube.loopback_api import LoopbackApi, loopback_api
from tests.virtual_time import run_virtual
from throttler.kube.metadata import Metadata

CREATED = {"creationTimestamp": "2026-11-20T00:00:00Z"}
API_VERSION = "kube-balloons.github.io/v1alpha1"


def own(kind: str, name: str, spec: Any, **metadata: str) -> dict[str, Any]:
    head = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": kind}
    return {**head, "metadata": {"name": name, **CREATED, **metadata}, "spec": spec}


@pytest.fixture
def dump(tmp_path: Path) -> str:
    spec = {"nodes": {"selector": {"matchLabels": {"a": "b"}}}, "mode": "Hold"}
    pools = [
        own("BalloonPool", name, spec, namespace=space)
        for space, name in (("ml", "gpu"), ("web", "gpu"), ("ml", "cpu"))
    ]
    pools += [{"metadata": {"name": 7}}, own("BalloonPool", "odd", {"mode": "Fast"}, namespace="odd")]
    objects = {kinds.BALLOON_POOLS: pools, kinds.THROTTLES: [own("JoinThrottle", "default", {})]}
    with (tmp_path / "dump").open("wb") as file:
        write_archive(cluster(objects), file)
    return str(tmp_path / "dump")


def shown(dump: str, *arguments: str) -> Result:
    return CliRunner().invoke(commands, ["status", "--from", dump, *arguments], standalone_mode=False)


def test_shows_throttles_and_pools_of_every_namespace_that_can_be_read(dump: str) -> None:
    lines = [line.split() for line in shown(dump).stdout.splitlines()]
    assert [line[:2] for line in lines if line] == [
        ["NAME", "PACE"],
        ["default", "0"],
        ["NAMESPACE", "NAME"],
        ["ml", "cpu"],
        ["ml", "gpu"],
        ["odd", "odd"],
        ["web", "gpu"],
    ]
    assert shown(dump).stdout == shown(dump).stdout


@pytest.mark.parametrize(("unread", "words"), [(None, "No balloon pools found"), (Unread.FORBIDDEN, "")])
def test_what_was_not_seen_is_not_said_to_be_none(tmp_path: Path, unread: Unread | None, words: str) -> None:
    empty = cluster({kinds.BALLOON_POOLS: [], kinds.THROTTLES: []})
    with (tmp_path / "dump").open("wb") as file:
        write_archive(replace(empty, lists={name: Listed(unread=unread) for name in empty.lists}), file)
    said = shown(str(tmp_path / "dump")).stderr
    assert ("No balloon pools found" in said) is bool(words)
    assert ("balloonpools.kube-balloons.github.io not seen (not allowed)" in said) is not bool(words)


def test_takes_a_namespace_and_names(dump: str) -> None:
    names = shown(dump, "-n", "ml", "-o", "name", "gpu").stdout.splitlines()
    assert names == ["balloonpool.kube-balloons.github.io/gpu"]


def test_all_namespaces_are_more_than_one(dump: str) -> None:
    """As on a cluster, and as kubectl has it: the environment may name a namespace."""
    assert shown(dump, "-A", "-n", "ml").stdout == shown(dump).stdout


def test_name_that_nothing_has_is_bad_input(dump: str) -> None:
    error = shown(dump, "-n", "web", "cpu").exception
    assert str(error) == "there is no throttle 'cpu', and no pool in namespace web"
    assert error is not None
    assert getattr(error, "code", None) == 2


def live_pool(warm: int, version: int) -> dict[str, Any]:
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
            return web.json_response({**head, "items": [live_pool(0, 10)]})
        answer = web.StreamResponse()
        await answer.prepare(request)
        for warm in range(1, self.most + 1):
            await asyncio.sleep(0.05)
            event = {"type": "MODIFIED", "object": live_pool(warm, 10 + warm)}
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


@pytest.mark.whole
async def test_day_0_says_what_works_without_our_crds(tmp_path: Path) -> None:
    async with loopback_api(nothing_of_ours) as api:
        code, out, err = await ended(await started(api, tmp_path))
        machine = await ended(await started(api, tmp_path, "-o", "json"))
        asked = await ended(await started(api, tmp_path, "gpu"))
    assert (code, out) == (0, [])
    assert "kubectl apply -k manifests/crds" in err[0]
    assert err[1].startswith("without it: balloons doctor, balloons plan --to N")
    assert (machine[0], json.loads("\n".join(machine[1]))["pools"]) == (0, [])
    assert asked[0] == 1, "what was named cannot be shown"


@pytest.mark.whole
async def test_waits_for_warm_nodes_and_shows_what_there_is_then(tmp_path: Path) -> None:
    async with loopback_api(Server(3).handle) as api:
        code, out, err = await ended(await started(api, tmp_path, "gpu", "--wait", "--for", "warm=3"))
    assert (code, out[1].split()[:2]) == (0, ["gpu", "3"])
    assert err == ["waiting: 0 of 3 nodes are warm"]


@pytest.mark.whole
async def test_time_that_is_over_is_code_four_and_shows_what_there_is(tmp_path: Path) -> None:
    async with loopback_api(Server(2).handle) as api:
        waiting = await started(api, tmp_path, "--wait", "--for", "warm=3", "--timeout", "2s", "-o", "json")
        code, out, err = await ended(waiting)
    assert code == 4
    assert json.loads("\n".join(out))["pools"][0]["status"]["warm"] == 2
    assert err[-1] == "not so after 2 s: 2 of 3 nodes are warm"


@pytest.mark.whole
async def test_interrupted_wait_shows_what_there_is(tmp_path: Path) -> None:
    async with loopback_api(Server(2).handle) as api:
        waiting = await started(api, tmp_path, "--wait", "--for", "warm=3")
        assert waiting.stderr is not None
        assert await waiting.stderr.readline() == b"waiting: 0 of 3 nodes are warm\n"
        await asyncio.sleep(1)
        waiting.send_signal(signal.SIGINT)
        code, out, err = await ended(waiting)
    assert (code, out[1].split()[0], err) == (130, "gpu", [])


@pytest.mark.whole
@pytest.mark.parametrize("how", [(), ("--wait", "--for", "warm=0"), ("-w",)], ids=["once", "wait", "watch"])
async def test_a_pool_is_as_old_as_by_the_clock_of_the_api_server(how: tuple[str, ...], tmp_path: Path) -> None:
    made = live_pool(0, 10)
    made["metadata"]["creationTimestamp"] = "2001-09-09T02:00:00Z"

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        page = {"kind": "BalloonPoolList", "metadata": {"resourceVersion": "10"}, "items": [made]}
        is_refused = "watch" in request.query or request.path.endswith("jointhrottles")
        page = {"kind": "Status", "message": "not found", "code": 404} if is_refused else page
        code = 422 if "watch" in request.query else 404 if is_refused else 200
        return web.json_response(page, status=code, headers={"Date": "Sun, 09 Sep 2001 02:01:00 GMT"})

    async with loopback_api(handle) as api:
        process = await started(api, tmp_path, *how)
        assert process.stdout is not None
        rows = [(await asyncio.wait_for(process.stdout.readline(), 60)).split() for _ in range(2)]
        if "-w" in how:
            process.terminate()
        await process.wait()
    assert dict(zip(*rows, strict=False))[b"AGE"] in (b"60s", b"61s", b"62s")


@pytest.mark.whole
async def test_what_nobody_can_see_is_not_waited_for(tmp_path: Path) -> None:
    async with loopback_api(Server(0).handle) as api:
        code, out, err = await ended(await started(api, tmp_path, "--wait", "--for", "idle"))
    assert (code, out) == (1, [])
    assert err == ["error: --for idle is about throttles, which this cluster does not show"]


@pytest.mark.whole
async def test_pool_that_is_not_there_is_waited_for_and_not_shown(tmp_path: Path) -> None:
    async with loopback_api(Server(0).handle) as api:
        awaited = await started(api, tmp_path, "cpu", "--wait", "--for", "warm=0", "--timeout", "0")
        assert await ended(awaited) == (4, [], ["waiting: cpu is not there", "not so after 0 s: cpu is not there"])
        code, out, err = await ended(await started(api, tmp_path, "cpu"))
    assert (code, out, err) == (2, [], ["error: there is no throttle 'cpu', and no pool in namespace ml"])


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[0] if line else "" for line in capsys.readouterr().out.splitlines()]


def test_pipe_gets_a_line_for_each_change_with_its_columns_above(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look())
    screen.show(Listing([throttle()], [pool()]))
    assert printed(capsys) == ["NAME", "default", "NAME", "gpu"]
    screen.show(Listing([throttle()], [pool()]))
    assert printed(capsys) == []
    screen.show(Listing([throttle()], [pool(warm=4)]))
    assert printed(capsys) == ["gpu"]
    screen.show(Listing([throttle(window=7)], [pool(warm=4)]))
    assert printed(capsys) == ["NAME", "default"]
    screen.show(Listing([throttle(window=8)], [pool(warm=5)]))
    assert printed(capsys) == ["default", "NAME", "gpu"]


def test_names_are_told_once_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look("name"))
    screen.show(Listing([throttle()], [pool()]))
    screen.show(Listing([throttle()], [pool(warm=4)]))
    assert capsys.readouterr().out.splitlines() == [
        "jointhrottle.kube-balloons.github.io/default",
        "balloonpool.kube-balloons.github.io/gpu",
        "balloonpool.kube-balloons.github.io/gpu",
    ]


def test_object_that_came_back_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("ml", Look(has_headers=False))
    for seen in (Listing(pools=[pool()]), Listing(), Listing(pools=[pool()])):
        screen.show(seen)
    assert printed(capsys) == ["gpu", "gpu"]


def test_terminal_is_drawn_anew_over_what_was_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen = Screen("ml", Look(is_terminal=True, width=80))
    screen.show(Listing([throttle()], [pool()]))
    first = capsys.readouterr().out
    assert len(first.splitlines()) == 5
    screen.show(Listing([throttle()], []))
    again = capsys.readouterr().out
    assert again.startswith("\x1b[5A\x1b[J")
    assert again.splitlines()[-1] == "No balloon pools found."


def test_a_terminal_that_is_made_narrower_gets_fewer_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen("ml", Look(is_terminal=True, width=120))
    for columns, is_shown in (("120", True), ("40", False)):
        monkeypatch.setenv("COLUMNS", columns)
        screen.show(Listing([throttle()], [pool()]))
        drawn = capsys.readouterr().out
        assert ("PHASE  " in drawn) is is_shown
        assert max(len(line.split("\x1b[J")[-1]) for line in drawn.splitlines()) <= int(columns)


def test_tall_and_wide_tables_stay_on_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has left a terminal upwards cannot be drawn over; a long name takes two rows of it."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    named = [msgspec.structs.replace(pool(), metadata=Metadata(f"{'x' * 100}{number}", "ml")) for number in range(50)]
    screen = Screen("ml", Look(is_terminal=True, width=80))
    screen.show(Listing([throttle()], named))
    lines = capsys.readouterr().out.splitlines()
    assert sum(-(-max(1, len(line)) // 80) for line in lines) == screen.height <= 23
    assert lines[-1].startswith("... ")
    assert "lines more" in lines[-1]


@pytest.mark.parametrize(("changes_after_s", "drawn_after_s"), [(None, AGE_S + REDRAW_S), (3.0, 3.0 + REDRAW_S)])
def test_ages_go_on_where_nothing_changes(changes_after_s: float | None, drawn_after_s: float) -> None:
    async def drawn_after() -> float:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        if changes_after_s is not None:
            loop.call_later(changes_after_s, changed.set)
        began = loop.time()
        await until_changed(changed)
        return loop.time() - began

    assert run_virtual(drawn_after()) == pytest.approx(drawn_after_s)


def test_an_old_view_says_so_and_how_old_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def followed(name: str, age_s: float, *, is_complete: bool = False) -> Any:
        error = None if is_complete else ValueError("refused")
        return SimpleNamespace(name=name, age_s=age_s, last_error=error, store=SimpleNamespace(is_complete=is_complete))

    quiet = followed("pods", 60.0, is_complete=True)
    assert outage(quiet) == ""
    assert outage(quiet, followed("nodes", 2.0)) == "", "a watch that breaks is resumed"
    said = "! This is as it was 23s ago. No news of nodes and leases: refused"
    assert outage(quiet, followed("nodes", 23.0), followed("leases", 4.0)) == said
    Screen("ml", Look(is_terminal=True)).show(Listing([], [pool()], said))
    assert said in capsys.readouterr().out
    screen = Screen("ml", Look())
    screen.show(Listing([], [pool()], said))
    screen.show(Listing([], [pool()], said.replace("23s", "33s")))
    assert capsys.readouterr().err == f"{said}\n", "in a pipe it is said once"
