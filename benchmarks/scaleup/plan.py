"""Which scale-ups are compared with which: one group of trials for each setup."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.scaleup.fault import Fault
from benchmarks.scaleup.trial import Setup, Trial
from lab.scaleup.cluster import DEFAULT_MANAGER_QPS, QUICK_MANAGER_QPS

HERD, COLD, WARM = "at once", "ours cold", "ours warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ways of pacing one setup. What is in `rounds` is measured that often; a sweep is measured once."""

    name: str
    setup: Setup
    windows: tuple[int, ...]
    rates: tuple[float, ...] = ()
    rounds: int = 1
    """Of the herd, the best fixed window of the sweep, and ours cold and warm: the figures are medians."""
    has_herd: bool = True


def groups(nodes: int, rounds: int) -> tuple[Group, ...]:
    """All of them; every setup has its own best fixed window."""
    half = max(2, nodes // 2)
    return (
        Group(
            name="one server",
            setup=Setup(nodes=nodes, manager_qps=QUICK_MANAGER_QPS),
            windows=(20, 40, 60, 80, 120),
            rates=(2.0, 4.0, 6.0),
            rounds=rounds,
        ),
        Group(name="two servers", setup=Setup(nodes=nodes, servers=2), windows=(40, 80, 120)),
        Group(
            name="noisy lister",
            setup=Setup(nodes=nodes, fault=Fault.NOISY_LISTER),
            windows=(40, 60, 80, 120),
            has_herd=False,
        ),
        Group(
            name="frozen server",
            setup=Setup(nodes=nodes, servers=2, fault=Fault.FROZEN_SERVER),
            windows=(40, 80, 120),
            has_herd=False,
        ),
        Group(
            name="slow manager",
            setup=Setup(nodes=half, manager_qps=DEFAULT_MANAGER_QPS),
            windows=(10, 20, 40),
            has_herd=False,
        ),
    )


@dataclass(slots=True)
class Findings:
    """The trials of one group by way of pacing."""

    group: Group
    trials: dict[str, list[Trial]] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """One more."""
        self.trials.setdefault(trial.pacer, []).append(trial)

    @property
    def best_window(self) -> str:
        """The fixed window that was quickest, by the median of its trials; all of them finished every join."""
        fixed = [name for name in self.trials if name.startswith("window")]
        return min(fixed, key=self.time_s)

    @property
    def best_fixed(self) -> str:
        """The quickest of all fixed rules, rates included."""
        fixed = [name for name in self.trials if name.startswith(("window", "rate"))]
        return min(fixed, key=self.time_s)

    def time_s(self, name: str) -> float:
        """Until the last node was usable."""
        return statistics.median(trial.all_usable_s for trial in self.trials[name])

    def mean_usable_s(self, name: str) -> float:
        """How long a node took to be usable, on average."""
        return statistics.median(trial.mean_usable_s for trial in self.trials[name])

    def bystander_p99_s(self, name: str) -> float:
        """What the innocent client met."""
        return statistics.median(trial.bystander_p99_s for trial in self.trials[name])

    def errors(self, names: Iterable[str]) -> float:
        """429 and 5xx in all trials of these."""
        return sum(trial.errors for name in names for trial in self.trials.get(name, ()))
