"""What one tick found about one throttle: all that its status tells. Pure."""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.law.learned import Learned
from throttler.law.verdict import Verdict
from throttler.levers.lever import LeverReport
from throttler.signals.reading import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`now_s` is monotonic, on the clock of the signals."""

    now_s: float
    verdict: Verdict | None = None
    """None: nothing was decided, and the stored figures stay."""
    joins: Joins = field(default_factory=Joins)
    signals: Signals = field(default_factory=Signals)
    levers: tuple[LeverReport, ...] = ()
    learned: Learned = field(default_factory=Learned)
    missing: tuple[str, ...] = ()
    """What could not be read completely, in words (`nodes`, `pods`): the view is incomplete."""
    guessed_groups: tuple[str, ...] = ()
    """Node groups of cluster-autoscaler whose machines count here because nothing tells whose they are."""
    is_autoscaler_silent: bool = False
    """Whether machines count here that cluster-autoscaler asked for before it fell silent."""
    left_out: tuple[str, ...] = ()
    """NodePools that Karpenter may order from for the throttle's nodes, and that no throttle's lever moves."""
    problem: str = ""
    """What went wrong when this decision or the last was written, in words; empty if nothing did."""
