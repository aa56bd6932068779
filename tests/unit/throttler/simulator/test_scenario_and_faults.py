"""Faults do to the API servers what the scenario says, when it says it."""

import pytest

from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.requests_and_machines import capacity
from throttler.simulator.scenario_and_faults import (
    Blindness,
    ErrorsOfOthers,
    Fault,
    FaultError,
    ListBurst,
    ScaleUp,
    Scenario,
    ServerLoss,
    Slowdown,
    SlowWebhook,
    burst_rate,
    fault_of,
    foreign_errors,
    is_blind,
    is_up,
    speed_factor,
    webhook_s,
)


def test_a_scenario_of_which_no_more_is_said_is_the_usual_cluster() -> None:
    usual = Scenario(
        name="usual", demands=(ScaleUp(at_s=0.0, nodes=300), ScaleUp(at_s=60.0, nodes=50)), servers=3, capacity=8
    )
    assert usual.nodes == 350
    assert usual.seats_per_capacity == 4.0
    assert (usual.boot_s, usual.boot_jitter, usual.boot_is_skewed) == (120.0, 0.1, False)
    assert (usual.nodes_before, usual.join_weight, usual.never_seen) == (0, 1.0, 0)
    assert (usual.background, usual.background_swing) == (0.25, 0.1)
    assert (usual.has_gate, usual.kill_timer_s, usual.limit_s) == (True, 15 * 60.0, 4 * 3600.0)
    assert all(is_up(usual, server, 0.0) for server in range(3))


def test_a_loss_takes_the_first_server_where_none_is_named() -> None:
    lossy = plant(faults=(fault_of("loss@0s+1m"),))
    assert [is_up(lossy, server, 30.0) for server in (0, 1)] == [False, True]


def test_faults_come_and_go() -> None:
    scenario = plant(faults=(ServerLoss(at_s=10, for_s=10, server=1), Slowdown(at_s=15, for_s=10, factor=0.5)))
    assert [is_up(scenario, 1, at_s) for at_s in (9.9, 10.0, 19.9, 20.0)] == [True, False, False, True]
    assert [capacity(scenario, 0, at_s) for at_s in (0.0, 15.0, 25.0)] == [8.0, 4.0, 8.0]
    assert [capacity(scenario, 1, at_s) for at_s in (0.0, 15.0, 22.0)] == [8.0, 0.0, 4.0]


def test_metrics_stand_still_from_the_beginning_of_a_blindness_until_its_end() -> None:
    blind = plant(faults=(Blindness(at_s=10, for_s=5),))
    assert [is_blind(blind, at_s) for at_s in (9.9, 10.0, 14.9, 15.0)] == [False, True, True, False]
    assert not is_blind(plant(faults=(Slowdown(at_s=0, for_s=99, factor=0.5),)), 5.0)


def test_two_slowdowns_at_once_multiply() -> None:
    twice = plant(faults=(Slowdown(at_s=0, for_s=20, factor=0.5), Slowdown(at_s=10, for_s=20, factor=0.4)))
    assert [speed_factor(twice, at_s) for at_s in (-0.1, 0.0, 10.0, 19.9, 20.0, 29.9, 30.0)] == [
        1.0,
        0.5,
        0.2,
        0.2,
        0.4,
        0.4,
        1.0,
    ]


def test_errors_of_others_are_counted_by_the_time_in_which_they_last() -> None:
    scenario = plant(
        faults=(
            ErrorsOfOthers(per_s=2.0, at_s=10.0, for_s=10.0),
            ErrorsOfOthers(per_s=3.0, at_s=0.0, for_s=100.0, server=1, looks_like_joins=False),
            ListBurst(at_s=0.0, for_s=100.0, per_s=9.0),
        )
    )
    assert foreign_errors(scenario, 0, 5.0, 15.0) == (10.0, 0.0)
    assert foreign_errors(scenario, 1, 15.0, 25.0) == (10.0, 30.0)
    assert foreign_errors(scenario, 0, 20.0, 30.0) == (0.0, 0.0)


def test_a_webhook_makes_a_mean_longer_for_the_part_in_which_it_is_slow() -> None:
    scenario = plant(faults=(SlowWebhook(seconds=4.0, at_s=10.0, for_s=5.0), SlowWebhook(seconds=1.0)))
    assert [webhook_s(scenario, from_s, from_s + 10.0) for from_s in (0.0, 5.0, 10.0, 15.0)] == [1.0, 3.0, 3.0, 1.0]


def test_a_burst_of_lists_counts_by_the_part_of_the_stretch_that_it_fills() -> None:
    bursting = plant(faults=(ListBurst(at_s=12.0, for_s=6.0, per_s=10.0), ListBurst(at_s=0.0, for_s=1.0, per_s=5.0)))
    assert [burst_rate(bursting, from_s) for from_s in (0.0, 5.0, 10.0, 15.0, 20.0)] == pytest.approx(
        [1.0, 0.0, 6.0, 6.0, 0.0]
    )
    assert burst_rate(plant(), 0.0) == 0.0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("loss@90s+3m", ServerLoss(at_s=90.0, for_s=180.0)),
        ("loss@0m+3m", ServerLoss(at_s=0.0, for_s=180.0)),
        ("loss@0+0.0h", ServerLoss(at_s=0.0, for_s=0.0)),
        ("blind@0+1m", Blindness(at_s=0.0, for_s=60.0)),
        ("slow@10s+20s=0.01", Slowdown(at_s=10.0, for_s=20.0, factor=0.01)),
        ("slow@10s+20s=1", Slowdown(at_s=10.0, for_s=20.0, factor=1.0)),
        ("lists@10s+20s=0.01", ListBurst(at_s=10.0, for_s=20.0, per_s=0.01)),
        ("lists@10s+20s=10000", ListBurst(at_s=10.0, for_s=20.0, per_s=10_000.0)),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert fault_of(text) == fault


@pytest.mark.parametrize(
    "text",
    ["loss", "loss@1m+1m=2", "slow@1m+1m", "slow@1m+1m=0", "slow@1m+1m=1.1", "lists@1m+1m=10001", "lists@1m+1m=0.001",
     "fire@1m+1m", "loss@1x+1m", "loss@1m+1.2.3s", "slow@1m+1m=1.2.3"],
)  # fmt: skip
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(FaultError, match="accepted"):
        fault_of(text)
