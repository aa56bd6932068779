"""The grain by request: nothing is lost, equal seeds are equal, times and refusals are what the plant's rules say."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.simulator.by_request import simulate_requests
from lab.simulator.study_scenarios import TWELVE
from tests.unit.throttler.simulator.small_plants import Everything, Nobody, Truthful, Window, least_time_s, plant
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.scenario_and_faults import Blindness, Fault, ListBurst, ScaleUp, ServerLoss, Slowdown

pytestmark = pytest.mark.whole

A_SMALL = TWELVE[0]


def faults() -> st.SearchStrategy[Fault]:
    at_s, for_s = st.floats(0, 100), st.floats(5, 100)
    return st.one_of(
        st.builds(ServerLoss, at_s=at_s, for_s=for_s, server=st.integers(0, 1)),
        st.builds(Slowdown, at_s=at_s, for_s=for_s, factor=st.floats(0.2, 1)),
        st.builds(Blindness, at_s=at_s, for_s=for_s),
        st.builds(ListBurst, at_s=at_s, for_s=for_s, per_s=st.floats(0, 20)),
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.integers(1, 40),
    servers=st.integers(1, 3),
    capacity=st.floats(1.0, 6.0),
    seats=st.floats(0.6, 10.0),
    weight=st.floats(0.3, 5.0),
    has_gate=st.booleans(),
    hits=st.lists(faults(), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_every_request_ends_once_and_every_node_is_somewhere(
    nodes: int,
    servers: int,
    capacity: float,
    seats: float,
    weight: float,
    has_gate: bool,
    hits: list[Fault],
    seed: int,
) -> None:
    scenario = plant(
        nodes,
        servers=servers,
        capacity=capacity,
        seats_per_capacity=seats,
        join_weight=weight,
        has_gate=has_gate,
        background=0.2,
        limit_s=400.0,
        faults=tuple(hits),
    )
    result = simulate_requests(scenario, Everything(), seed)  # raises ConservationError itself
    assert 0 <= result.errors <= result.requests
    assert list(result.usable_s) == sorted(result.usable_s)
    assert (result.done_s is not None) == (len(result.usable_s) == nodes)


def test_equal_seeds_give_equal_results_and_others_do_not() -> None:
    scenario = plant(20, background=0.3)
    first, again, other = (simulate_requests(scenario, Everything(), seed) for seed in (7, 7, 8))
    assert first == again
    assert first.usable_s != other.usable_s


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_one_join_alone_takes_what_its_think_times_say(weight: float) -> None:
    scenario = plant(1, join_weight=weight)
    durations = []
    for seed in range(20):
        result = simulate_requests(scenario, Everything(), seed)
        assert result.done_s is not None
        durations.append(result.done_s - scenario.boot_s)
    lists_s = weight * 0.15  # a lane of an agent has one list; the kubelet's own, the longest, none
    assert sum(durations) / len(durations) == pytest.approx(JOIN.alone_s + lists_s, rel=0.05)
    assert min(durations) > 0.8 * JOIN.alone_s
    assert max(durations) < 1.25 * (JOIN.alone_s + 5 * lists_s)


@pytest.mark.parametrize("policy", [Everything(), Window(60)])
def test_a_scale_up_takes_at_least_its_work_over_the_capacity(policy: Everything | Window) -> None:
    scenario = plant(150, capacity=1.5, background=0.25)
    result = simulate_requests(scenario, policy, 1)
    assert result.done_s is not None
    assert result.done_s - scenario.boot_s >= 0.97 * least_time_s(scenario)


def test_utilisation_never_exceeds_the_capacity() -> None:
    result = simulate_requests(plant(100, capacity=2.0, background=0.3), Everything(), 3)
    assert max(moment.utilisation for moment in result.moments) == pytest.approx(1.0)


def test_nothing_is_refused_while_the_queue_is_short() -> None:
    result = simulate_requests(plant(60, capacity=4.0, background=0.25), Window(20), 1)
    assert result.errors == 0
    assert result.bystander_p99_s < 15.0


def test_bystanders_wait_while_a_herd_joins() -> None:
    scenario = plant(300, capacity=2.0, background=0.2)
    calm, herd = (simulate_requests(scenario, policy, 1) for policy in (Window(10), Everything()))
    assert calm.errors == 0
    assert herd.bystander_p99_s > 5 * calm.bystander_p99_s


def test_the_herd_collapses_in_the_small_scenario() -> None:
    result = simulate_requests(A_SMALL, Everything(), 1)
    assert result.error_share > 0.3  # the study: 48 % in the median scenario
    assert result.done_s is None or result.done_s > 900.0


def test_who_knows_the_capacity_is_clean_and_far_quicker_than_the_herd() -> None:
    result = simulate_requests(A_SMALL, Truthful(), 1)
    assert result.errors == 0
    assert result.done_s is not None
    assert result.done_s < 700.0


def test_a_machine_that_nobody_lets_in_is_lost_and_asked_for_again() -> None:
    scenario = plant(3, kill_timer_s=700.0, limit_s=1500.0)
    result = simulate_requests(scenario, Nobody(), 1)
    assert result.done_s is None
    assert result.lost == 6
    assert result.held_over_10min == 6
    assert {moment.waiting + moment.booting + moment.held for moment in result.moments if moment.at_s >= 0} == {3}


def test_a_lost_server_breaks_connections_without_an_error_answer() -> None:
    calm = plant(40, background=0.2)
    result = simulate_requests(plant(40, background=0.2, faults=(ServerLoss(at_s=30, for_s=60),)), Everything(), 1)
    assert result.done_s is not None
    assert result.errors == 0
    assert result.usable_s != simulate_requests(calm, Everything(), 1).usable_s


def test_lists_cost_more_in_a_larger_cluster() -> None:
    small, large = (plant(100, capacity=1.5, nodes_before=before) for before in (0, 5000))
    times = [simulate_requests(scenario, Window(50), 1).done_s for scenario in (small, large)]
    assert None not in times
    assert times[1] > 1.4 * times[0]  # 4.5 seat-seconds per join against 7.8


def test_demands_come_one_after_the_other() -> None:
    scenario = plant(0, demands=(ScaleUp(at_s=0.0, nodes=5), ScaleUp(at_s=600.0, nodes=5)))
    usable_s = simulate_requests(scenario, Everything(), 1).usable_s
    assert usable_s[4] < 200.0
    assert usable_s[5] > 600.0
