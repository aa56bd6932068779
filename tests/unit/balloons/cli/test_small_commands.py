"""top, pause, resume, completion and version from outside."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from balloons.cli import cluster_source
from balloons.cli.json_and_yaml_output import RequestedItem
from balloons.cli.main import balloons as commands
from balloons.cli.terminal import CommandError
from balloons.cli.top_screen import document, groups, rows
from balloons.cluster import kinds, seen_cluster
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.reading.read_cluster import write_archive
from tests.commands import balloons
from tests.doctor_cases import autoscaler, node, pod
from tests.seen_clusters import cluster
from tests.unit.throttler.kube.loopback_api import LoopbackApi, loopback_api

GPU = {"nvidia.com/gpu": "8"}


def labelled(name: str, pool: str, zone: str, **more: Any) -> dict[str, Any]:
    labels = {"karpenter.sh/nodepool": pool, "topology.kubernetes.io/zone": zone}
    return node(name, metadata={"labels": labels}, **more)


def a_cluster() -> Any:
    daemon = pod("agent", "a1", requests={"cpu": "1"})
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    return cluster(
        {
            kinds.NODES: [
                labelled("a1", "gpu", "a", sizes=GPU),
                labelled("a2", "gpu", "a", sizes=GPU),
                labelled("b1", "gpu", "b", ready="False"),
                node("c1"),
            ],
            kinds.PODS: [
                pod("work", "a1", requests={"cpu": "2", **GPU}),
                pod("room", "a2", requests={"cpu": "7"}, priority=-10),
                daemon,
            ],
            kinds.DEPLOYMENTS: [autoscaler()],
        }
    )


def test_what_is_seen_in_part_is_told(tmp_path: Path) -> None:
    """A node that no server could have, and pods beyond the bound, were left out without a word."""
    seen = a_cluster()
    lists = {
        name: replace(listed, unreadable=1200) if name == "nodes" else listed for name, listed in seen.lists.items()
    }
    lists["pods"] = replace(lists["pods"], unreadable=1, left_out=30_000)
    with (tmp_path / "dump").open("wb") as file:
        write_archive(replace(seen, lists=lists), file)
    ended = balloons("top", "--from", str(tmp_path / "dump"))
    assert ended.returncode == 0
    assert ended.stderr.splitlines()[1:3] == [
        "nodes seen in part: 1,200 could not be read",
        "pods seen in part: 1 could not be read and 30,000 or more were left out",
    ]


def test_objects_that_cannot_be_decoded_are_named(tmp_path: Path) -> None:
    """They were left out of all figures without a word."""
    pods = [pod(f"odd-{number}", "n1", requests={"cpu": "a lot"}) for number in range(7)]
    with (tmp_path / "dump").open("wb") as file:
        write_archive(cluster({kinds.NODES: [node("n1"), node("odd", cpu="8 cores")], kinds.PODS: pods}), file)
    ended = balloons("top", "--from", str(tmp_path / "dump"))
    assert ended.returncode == 0
    of_nodes, *of_pods = ended.stderr.splitlines()[2:]
    assert of_nodes.startswith("nodes odd left out: cpu '8 cores' is not a quantity; accepted: ")
    names = [f"pods default/odd-{number} left out" for number in range(5)]
    assert [line.partition(":")[0] for line in of_pods] == [*names, "pods"]
    assert of_pods[-1] == "pods: 2 more left out"


def test_top_groups_by_pool_and_zone() -> None:
    found = groups(seen_cluster.nodes(a_cluster()), seen_cluster.pods(a_cluster()), a_cluster().taken_at.timestamp())
    shown = [
        [row[name] for name in ("POOL", "ZONE", "NODES", "READY", "BUSY", "WARM", "IDLE", "CPU", "GPU")]
        for row in rows(found)
    ]
    assert shown == [
        ["<none>", "<none>", "1", "1", "0", "0", "1", "0%", "<none>"],
        ["gpu", "a", "2", "2", "1", "1", "0", "12%", "50%"],
        ["gpu", "b", "1", "0", "0", "0", "0", "0%", "<none>"],
    ]
    assert (document(found).items[0].pool, document(found).items[0].zone) == ("", "")
    assert document(found).items[1].requested == RequestedItem(cpu=0.125, memory=0.0, gpu=0.5)


def test_top_and_version_from_a_dump(tmp_path: Path) -> None:
    with (tmp_path / "d").open("wb") as file:
        write_archive(a_cluster(), file)
    found = CliRunner().invoke(commands, ["top", "--from", str(tmp_path / "d")], standalone_mode=False)
    assert found.stdout.splitlines()[2].split()[:3] == ["gpu", "a", "2"]
    assert "cluster-autoscaler v1.36.1" in found.stderr
    found = CliRunner().invoke(
        commands, ["version", "--from", str(tmp_path / "d"), "-o", "json"], standalone_mode=False
    )
    told = json.loads(found.stdout)
    assert told["kubernetes"] == "v1.36.3"
    assert told["components"]["cluster-autoscaler"]["where"] == "kube-system/ca"
    found = CliRunner().invoke(commands, ["version", "--from", str(tmp_path / "d")], standalone_mode=False)
    assert found.stdout.splitlines()[1:] == [
        "kubernetes: v1.36.3",
        "provider: not seen",
        "API servers: not seen",
        "balloonpools: not seen",
        "jointhrottles: not seen",
        "autoscalers: cluster-autoscaler",
        "cluster-autoscaler: v1.36.1 (kube-system/ca)",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_completion_is_a_script(shell: str) -> None:
    found = balloons("completion", shell, PATH=os.environ["PATH"])
    assert (found.returncode, found.stderr) == (0, "")
    assert "_BALLOONS_COMPLETE" in found.stdout


def test_the_script_for_kubectl_completes(tmp_path: Path) -> None:
    """As kubectl runs it: the words after `balloons`, the last one unfinished; answers, then cobra's directive."""
    script, program = tmp_path / "kubectl_complete-balloons", tmp_path / "balloons"
    script.write_text(balloons("completion", "kubectl").stdout)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m balloons "$@"\n')
    for file in (script, program):
        file.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = subprocess.run([script, "doc"], capture_output=True, text=True, env=env, check=True, timeout=60)
    assert found.stdout.split() == ["doctor", ":4"]


