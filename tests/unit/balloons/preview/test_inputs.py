"""What a plan assumes where nothing is known: guesses are uncertain, defaults of programs are not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.preview import inputs
from balloons.preview.inputs import Known, Source, assumed_inputs, daemon_share, join_cpu_s, requests_per_join


@pytest.mark.parametrize(
    "guess", [inputs.BOOT_S, inputs.JOIN_S, inputs.CORES, inputs.BACKGROUND, inputs.REACTION_S, join_cpu_s(6)]
)
def test_a_guess_may_well_be_off_by_a_third(guess: Known) -> None:
    assert 1.2 < guess.at(1.0) / guess.value < 1.6


@pytest.mark.parametrize(
    "default",
    [
        inputs.SERVERS,
        inputs.DAEMON_SETS,
        inputs.PODS_PER_S,
        inputs.BURST,
        inputs.BINDS_PER_S,
        inputs.KILL_TIMER_S,
    ],
)
def test_the_default_of_a_program_is_what_it_is(default: Known) -> None:
    assert default.at(2.0) == default.at(-2.0) == default.value


def test_defaults_are_those_of_the_programs() -> None:
    """kube-controller-manager's --kube-api-qps and --kube-api-burst, the scheduler's, and both autoscalers' timer."""
    defaults = inputs.PODS_PER_S, inputs.BURST, inputs.BINDS_PER_S, inputs.KILL_TIMER_S, inputs.LOOK_S
    assert [default.value for default in defaults] == [20, 30, 50, 900, 10]


def test_guesses_are_what_is_usual() -> None:
    guesses = inputs.BOOT_S, inputs.JOIN_S, inputs.DAEMON_SETS, inputs.REACTION_S, inputs.STATUS_WRITES
    assert [guess.value for guess in guesses] == [120, 60, 6, 10, 6]
    assert (inputs.SERVERS.value, inputs.CORES.value, inputs.BACKGROUND.value) == (2, 4, 0.25)


def test_a_join_costs_what_it_cost_on_a_real_server() -> None:
    """0.27 core-seconds each with eight DaemonSets, of which two thirds came with their pods."""
    assert join_cpu_s(8).value == pytest.approx(0.27, abs=0.01)
    assert daemon_share(8) == pytest.approx(0.67, abs=0.01)


def test_an_autoscaler_looks_nearly_as_often_as_its_default_says() -> None:
    """Cluster-autoscaler takes its time between two scans besides; Karpenter puts each pod back for exactly so long."""
    assert inputs.LOOK_S.at(1.0) == pytest.approx(11.0, abs=0.1)
    assert inputs.KARPENTERS_LOOK_S.at(1.0) == 10.0


def test_what_was_measured_is_surer_than_a_guess_and_less_sure_than_what_is_stated() -> None:
    stated, learned, assumed = Known.stated(5.0, "--x"), Known.learned(5.0, "4 nodes"), Known.assumed(5.0, "usual")
    assert [known.source for known in (stated, learned, assumed)] == list(Source)
    assert [known.at(1.0) for known in (stated, learned, assumed)] == pytest.approx([5.0, 5.256, 6.107], rel=1e-3)
    certain = [Known.learned(5.0, "4 nodes", 0.0), Known.assumed(5.0, "usual", 0.0), stated]
    assert [known.at(3.0) for known in certain] == [5.0, 5.0, 5.0]
    assert learned.but(7.0) == replace(learned, value=7.0)


@given(st.floats(0.01, 1e6), st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_a_world_above_and_one_below_are_as_far_off_by_factor(value: float, spread: float, deviations: float) -> None:
    known = Known.assumed(value, "usual", spread)
    assert known.at(deviations) >= value >= known.at(-deviations)
    assert known.at(deviations) * known.at(-deviations) == pytest.approx(value**2)


@pytest.mark.parametrize(("daemon_sets", "requests"), [(0, 60), (8, 132)])
def test_a_join_asks_for_more_with_each_daemon_set(daemon_sets: int, requests: int) -> None:
    known = requests_per_join(daemon_sets)
    assert (known.value, known.source) == (requests, Source.ASSUMED)


def test_one_daemon_set_is_no_plural() -> None:
    for known in (requests_per_join, join_cpu_s):
        assert known(1).detail.endswith("with 1 DaemonSet")
        assert known(8).detail.endswith("with 8 DaemonSets")


def test_without_a_cluster_there_is_no_node() -> None:
    found = assumed_inputs()
    assert (found.nodes, [pool.nodes for pool in found.pools]) == (0, [0])
    assert [pool.nodes for pool in assumed_inputs(nodes=5).pools] == [5]


def test_each_daemon_set_makes_a_join_dearer() -> None:
    assert daemon_share(0) == 0.0
    assert 0.0 < daemon_share(4) < daemon_share(8) < 1.0
    none, four, eight = (join_cpu_s(count).value for count in (0, 4, 8))
    assert four - none == pytest.approx(eight - four)
    assert daemon_share(8) == pytest.approx((eight - none) / eight)


def test_without_a_name_the_largest_pool_is_meant() -> None:
    one = assumed_inputs(nodes=5)
    assert one.pool("") is one.pools[0]
    assert one.pool("gpu") is None
    sizes = {"a": 3, "b": 7, "c": 7}
    several = replace(one, pools=tuple(replace(one.pools[0], name=name, nodes=sizes[name]) for name in "bca"))
    assert [several.pool(name) for name in ("", "a")] == [several.pools[1], several.pools[2]]
    assert replace(one, pools=()).pool("") is None
