"""Who listens to a store hears of every change once, in order, and of a list only what differs."""

from throttler.kube.store import Store

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


def test_listener_hears_each_change_with_what_was_before() -> None:
    heard: list[object] = []
    store: Store[str] = Store(lambda *told: heard.append(told))
    store.put(A, "one")
    store.put(A, "two")
    store.skip(A, "unreadable")
    store.drop(A)
    assert heard == [(A, None, "one"), (A, "one", "two"), (A, "two", None)]


def test_listener_hears_of_what_a_list_no_longer_shows() -> None:
    heard: list[object] = []
    store: Store[str] = Store(lambda *told: heard.append(told))
    store.put(A, "one")
    store.put(B, "same")
    store.skip(C, "unreadable")
    heard.clear()
    store.keep_only({B})
    assert heard == [(A, "one", None)]
    assert (dict(store.items), dict(store.skipped)) == ({B: "same"}, {})
