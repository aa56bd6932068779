from hypothesis import given, settings
from hypothesis import strategies as st

from throttler.joins.grants import KEPT_S, Grants, as_asked
from throttler.joins.joins import Joins

COUNTS = st.integers(0, 50)


def test_leave_stands_until_it_is_used() -> None:
    grants = Grants().and_also(8, 0.0)
    assert grants.looked(0, 60, 10.0).left == 8
    assert grants.looked(3, 57, 10.0).left == 5
    assert grants.looked(9, 51, 10.0).left == 0


def test_how_long_leave_waits_is_learned_from_the_oldest_that_is_used() -> None:
    grants = Grants().and_also(8, 0.0).and_also(4, 6.0).looked(9, 60, 9.0)
    assert grants.delay_s == 9.0
    assert grants.looked(9, 60, 12.0).delay_s == 9.0
    assert grants.looked(12, 60, 12.0).delay_s == 6.75
    assert as_asked(Joins(waiting=10), grants).order_s == 9.0


def test_leave_that_nobody_uses_ends() -> None:
    grants = Grants().and_also(5, 0.0).and_also(2, 10.0)
    assert grants.looked(0, 60, KEPT_S).left == 2


def test_there_is_no_leave_for_what_waits_no_more() -> None:
    assert Grants().and_also(8, 0.0).looked(0, 3, 1.0).left == 3


def test_the_law_takes_leave_for_asked() -> None:
    joins = as_asked(Joins(waiting=10, booting=2, joining=1), Grants().and_also(8, 0.0))
    assert (joins.waiting, joins.booting, joins.granted, joins.in_flight) == (2, 10, 8, 11)


@settings(deadline=None)
@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, st.floats(0, 20))))
def test_no_machine_is_granted_twice(ticks: list[tuple[int, int, int, float]]) -> None:
    grants, given, ordered, now_s = Grants(), 0, 0, 0.0
    for asked, used, waiting, seconds in ticks:
        now_s += seconds
        ordered += min(used, grants.left)
        grants = grants.looked(ordered, waiting, now_s)
        assert 0 <= grants.left <= waiting
        grants = grants.and_also(asked, now_s)
        given += asked
        assert grants.left + ordered <= given
        joins = as_asked(Joins(waiting=waiting), grants)
        assert joins.waiting >= 0
        assert joins.waiting + joins.booting == waiting
