"""`balloons explain` from outside: names in several namespaces, names that are nowhere, what to do next."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from balloons.cli.explain_command import timeline_text
from balloons.cli.terminal import Look
from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.explain import Step, Timeline
from balloons.reading.read_cluster import write_archive
from tests.commands import balloons
from tests.doctor_cases import node, pod, pool
from tests.seen_clusters import cluster


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


def test_a_name_may_carry_its_namespace_as_our_own_tables_print_it(tmp_path: Path) -> None:
    path = dump(tmp_path, {kinds.PODS: [pod("a", namespace="x"), pod("a", namespace="y")]})
    assert "pod/a -n y" in balloons("explain", "pod", "y/a", "--from", path, "-o", "json").stdout
    assert balloons("explain", "pod", "y/a", "-n", "y", "--from", path).returncode == 0
    found = balloons("explain", "pod", "y/a", "-n", "x", "--from", path)
    assert found.returncode == 2
    assert "pod 'y/a' names another namespace than -n x" in found.stderr
    assert "there is no pod 'b' in namespace y" in balloons("explain", "pod", "y/b", "--from", path).stderr


@pytest.mark.parametrize("said", ["pool/gpu", "pools/gpu", "balloonpool.kube-balloons.github.io/gpu", "nodepools/gpu"])
def test_an_object_may_be_named_as_kubectl_and_our_own_status_print_it(tmp_path: Path, said: str) -> None:
    path = dump(tmp_path, {kinds.BALLOON_POOLS: [pool("gpu")]})
    whole = balloons("explain", "pool", "gpu", "--from", path).stdout
    assert whole
    assert balloons("explain", said, "--from", path).stdout == whole


def test_a_pool_with_a_namespace_is_no_node_pool(tmp_path: Path) -> None:
    """A NodePool has none: whoever mistyped the namespace was told of another object."""
    path = dump(tmp_path, {kinds.BALLOON_POOLS: [pool("gpu")], kinds.NODE_POOLS: [{"metadata": {"name": "gpu"}}]})
    found = balloons("explain", "pool", "gpu", "-n", "elsewhere", "--from", path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "there is no pool 'gpu' in namespace elsewhere" in found.stderr


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


@pytest.mark.parametrize(
    ("wait_s", "shown"), [(0.0, "+0s"), (0.484917, "+0.5s"), (19.5373, "+20s"), (133.0, "+2m13s"), (None, "")]
)
def test_waits_are_told_as_people_read_them(wait_s: float | None, shown: str) -> None:
    """Events carry microseconds: `+0.484917s` stood there."""
    step = Step(at=datetime(2026, 11, 22, tzinfo=UTC), what="bound", wait_s=wait_s)
    found = Timeline(subject="pod/a", seen_at=datetime(2026, 11, 22, tzinfo=UTC), now="bound", steps=(step,))
    columns = timeline_text(found, Look())[1].split()
    assert columns[1:-1] == ([shown] if shown else [])
