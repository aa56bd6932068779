"""Manifests in files: what kubectl apply takes, and no file can hurt."""

import os
from pathlib import Path

import pytest

from balloons.cluster import kinds
from balloons.cluster.seen import SeenCluster
from balloons.reading.manifests import ManifestError, read_manifests
from tests.seen_clusters import TAKEN_AT

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
