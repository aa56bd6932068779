"""The fast grain against the truth: the same scenario, policy and seed, by cohort and by request.

What the law lives on agrees within 5 %: an oracle and a fixed window that keep the servers busy and not overloaded, in
all twelve scenarios. Of the largest only the end is run: the nodes that come before are there from the beginning.

What cannot be made to agree as well, honestly: a herd. There thousands of clients come back at the same instant after
the same Retry-After, and one queue that just empties or does not changes the whole run; by request itself the time then
moves by 10 % from seed to seed. A herd is held to a quarter of its time and a tenth of all requests refused, and it
must be told from a calm run at sight.
"""

from dataclasses import replace

import pytest

from lab.simulator.by_cohort import simulate
from lab.simulator.by_request import simulate_requests
from lab.simulator.result import Result
from lab.simulator.study_scenarios import TWELVE
from throttler.simulator.pacing_policies import AtOnce, FixedWindow, FullKnowledge, Oracle, Policy
from throttler.simulator.requests_and_machines import JOIN, join_cost, spare
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario

SEED = 1
NEAR_KNEE = 0.7
"""Of the joins in flight that would just fill the servers: nearer to it a window that cannot see falls over, and then
chance decides in both grains whether it gets up again."""
LAST_NODES = {"B": 1500, "C": 1200, "D": 1200, "E": 1000}
"""How many of a scenario's nodes are wanted in its run: it outlives every fault, and lists are at their longest."""


def shortened(scenario: Scenario) -> Scenario:
    """The end of a large demand; of a demand that is repeated, the first two."""
    wanted = LAST_NODES.get(scenario.name[0])
    if wanted is None:
        return replace(scenario, demands=scenario.demands[:2])
    before = scenario.nodes_before + scenario.nodes - wanted
    return replace(scenario, nodes_before=before, demands=(ScaleUp(at_s=0.0, nodes=wanted),))


SHORTENED = tuple(map(shortened, TWELVE))
HERDS = tuple(scenario for scenario in TWELVE if scenario.name[0] in "AI")


def knee(scenario: Scenario) -> float:
    free = spare(scenario, scenario.background, 0.0, 0.0)
    return JOIN.alone_s * free / join_cost(scenario, scenario.nodes / 2)


def policy(name: str, scenario: Scenario) -> Policy | Oracle:
    if name == "window":
        return FixedWindow(NEAR_KNEE * knee(scenario))
    return FullKnowledge(scenario) if name == "oracle" else AtOnce()


def both(name: str, scenario: Scenario) -> tuple[Result, Result]:
    by_cohort = simulate(scenario, policy(name, scenario), SEED)
    return by_cohort, simulate_requests(scenario, policy(name, scenario), SEED)


def assert_agree(by_cohort: Result, by_request: Result, *, times: float, error_shares: float) -> None:
    assert by_cohort.done_s is not None
    assert by_cohort.done_s == pytest.approx(by_request.done_s, rel=times)
    assert by_cohort.error_share == pytest.approx(by_request.error_share, abs=error_shares)


@pytest.mark.parametrize("scenario", SHORTENED, ids=lambda scenario: scenario.name)
def test_full_knowledge_goes_the_same_way_in_both(scenario: Scenario) -> None:
    by_cohort, by_request = both("oracle", scenario)
    assert_agree(by_cohort, by_request, times=0.05, error_shares=0.05)
    assert len(by_cohort.usable_s) == len(by_request.usable_s)
    middle = len(by_cohort.usable_s) // 2
    assert by_cohort.usable_s[middle] == pytest.approx(by_request.usable_s[middle], rel=0.05)


@pytest.mark.parametrize("scenario", SHORTENED, ids=lambda scenario: scenario.name)
def test_a_fixed_window_takes_the_same_time_in_both(scenario: Scenario) -> None:
    by_cohort, by_request = both("window", scenario)
    assert_agree(by_cohort, by_request, times=0.05, error_shares=0.05)
    assert len(by_cohort.usable_s) == len(by_request.usable_s)


@pytest.mark.parametrize("scenario", HERDS, ids=lambda scenario: scenario.name)
def test_a_herd_is_as_bad_in_both(scenario: Scenario) -> None:
    by_cohort, by_request = both("none", scenario)
    assert_agree(by_cohort, by_request, times=0.25, error_shares=0.1)
    assert min(by_cohort.error_share, by_request.error_share) > 0.2
