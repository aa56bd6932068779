"""Nearest-rank percentiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.percentile import percentile


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_one_value_is_every_percentile() -> None:
    assert percentile([7.0], 0.5) == percentile([7.0], 0.99) == 7.0


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.floats(min_value=0, max_value=1))
def test_at_least_the_share_does_not_exceed_it(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6 * len(values)
