"""Machines that never register: as many more are asked for, so that the others go on joining."""

import pytest

from tests.unit.throttler.law.steady_plant import Plant
from throttler.joins.joins import Joins
from throttler.law.join_model import JoinFlow, with_counts

RAMP_S, END_S = 900.0, 1500.0


def joined_after_the_ramp(never_register: float) -> int:
    """Of machines without end, on servers that bear 200 joins at a time."""

    def joined(limit_s: float) -> int:
        return Plant(demand=8000, window_max=200.0, never_register=never_register).run(limit_s).joined

    return joined(END_S) - joined(RAMP_S)


@pytest.mark.whole
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_growth_goes_on_at_half_of_what_it_does_when_all_register(share: float) -> None:
    assert joined_after_the_ramp(share) >= 0.5 * joined_after_the_ramp(0.0)


def lost(*counts: tuple[int, int]) -> JoinFlow:
    """After looks ten seconds apart: joined and lost so far."""
    flow = JoinFlow()
    for number, (joined, gone) in enumerate(counts):
        flow = with_counts(flow, Joins(joined=joined, lost=gone, booting=50), 10.0 * number)
    return flow


def test_losses_of_before_and_a_few_say_little() -> None:
    assert JoinFlow().coming_share == 1.0
    assert lost((0, 90), (40, 90)).coming_share == 1.0
    assert lost((0, 0), (0, 1)).coming_share == 0.75


def test_however_many_are_lost_no_more_than_three_times_as_many_are_asked_for() -> None:
    assert lost((0, 0), (17, 20)).coming_share == 0.5
    assert lost((0, 0), (0, 500)).coming_share == 0.3


def test_machines_that_were_given_up_never_arrived() -> None:
    assert lost((0, 0), (10, 20)).arrived() == ((10.0, 10),)
