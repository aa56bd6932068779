"""A run cut into waves, and which run stands for all: runs of a few moments, made by hand."""

from collections.abc import Sequence

import pytest

from balloons.preview.forecast import (
    NONE,
    THROTTLE,
    Band,
    Limit,
    PolicyError,
    Wave,
    binding,
    main_limit,
    policy_maker,
    typical_world,
    waves_of,
)
from tests.unit.balloons.preview.made_runs import forecast_of, moment, run
from tests.unit.balloons.preview.small_worlds import ROOMY, world
from throttler.simulator.pacing_policies import FixedRate, FixedWindow


@pytest.mark.parametrize(
    ("state", "limit"),
    [
        ({"waiting": 9}, Limit.REACTION),
        ({"waiting": 9, "booting": 1}, Limit.OWN_WINDOW),
        ({"waiting": 9, "ready": 1}, Limit.OWN_WINDOW),
        ({"waiting": 9, "booting": 1, "is_launch_bound": True}, Limit.LAUNCH_RATE),
        ({"booting": 1, "is_launch_bound": True}, Limit.BOOT),
        ({"booting": 6, "joining": 5}, Limit.BOOT),
        ({"booting": 5, "joining": 5}, Limit.JOIN),
        ({"joining": 1}, Limit.JOIN),
        ({"held": 1}, Limit.OWN_WINDOW),
        ({"held": 1, "joining": 1, "utilisation": 0.59}, Limit.OWN_WINDOW),
        ({"held": 1, "joining": 1, "utilisation": 0.6}, Limit.API_SERVERS),
        ({"held": 1, "utilisation": 0.6}, Limit.OWN_WINDOW),
        ({"joining": 1, "utilisation": 0.84}, Limit.JOIN),
        ({"joining": 1, "utilisation": 0.85}, Limit.API_SERVERS),
        ({"booting": 1, "utilisation": 0.85}, Limit.BOOT),
        ({"joining": 1, "utilisation": 0.85, "waiting": 9, "is_launch_bound": True}, Limit.API_SERVERS),
    ],
)
def test_what_binds_is_the_narrowest_place_that_nodes_wait_before(state: dict[str, float], limit: Limit) -> None:
    assert binding(moment(**state), moment(**state), world()) is limit


@pytest.mark.parametrize("is_scheduler_slower", [False, True])
def test_a_queue_for_pods_binds_while_it_lasts(is_scheduler_slower: bool) -> None:
    """Eight DaemonSets at 20 pods a second: 20 nodes wait for 8 s."""
    there = world(daemon_sets=8, pods_per_s=20.0, is_scheduler_slower=is_scheduler_slower)
    full, left = moment(joining=30, pods_queued=20), moment(joining=30, pods_queued=19)
    limit = Limit.SCHEDULER if is_scheduler_slower else Limit.CONTROLLER_MANAGER
    assert binding(full, full, there) is limit
    assert binding(full, left, there) is Limit.JOIN
    assert binding(left, full, there) is Limit.JOIN


def test_waves_begin_with_the_demand_and_count_who_became_ready_in_them() -> None:
    found = waves_of(
        run(
            moment(-5.0, booting=9),
            moment(0.0, waiting=10),
            moment(10.0, booting=10),
            moment(40.0, booting=8, joining=2),
            moment(70.0, joining=6, ready=4),
            moment(100.0, ready=10),
        ),
        world(),
    )
    assert found == (
        Wave(0.0, 10.0, 0, 0, Limit.REACTION),
        Wave(10.0, 70.0, 4, 4, Limit.BOOT),
        Wave(70.0, 100.0, 6, 10, Limit.JOIN),
    )
    assert [wave.seconds for wave in found] == [10.0, 60.0, 30.0]
    assert waves_of(run(moment(-5.0), moment(0.0)), world()) == ()


