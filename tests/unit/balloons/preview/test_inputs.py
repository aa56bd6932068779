"""What a plan assumes where nothing is known: guesses are uncertain, defaults of programs are not."""

import pytest

from balloons.preview import inputs
from balloons.preview.inputs import Known, assumed_inputs, daemon_share, join_cpu_s


@pytest.mark.parametrize("guess", [inputs.BOOT_S, inputs.JOIN_S, inputs.CORES, inputs.BACKGROUND, inputs.REACTION_S])
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
