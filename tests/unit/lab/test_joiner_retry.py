"""When a kubelet's client repeats a request, and how fast it may ask."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cloud.kubelet_joiner.client import BROKEN, MAX_RETRIES, Turns, growing_waits_s, wait_before_retry_s


@pytest.mark.parametrize(
    ("method", "status", "retry_after", "wait_s"),
    [
        ("POST", 429, "1", 1.0),
        ("PATCH", 503, "32", 32.0),
        ("GET", 429, None, None),
        ("GET", 500, None, None),
        ("GET", 404, "5", None),
        ("PUT", 409, None, None),
        ("GET", 200, None, None),
        ("GET", BROKEN, None, 0.0),
        ("POST", BROKEN, None, None),
        ("GET", 429, "Sat, 21 Nov 2026 05:00:00 GMT", None),
    ],
)
def test_repeats_what_client_go_repeats(
    method: str, status: int, retry_after: str | None, wait_s: float | None
) -> None:
    assert wait_before_retry_s(method, status, retry_after, attempt=0) == wait_s


def test_gives_up_after_ten_repetitions() -> None:
    assert wait_before_retry_s("GET", 429, "1", attempt=MAX_RETRIES - 1) == 1.0
    assert wait_before_retry_s("GET", 429, "1", attempt=MAX_RETRIES) is None


def test_waits_grow_to_the_longest_and_stay_there() -> None:
    assert list(itertools.islice(growing_waits_s(0.1, 2.0, 0.5), 5)) == [0.1, 0.2, 0.4, 0.5, 0.5]


@given(
    gaps=st.lists(st.floats(min_value=0.0, max_value=3.0), min_size=1, max_size=200),
    qps=st.floats(min_value=0.5, max_value=100.0),
    burst=st.integers(min_value=1, max_value=50),
)
def test_never_sends_more_than_burst_and_rate_allow(gaps: list[float], qps: float, burst: int) -> None:
    turns, now, sent = Turns(qps, burst, 0.0), 0.0, []
    for gap in gaps:
        now += gap
        sent.append(now + turns.take(now))
    for first, last in itertools.combinations(range(len(sent)), 2):
        in_between = last - first + 1
        assert in_between <= burst + (sent[last] - sent[first]) * qps + 1e-6


def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    turns = Turns(50.0, 100, now=7.0)
    waits = [turns.take(7.0) for _ in range(102)]
    assert waits[:100] == [0.0] * 100
    assert waits[100:] == pytest.approx([0.02, 0.04])
