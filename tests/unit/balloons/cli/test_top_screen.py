"""`balloons top --watch`: a bar per pool whose parts add up, with what it costs, and anew when something changes."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from balloons.cli.main import balloons as commands
from balloons.cli.status_screen import on_screen
from balloons.cli.terminal import Look
from balloons.cli.top_screen import BarsScreen, Group, bars, groups, rows
from balloons.cluster import kinds, seen_cluster
from tests.commands import balloons
from tests.doctor_cases import node
from tests.seen_clusters import cluster
from tests.unit.balloons.cli.test_small_commands import config_for
from tests.unit.throttler.kube.loopback_api import loopback_api

COUNTS = st.integers(0, 20_000)


def test_each_pool_has_one_bar_with_its_counts_and_its_cost() -> None:
    by_zone = {
        ("gpu", "a"): Group(busy=26, warm=4, joining=4, price_per_hour=102.0),
        ("gpu", "b"): Group(busy=26, warm=4, price_per_hour=90.0),
        ("web", "a"): Group(sick=1),
    }
    legend, gpu, web_pool = bars(by_zone, Look(width=80))
    assert legend == "█ busy  ▓ warm  ░ idle  ▒ joining  x sick"
    assert gpu.startswith("gpu  ███")
    assert gpu.endswith("64 nodes: 52 busy, 8 warm, 4 joining, 192.00/h")
    assert web_pool.endswith("1 node: 1 sick")


@pytest.mark.parametrize("width", [40, 50])
def test_on_a_narrow_terminal_the_bar_stands_below_its_counts(width: int) -> None:
    by_zone = {("gpu", "a"): Group(busy=52, warm=8, joining=4, price_per_hour=2097.28), ("web", "a"): Group(sick=1)}
    lines = bars(by_zone, Look(width=width))
    assert max(map(len, lines)) <= width
    legend = "█ busy ▓ warm ░ idle ▒ joining x sick "
    assert " ".join(" ".join(lines[:-3]).split()) == legend + "gpu 64 nodes: 52 busy, 8 warm, 4 joining, 2,097.28/h"
    assert lines[-3].startswith("███")
    assert lines[-2:] == ["web  1 node: 1 sick", "x" * width]


def test_in_a_pipe_a_pool_is_one_line_and_changes_only_with_its_own_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    busy = Group(busy=12_000, warm=1_000, idle=800, joining=1_200, sick=300, price_per_hour=501_760.0)
    screen = BarsScreen(Look())
    screen.show({("a-gpu-pool-with-a-long-name", "a"): busy, ("web-a-long-name-too", "a"): Group(busy=1)}, "")
    legend, gpu, _ = capsys.readouterr().out.splitlines()
    assert legend == "█ busy  ▓ warm  ░ idle  ▒ joining  x sick"
    assert len(gpu) > 80
    assert gpu.endswith("15,300 nodes: 12,000 busy, 1,000 warm, 800 idle, 1,200 joining, 300 sick, 501,760.00/h")
    screen.show({("a-gpu-pool-with-a-long-name", "a"): Group(busy=1), ("web-a-long-name-too", "a"): Group(busy=1)}, "")
    (changed,) = capsys.readouterr().out.splitlines()
    assert changed.startswith("a-gpu-pool-with-a-long-name  ███")


def test_what_a_short_terminal_leaves_out_can_be_had_by_the_command_that_says_so() -> None:
    pools = {(f"pool-{number}", "a"): Group(busy=1) for number in range(30)}
    shown = on_screen(bars(pools, Look(width=80)), 80, 10, "top without -w")
    assert (len(shown), shown[-1]) == (10, "... 22 lines more: top without -w")


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.integers(110, 200))
def test_a_bar_has_every_state_that_there_is_and_one_length(
    busy: int, warm: int, idle: int, joining: int, sick: int, width: int
) -> None:
    group = Group(busy=busy, warm=warm, idle=idle, joining=joining, sick=sick)
    if not busy + warm + idle + joining + sick:
        return
    _, one, other = bars({("p", "a"): group, ("q", "a"): Group(busy=1)}, Look(width=width, is_unicode=False))
    bar = one.split()[1]
    assert len(bar) == len(other.split()[1])
    for number, glyph in ((busy, "#"), (warm, "+"), (idle, "."), (joining, "="), (sick, "x")):
        assert (glyph in bar) == (number > 0)


@pytest.mark.parametrize(("age_s", "state"), [(60.0, "joining"), (901.0, "sick")])
def test_what_is_not_ready_is_joining_and_after_the_kill_timer_sick(age_s: float, state: str) -> None:
    seen = cluster({kinds.NODES: [node("n", ready="False")], kinds.PODS: []})
    (one,) = seen_cluster.nodes(seen)
    (group,) = groups([one], [], one.created_s + age_s).values()
    assert getattr(group, state) == 1


@pytest.mark.parametrize(("age_s", "state"), [(60.0, "joining"), (901.0, "sick")])
def test_a_ready_node_behind_a_startup_taint_is_not_idle(age_s: float, state: str) -> None:
    taint = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/paced", "effect": "NoSchedule"}
    (one,) = seen_cluster.nodes(cluster({kinds.NODES: [node("n", taints=[taint])], kinds.PODS: []}))
    (group,) = groups([one], [], one.created_s + age_s).values()
    assert (group.ready, group.idle, getattr(group, state)) == (1, 0, 1)


def test_a_node_with_an_empty_pool_label_is_of_the_pool_that_its_next_label_names() -> None:
    labels = {"karpenter.sh/nodepool": "", "agentpool": "gpu"}
    (one,) = seen_cluster.nodes(cluster({kinds.NODES: [node("n", metadata={"labels": labels})], kinds.PODS: []}))
    assert list(groups([one], [], one.created_s)) == [("gpu", "")]


def test_that_a_view_is_old_is_said_once_in_a_pipe_and_below_the_bars_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_zone = {("gpu", "a"): Group(busy=1)}
    said = "! This is as it was 23s ago. No news of nodes and pods: " + "the connection was refused, " * 4
    in_a_pipe = BarsScreen(Look())
    for old in ("", said, said.replace("23s", "33s"), "", said):
        in_a_pipe.show(by_zone, old)
    written = capsys.readouterr()
    assert written.out.splitlines() == bars(by_zone, Look()), "each line once, and nothing of the outage"
    assert written.err == f"{said}\n{said}\n", "once for each outage"
    BarsScreen(Look(is_terminal=True)).show(by_zone, said)
    written = capsys.readouterr()
    assert "! This is as it was 23s ago." in written.out
    assert not written.err


def test_a_dump_is_not_watched() -> None:
    answer = CliRunner().invoke(commands, ["top", "-w", "--from", __file__])
    assert answer.exit_code == 2
    assert "a dump does not change" in answer.output


class Nodes:
    """One node at first, another with the watch."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return web.json_response({"kind": "Status", "message": "no streamed lists", "code": 422}, status=422)
        is_nodes = request.path.endswith("/nodes")
        if "watch" not in request.query:
            items = [self._node("a", 5)] if is_nodes else []
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "10"}, "items": items})
        answer = web.StreamResponse()
        await answer.prepare(request)
        if is_nodes:
            await answer.write(json.dumps({"type": "ADDED", "object": self._node("b", 11)}).encode() + b"\n")
        await asyncio.sleep(60)
        return answer

    def _node(self, name: str, version: int) -> dict[str, Any]:
        made = node(name)
        made["metadata"] |= {"resourceVersion": str(version), "uid": name, "labels": {"karpenter.sh/nodepool": "gpu"}}
        return {"apiVersion": "v1", "kind": "Node", **made}


