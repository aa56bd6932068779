"""The pacing law as a policy for the simulator: exactly `govern`, and nothing else."""

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, learned_of
from throttler.law.learned import Learned
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.signals.reading import Signals
from throttler.simulator.policy import Permit
from throttler.simulator.scenario import Scenario


class LawPolicy:
    """`learned` is what an earlier scale-up left behind; None is a cold start."""

    def __init__(self, scenario: Scenario, learned: Learned | None = None, settings: LawSettings | None = None) -> None:
        self._settings = settings or law_settings(scenario)
        self._memory = LawMemory.start(learned)
        self._now_s = 0.0
        self.verdict: Verdict | None = None
        """The latest, for pictures."""

    @property
    def learned(self) -> Learned:
        """What would stand on the JoinThrottle's status now."""
        return learned_of(self._memory, self._now_s)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Govern once."""
        self._now_s = now_s
        self.verdict, self._memory = govern(signals, joins, self._memory, self._settings, now_s)
        return Permit(ask=self.verdict.allowance, admit=self.verdict.admit, window=self.verdict.window)


def law_settings(scenario: Scenario) -> LawSettings:
    """What the user of that cluster would have said: nothing but the kill timer and whether there is a gate."""
    return LawSettings(has_gate=scenario.has_gate, kill_timer_s=scenario.kill_timer_s)
