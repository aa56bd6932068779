"""Limits of a decision that are refused at the start."""

import pytest

from balloons.decide.settings import DecideSettings


@pytest.mark.parametrize("name", ["removed_share", "vanished_share"])
def test_a_share_is_above_nothing_and_at_most_all(name: str) -> None:
    """At 0 no balloon could ever be removed, and the first node that vanishes would freeze its pool."""
    DecideSettings(**{name: 1.0})
    for share in (0.0, 1.01, float("nan")):
        with pytest.raises(ValueError, match=f"{name} {share}: accepted are shares above 0 and up to 1"):
            DecideSettings(**{name: share})


@pytest.mark.parametrize("name", ["removal_period_s", "freeze_s", "stale_after_s", "reservation_s", "sweep_after_s"])
def test_no_limit_is_a_time_that_has_passed(name: str) -> None:
    DecideSettings(**{name: 0.0})
    for seconds in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=f"{name} {seconds}: accepted are seconds, 0 or more"):
            DecideSettings(**{name: seconds})
