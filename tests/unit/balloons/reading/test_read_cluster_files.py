"""Dumps and manifests: what is written is read again, and what is odd is refused in a sentence.

Dumps: the same value comes back, equal content is equal bytes, and no file can hurt. Manifests in files: what kubectl
apply takes, and no file can hurt. The bounds of reading: pages and memory with 5,000 nodes and 50,000 pods. Times are
in docs/dump.md, not asserted.
"""

import gzip
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, SeenCluster, Unread
from balloons.doctor.diagnose import ALL_CHECKS
from balloons.reading import read_cluster as room
from balloons.reading.read_cluster import ArchiveError, ManifestError, read_archive, read_manifests, write_archive
from tests.large_cluster import NODES, PODS
from tests.seen_clusters import TAKEN_AT, cluster

HEAD = {"apiVersion": "balloons.kube-balloons.github.io/v1", "kind": "Dump", "takenAt": "2026-11-21T12:00:00Z"}
TWO = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -10}
  - {apiVersion: v1, kind: Secret, metadata: {name: hush}, data: {x: aHVudGVyMg==}}
---
"""


def a_cluster() -> SeenCluster:
    found = cluster({kinds.NODES: [{"metadata": {"name": f"n{i}"}} for i in range(5)], kinds.PODS: []})
    lists = {**found.lists, "nodepools.karpenter.sh": Listed(unread=Unread.FORBIDDEN, message="no", left_out=2)}
    return SeenCluster(taken_at=TAKEN_AT, lists=lists, version="v1.36.3", context="prod")


def packed(seen: SeenCluster) -> bytes:
    file = io.BytesIO()
    write_archive(seen, file)
    return file.getvalue()


def tarred(path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return str(path)


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    path.write_bytes(packed(a_cluster()))
    found = read_archive(str(path))
    assert found == a_cluster()
    assert packed(found) == path.read_bytes()


def test_a_full_disk_or_a_member_cut_short_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    path.write_bytes(packed(a_cluster())[:-40])
    with pytest.raises(ArchiveError):
        read_archive(str(path))


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"cluster.json": b"{}"},
        {"cluster.json": json.dumps(HEAD | {"kind": "Pod"}).encode()},
        {"cluster.json": json.dumps(HEAD | {"surprise": 1}).encode()},
        {"cluster.json": b"[" * 100_000},
        {"cluster.json": json.dumps(HEAD | {"takenAt": "9999-12-31T23:59:59-01:00"}).encode()},
        {"cluster.json": json.dumps(HEAD | {"takenAt": "9999-12-31T23:59:59Z"}).encode()},
        {"cluster.json": json.dumps(HEAD | {"takenAt": "0999-12-31T23:59:59Z"}).encode()},
        {"cluster.json": json.dumps(HEAD | {"takenAt": "2026-11-21T12:00:00"}).encode()},
        {"../../etc/passwd": b"x"},
        {"/etc/passwd": b"x"},
        {"lists/pods.txt": b"{}"},
        {"lists/../pods.jsonl": b"{}"},
        {"lists/pods.jsonl": b"x" * (5 * 1024 * 1024)},
    ],
    ids=lambda members: next(iter(members), "empty")[:30],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(ArchiveError):
        read_archive(tarred(tmp_path / "x.tar.gz", members))


def test_lists_of_kinds_that_another_version_dumps_are_passed_over(tmp_path: Path) -> None:
    """A dump outlives the version that wrote it, and colleagues have others."""
    members = {"cluster.json": json.dumps(HEAD | {"lists": {"pods": {}, "widgets.example.com": {}}}).encode()}
    members |= {"lists/pods.jsonl": b'{"metadata":{"name":"a"}}\n', "lists/widgets.example.com.jsonl": b"no JSON"}
    found = read_archive(tarred(tmp_path / "x.tar.gz", members))
    assert [len(listed.objects) for listed in found.lists.values()] == [1, 0]
    with pytest.raises(ArchiveError, match=r"'lists/a/b\.jsonl' is no part of a dump"):
        read_archive(tarred(tmp_path / "y.tar.gz", {**members, "lists/a/b.jsonl": b""}))


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        with tarfile.open(path, "w:gz") as tar:
            info = tarfile.TarInfo("lists/pods.jsonl")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        with pytest.raises(ArchiveError, match="not a regular file"):
            read_archive(str(path))


def test_broken_and_deep_objects_are_counted(tmp_path: Path) -> None:
    lines = b'{"metadata":{"name":"a"}}\n' + b'{"metadata":' * 5000 + b"\n" + b"\xff\n" + b"[]\n"
    head = json.dumps(HEAD | {"lists": {"pods": {}}}).encode()
    found = read_archive(tarred(tmp_path / "x.tar.gz", {"cluster.json": head, "lists/pods.jsonl": lines}))
    assert (len(found.listed(kinds.PODS).objects), found.listed(kinds.PODS).unreadable) == (1, 3)


@pytest.mark.parametrize("name", ["a; touch /tmp/x", "$(id)", "a b", "a\nb", "`id`", "é"])
def test_an_object_whose_name_no_server_takes_is_counted_as_unreadable(tmp_path: Path, name: str) -> None:
    """The doctor's fixes name objects, and are there to be pasted into a shell."""
    objects = [{"metadata": {"name": "web-1.a"}}, {"metadata": {"name": name}}, {"metadata": {"namespace": name}}]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in [*objects, {"metadata": 5}, {}])
    head = json.dumps(HEAD | {"lists": {"pods": {}}}).encode()
    found = read_archive(tarred(tmp_path / "x.tar.gz", {"cluster.json": head, "lists/pods.jsonl": lines}))
    assert (len(found.listed(kinds.PODS).objects), found.listed(kinds.PODS).unreadable) == (3, 2)


