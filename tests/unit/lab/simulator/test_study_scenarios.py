"""The twelve scenarios of the study, and random ones."""

from lab.simulator.study_scenarios import TWELVE, random_scenario
from throttler.simulator.requests_and_machines import spare


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
