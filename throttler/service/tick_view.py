"""What one tick of the throttles reads, remembers and gives. Values."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec

from throttler.api.throttle_rules import StoredThrottle
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joins import Joins, JoinWorld
from throttler.kube.karpenter import NodePool
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.verdict import Verdict
from throttler.levers.lever import Lane, LeverDecision, LeverMemory, LeverScene, LeverWrite, PoolGrowth
from throttler.levers.saved_limits import read_saved
from throttler.signals.reading import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`now_s` is monotonic, on the clock of the signals."""

    now_s: float
    verdict: Verdict | None = None
    """None: nothing was decided, and the stored figures stay."""
    joins: Joins = field(default_factory=Joins)
    signals: Signals = field(default_factory=Signals)
    levers: tuple[LeverDecision, ...] = ()
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


STALE_VIEW_S = 30.0
"""A view older than this moves no lever."""

TEMPLATE_HASH = "karpenter.sh/nodepool-hash"
"""Karpenter's annotation: changes with every part of a pool's template that makes other machines."""
UNCOUNTED_S = 300.0
"""Joins that cannot be counted any more take part in the cluster's window for so long: most machines have booted and
joined by then, and one throttle's error must not hold the others for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickView:
    """Everything that a tick reads. `world.balloons_wanted` and `world.index` are filled in for each throttle."""

    world: JoinWorld
    scene: LeverScene
    signals: Mapping[str, Signals] = field(default_factory=dict)
    """By throttle: each names its own sources."""
    growth: tuple[PoolGrowth, ...] = ()
    missing: tuple[str, ...] = ()
    age_s: float = 0.0

    @property
    def offer(self) -> Hashable:
        """What decides which machines an autoscaler can order, our own ceilings left out; only compared."""
        groups = self.world.autoscaler.groups if self.world.autoscaler else ()
        return tuple(_of_pool(pool) for pool in self.scene.of(NodePool)), tuple(sorted(group.name for group in groups))

    @property
    def may_move(self) -> bool:
        """Whether the view is complete and fresh."""
        return not self.missing and self.age_s <= STALE_VIEW_S


def _of_pool(pool: NodePool) -> bytes:
    """The pool's own words, with the user's limits; what comes of its provider's class shows in its conditions."""
    mark = read_saved(pool.metadata)
    limits = {**(pool.spec.limits or {}), **(mark.original if mark else {})}
    spec = msgspec.structs.replace(pool.spec, limits=limits)
    says = sorted((each.type, each.status) for each in pool.status.conditions or ())
    return msgspec.json.encode((pool.metadata.name, spec, pool.metadata.annotations.get(TEMPLATE_HASH), says))


@dataclass(frozen=True, slots=True)
class LastJoins:
    """The joins of the last complete count: they load the servers on, also when the next count fails."""

    joins: Joins
    counted_s: float

    @classmethod
    def of(cls, joins: Joins, now_s: float) -> Self:
        """What is under way; a throttle that cannot be counted waits for nothing."""
        return cls(replace(joins, waiting=0, urgent=0), now_s)

    def may_hold(self, now_s: float) -> bool:
        """Whether they may still be under way."""
        return now_s - self.counted_s <= UNCOUNTED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleMemory:
    """What one throttle remembers from tick to tick."""

    joins: JoinMemory = field(default_factory=JoinMemory)
    law: LawMemory = field(default_factory=LawMemory)
    levers: LeverMemory = field(default_factory=LeverMemory)
    last: LastJoins | None = None
    index: float | None = None
    room: int = 0
    """As of JoinWorld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of one throttle. `lane` is None where it holds nothing back."""

    stored: StoredThrottle
    findings: Findings
    lane: Lane | None = None

    @property
    def name(self) -> str:
        """The throttle's name."""
        return self.stored.metadata.name

    @property
    def lever_writes(self) -> tuple[LeverWrite, ...]:
        """What all its levers ask for, each lever's in order."""
        return tuple(write for decision in self.findings.levers for write in decision.writes)

    @property
    def is_busy(self) -> bool:
        """Whether anything waits or is in flight."""
        return self.findings.joins.waiting > 0 or self.findings.joins.in_flight > 0


Memories = Mapping[str, ThrottleMemory]
"""By the throttle's name."""
