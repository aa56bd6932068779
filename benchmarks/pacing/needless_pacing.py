"""What pacing costs where it buys nothing: 436 nodes more on three servers of four cores, which bear them all at once.

The plan's own worlds, in which boots and joins differ from machine to machine: what `balloons plan --offline --add 436
--servers 3 --server-cores 4` shows, cold and with what an earlier scale-up has taught.
"""

from dataclasses import dataclass, replace

from balloons.preview.forecast import NONE, Forecast, forecast, law_policy, policy_maker
from balloons.preview.inputs import PlanInputs, Stated, ThrottleFacts, assumed_inputs, with_stated
from benchmarks.report import Figure
from throttler.law.law_memory import Learned
from throttler.law.settings import LawSettings
from throttler.simulator.pacing_policies import LawPolicy
from throttler.simulator.scenario_and_faults import Scenario

NODES, SERVERS, CORES = 436, 3, 4.0


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds until the last node is usable, medians over the worlds."""

    unpaced_s: float
    cold_s: float
    warm_s: float
    peak_utilisation: float
    """Unpaced, of the busiest server: well below 1, or the servers have no room."""


def price() -> Price:
    """The same scale-up unpaced, by a throttle that knows nothing, and by one that has done it once."""
    inputs = with_stated(assumed_inputs(), Stated(servers=SERVERS, server_cores=CORES))
    unpaced = _run(inputs, None)
    first = _Taught(ThrottleFacts(name="default", settings=LawSettings()))
    cold = _run(inputs, first)
    warm = _run(inputs, _Taught(replace(first.throttle, learned=first.learned)))
    return Price(_end_s(unpaced), _end_s(cold), _end_s(warm), unpaced.peak_utilisation)


class _Taught:
    """Makes the law's policies for one throttle, and keeps the last one."""

    def __init__(self, throttle: ThrottleFacts) -> None:
        self.throttle = throttle
        self._last: LawPolicy | None = None

    def __call__(self, scenario: Scenario) -> LawPolicy:
        self._last = law_policy(scenario, self.throttle)
        return self._last

    @property
    def learned(self) -> Learned | None:
        return self._last.learned if self._last else None


def _run(inputs: PlanInputs, make: _Taught | None) -> Forecast:
    return forecast(inputs, inputs.pools[0], NODES, make or policy_maker(NONE, None))


def _end_s(run: Forecast) -> float:
    assert run.eta_s.median is not None, "the scale-up does not end"
    return run.eta_s.median


def figures(paid: Price) -> list[Figure]:
    """How many times as long as without pacing."""
    what = f"paced over unpaced where unpaced uses {paid.peak_utilisation:.0%} of the servers, {{}}"
    return [
        Figure(
            name="price_with_room_cold",
            what=what.format("nothing known"),
            value=paid.cold_s / paid.unpaced_s,
            unit="x",
            goal=1.05,
        ),
        Figure(
            name="price_with_room_warm",
            what=what.format("remembered"),
            value=paid.warm_s / paid.unpaced_s,
            unit="x",
            goal=1.02,
        ),
    ]
