"""`balloons dump` from outside, against a server on loopback: live and dump give the same bytes."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from aiohttp import web

from balloons.cli import dump_command
from balloons.cli.terminal import CommandError
from balloons.cluster import kinds
from balloons.reading import read_cluster
from balloons.reading.read_cluster import read_archive
from tests.commands import balloons
from tests.doctor_cases import node, pod, priority, workload
from tests.seen_clusters import cluster
from tests.unit.throttler.kube.loopback_api import LoopbackApi, loopback_api

OBJECTS = {
    "nodes": [node("n1")],
    "pods": [pod("job", "n1", namespace="secretlab")],
    "deployments": [workload()],
    "priorityclasses": [priority(-11)],
}


async def answer(request: web.BaseRequest) -> web.Response:
    if request.path == "/version":
        return web.json_response({"gitVersion": "v1.36.3"})
    found = OBJECTS.get(request.path.rpartition("/")[2])
    return web.json_response({"metadata": {}, "items": found}, status=404 if found is None else 200)


def config_for(api: LoopbackApi, folder: Path) -> str:
    body = {
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(json.dumps(body))
    return str(path)


async def run(*arguments: str) -> tuple[int, str, str]:
    ended = await asyncio.to_thread(balloons, *arguments)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.whole
async def test_live_and_dump_agree_byte_for_byte(tmp_path: Path) -> None:
    dump = str(tmp_path / "d.tar.gz")
    async with loopback_api(answer) as api:
        config = config_for(api, tmp_path)
        lives = [await run(*words, "--kubeconfig", config) for words in COMMANDS]
        code, out, err = await run("dump", dump, "--kubeconfig", config)
    assert (code, out) == (0, "")
    assert "4 objects" in err
    dumped = [await run(*words, "--from", dump) for words in COMMANDS]
    assert all(err.startswith(f"from a dump, {dump}, taken ") for _, _, err in dumped)
    assert [(code, out, err.partition("\n")[2]) for code, out, err in dumped] == lives
    assert all(code == 0 and out for code, out, _ in lives)


COMMANDS = (
    ("doctor", "-o", "json"),
    ("doctor", "-o", "wide"),
    ("top",),
    ("top", "-o", "json"),
    ("explain", "pod", "job"),
    ("explain", "node", "n1"),
)


async def test_a_dump_is_its_owners_and_hashes_on_request(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 16)
    dumps = [tmp_path / "a", tmp_path / "b"]
    async with loopback_api(answer) as api:
        config = config_for(api, tmp_path)
        for path in dumps:
            words = ("--kubeconfig", config, "--hash-names", "--hash-key-file", str(key))
            assert (await run("dump", str(path), *words))[0] == 0
    first, second = (read_archive(str(path)) for path in dumps)
    assert stat.S_IMODE(dumps[0].stat().st_mode) == 0o600
    assert first.lists == second.lists
    assert b"secretlab" not in b"".join(first.listed(kinds.PODS).objects)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "--hash-key-file", __file__), "--hash-key-file is for --hash-names"),
        (
            ("x", "--hash-names", "--hash-key-file", "/no/such"),
            "/no/such: no such file or directory; accepted: a file with a key",
        ),
        (("x", "--hash-names", "--hash-key-file", "/dev/null"), "has 0 bytes; accepted: at least 16"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(arguments: tuple[str, ...], words: str) -> None:
    found = balloons("dump", *arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert words in found.stderr


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with loopback_api(answer) as api:
        code, _, err = await run("dump", str(tmp_path / "no" / "d"), "--kubeconfig", config_for(api, tmp_path))
    assert code == 2
    assert "cannot be written: no such file or directory" in err


def test_a_cluster_larger_than_a_dump_may_be_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_cluster, "MOST_BYTES", 10)
    with pytest.raises(CommandError, match=r"^the dump would hold [0-9]+ bytes; accepted: 10$"):
        dump_command._write(str(tmp_path / "dump"), cluster({kinds.NODES: [node("n1")]}))
    assert list(tmp_path.iterdir()) == []