@pytest.mark.parametrize(
    ("unread", "words"),
    [
        (None, "v1alpha1"),
        (Unread.NOT_SERVED, "not served"),
        (Unread.FORBIDDEN, "not seen"),
        (Unread.FAILED, "not seen"),
    ],
)
def test_version_names_no_crd_that_it_did_not_see(tmp_path: Path, unread: Unread | None, words: str) -> None:
    """The API server refuses a list that it does not even serve to whoever has no right to it."""
    seen = cluster({kinds.NODES: [], kinds.BALLOON_POOLS: [], kinds.THROTTLES: []})
    with (tmp_path / "d").open("wb") as file:
        write_archive(replace(seen, lists={**seen.lists, kinds.THROTTLES.name: Listed(unread=unread)}), file)
    found = CliRunner().invoke(commands, ["version", "--from", str(tmp_path / "d")], standalone_mode=False)
    assert "balloonpools: v1alpha1\n" in found.stdout
    assert f"jointhrottles: {words}\n" in found.stdout


def test_version_flag_and_command_agree() -> None:
    assert balloons("--version").stdout == balloons("version").stdout


def config_for(api: LoopbackApi, folder: Path, **user: Any) -> str:
    body = {
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(json.dumps(body))
    return str(path)


async def run(*arguments: str) -> tuple[int, str]:
    ended = await asyncio.to_thread(balloons, *arguments)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["run", "guard"])
