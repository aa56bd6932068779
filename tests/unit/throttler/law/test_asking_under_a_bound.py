"""What is asked for keeps to the user's pace, with a gate at the join as without one."""

import pytest

from tests.unit.throttler.law.looks import STEP_S, Loop
from throttler.joins.joins import Joins
from throttler.law.settings import LawSettings

MINUTES = 4


@pytest.mark.parametrize("has_gate", [True, False])
def test_asks_keep_to_the_users_pace_however_often_the_law_is_asked(*, has_gate: bool) -> None:
    settings = LawSettings(has_gate=has_gate, max_per_min=30.0, window_initial=40, boot_guess_s=60.0)
    loop = Loop(settings=settings)
    loop.calm(Joins(), times=10)
    asked = 0
    for second in range(60 * MINUTES):
        loop.now_s += 1.0 - STEP_S
        joined = min(asked, second // 2)
        joining = min(10, asked - joined)
        joins = Joins(
            waiting=5000,
            booting=asked - joined - joining,
            joining=joining,
            joined=joined,
            join_s=20.0,
            boot_s=60.0,
        )
        asked += loop.calm(joins).allowance
    assert 20 * MINUTES <= asked <= 30 * MINUTES + 10


@pytest.mark.parametrize("look_s", [2, 10, 14])
def test_an_autoscaler_that_looks_seldom_gets_the_whole_pace(look_s: int) -> None:
    """What may be ordered stands until it looks, and collects meanwhile."""
    settings = LawSettings(has_gate=False, max_per_min=60.0, window_initial=400, boot_guess_s=60.0)
    loop = Loop(settings=settings)
    loop.calm(Joins(), times=10)
    ordered = joined = 0
    for second in range(0, 60 * MINUTES, 2):
        loop.now_s += 2.0 - STEP_S
        joined = max(joined, ordered - 80)
        joins = Joins(waiting=5000, booting=ordered - joined, joined=joined, join_s=60.0, boot_s=60.0)
        allowed = loop.calm(joins).allowance
        if second % look_s == 0:
            ordered += allowed
    assert 50 * MINUTES <= ordered <= 60 * MINUTES + 15
