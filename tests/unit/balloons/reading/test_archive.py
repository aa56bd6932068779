"""Dumps: the same value comes back, equal content is equal bytes, and no file can hurt."""

import gzip
import io
import json
import os
import resource
import tarfile
from pathlib import Path

import pytest

from balloons.cluster import kinds
from balloons.cluster.seen import Listed, SeenCluster, Unread
from balloons.reading import archive
from balloons.reading.archive import ArchiveError, read_archive, write_archive
from tests.seen_clusters import TAKEN_AT, cluster

HEAD = {"apiVersion": "balloons.kube-balloons.github.io/v1", "kind": "Dump", "takenAt": "2026-11-21T12:00:00Z"}


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
        {"../../etc/passwd": b"x"},
        {"/etc/passwd": b"x"},
        {"lists/secrets.jsonl": b"{}"},
        {"lists/../pods.jsonl": b"{}"},
        {"lists/pods.jsonl": b"x" * (5 * 1024 * 1024)},
    ],
    ids=lambda members: next(iter(members), "empty")[:30],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(ArchiveError):
        read_archive(tarred(tmp_path / "x.tar.gz", members))


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
    monkeypatch.setattr(archive, "FREE_BYTES", 1024 * 1024)
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
