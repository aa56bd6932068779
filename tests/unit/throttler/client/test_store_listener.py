"""Who listens to a store hears of every change once, in order, and of a list only what differs."""

from throttler.client.store import Store

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


def test_listener_hears_each_change_with_what_was_before() -> None:
    heard: list[object] = []
    store: Store[str] = Store(lambda *told: heard.append(told))
    store.put(A, "one")
    store.put(A, "two")
    store.skip(A, "unreadable")
    store.drop(A)
    assert heard == [(A, None, "one"), (A, "one", "two"), (A, "two", None)]


def test_listener_hears_only_the_differences_of_a_list() -> None:
    heard: list[object] = []
    store: Store[str] = Store(lambda *told: heard.append(told))
    store.replace({A: "one", B: "same"}, {}, "1")
    heard.clear()
    store.replace({B: "same", C: "new"}, {}, "2")
    assert heard == [(A, "one", None), (C, None, "new")]
