"""`balloons status --from`: what a dump holds, as old as it was then."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from balloons.cli.main import balloons as commands
from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.reading.files import write_archive
from tests.seen_clusters import cluster

CREATED = {"creationTimestamp": "2026-11-20T00:00:00Z"}


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


def test_name_that_nothing_has_is_bad_input(dump: str) -> None:
    error = shown(dump, "-n", "web", "cpu").exception
    assert str(error) == "there is no throttle 'cpu', and no pool in namespace web"
    assert error is not None
    assert getattr(error, "code", None) == 2
