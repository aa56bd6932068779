import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.kube.fake_list_and_watch import Thing
from throttler.kube.decoding import EventDecoder, EventKind, LineFrames
from throttler.kube.errors import GoneError, UndecodableError


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[left:right] for left, right in pairwise(edges)]


lines_of_any_bytes = st.lists(st.binary(max_size=50).map(lambda text: text.replace(b"\n", b"?")))


@given(lines_of_any_bytes, st.binary(max_size=20), st.lists(st.integers(min_value=0)))
def test_any_split_into_chunks_gives_the_same_lines(lines, rest, places):
    rest = rest.replace(b"\n", b"?")
    stream = b"".join(line + b"\n" for line in lines) + rest
    frames = LineFrames()
    found = [line for chunk in cut_at(stream, places) for line in frames.feed(chunk)]
    assert found == [line for line in lines if line.strip()]
    assert frames.feed(b"\n") == ([rest] if rest.strip() else [])


def test_a_line_of_many_megabytes_in_small_chunks_is_fine():
    frames = LineFrames()
    assert all(frames.feed(b"x" * 1000) == [] for _ in range(8000))
    assert frames.feed(b"\nnext") == [b"x" * 8_000_000]
    assert frames.feed(b"\n") == [b"next"]


def test_a_line_without_end_is_refused():
    frames = LineFrames(longest_bytes=100)
    frames.feed(b"x" * 100)
    with pytest.raises(UndecodableError, match="longer than 100 bytes"):
        frames.feed(b"x")


def line(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def named(name: str, version: str = "7", **fields: object) -> dict[str, object]:
    return {"kind": "Thing", "metadata": {"name": name, "namespace": "ns", "resourceVersion": version}, **fields}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_change_carries_the_typed_object(kind):
    event = EventDecoder(Thing).decode(line(kind, named("a", size=3, other={"deep": [1]})))
    assert (event.kind, event.key, event.resource_version) == (kind, ("ns", "a"), "7")
    assert event.item is not None
    assert event.item.size == 3


def test_a_delete_needs_no_more_than_the_identity():
    event = EventDecoder(Thing).decode(line("DELETED", named("a", size="broken")))
    assert (event.kind, event.key, event.item, event.why) == (EventKind.DELETED, ("ns", "a"), None, "")


def test_a_bookmark_carries_the_version():
    meta = {"resourceVersion": "99", "creationTimestamp": None}
    event = EventDecoder(Thing).decode(line("BOOKMARK", {"metadata": meta}))
    assert (event.kind, event.resource_version) == (EventKind.BOOKMARK, "99")


@pytest.mark.parametrize(
    ("thing", "key"),
    [
        (named("a", size="x"), ("ns", "a")),
        ({"metadata": {"name": 5}}, ("", "")),
        ([], ("", "")),
        (None, ("", "")),
    ],
)
def test_an_unreadable_object_is_named_as_far_as_it_can_be(thing, key):
    event = EventDecoder(Thing).decode(line("MODIFIED", thing))
    assert event.item is None
    assert event.key == key
    assert event.why


def test_nesting_without_end_is_one_bad_object():
    deep = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"size":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    with pytest.raises(UndecodableError):
        EventDecoder(Thing).decode(deep)


def test_an_error_event_raises_the_servers_error():
    with pytest.raises(GoneError, match="too old"):
        EventDecoder(Thing).decode(line("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))


@pytest.mark.parametrize("text", [b"<html>", b"{}", b'{"type":"NEW","object":{}}', b'{"type":1}', b"\xff"])
def test_what_is_no_event_is_refused(text):
    with pytest.raises(UndecodableError):
        EventDecoder(Thing).decode(text)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(text):
    with suppress(UndecodableError):
        EventDecoder(Thing).decode(text)