@pytest.mark.whole
async def test_once_does_not_wait_for_a_server_that_is_not_there(command: str, tmp_path: Path) -> None:
    async with loopback_api() as api:
        config = config_for(api, tmp_path)
    code, text = await asyncio.wait_for(run(command, "--once", "--log-format", "json", "--kubeconfig", config), 30.0)
    assert code == 1
    assert f"error: {api.url}: nobody listens at that port (connection refused)" in text


async def test_a_login_that_nobody_sees_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_source, "PATIENCE_S", 0.2)
    asks = "echo 'open https://login.example and enter A1B2' >&2; sleep 1; exit 1"
    login = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", asks]}
    config = config_for(LoopbackApi("http://127.0.0.1:9"), tmp_path, exec=login)
    options = {"kubeconfig": config, "context": None, "as_user": None, "as_group": (), "request_timeout": "5s"}
    with pytest.raises(CommandError, match="the command gave no credentials"):
        async with cluster_source.open_cluster(options, "doctor"):
            pass
    told = capsys.readouterr().err
    assert told.count("still waiting for the kubeconfig's credentials; if they need a login, log in first") == 1


@pytest.mark.whole
async def test_pause_and_resume_write_one_field_and_its_reason(tmp_path: Path) -> None:
    bodies = []

    async def keep(request: web.BaseRequest) -> web.Response:
        bodies.append(json.loads(await request.read()))
        return web.json_response({})

    async with loopback_api(keep) as api:
        at = ("--kubeconfig", config_for(api, tmp_path))
        assert (await run("pause", "pool", "gpu", "--reason", "INC-1", *at))[0] == 0
        assert (await run("resume", "throttle", "joins", "--dry-run", *at))[0] == 0
        assert (await run("pause", "pool", "other/gpu", "--reason", "INC-2", *at))[0] == 0
    base = "/apis/kube-balloons.github.io/v1alpha1"
    assert [request.path for request in api.asked] == [
        f"{base}/namespaces/ml/balloonpools/gpu",
        f"{base}/jointhrottles/joins",
        f"{base}/namespaces/other/balloonpools/gpu",
    ]
    assert [request.method for request in api.asked] == ["PATCH", "PATCH", "PATCH"]
    assert "dryRun" not in api.asked[0].query
    assert api.asked[1].query["dryRun"] == "All"
    assert api.asked[0].headers["User-Agent"].startswith("kube-balloons-cli/")
    reason = "kube-balloons.github.io/pause-reason"
    assert bodies == [
        {"metadata": {"annotations": {reason: "INC-1"}}, "spec": {"paused": True}},
        {"metadata": {"annotations": {reason: None}}, "spec": {"paused": False}},
        {"metadata": {"annotations": {reason: "INC-2"}}, "spec": {"paused": True}},
    ]


async def test_pausing_what_is_not_there_says_where_to_look(tmp_path: Path) -> None:
    async def missing(request: web.BaseRequest) -> web.Response:
        if "jointhrottles" in request.path:
            return web.Response(text="404 page not found\n", status=404)
        body = {"message": 'balloonpools "x" not found', "reason": "NotFound", "code": 404}
        return web.json_response(body, status=404)

    async with loopback_api(missing) as api:
        at = ("--kubeconfig", config_for(api, tmp_path))
        pool = await run("pause", "pool", "x", "--reason", "y", *at)
        throttle = await run("resume", "throttle", "x", *at)
    assert (pool[0], throttle[0]) == (2, 2)
    assert "not found; see what there is with balloons status -A" in pool[1]
    assert "error: this cluster does not serve jointhrottles; kubectl apply -k manifests/crds" in throttle[1]


def test_a_pool_is_in_one_namespace() -> None:
    found = balloons("pause", "pool", "y/a", "-n", "x", "--reason", "INC-1")
    assert found.returncode == 2
    assert "pool 'y/a' names another namespace than -n x" in found.stderr


def test_a_pause_needs_a_reason() -> None:
    assert balloons("pause", "pool", "gpu").returncode == 2
    assert "accepted: 1 to 500 characters" in balloons("pause", "pool", "gpu", "--reason", " ").stderr