@pytest.mark.parametrize(
    ("held_s", "waves"),
    [
        (1.0, [(0.0, 51.0, 1, Limit.BOOT), (51.0, 100.0, 10, Limit.JOIN)]),
        (1.9, [(0.0, 51.9, 1, Limit.BOOT), (51.9, 100.0, 10, Limit.JOIN)]),
        (2.0, [(0.0, 50.0, 0, Limit.BOOT), (50.0, 52.0, 1, Limit.OWN_WINDOW), (52.0, 100.0, 10, Limit.JOIN)]),
    ],
)
def test_less_than_a_fiftieth_of_the_whole_is_no_wave_of_its_own(
    held_s: float, waves: list[tuple[float, float, int, Limit]]
) -> None:
    course = (
        moment(0.0, booting=10),
        moment(50.0, held=1, joining=9),
        moment(50.0 + held_s, joining=9, ready=1),
        moment(100.0, ready=10),
    )
    found = waves_of(run(*course), world())
    assert [(wave.from_s, wave.until_s, wave.ready, wave.limit) for wave in found] == waves


def test_a_short_beginning_goes_to_what_follows() -> None:
    found = waves_of(run(moment(0.0, waiting=10), moment(1.0, booting=10), moment(100.0, ready=10)), world())
    assert found == (Wave(0.0, 100.0, 10, 10, Limit.BOOT),)


def wave(seconds: float | None, limit: Limit) -> Wave:
    return Wave(0.0, seconds, 1, 1, limit)


@pytest.mark.parametrize(
    ("waves", "limit"),
    [
        ((), None),
        ((wave(30.0, Limit.BOOT), wave(50.0, Limit.JOIN), wave(30.0, Limit.BOOT)), Limit.BOOT),
        ((wave(30.0, Limit.BOOT), wave(70.0, Limit.JOIN), wave(30.0, Limit.BOOT)), Limit.JOIN),
        ((wave(900.0, Limit.BOOT), wave(None, Limit.CEILING)), Limit.CEILING),
    ],
)
def test_the_main_limit_binds_for_longest_in_all(waves: Sequence[Wave], limit: Limit | None) -> None:
    assert main_limit(waves) is limit
    assert wave(None, Limit.CEILING).seconds == 0.0


USUAL = run()


@pytest.mark.parametrize("end_s", [95.0, 105.0])
def test_a_world_is_as_unlike_the_others_as_its_end_its_load_and_its_wait(end_s: float) -> None:
    late, busy = run(done_s=end_s), run(moment(utilisation=0.05), moment(utilisation=0.2))
    slow = run(worst_latency_s=4 / 300)
    found = forecast_of(USUAL, late, busy, slow)
    assert [found.unlike(number) for number in range(4)] == pytest.approx([0.0, 1.0, 1.0, 1.0], abs=0.01)


def test_without_an_end_a_world_counts_as_one_of_twelve_hours() -> None:
    found = forecast_of(run(done_s=None), run(done_s=41_040.0), eta_s=Band(None, None, None))
    assert [found.unlike(number) for number in (0, 1)] == pytest.approx([0.0, 1.0])


def test_the_world_that_is_shown_is_close_to_what_all_policies_say() -> None:
    """The one that is best for one policy alone is far off for the other."""
    ends_s = ((100.0, 104.0, 110.0), (120.0, 104.0, 100.0))
    paced, unpaced = (forecast_of(*(run(done_s=end_s) for end_s in ends)) for ends in ends_s)
    assert typical_world([paced]) == 0
    assert typical_world([unpaced]) == 2
    assert typical_world([paced, unpaced]) == 1


def test_a_policy_is_named_with_its_rate_or_window() -> None:
    rate, window = policy_maker("rate=90", None)(ROOMY), policy_maker("window=1000000", None)(ROOMY)
    assert isinstance(rate, FixedRate)
    assert rate.per_s == 1.5
    assert isinstance(window, FixedWindow)
    assert window.window == 1e6
    assert policy_maker(NONE, None) is not policy_maker(THROTTLE, None)


@pytest.mark.parametrize(
    "name", ["rate=0", "rate=-1", "rate=nan", "rate=fast", "window=1000001", "window=", "rate", ""]
)
def test_what_is_no_rate_or_window_is_refused(name: str) -> None:
    with pytest.raises(PolicyError):
        policy_maker(name, None)
