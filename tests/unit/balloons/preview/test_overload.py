"""From where a plan says that servers are overloaded."""

import pytest

from balloons.preview.overload import hurt_s, hurts, is_collapse
from tests.unit.balloons.preview.made_runs import moment, run


@pytest.mark.parametrize(
    ("load", "slower_by", "refused", "is_noticed"),
    [
        (0.949, 1.99, 0.00049, False),
        (0.95, 1.0, 0.0, True),
        (0.1, 2.0, 0.0, True),
        (0.1, 1.0, 0.0005, True),
    ],
)
def test_others_notice_full_servers_slow_ones_and_refusals(
    load: float, slower_by: float, refused: float, is_noticed: bool
) -> None:
    assert hurts(load, slower_by, refused) is is_noticed


def test_a_collapse_is_more_than_one_refusal_in_a_hundred_requests() -> None:
    assert (is_collapse(0.01), is_collapse(0.0101)) == (False, True)


def test_seconds_count_from_the_demand_on_and_by_the_moment_that_ends_them() -> None:
    """Idle servers take 10 ms."""
    moments = [
        moment(-10.0),
        moment(0.0, utilisation=1.0),
        moment(10.0, utilisation=0.95),
        moment(30.0, latency_s=0.0199),
        moment(35.0, latency_s=0.02),
    ]
    assert hurt_s(run(*moments)) == 10.0 + 5.0
