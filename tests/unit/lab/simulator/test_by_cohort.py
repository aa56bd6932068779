"""The simulation by cohort as a whole: deterministic, complete, and honest about faults."""

from dataclasses import replace

import pytest

from lab.simulator import by_cohort
from lab.simulator.by_cohort import simulate
from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.pacing_policies import AtOnce, FixedWindow, Permit
from throttler.simulator.scenario_and_faults import Blindness, ScaleUp, Scenario, ServerLoss

pytestmark = pytest.mark.whole

CALM = Scenario(
    name="calm", demands=(ScaleUp(at_s=0.0, nodes=40),), servers=2, capacity=8, boot_s=30, lead_s=60, scrape_noise=0.0
)


class Watching(FixedWindow):
    """Keeps everything that it is shown."""

    def __init__(self, window: float) -> None:
        super().__init__(window)
        self.seen: list[tuple[Signals, Joins, float]] = []

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        self.seen.append((signals, joins, now_s))
        return super().step(signals, joins, now_s)


def test_equal_seeds_give_equal_results() -> None:
    assert simulate(CALM, FixedWindow(10), 3) == simulate(CALM, FixedWindow(10), 3)


def test_every_node_becomes_usable_once() -> None:
    found = simulate(CALM, AtOnce(), 1)
    assert len(found.usable_s) == 40
    assert list(found.usable_s) == sorted(found.usable_s)
    assert found.done_s == found.usable_s[-1]


def test_a_join_alone_takes_as_long_as_its_longest_lane() -> None:
    found = simulate(CALM, FixedWindow(1e9), 1)
    assert found.errors == 0
    assert found.usable_s[0] > 60
    assert found.done_s is not None
    assert found.done_s < 150


def test_a_window_is_kept() -> None:
    policy = Watching(5)
    simulate(CALM, policy, 1)
    assert max(joins.joining for _, joins, _ in policy.seen) == 5


def test_without_a_gate_machines_join_when_they_have_booted() -> None:
    policy = Watching(1e9)
    simulate(replace(CALM, has_gate=False), policy, 1)
    assert max(joins.held for _, joins, _ in policy.seen) == 0
    assert policy.seen[-1][1].joined > 0


def test_a_herd_is_refused_and_finishes_all_the_same() -> None:
    herd = replace(CALM, demands=(ScaleUp(at_s=0.0, nodes=400),), capacity=3)
    found = simulate(herd, AtOnce(), 1)
    assert found.error_share > 0.05
    assert len(found.usable_s) == 400


def test_large_scenarios_lose_nobody_in_their_cohorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cohorts of three joins, and one of two."""
    monkeypatch.setattr(by_cohort, "COHORTS", 500)
    many = replace(CALM, demands=(ScaleUp(at_s=0.0, nodes=1_403),), capacity=28, seats_per_capacity=4)
    found = simulate(many, FixedWindow(1_400), 1)
    assert len(found.usable_s) == 1_403


def test_frozen_metrics_bring_no_new_windows() -> None:
    policy = Watching(2)
    simulate(replace(CALM, scrape_missing=0.0, faults=(Blindness(at_s=50, for_s=60),)), policy, 1)
    (signals, _, now_s), *_ = [seen for seen in policy.seen if seen[2] >= 1000 + 105]
    assert all(now_s - reading.ended_s > 50 for reading in signals.readings)


def test_a_lost_server_is_silent_and_its_joins_go_on_elsewhere() -> None:
    policy = Watching(20)
    found = simulate(replace(CALM, faults=(ServerLoss(at_s=60, for_s=40, server=1),)), policy, 1)
    silent = {each.server for signals, _, _ in policy.seen for each in signals.silent}
    assert silent == {"server-1"}
    assert len(found.usable_s) == 40


@pytest.mark.parametrize("seed", [1, 2])
def test_bystanders_of_an_idle_cluster_wait_for_nothing(seed: int) -> None:
    found = simulate(CALM, FixedWindow(2), seed)
    assert 0.009 < found.bystander_p50_s < 0.012
    assert found.bystander_p99_s < 0.3
