"""Quantities: the grammar, exact amounts, rounding up, and canonical texts."""

from decimal import Decimal, localcontext

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as official

from throttler.kube.quantities_and_durations import (
    MAX_MILLI,
    QuantityError,
    exact_value,
    format_bytes,
    format_milli,
    milli_or_none,
    parse_quantity,
)

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
NUMBERS = st.from_regex(r"[+-]?([0-9]{1,12}\.?[0-9]{0,12}|\.[0-9]{1,12})", fullmatch=True)
AMOUNTS = st.integers(min_value=-MAX_MILLI, max_value=MAX_MILLI)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0), ("4", 4000), ("250m", 250), ("1.5", 1500), (".5", 500), ("2.", 2000), ("+1", 1000), ("-1", -1000),
        ("1e3", 1_000_000), ("1E3", 1_000_000), ("1E", 10**21), ("25e-3", 25), ("1k", 10**6), ("1Ki", 1_024_000),
        ("1.5Gi", 1536 * 2**20 * 1000), ("9223372036854775807", MAX_MILLI), ("007", 7000),
        ("7".zfill(64), 7000),
    ],
)  # fmt: skip
def test_reads(text: str, milli: int) -> None:
    assert parse_quantity(text) == milli


@pytest.mark.parametrize(
    ("text", "milli"), [("1n", 1), ("1u", 1), ("0.1m", 1), ("1.0001", 1001), ("100.1m", 101), ("0n", 0), ("-0.1m", 0)]
)
def test_rounds_up_to_the_next_milli(text: str, milli: int) -> None:
    assert parse_quantity(text) == milli


def test_is_exact_beyond_the_precision_of_decimals() -> None:
    assert parse_quantity("1000000000000000000.000000000000000000000000000001") == 10**21 + 1


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 Gi", " 1", "1 ", "1\n", "1_000", "NaN", "Infinity", "inf", "-inf", "1e", "1e+", "1e1000", "0x10",
        "1,5", "1.5.2", "--1", "+-1", ".", "+", "m", "Gi", "1gi", "1ki", "1GI", "1K", "1mi", "1ni", "1i", "1GiB",
        "1Gim", "1e3Gi", "４", "١", "1²", "1\u00a0Gi", "1\x00", "1E5E", "one", "1" * 65,
    ],
)  # fmt: skip
def test_refuses_with_the_text_and_what_is_accepted(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(text)
    assert repr(text[:64]) in str(refusal.value)
    assert "accepted: a number with an optional suffix" in str(refusal.value)


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "1e30", "1e99", "-1e19", "10E", "9" * 64])
def test_refuses_what_64_bits_do_not_hold(text: str) -> None:
    with pytest.raises(QuantityError, match=r"out of range; accepted: .* up to 2\^63 - 1"):
        parse_quantity(text)


@given(NUMBERS, st.sampled_from(SUFFIXES))
@example("0.0000000000001", "n")
def test_agrees_with_the_official_client_up_to_rounding(number: str, suffix: str) -> None:
    exact = official(number + suffix) * 1000
    assume(abs(exact) < MAX_MILLI)
    milli = parse_quantity(number + suffix)
    # The official one counts in 28 digits: it may itself be off by one part in 10^27.
    assert 0 <= Decimal(milli) - exact < 1 + abs(exact) / 10**27


@given(AMOUNTS)
@example(0)
@example(MAX_MILLI)
@example(-1)
def test_formats_and_reads_back_the_same_amount(milli: int) -> None:
    assert parse_quantity(format_milli(milli)) == milli
    assert parse_quantity(format_bytes(milli)) == milli


@given(st.integers(min_value=0, max_value=2**40), st.sampled_from(["Ki", "Mi"]))
def test_bytes_keep_a_binary_suffix(count: int, suffix: str) -> None:
    text = format_bytes(parse_quantity(f"{count}{suffix}"))
    assert parse_quantity(text) == parse_quantity(f"{count}{suffix}")
    assert text == "0" or text.endswith("i")


@pytest.mark.parametrize(
    ("milli", "text"),
    [
        (0, "0"), (500, "500m"), (1000, "1"), (1_023_000, "1023"), (1_024_000, "1Ki"), (1_025_000, "1025"),
        (3 * 2**20 * 1000, "3Mi"), (1536 * 2**20 * 1000, "1536Mi"), (2**60 * 1000, "1Ei"), (-1_024_000, "-1Ki"),
        (1_024_001, "1024001m"),
    ],
)  # fmt: skip
def test_bytes_are_told_in_the_largest_unit_that_loses_nothing(milli: int, text: str) -> None:
    assert format_bytes(milli) == text


@given(st.text(max_size=70))
def test_any_text_is_an_amount_within_bounds_or_a_quantity_error(text: str) -> None:
    try:
        milli = parse_quantity(text)
    except QuantityError:
        return
    assert text.isascii()
    assert abs(milli) <= MAX_MILLI


@given(NUMBERS, NUMBERS, st.sampled_from(SUFFIXES))
def test_larger_texts_are_never_smaller_amounts(left: str, right: str, suffix: str) -> None:
    smaller, larger = sorted((left, right), key=lambda text: Decimal(text))
    try:
        assert parse_quantity(smaller + suffix) <= parse_quantity(larger + suffix)
    except QuantityError:
        assume(False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("100u", 1e-4), ("0.95", 0.95), ("950m", 0.95), ("1Ki", 1024.0), ("-5e3", -5000.0), ("1n", 1e-9)],
)
def test_exact_value_is_not_rounded_to_thousandths(text: str, value: float) -> None:
    assert exact_value(text) == value


@given(st.builds(str.__add__, NUMBERS, st.sampled_from(SUFFIXES)))
@example("24460492782532334Ei")
def test_exact_value_is_what_the_official_client_reads(text: str) -> None:
    # In its 28 digits the official one would round once more than float does.
    with localcontext(prec=60):
        assert exact_value(text) == float(official(text))


@pytest.mark.parametrize("text", ["", "NaN", "inf", "1 Ki", "1_0", "1" * 65])
def test_exact_value_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        exact_value(text)


@pytest.mark.parametrize(("value", "milli"), [("250m", 250), (3, 3000), ("much", None), (None, None), ([], None)])
def test_what_is_no_quantity_has_no_amount(value: object, milli: int | None) -> None:
    assert milli_or_none(value) == milli
