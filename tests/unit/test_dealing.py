from hypothesis import given
from hypothesis import strategies as st

from tests.dealing import dealt, stretches

FILES = st.lists(st.tuples(st.integers(1, 99), st.lists(st.integers(), min_size=1, max_size=9)), max_size=12)


def test_the_slow_tests_of_every_worker_come_first() -> None:
    order = dealt([(10, ["a1", "a2"]), (30, ["b1"]), (9, ["c1"])], ["q1", "q2", "q3", "q4"], workers=2)
    assert order == ["b1", "q1", "q2", "q3", "a1", "a2", "c1", "q4"]


@given(st.integers(0, 10_000), st.integers(1, 16))
def test_stretches_are_even_and_nothing_is_left(count: int, workers: int) -> None:
    sizes = stretches(count, workers)
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


@given(FILES, st.lists(st.integers()), st.integers(1, 5))
def test_every_test_is_dealt_once(files: list[tuple[int, list[int]]], quick: list[int], workers: int) -> None:
    every = quick + [test for _, tests in files for test in tests]
    assert sorted(dealt(files, quick, workers)) == sorted(every)
