"""In whose name is written: labels that fit, and epochs that can be read."""

import pytest

from throttler.levers.lever import EPOCH_ANNOTATION, HOLDER_ANNOTATION, Holder, epoch_of


@pytest.mark.parametrize(
    ("text", "epoch"),
    [("7", 7), ("9" * 18, 10**18 - 1), ("9" * 19, 0), ("", 0), ("-1", 0), ("1.5", 0), ("\u00b2", 0), ("\u0663", 0)],
)
def test_an_epoch_that_cannot_be_read_is_none(text: str, epoch: int) -> None:
    assert epoch_of({EPOCH_ANNOTATION: text}) == epoch
    assert epoch_of({}) == 0


@pytest.mark.parametrize("length", [1, 63, 64, 253])
def test_a_name_that_is_too_long_for_a_label_is_cut_and_told_apart(length: int) -> None:
    one, other = Holder(throttle="x" * length), Holder(throttle="x" * (length - 1) + "y")
    assert len(one.label) == min(length, 63)
    assert one.label != other.label
    assert (one.label == one.throttle) is (length <= 63)


def test_a_change_says_who_keeps_it_in_force() -> None:
    holder = Holder(throttle="a", lease="n/l", epoch=3)
    assert holder.annotations == {HOLDER_ANNOTATION: "n/l", EPOCH_ANNOTATION: "3"}