@pytest.mark.whole
async def test_a_node_that_comes_is_shown(tmp_path: Path) -> None:
    async with loopback_api(Nodes().handle) as api:
        arguments = ["-m", "balloons", "top", "-w", "--price", "2", "--kubeconfig", config_for(api, tmp_path)]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        lines = []
        while not any("2 nodes" in line for line in lines):
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            assert line, (await process.communicate())[1]
            lines.append(line.rstrip())
        process.terminate()
        await process.wait()
    assert lines[-1].endswith("2 nodes: 2 idle, 4.00/h")


@pytest.mark.whole
async def test_a_node_is_as_old_as_by_the_clock_of_the_api_server(tmp_path: Path) -> None:
    """By a laptop's clock that was ahead every node that joined was sick; `top` alone told its age right."""
    made = node("a", ready="False", created="2001-09-09T02:00:00Z")
    told = {"/api/v1/nodes": [{"apiVersion": "v1", "kind": "Node", **made}]}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        page = {"kind": "List", "metadata": {"resourceVersion": "10"}, "items": told.get(request.path, [])}
        is_refused = "watch" in request.query
        page = {"kind": "Status", "message": "no watches", "code": 422} if is_refused else page
        date = {"Date": "Sun, 09 Sep 2001 02:01:00 GMT"}
        return web.json_response(page, status=422 if is_refused else 200, headers=date)

    async with loopback_api(handle) as api:
        arguments = ["-m", "balloons", "top", "-w", "--kubeconfig", config_for(api, tmp_path)]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        line = ""
        while "1 node" not in line:
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            assert line, (await process.communicate())[1]
        process.terminate()
        await process.wait()
    assert line.endswith("1 node: 1 joining\n")


@pytest.mark.whole
async def test_without_the_right_to_watch_it_ends_with_the_servers_words(tmp_path: Path) -> None:
    """It waited for ever and said nothing."""

    async def forbid(request: web.BaseRequest) -> web.StreamResponse:
        said = {
            "kind": "Status",
            "reason": "Forbidden",
            "message": "nodes is forbidden: no right to watch",
            "code": 403,
        }
        return web.json_response(said, status=403)

    async with loopback_api(forbid) as api:
        ended = await asyncio.to_thread(balloons, "top", "-w", "--kubeconfig", config_for(api, tmp_path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: nodes is forbidden: no right to watch\n"


async def test_without_a_server_it_ends_as_the_other_commands_do(tmp_path: Path) -> None:
    async with loopback_api(Nodes().handle) as api:
        config = config_for(api, tmp_path)
    ended = await asyncio.to_thread(balloons, "top", "-w", "--kubeconfig", config)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "is the cluster up, and the context right" in ended.stderr


@pytest.mark.parametrize(
    ("there", "used", "shown"),
    [
        ({"nvidia.com/mig-1g.5gb": 8000, "nvidia.com/gpu": 2000}, {"nvidia.com/mig-1g.5gb": 5000}, "50%"),
        ({"google.com/tpu": 4000}, {"google.com/tpu": 1000}, "25%"),
        (
            {"aws.amazon.com/neuron": 16_000, "aws.amazon.com/neuroncore": 32_000},
            {"aws.amazon.com/neuroncore": 24_000},
            "75%",
        ),
        ({"vpc.amazonaws.com/efa": 4000}, {"vpc.amazonaws.com/efa": 4000}, "<none>"),
    ],
)
def test_slices_tpus_and_neuron_chips_count_as_gpus(there: dict[str, int], used: dict[str, int], shown: str) -> None:
    (row,) = rows({("a", ""): Group(nodes=1, there=there, used=used)})
    assert row["GPU"] == shown
