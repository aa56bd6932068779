"""What binds, in clusters that are made so that one thing does."""

from dataclasses import replace
from itertools import pairwise
from math import hypot
from statistics import NormalDist

import pytest

from balloons.preview.forecast import (
    NONE,
    THROTTLE,
    Band,
    Forecast,
    Limit,
    PolicyError,
    Wave,
    band,
    binding,
    forecast,
    look_spread,
    main_limit,
    policy_maker,
    time_band,
    typical_world,
)
from balloons.preview.inputs import PlanInputs, Stated, ThrottleFacts, assumed_inputs, with_stated
from balloons.preview.scale_up_flow import FlowMoment
from tests.unit.balloons.preview.small_worlds import world
from throttler.law.settings import LawSettings

ROOMY = Stated(boot=60, join=30, servers=3, server_cores=64, daemonsets=4, controller_qps=10_000, scheduler_qps=10_000)


def run(stated: Stated, nodes: int = 200, policy: str = NONE, throttle: ThrottleFacts | None = None) -> Forecast:
    inputs: PlanInputs = replace(with_stated(assumed_inputs(nodes=20), stated), throttle=throttle)
    return forecast(inputs, inputs.pools[0], nodes, policy_maker(policy, throttle))


def shown(found: Forecast) -> tuple[Wave, ...]:
    return found.waves_in(typical_world([found]))


def width(eta: Band) -> float:
    """Of the band, over its median."""
    low, middle, high = eta.low or 0.0, eta.median or 0.0, eta.high or 0.0
    assert 0 < low <= middle <= high
    return (high - low) / middle


@pytest.mark.whole
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
    assert main_limit(shown(found)) is limit


@pytest.mark.parametrize(("nodes", "limit"), [(19, Limit.JOIN), (20, Limit.CONTROLLER_MANAGER)])
def test_a_queue_for_pods_binds_by_the_time_that_it_takes_to_empty(nodes: int, limit: Limit) -> None:
    """Eight pods a node at 20 a second: 20 nodes wait 8 s."""
    moment = FlowMoment(
        at_s=0.0,
        waiting=0,
        booting=0,
        held=0,
        joining=nodes,
        ready=0,
        window=None,
        utilisation=0.1,
        latency_s=0.01,
        requests_per_s=1.0,
        pods_queued=nodes,
        is_launch_bound=False,
    )
    assert binding(moment, moment, world(daemon_sets=8, pods_per_s=20.0)) is limit


@pytest.mark.whole
def test_own_window_binds_while_it_learns() -> None:
    throttle = ThrottleFacts(name="all", settings=LawSettings(window_initial=4, window_max=4))
    found = run(ROOMY, policy=THROTTLE, throttle=throttle)
    assert main_limit(shown(found)) is Limit.OWN_WINDOW
    assert (found.eta_s.median or 0) > 10 * 60


@pytest.mark.whole
def test_waves_cover_the_run_and_count_every_node() -> None:
    waves = shown(run(ROOMY))
    assert waves[0].from_s == 0
    assert all(before.until_s == after.from_s for before, after in pairwise(waves))
    assert sum(wave.nodes for wave in waves) == 200
    assert waves[-1].ready == 200


@pytest.mark.whole
def test_figures_that_are_stated_make_a_narrow_band_and_assumed_ones_a_wide_one() -> None:
    stated = replace(ROOMY, boot_spread=0.1, reaction=5, background=0.2, join_cost=0.2)
    sure, unsure = run(stated).eta_s, run(Stated()).eta_s
    assert width(sure) < 0.3
    assert width(unsure) > 0.25


def test_band_of_worlds_that_agree_is_what_no_world_draws_and_whole_seconds() -> None:
    short = time_band([1.0] * 9)
    assert (short.low, short.high) == (pytest.approx(0.51, abs=0.01), pytest.approx(1.49, abs=0.01))
    long = time_band([100.0] * 9)
    assert (long.low, long.high) == (pytest.approx(88.5, abs=0.1), pytest.approx(111.5, abs=0.1))
    assert time_band([0.1] * 3).low == 0.0


@pytest.mark.parametrize("worlds", [3, 5, 9])
def test_few_worlds_tell_the_same_band_as_many(worlds: int) -> None:
    """Ends that are normal, drawn as the worlds are: each part of the distribution once."""
    draws = [NormalDist().inv_cdf((index + 0.5) / worlds) for index in range(worlds)]
    found = time_band([1000.0 + 300.0 * draw for draw in draws])
    reach_s = 1.645 * hypot(300.0, 70.0)
    assert found.median == 1000.0
    assert found.low == pytest.approx(1000.0 - reach_s, rel=0.05)
    assert found.high == pytest.approx(1000.0 + reach_s, rel=0.05)


def test_a_band_with_worlds_that_do_not_end_has_no_end() -> None:
    assert time_band([90.0, 100.0, None]).high is None
    assert time_band([None, None, 90.0]).median is None
    assert time_band([None, None, None]) == Band(None, None, None)


def test_band_of_runs_that_do_not_end_is_open() -> None:
    assert band([10.0, 20.0, None]).median == 20.0
    assert band([10.0, 20.0, None]).high is None
    assert band([None, None, 20.0]).median is None


def test_unknown_policy_says_what_is_accepted() -> None:
    with pytest.raises(PolicyError, match="'fast' is not accepted; accepted: throttle, none"):
        policy_maker("fast", None)


def test_waves_that_wait_for_looks_widen_the_band() -> None:
    """A small window with quick boots waits for looks nearly all the time; slow boots, or none that waits, do not."""
    throttle = ThrottleFacts(name="all", settings=LawSettings(window_initial=10, window_max=10, has_gate=False))
    given = with_stated(assumed_inputs(nodes=20), Stated(join=1))
    given = replace(given, throttle=throttle)
    quick, slow = (replace(given.pools[0], boot_s=given.pools[0].boot_s.but(boot_s)) for boot_s in (9.0, 300.0))
    spreads = [
        look_spread(found.run, found.worlds[found.runs.index(found.run)])
        for found in (
            forecast(given, quick, 50, policy_maker("throttle", throttle)),
            forecast(given, slow, 50, policy_maker("throttle", throttle)),
            forecast(given, quick, 50, policy_maker("none", None)),
        )
    ]
    assert 0.1 < spreads[0] < 0.29
    assert spreads[1] < 0.02
    assert spreads[2] < 0.05
    narrow, wide = time_band([50.0, 60.0, 70.0]), time_band([50.0, 60.0, 70.0], spreads[0])
    assert (wide.high or 0) - 60.0 > 1.1 * ((narrow.high or 0) - 60.0)
