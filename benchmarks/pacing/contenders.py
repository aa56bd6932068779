"""The policies that are compared, by name: each run needs a new one."""

from collections.abc import Callable, Mapping

from throttler.law.law_memory import Learned
from throttler.simulator.pacing_policies import (
    AimdOnErrors,
    AimdOnWindow,
    AtOnce,
    FixedRate,
    FullKnowledge,
    Gradient2,
    LawPolicy,
    Oracle,
    Policy,
    Stock,
)
from throttler.simulator.requests_and_machines import join_cost, spare
from throttler.simulator.scenario_and_faults import Scenario

ORACLE, COLD, WARM = "oracle", "ours cold", "ours warm"
FIXED_RATES = (1.0, 2.0, 4.0)
KNOWN_SHARE = 0.85
"""Of the capacity at the beginning: what an operator with a good load test would set."""

Maker = Callable[[Scenario], Policy | Oracle]


def contender(name: str, scenario: Scenario, learned: Learned | None) -> Policy | Oracle:
    """A new policy; `learned` is for the warm start alone. Raises KeyError for an unknown name."""
    return LawPolicy(scenario, learned) if name in (COLD, WARM) else _MAKERS[name](scenario)


def names() -> tuple[str, ...]:
    """All of them, in the order of the table."""
    return (ORACLE, WARM, COLD, *(name for name in _MAKERS if name != ORACLE))


def _known_rate(scenario: Scenario) -> float:
    return KNOWN_SHARE * spare(scenario, scenario.background, 0.0, 0.0) / join_cost(scenario, 0.0)


def _fixed(per_s: float) -> Maker:
    return lambda scenario: FixedRate(per_s, stock=Stock.of(scenario))


_MAKERS: Mapping[str, Maker] = {
    ORACLE: FullKnowledge,
    "Gradient2, tuned": lambda scenario: Gradient2(stock=Stock.of(scenario)),
    "AIMD on a window": lambda scenario: AimdOnWindow(stock=Stock.of(scenario)),
    "AIMD on 429": lambda scenario: AimdOnErrors(stock=Stock.of(scenario)),
    f"fixed {KNOWN_SHARE:.0%} of true": lambda scenario: FixedRate(_known_rate(scenario), stock=Stock.of(scenario)),
    **{f"fixed {per_s:g}/s": _fixed(per_s) for per_s in FIXED_RATES},
    "none": lambda scenario: AtOnce(),
}
