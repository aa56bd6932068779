"""Where the connections of others lie, and how clients meet a refusal: the figures are those of the study."""

from pathlib import Path

import numpy as np
import pytest

from lab.simulator.request_arrivals import CLIENT, visitor_shares
from lab.simulator.request_server import LANES, REJECTION_WORK
from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.scenario_and_faults import ServerLoss

PAGE = (Path(__file__).parents[4] / "docs/simulator.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        f"costs {REJECTION_WORK} seat-seconds",
        f"start again after {CLIENT.restart_s:.0f} s more",
        f"comes back after {CLIENT.backoff_min_s:.0f} s, doubling to {CLIENT.backoff_max_s:.0f} s",
        f"to another within {CLIENT.reconnect_s:.0f}-{2 * CLIENT.reconnect_s:.0f} s",
        f"lists once within {CLIENT.relist_spread_s:.0f} s",
        f"come back to it over {CLIENT.return_s:.0f} s",
    ],
)
def test_the_simulators_page_says_its_figures(words: str) -> None:
    assert words in PAGE


def test_the_figures_that_the_page_says_in_words() -> None:
    """Repeated ten times, a quarter lists anew."""
    assert (CLIENT.retries, CLIENT.relist_share) == (10, 0.25)


def test_clients_of_all_kinds_give_an_attempt_up_within_a_minute() -> None:
    assert max(timeout_s for timeout_s, _ in LANES) == CLIENT.visitor_timeout_s == 60.0


def test_connections_stick_to_the_servers_that_were_there() -> None:
    scenario = plant(faults=(ServerLoss(at_s=10, for_s=10),))
    assert visitor_shares(scenario, 0.0) == [0.5, 0.5]
    assert visitor_shares(scenario, 15.0) == [0.0, 1.0]
    assert visitor_shares(scenario, 25.0)[0] < 0.05
    assert visitor_shares(scenario, 3000.0)[0] == pytest.approx(0.5, abs=0.01)


def test_no_server_up_means_no_shares() -> None:
    assert visitor_shares(plant(servers=1, faults=(ServerLoss(at_s=0, for_s=9),)), 5.0) == [0.0]


def test_connections_come_back_over_five_minutes() -> None:
    scenario = plant(faults=(ServerLoss(at_s=10, for_s=10),))
    back = visitor_shares(scenario, 20.0 + 300.0)
    stuck = 1 - np.exp(-1)
    assert back == pytest.approx([stuck / (1 + stuck), 1 / (1 + stuck)])
    assert visitor_shares(scenario, 20.0)[0] == pytest.approx(1e-6, rel=1e-3)


def test_connections_come_back_from_the_end_of_the_latest_loss() -> None:
    twice = plant(faults=(ServerLoss(at_s=10, for_s=10), ServerLoss(at_s=400, for_s=10)))
    once = plant(faults=(ServerLoss(at_s=400, for_s=10),))
    assert visitor_shares(twice, 450.0) == visitor_shares(once, 450.0)
    assert visitor_shares(once, 399.0) == [0.5, 0.5], "a loss that is to come is not known"
