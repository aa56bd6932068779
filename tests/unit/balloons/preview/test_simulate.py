"""What is simulated is known, whole and not too much."""

import pytest

from balloons.preview.forecast import PolicyError, policy_maker
from balloons.preview.inputs import StatedError, assumed_inputs
from balloons.preview.scale_up_plan import PlanError
from balloons.preview.simulate import Sweep, simulate


@pytest.mark.parametrize("value", [0, 0.5, 1.5, 150_001])
def test_no_broken_number_of_nodes_is_swept(value: float) -> None:
    with pytest.raises(StatedError, match="accepted: a whole number from 1 to 150,000"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("add", (value,)))


def test_what_cannot_be_simulated_is_refused_before_it_takes_time() -> None:
    with pytest.raises(StatedError, match="'speed' cannot be swept"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("speed", (1.0,)))
    with pytest.raises(PlanError, match="61 runs"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("boot", tuple(float(each) for each in range(1, 62))))
    with pytest.raises(PlanError, match="150,001 nodes more are too many"):
        simulate(assumed_inputs(), "", 150_001, ["none"])


@pytest.mark.parametrize(
    "name",
    ["5", "foo5", "rate=", "rate=0", "rate=-1", "rate=1000001", "rate=nan", "window=x", "window=0", "ratewindow=5"],
)
def test_a_policy_without_a_number_that_it_can_keep_to_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="is not accepted"):
        policy_maker(name, None)


@pytest.mark.parametrize("name", ["rate=1000000", "rate=0.5", "window=1000000", "none", "throttle", "aimd"])
def test_policies_by_name(name: str) -> None:
    assert callable(policy_maker(name, None))
