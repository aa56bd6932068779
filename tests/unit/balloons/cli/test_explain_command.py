"""`balloons explain` from outside: names in several namespaces, names that are nowhere, what to do next."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen import Listed, Unread
from balloons.reading.archive import write_archive
from tests.doctor_cases import node, pod, pool
from tests.seen_clusters import cluster
from tests.unit.balloons.cli.test_main import balloons


def dump(folder: Path, objects: Mapping[Kind, list[Any]], unread: Unread | None = None) -> str:
    seen = cluster({kind: [] for kind in kinds.ALL_KINDS} | dict(objects))
    if unread is not None:
        seen = replace(seen, lists={name: Listed(unread=unread) for name in seen.lists})
    path = folder / "dump.tar.gz"
    with path.open("wb") as file:
        write_archive(seen, file)
    return str(path)


def test_a_name_in_one_namespace_needs_no_namespace(tmp_path: Path) -> None:
    path = dump(tmp_path, {kinds.PODS: [pod("a", "n1", namespace="ml")], kinds.NODES: [node("n1")]})
    found = balloons("explain", "pod", "a", "--from", path)
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1] == "now: pending on n1"


def test_a_name_in_two_namespaces_asks_for_one(tmp_path: Path) -> None:
    path = dump(tmp_path, {kinds.PODS: [pod("a", namespace="x"), pod("a", namespace="y")]})
    found = balloons("explain", "pod", "a", "--from", path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "pod 'a' is in x, y; add -n" in found.stderr
    assert balloons("explain", "pod", "a", "-n", "y", "--from", path).returncode == 0


@pytest.mark.parametrize(
    ("subject", "unread", "words"),
    [
        ("pod", None, "there is no pod 'gone'"),
        ("node", Unread.FORBIDDEN, "there is no node 'gone' (pods, "),
        ("throttle", Unread.NOT_SERVED, "does not serve jointhrottles: kubectl apply -k manifests/crds"),
    ],
)
def test_a_name_that_is_nowhere_says_why_it_may_be(
    tmp_path: Path, subject: str, unread: Unread | None, words: str
) -> None:
    found = balloons("explain", subject, "gone", "--from", dump(tmp_path, {kinds.BALLOON_POOLS: [pool()]}, unread))
    assert found.returncode == 2
    assert words in found.stderr
