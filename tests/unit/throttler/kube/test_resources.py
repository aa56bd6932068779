"""Arithmetic on resource lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.quantities_and_durations import (
    QuantityError,
    fits,
    format_resources,
    larger,
    minus,
    parse_resources,
    total,
)

NAMES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "pods", "hugepages-2Mi"])
LISTS = st.dictionaries(NAMES, st.integers(min_value=0, max_value=10**18), max_size=6)


def test_formats_as_the_api_server_would_sorted_by_name() -> None:
    amounts = parse_resources({"memory": "65536Mi", "nvidia.com/gpu": "8", "cpu": "1500m", "hugepages-2Mi": "4096Ki"})
    texts = format_resources(amounts)
    assert list(texts.items()) == [
        ("cpu", "1500m"),
        ("hugepages-2Mi", "4Mi"),
        ("memory", "64Gi"),
        ("nvidia.com/gpu", "8"),
    ]


def test_one_bad_quantity_spoils_the_list() -> None:
    with pytest.raises(QuantityError, match=r"^memory '1 Gi' is not a quantity"):
        parse_resources({"cpu": "1", "memory": "1 Gi"})


def test_what_is_left_never_falls_below_zero_and_gains_no_names() -> None:
    assert minus({"cpu": 1000, "memory": 5}, {"cpu": 3000, "nvidia.com/gpu": 1}) == {"cpu": 0, "memory": 5}


def test_a_resource_that_a_node_does_not_have_is_zero_of_it() -> None:
    assert not fits({"nvidia.com/gpu": 1000}, {"cpu": 8000})
    assert fits({"nvidia.com/gpu": 0, "cpu": 8000}, {"cpu": 8000})


@given(LISTS)
def test_texts_give_back_the_amounts(amounts: dict[str, int]) -> None:
    assert parse_resources(format_resources(amounts)) == amounts


@given(LISTS, LISTS, LISTS)
def test_sums_do_not_depend_on_order(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    assert total([a, b, c]) == total([c, total([b, a])])


@given(LISTS, LISTS)
def test_what_was_added_can_be_taken_away(a: dict[str, int], b: dict[str, int]) -> None:
    left = minus(total([a, b]), b)
    assert {name: milli for name, milli in left.items() if milli} == {name: m for name, m in a.items() if m}


@given(LISTS, LISTS)
def test_the_larger_list_has_room_for_both(a: dict[str, int], b: dict[str, int]) -> None:
    both = larger(a, b)
    assert fits(a, both)
    assert fits(b, both)
    assert fits(both, total([a, b]))


@given(LISTS, LISTS)
def test_fits_exactly_when_nothing_is_missing(request: dict[str, int], room: dict[str, int]) -> None:
    assert fits(request, room) == (not any(minus(request, room).values()))
