"""The plant's figures are those of the study, and its weather does what the scenario says."""

import numpy as np
import pytest

from lab.simulator.scenarios import TWELVE, random_scenario
from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.plant import (
    JOIN,
    LIST,
    SERVER,
    SMALL,
    Streams,
    background_levels,
    burst_rate,
    capacity,
    is_up,
    spare,
    visitor_shares,
)
from throttler.simulator.scenario import ListBurst, ServerLoss, Slowdown


def test_a_join_is_the_train_of_the_study() -> None:
    steps = list(JOIN.steps)
    assert (len(JOIN.lanes), len(steps), sum(step.kind is LIST for step in steps)) == (8, 135, 11)
    assert LIST.cost_at(0) == pytest.approx(0.3)
    assert LIST.cost_at(5000) == pytest.approx(0.6)
    assert SMALL.cost_at(5000) == 0.010
    assert 60.0 <= JOIN.alone_s <= 90.0
    assert JOIN.cost_at(0) == pytest.approx(11 * 0.3 + 124 * 0.010)


def test_a_full_queue_drags_and_a_short_one_does_not() -> None:
    assert SERVER.drag(0.0) == 1.0
    assert SERVER.drag(0.1) < 1.01
    assert SERVER.drag(1.0) == 2.5
    assert SERVER.speed(3, 4.0, 0.0) == 1.0
    assert SERVER.speed(16, 4.0, 0.0) == 0.25
    assert SERVER.speed(16, 4.0, 1.0) == pytest.approx(0.1)


def test_the_twelve_are_all_there() -> None:
    assert "".join(scenario.name[0] for scenario in TWELVE) == "ABCDEFGHIJKM"
    assert [scenario.nodes for scenario in TWELVE] == [
        500,
        7500,
        2000,
        2000,
        2000,
        1500,
        500,
        1000,
        1000,
        300,
        1000,
        1000,
    ]


def test_weather_comes_and_goes() -> None:
    scenario = plant(disturbances=(ServerLoss(at_s=10, for_s=10, server=1), Slowdown(at_s=15, for_s=10, factor=0.5)))
    assert [is_up(scenario, 1, at_s) for at_s in (9.9, 10.0, 19.9, 20.0)] == [True, False, False, True]
    assert [capacity(scenario, 0, at_s) for at_s in (0.0, 15.0, 25.0)] == [8.0, 4.0, 8.0]
    assert [capacity(scenario, 1, at_s) for at_s in (0.0, 15.0, 22.0)] == [8.0, 0.0, 4.0]


def test_spare_is_what_others_leave() -> None:
    assert spare(plant(background=0.25), 0.25, 0, 0.0) == pytest.approx(12.0)
    assert spare(plant(background=0.25), 0.25, 1000, 0.0) == pytest.approx(12.0 - 1.5)
    assert spare(plant(seats_per_capacity=0.5), 0.25, 0, 0.0) == pytest.approx(4.0)
    bursting = plant(disturbances=(ListBurst(at_s=0, for_s=60, per_s=10),))
    assert spare(bursting, 0.25, 0, 0.0) == pytest.approx(12.0 - 3.0)
    assert burst_rate(bursting, 57.5) == 5.0


def test_connections_stick_to_the_servers_that_were_there() -> None:
    scenario = plant(disturbances=(ServerLoss(at_s=10, for_s=10),))
    assert visitor_shares(scenario, 0.0) == [0.5, 0.5]
    assert visitor_shares(scenario, 15.0) == [0.0, 1.0]
    assert visitor_shares(scenario, 25.0)[0] < 0.05
    assert visitor_shares(scenario, 3000.0)[0] == pytest.approx(0.5, abs=0.01)


def test_no_server_up_means_no_shares() -> None:
    assert visitor_shares(plant(servers=1, disturbances=(ServerLoss(at_s=0, for_s=9),)), 5.0) == [0.0]


def test_the_background_swings_around_its_mean() -> None:
    levels = background_levels(plant(background=0.3, background_swing=0.2, limit_s=200_000.0), np.random.default_rng(1))
    assert levels.mean() == pytest.approx(0.3, rel=0.02)
    assert levels.std() == pytest.approx(0.06, rel=0.05)
    assert np.corrcoef(levels[:-12], levels[12:])[0, 1] == pytest.approx(np.exp(-1), abs=0.06)


def test_streams_are_equal_per_seed_and_apart_from_each_other() -> None:
    first, again = Streams.of(5), Streams.of(5)
    assert first.boots.random(3).tolist() == again.boots.random(3).tolist()
    assert first.scrapes.random() != first.background.random()


def test_random_scenarios_are_repeatable_wide_and_bearable() -> None:
    many = [random_scenario(seed) for seed in range(200)]
    assert many[3] == random_scenario(3)
    assert {scenario.servers for scenario in many} == set(range(1, 8))
    assert {scenario.has_gate for scenario in many} == {True, False}
    assert min(scenario.boot_s for scenario in many) < 25 < 500 < max(scenario.boot_s for scenario in many)
    assert min(scenario.nodes for scenario in many) < 80 < 2000 < max(scenario.nodes for scenario in many)
    for scenario in many:
        assert spare(scenario, scenario.background, scenario.nodes, 0.0) > 0.0
        assert scenario.seats_per_capacity * scenario.capacity >= 2.99