def test_objects_of_a_file_are_cut_down_as_those_of_a_cluster(tmp_path: Path) -> None:
    line = b'{"metadata":{"name":"a"},"spec":{"containers":[{"env":[{"value":"hunter2"}]}]},"more":1}\n'
    head = json.dumps(HEAD | {"lists": {"pods": {}}}).encode()
    found = read_archive(tarred(tmp_path / "x.tar.gz", {"cluster.json": head, "lists/pods.jsonl": line}))
    assert b"hunter2" not in found.listed(kinds.PODS).objects[0]


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"PK\x03\x04", b"\x00" * 4096, b"\xef\xbb\xbf{}\r\n"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ArchiveError):
        read_archive(str(path))


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArchiveError, match="not a regular file"):
        read_archive(str(tmp_path / "pipe"))
    with pytest.raises(ArchiveError, match="not a regular file"):
        read_archive(str(tmp_path))


@pytest.mark.whole
@pytest.mark.parametrize("chunk", [b"{}\n" * 349_525, b" " * 1024 * 1024], ids=["tiny objects", "blanks"])
def test_a_bomb_is_refused_in_little_memory(tmp_path: Path, chunk: bytes) -> None:
    """How long it takes is in docs/dump.md."""
    path = tmp_path / "bomb.tar.gz"
    info = tarfile.TarInfo("lists/pods.jsonl")
    info.size = 64 * len(chunk)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(64):
            file.write(chunk)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ArchiveError, match="more than"):
        read_archive(str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 200_000


def test_what_unpacks_out_of_all_proportion_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FREE_BYTES", 1024 * 1024)
    head = json.dumps(HEAD | {"lists": {"pods": {}}}).encode()
    line = b'{"metadata":{"name":"' + b"a" * 1_000_000 + b'"}}\n'
    path = tarred(tmp_path / "x.tar.gz", {"cluster.json": head, "lists/pods.jsonl": line * 3})
    with pytest.raises(ArchiveError, match="unpacks to more than 1,048,576 bytes"):
        read_archive(path)


def test_a_map_of_holes_that_is_none_is_refused(tmp_path: Path) -> None:
    """tarfile raises a bare ValueError on it."""
    path, text = tmp_path / "sparse.tar.gz", io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("cluster.json")
        info.size = 3
        info.pax_headers = {"GNU.sparse.map": "a,b", "GNU.sparse.size": "5"}
        tar.addfile(info, io.BytesIO(b"{}\n"))
    path.write_bytes(gzip.compress(text.getvalue()))
    with pytest.raises(ArchiveError, match="not a dump"):
        read_archive(str(path))


def read(*paths: Path, recursive: bool = False) -> SeenCluster:
    return read_manifests([str(path) for path in paths], TAKEN_AT, is_recursive=recursive)


def test_documents_and_lists_are_filed_by_kind(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode())
    seen = read(tmp_path / "x.yaml")
    assert [each["metadata"]["name"] for each in seen.plain(kinds.PODS)] == ["a"]
    assert [each["value"] for each in seen.plain(kinds.PRIORITY_CLASSES)] == [-10]
    assert not any(b"aHVudGVyMg" in text for listed in seen.lists.values() for text in listed.objects)


def test_folders_are_read_one_deep_or_wholly_and_only_manifests(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.yaml", "notes.txt", "sub/b.json"):
        (tmp_path / name).write_text('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}')
    assert len(read(tmp_path).plain(kinds.PODS)) == 1
    assert len(read(tmp_path, recursive=True).plain(kinds.PODS)) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [x]\nb: [*a, *a]\n", "line 2 has an alias"),
        ("[" * 5000, "nested deeper than 100 levels"),
        ("a: [\n", "x.yaml: while parsing"),
        ("{{ if .x }}\na: 1\n", "helm template CHART | balloons doctor -f -"),
        ("- 1\n", "holds list; accepted: Kubernetes objects"),
        ("\x00", "x.yaml: "),
        ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {? [1] : x}\n", "x.yaml: "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x; id}\n", "x.yaml: Pod: 'x; id' is no name of an object"),
    ],
)
def test_what_is_no_manifest_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        read(tmp_path / "x.yaml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pipes_large_files_and_missing_ones_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(2 * 1024**3)
    for name, words in (("pipe", "not a regular file"), ("large.yaml", "more than"), ("none", "No such file")):
        with pytest.raises(ManifestError, match=words):
            read(tmp_path / name)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ManifestError, match="not UTF-8"):
        read(tmp_path / "x.yaml")


@pytest.mark.whole
def test_a_large_cluster_is_read_in_pages_and_kept_small() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.large_cluster"], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(answer.stdout)
    assert found["pages"] == (NODES + PODS) / 500
    assert (found["nodes"], found["pods"]) == (NODES, PODS)
    assert found["checked"] == len(ALL_CHECKS)
    # Of 250 MB that were sent; the interpreter with the client takes about 60 MB of it.
    assert found["peak_mb"] < 350
