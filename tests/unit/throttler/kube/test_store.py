import math

from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.store import Store


def test_starts_incomplete_empty_and_infinitely_old():
    store = Store()
    assert not store.is_complete
    assert not store.items
    assert store.age_s(5.0) == math.inf


def test_age_is_the_time_since_the_last_word():
    store = Store()
    store.touch(100.0)
    assert store.age_s(107.5) == 7.5


def test_an_older_list_is_taken_and_counted():
    store = Store()
    assert not store.begin_from("100")
    assert not store.begin_from("100")
    assert store.begin_from("99")
    assert (store.went_back, store.resource_version) == (1, "99")


def test_versions_that_are_no_numbers_are_never_older():
    store = Store()
    store.begin_from("opaque-9")
    assert not store.is_stale("opaque-1")
    assert not store.is_stale("5")
    assert not store.is_stale("")


def test_versions_compare_as_numbers():
    store = Store()
    store.begin_from("1000")
    assert store.is_stale("999")
    assert not store.is_stale("1000")
    assert not store.is_stale("1001")


def test_completeness_is_a_change():
    store = Store()
    store.set_complete(True)
    version = store.version
    store.set_complete(True)
    assert store.version == version
    store.set_complete(False)
    assert store.version == version + 1


steps = st.lists(st.tuples(st.sampled_from(["put", "skip", "drop"]), st.sampled_from("abc"), st.integers()))


@given(steps)
def test_each_object_is_readable_or_skipped_or_gone(actions):
    store, expected = Store(), {}
    for action, name, value in actions:
        key, version = ("ns", name), store.version
        if action == "put":
            store.put(key, value)
            expected[key] = value
        elif action == "skip":
            store.skip(key, "why")
            expected[key] = "skipped"
        else:
            store.drop(key)
            expected.pop(key, None)
        assert store.version > version
    seen = {**dict(store.items), **dict.fromkeys(store.skipped, "skipped")}
    assert seen == expected
    assert not store.items.keys() & store.skipped.keys()
