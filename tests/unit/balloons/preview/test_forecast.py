"""What binds, in clusters that are made so that one thing does."""

from dataclasses import replace
from itertools import pairwise

import pytest

from balloons.preview.forecast import (
    NONE,
    THROTTLE,
    Band,
    Forecast,
    Limit,
    PolicyError,
    band,
    forecast,
    main_limit,
    policy_maker,
    told,
)
from balloons.preview.inputs import PlanInputs, ThrottleFacts, assumed_inputs
from balloons.preview.what_if import Stated, with_stated
from throttler.law.settings import LawSettings

ROOMY = Stated(boot=60, join=30, servers=3, server_cores=64, daemonsets=4, controller_qps=10_000, scheduler_qps=10_000)


def run(stated: Stated, nodes: int = 200, policy: str = NONE, throttle: ThrottleFacts | None = None) -> Forecast:
    inputs: PlanInputs = replace(with_stated(assumed_inputs(nodes=20), stated), throttle=throttle)
    return forecast(inputs, inputs.pools[0], nodes, policy_maker(policy, throttle))


def width(eta: Band) -> float:
    """Of the band, over its median."""
    low, middle, high = eta.low or 0.0, eta.median or 0.0, eta.high or 0.0
    assert 0 < low <= middle <= high
    return (high - low) / middle


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"boot": 400}, Limit.BOOT),
        ({"join": 300}, Limit.JOIN),
        ({"controller_qps": 4}, Limit.CONTROLLER_MANAGER),
        ({"scheduler_qps": 4}, Limit.SCHEDULER),
        ({"launch_rate": 0.5}, Limit.LAUNCH_RATE),
        ({"servers": 1, "server_cores": 1, "join_cost": 3}, Limit.API_SERVERS),
    ],
)
def test_names_what_binds(changes: dict[str, float], limit: Limit) -> None:
    found = run(replace(ROOMY, **changes))
    assert main_limit(found.waves) is limit


def test_own_window_binds_while_it_learns() -> None:
    throttle = ThrottleFacts(name="all", settings=LawSettings(window_initial=4, window_max=4))
    found = run(ROOMY, policy=THROTTLE, throttle=throttle)
    assert main_limit(found.waves) is Limit.OWN_WINDOW
    assert (found.eta_s.median or 0) > 10 * 60


def test_waves_cover_the_run_and_count_every_node() -> None:
    waves = run(ROOMY).waves
    assert waves[0].from_s == 0
    assert all(before.until_s == after.from_s for before, after in pairwise(waves))
    assert sum(wave.nodes for wave in waves) == 200
    assert waves[-1].ready == 200


def test_figures_that_are_stated_make_a_narrow_band_and_assumed_ones_a_wide_one() -> None:
    stated = replace(ROOMY, boot_spread=0.1, reaction=5, background=0.2, join_cost=0.2)
    sure, unsure = run(stated).eta_s, run(Stated()).eta_s
    assert width(sure) < 0.17
    assert width(unsure) > 0.25


def test_band_says_what_timestamps_will_say() -> None:
    """Whole seconds: half a second either way, which only a sure and short plan shows."""
    sure = told(Band(100.0, 100.0, 100.0))
    assert (sure.low, sure.high) == (pytest.approx(99.5, abs=0.05), pytest.approx(100.5, abs=0.05))
    wide = told(Band(100.0, 60.0, 150.0))
    assert (wide.low, wide.high) == (pytest.approx(60, abs=0.01), pytest.approx(150, abs=0.01))
    assert told(Band(100.0, 90.0, None)).high is None
    assert told(Band(None, None, None)) == Band(None, None, None)
    assert told(Band(0.1, 0.1, 0.1)).low == 0.0


def test_band_of_runs_that_do_not_end_is_open() -> None:
    assert band([10.0, 20.0, None]).median == 20.0
    assert band([10.0, 20.0, None]).high is None
    assert band([None, None, 20.0]).median is None


def test_unknown_policy_says_what_is_accepted() -> None:
    with pytest.raises(PolicyError, match="'fast' is not accepted; accepted: throttle, none"):
        policy_maker("fast", None)
