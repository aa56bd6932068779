"""What the law remembers from one look to the next. Losing it costs time, never correctness.

What one scale-up taught is kept on the JoinThrottle's status for the next one and for the next process.
"""

import math
from dataclasses import dataclass, field
from typing import Self

from throttler.law.error_brake import Brake, ForeignErrors
from throttler.law.join_model import Baseline, JoinFlow, JoinTime, Load
from throttler.law.server_health import ServerTrace
from throttler.law.window_steps import Cuts, Knee


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Figures of the cluster as last seen; None is "never learned". Losing them costs time, never correctness."""

    window: float | None = None
    """The knee: joins in flight at which the servers were just well used."""
    is_proven: bool = False
    """Whether the knee was met; otherwise so many joins only did no harm."""
    baseline_s: float | None = None
    """Latency plus queue wait while nothing joined."""
    join_s: float | None = None
    """How long a join takes below the knee."""
    boot_s: float | None = None
    """How long a machine takes from being asked for to being heard of."""
    boot_spread_s: float | None = None
    """Standard deviation of that."""
    load_per_join: float | None = None
    """Share of the worst server's capacity (CPU or seats) that one join in flight takes."""
    age_s: float = 0.0
    """How long ago the window was learned, by the wall clock at start-up and monotonic from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawMemory:
    """State between two calls of `govern`; all times monotonic."""

    window: float | None = None
    """W; None before the first look."""
    is_slow_start: bool = True
    """Mode: slow start, else avoid."""
    is_idle: bool = True
    """Whether nothing waited and nothing was in flight at the last look."""
    looked_s: float | None = None
    """The last look."""
    moved_s: float | None = None
    """When the gradient last looked at new readings."""
    doubled_s: float | None = None
    """When slow start last grew the window."""
    blind_since_s: float | None = None
    quiet_since_s: float | None = None
    """Since when nothing has been joining."""
    silent: frozenset[str] = frozenset()
    """Servers whose loss has already been taken off the window."""
    tokens: float | None = None
    """What is in the bucket that lets joins in; None: full."""
    ask_tokens: float | None = None
    """The same of the bucket that pays for machines that are ordered."""
    own_until_s: float = -math.inf
    """Until when our own requests were judged: each window of them once, as each reading of a server."""
    cut_s: float | None = None
    """When delay last cut the window."""
    cuts: Cuts | None = None
    """The latest cuts by delay, while it is open whether they help or known that they do not."""
    foreign: ForeignErrors = field(default_factory=ForeignErrors)
    traces: tuple[ServerTrace, ...] = ()
    delays: tuple[tuple[float, float], ...] = ()
    """(when, delay that no server's newest window exceeded), oldest first, as long as one cycle of orders may last."""
    baseline: Baseline = field(default_factory=Baseline)
    load: Load = field(default_factory=Load)
    flow: JoinFlow = field(default_factory=JoinFlow)
    join_time: JoinTime = field(default_factory=JoinTime)
    boot_s: float | None = None
    boot_spread_s: float | None = None
    """Standard deviation of the boots; None while unknown."""
    knee: Knee = field(default_factory=Knee)
    brake: Brake = field(default_factory=Brake)

    @classmethod
    def start(cls, learned: Learned | None = None) -> Self:
        """The memory of a new process; `learned` is what an earlier one wrote down."""
        if learned is None:
            return cls()
        return cls(
            baseline=Baseline(remembered_s=learned.baseline_s),
            load=Load(remembered=learned.load_per_join),
            join_time=JoinTime(least_s=learned.join_s),
            boot_s=learned.boot_s,
            boot_spread_s=learned.boot_spread_s,
            knee=Knee(window=learned.window, age_s=learned.age_s, is_proven=learned.is_proven),
        )


def learned_of(memory: LawMemory, now_s: float) -> Learned:
    """What is worth writing down on the JoinThrottle's status."""
    return Learned(
        window=memory.knee.window,
        is_proven=memory.knee.is_proven,
        baseline_s=memory.baseline.measured_s,
        join_s=memory.join_time.least_s,
        boot_s=memory.boot_s,
        boot_spread_s=memory.boot_spread_s,
        load_per_join=memory.load.per_join,
        age_s=memory.knee.age_at(now_s),
    )
