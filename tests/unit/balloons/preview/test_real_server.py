"""The figures that plans assume, against one real kube-apiserver 1.36.3 with one core (lab/scaleup).

All joiners came at once, with 8 DaemonSets; joins of 7-10 s. The server's noise was about 6 %.
"""

import pytest

from balloons.preview.forecast import NONE, Limit, forecast, main_limit, policy_maker, typical_world
from balloons.preview.inputs import Stated, assumed_inputs, with_stated


@pytest.mark.parametrize(
    ("joiners", "controller_qps", "seconds", "limit"),
    [
        (300, 300, 74.4, Limit.API_SERVERS),
        (400, 200, 109.0, Limit.API_SERVERS),
        (200, 20, 88.0, Limit.CONTROLLER_MANAGER),
    ],
)
def test_herds_end_when_they_did(joiners: int, controller_qps: float, seconds: float, limit: Limit) -> None:
    stated = Stated(
        boot=1,
        boot_spread=0,
        join=8,
        reaction=0,
        servers=1,
        server_cores=1,
        background=0.05,
        daemonsets=8,
        controller_qps=controller_qps,
        scheduler_qps=300,
    )
    inputs = with_stated(assumed_inputs(), stated)
    found = forecast(inputs, inputs.pools[0], joiners, policy_maker(NONE, None))
    assert found.eta_s.median == pytest.approx(seconds, rel=0.12)
    assert main_limit(found.waves_in(typical_world([found]))) is limit
