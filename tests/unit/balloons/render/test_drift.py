"""Whether what is stored says what is wanted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.render.drift import says

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_says_itself(value: Any) -> None:
    assert says(value, value)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), VALUES)
def test_what_others_added_does_not_matter(wanted: dict[str, Any], more: Any) -> None:
    assert says({**wanted, "added by the server": more}, wanted)


@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=1, max_size=3))
def test_every_wanted_number_matters(wanted: dict[str, int]) -> None:
    for key, value in wanted.items():
        assert not says({**wanted, key: value + 1}, wanted)
        assert not says({k: v for k, v in wanted.items() if k != key}, wanted), "a missing zero is no zero"


@pytest.mark.parametrize("nothing", [{}, [], "", False])
def test_empty_values_need_not_be_stored(nothing: Any) -> None:
    assert says({}, {"key": nothing})


def test_lists_are_compared_whole_and_in_order() -> None:
    assert not says([1, 2, 3], [1, 2])
    assert not says([2, 1], [1, 2])
    assert says([{"a": 1, "b": 2}], [{"a": 1}])


def test_a_text_is_no_list() -> None:
    assert not says("ab", ["a", "b"])


@pytest.mark.parametrize(("stored", "wanted"), [("1k", "1000"), ("1", "1000m"), ("1Gi", "1073741824"), (1, "1")])
@pytest.mark.parametrize("field", ["requests", "limits"])
def test_amounts_are_compared_and_not_their_texts(field: str, stored: Any, wanted: str) -> None:
    """An extended resource of 1,000 was applied at every tick for ever."""
    assert says({"resources": {field: {"cpu": stored}}}, {"resources": {field: {"cpu": wanted}}})


@pytest.mark.parametrize("stored", [{"cpu": "1001"}, {}, {"cpu": "no quantity"}, None])
def test_other_amounts_are_told_apart(stored: Any) -> None:
    assert not says({"requests": stored}, {"requests": {"cpu": "1000"}})
