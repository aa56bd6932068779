"""Who lets nodes join, by the name that the command line uses. Each run needs a new policy."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from balloons.preview.inputs import ThrottleFacts
from throttler.law.settings import LawSettings
from throttler.simulator.law_policy import LawPolicy
from throttler.simulator.policies.aimd import AimdOnErrors, AimdOnWindow
from throttler.simulator.policies.at_once import AtOnce
from throttler.simulator.policies.fixed import FixedRate, FixedWindow
from throttler.simulator.policies.gradient2 import Gradient2
from throttler.simulator.policies.oracle import FullKnowledge
from throttler.simulator.policies.stock import Stock
from throttler.simulator.policy import Oracle, Policy
from throttler.simulator.scenario import Scenario

NONE, THROTTLE, ORACLE = "none", "throttle", "oracle"
Maker = Callable[[Scenario], Policy | Oracle]

_SIMPLE: Mapping[str, Maker] = {
    NONE: lambda scenario: AtOnce(),
    ORACLE: FullKnowledge,
    "gradient2": lambda scenario: Gradient2(stock=Stock.of(scenario)),
    "aimd": lambda scenario: AimdOnWindow(stock=Stock.of(scenario)),
    "aimd-429": lambda scenario: AimdOnErrors(stock=Stock.of(scenario)),
}
RATE, WINDOW = "rate=", "window="
NAMES = (THROTTLE, *_SIMPLE, RATE, WINDOW)
ACCEPTED = ", ".join((THROTTLE, *_SIMPLE, f"{RATE}JOINS_PER_MINUTE", f"{WINDOW}JOINS"))


class PolicyError(ValueError):
    """No such policy; the message says what is accepted."""


def policy_maker(name: str, throttle: ThrottleFacts | None) -> Maker:
    """How to make the policy; raises PolicyError. `throttle` is the one that `throttle` stands for."""
    if name == THROTTLE:
        return lambda scenario: law_policy(scenario, throttle)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name.startswith(RATE) and (per_min := _number(name.removeprefix(RATE))) is not None:
        return lambda scenario: FixedRate(per_min / 60.0, stock=Stock.of(scenario))
    if name.startswith(WINDOW) and (window := _number(name.removeprefix(WINDOW))) is not None:
        return lambda scenario: FixedWindow(window, stock=Stock.of(scenario))
    raise PolicyError(f"policy {name!r} is not accepted; accepted: {ACCEPTED}")


def law_policy(scenario: Scenario, throttle: ThrottleFacts | None) -> LawPolicy:
    """The pacing law with the throttle's settings and what it has learned, or as it starts where there is none."""
    settings = throttle.settings if throttle else LawSettings()
    settings = replace(settings, has_gate=scenario.has_gate, kill_timer_s=scenario.kill_timer_s)
    return LawPolicy(scenario, throttle.learned if throttle else None, settings)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1_000_000 else None
