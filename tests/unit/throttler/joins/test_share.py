from throttler.joins.share import fair_shares


def test_shares_are_max_min_fair() -> None:
    assert fair_shares(10, {"a": 2, "b": 7, "c": 9}) == {"a": 2, "b": 4, "c": 4}
    assert fair_shares(2, {"b": 5, "a": 5, "c": 5}) == {"a": 1, "b": 1, "c": 0}
    assert fair_shares(50, {"a": 2, "b": 0}) == {"a": 2, "b": 0}


def test_what_does_not_divide_goes_to_those_whose_turn_it_is() -> None:
    assert fair_shares(4, {"a": 5, "b": 5, "c": 5}, ("c", "a", "b")) == {"c": 2, "a": 1, "b": 1}
