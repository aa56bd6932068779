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
from balloons.preview.join_progress import REQUESTS
from balloons.preview.scale_up_run import Flow, FlowMoment
from tests.unit.balloons.preview import made_runs
from tests.unit.balloons.preview.made_runs import moment
from tests.unit.balloons.preview.small_worlds import ROOMY as SCENARIO
from tests.unit.balloons.preview.small_worlds import world
from throttler.law.settings import LawSettings
from throttler.simulator.pacing_policies import AimdOnErrors, AimdOnWindow, AtOnce, FullKnowledge, Gradient2, LawPolicy

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


@pytest.mark.whole
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


HURTING = made_runs.run(
    moment(-5.0, booting=9, utilisation=1.0, latency_s=9.0, requests_per_s=1.0),
    moment(0.0, waiting=10, utilisation=0.2, requests_per_s=5.0),
    moment(10.0, booting=8, held=2, utilisation=0.5, requests_per_s=20.0),
    moment(50.0, joining=10, utilisation=0.95, requests_per_s=30.0),
    moment(100.0, ready=10, utilisation=0.3, latency_s=0.02),
    done_s=100.0,
    usable_s=((60.0, 4), (100.0, 6)),
    worst_latency_s=0.03,
    error_share=0.002,
)
"""Others notice from 10 s to 50 s by the load and then by the latency."""
CALM = made_runs.run(
    moment(0.0),
    moment(70.0, utilisation=0.949, latency_s=0.0199, requests_per_s=10.0),
    moment(120.0, ready=10),
    done_s=120.0,
    usable_s=((70.0, 10),),
    lost=3,
)
ENDLESS = made_runs.run(
    moment(0.0), moment(30.0, utilisation=0.7, latency_s=0.02, requests_per_s=50.0), moment(40.0), done_s=None, lost=9
)


def forecast_of(monkeypatch: pytest.MonkeyPatch, *runs: Flow, weight: float = 1.0) -> Forecast:
    """The forecast in as many worlds, whose runs are known."""
    made = [world(seed=seed) for seed in range(len(runs))]
    monkeypatch.setattr("balloons.preview.forecast.worlds", lambda *_: made)
    monkeypatch.setattr("balloons.preview.forecast.flow", lambda there, _: runs[there.seed])
    given = assumed_inputs()
    requests = given.servers.requests_per_join.but(weight * REQUESTS)
    given = replace(given, servers=replace(given.servers, requests_per_join=requests))
    return forecast(given, given.pools[0], 10, policy_maker(NONE, None))


def test_a_forecast_tells_the_median_of_its_worlds_and_what_is_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    found = forecast_of(monkeypatch, HURTING, ENDLESS, CALM, weight=2.0)
    assert (found.run, found.nodes, found.eta_s.median, found.eta_s.high) == (CALM, 10, 120.0, None)
    assert (found.first_s.median, found.first_s.high) == (70.0, None), "of one no node ever came"
    assert (found.lost.median, found.error_share, found.slower_by, found.slower_by_high) == (3.0, 0.0, 1.0, 3.0)
    assert (found.hurt_s, found.hurt_share) == (30.0, 2 / 3)
    assert (found.peak_requests_per_s, found.peak_utilisation) == (2 * 30.0, 0.949)


@pytest.mark.parametrize(("run", "hurt_s"), [(HURTING, 90.0), (CALM, 0.0), (ENDLESS, 30.0)])
def test_others_notice_servers_that_are_full_or_twice_as_slow_since_the_demand(
    monkeypatch: pytest.MonkeyPatch, run: Flow, hurt_s: float
) -> None:
    assert forecast_of(monkeypatch, run).hurt_s == hurt_s


def test_what_is_paid_for_before_it_is_usable_is_counted_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine for 5 s, ten for 40 s while they boot or are held, and ten for 50 s while they join."""
    assert forecast_of(monkeypatch, HURTING).node_seconds == 9 * 5 + 10 * 40 + 10 * 50


@pytest.mark.parametrize(("ends_s", "shown_s"), [((3.0, 1.0), 1.0), ((3.0, 1.0, 2.0), 2.0), ((None, 5.0, None), None)])
def test_the_run_that_is_shown_is_the_median_one(
    monkeypatch: pytest.MonkeyPatch, ends_s: tuple[float | None, ...], shown_s: float | None
) -> None:
    runs = [made_runs.run(done_s=end_s) for end_s in ends_s]
    assert forecast_of(monkeypatch, *runs).run.done_s == shown_s


@pytest.mark.parametrize(("error_share", "is_collapse"), [(0.01, False), (0.0101, True)])
def test_servers_that_refuse_more_than_a_hundredth_are_in_collapse(
    monkeypatch: pytest.MonkeyPatch, error_share: float, *, is_collapse: bool
) -> None:
    assert forecast_of(monkeypatch, replace(CALM, error_share=error_share)).is_collapse is is_collapse


WAITING = (
    moment(-20.0, waiting=9),
    moment(0.0, waiting=9),
    moment(30.0, waiting=9, booting=1),
    moment(50.0, waiting=5, is_launch_bound=True),
    moment(70.0, waiting=1),
    moment(100.0, ready=10),
)
"""From 0 to 50 s less the 20 s in which the cloud is what holds it back, and 20 s more."""


@pytest.mark.parametrize(
    ("changes", "done_s", "spread"),
    [
        ({}, 100.0, 0.5 * 0.2),
        ({}, 200.0, 0.25 * 0.2),
        ({}, 25.0, 0.2),
        ({}, None, 0.0),
        ({"has_gate": True}, 100.0, 0.0),
    ],
)
def test_what_waits_for_looks_spreads_by_what_a_look_is_of_a_round(
    changes: dict[str, bool], done_s: float | None, spread: float
) -> None:
    """A wave boots 4 s, joins 4 s, and waits 2 s more or less for its look: a look every 2 x sqrt(12) s."""
    scenario = replace(SCENARIO, boot_s=4.0, **{"has_gate": False, **changes})
    there = world(scenario, join_s=4.0, look_s=2 * 12**0.5)
    assert look_spread(made_runs.run(*WAITING, done_s=done_s), there) == pytest.approx(spread)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", AtOnce),
        ("oracle", FullKnowledge),
        ("gradient2", Gradient2),
        ("aimd", AimdOnWindow),
        ("aimd-429", AimdOnErrors),
        ("throttle", LawPolicy),
    ],
)
def test_every_policy_goes_by_its_name(name: str, kind: type) -> None:
    assert isinstance(policy_maker(name, None)(SCENARIO), kind)
