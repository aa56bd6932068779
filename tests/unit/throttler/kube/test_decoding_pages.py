import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.kube.fake_list_and_watch import Thing
from throttler.kube.decoding import PageDecoder
from throttler.kube.errors import UndecodableError


def page(*items: object, **meta: str) -> bytes:
    return json.dumps({"kind": "ThingList", "metadata": {"resourceVersion": "5", **meta}, "items": items}).encode()


def thing(name: str, size: object = 0) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns"}, "size": size}


def test_reads_items_version_and_continue_token():
    found = PageDecoder(Thing).decode(page(thing("a", 1), thing("b", 2), **{"continue": "next"}))
    assert [item.size for item in found.items] == [1, 2]
    assert (found.resource_version, found.continue_token, found.skipped) == ("5", "next", ())


@pytest.mark.parametrize("body", [b'{"metadata":{}}', b'{"metadata":{},"items":null}', b'{"metadata":{},"items":[]}'])
def test_no_items_is_an_empty_page(body):
    assert PageDecoder(Thing).decode(body).items == []


@given(st.lists(st.sampled_from([1, "bad", None, -3, [], {"x": 1}]), max_size=20))
def test_only_the_bad_items_are_lost(sizes):
    found = PageDecoder(Thing).decode(page(*(thing(f"n{i}", size) for i, size in enumerate(sizes))))
    good = {f"n{i}" for i, size in enumerate(sizes) if isinstance(size, int)}
    assert {item.metadata.name for item in found.items} == good
    assert {skipped.key for skipped in found.skipped} == {
        ("ns", f"n{i}") for i in range(len(sizes)) if f"n{i}" not in good
    }
    assert all(skipped.why for skipped in found.skipped)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":[]}', b'{"metadata":{},"items":{}}', b"[" * 99_999])
def test_what_is_no_list_is_refused(body):
    with pytest.raises(UndecodableError):
        PageDecoder(Thing).decode(body)
