"""One scale-up held against its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.truth.happened import Happened
from benchmarks.truth.node_lives import Life
from benchmarks.truth.true_limit import held_by, stretches


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the plan said before; seconds from the demand."""

    nodes: int
    eta_s: float | None
    low_s: float | None
    high_s: float | None
    limit: str
    object: str
    """The one whose ceiling binds."""
    waves: tuple[tuple[str, float, int], ...]
    """(limit, its end, nodes usable by then) of those waves that end."""
    inputs: Mapping[str, str]
    """Figure: value and source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveEnd:
    """When so many nodes were to be usable, and when they were (None: never)."""

    limit: str
    ready: int
    said_s: float
    real_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Plan and truth of one case."""

    said: Said
    happened: Happened
    real_s: float
    """From the demand to the last usable node."""
    held_by: tuple[str, ...]
    stretches: Mapping[str, float]
    waves: tuple[WaveEnd, ...]

    @property
    def off_by(self) -> float | None:
        """Real over predicted, less one; None where other nodes came than the plan said, or no end was predicted."""
        if len(self.happened.lives) != self.said.nodes or not self.said.eta_s:
            return None
        return self.real_s / self.said.eta_s - 1.0

    def is_within(self, share: float) -> bool:
        """Whether the predicted end was off by no more."""
        return self.off_by is not None and abs(self.off_by) <= share

    @property
    def is_covered(self) -> bool:
        """Whether the real end lies in the plan's band."""
        low_s, high_s = self.said.low_s, self.said.high_s
        return self.off_by is not None and low_s is not None and high_s is not None and low_s <= self.real_s <= high_s

    @property
    def is_binding_right(self) -> bool:
        """Whether the plan named the limit that held the last nodes."""
        return self.said.limit in self.held_by


def judged(happened: Happened, plan: Mapping[str, Any]) -> Trial:
    """Hold what happened (at least one node came) against the plan's JSON."""
    said, came, demand_s = said_of(plan), happened.lives, happened.demand_s
    return Trial(
        said=said,
        happened=happened,
        real_s=came[-1].usable_s - demand_s,
        held_by=held_by(happened.case, came, demand_s, happened.server_busy),
        stretches=stretches(happened.case, came, demand_s, happened.server_busy),
        waves=wave_ends(said, came, demand_s),
    )


def said_of(plan: Mapping[str, Any]) -> Said:
    """What matters of a plan's JSON."""
    eta = plan["eta"] or {}
    ends = [wave for wave in plan["waves"] if wave["untilSeconds"] is not None]
    return Said(
        nodes=plan["nodesComing"],
        eta_s=eta.get("medianSeconds"),
        low_s=eta.get("lowSeconds"),
        high_s=eta.get("highSeconds"),
        limit=(plan["limit"] or {}).get("name", ""),
        object=plan["waves"][-1]["object"] if plan["waves"] else "",
        waves=tuple((wave["limit"], wave["untilSeconds"], wave["ready"]) for wave in ends),
        inputs={figure["name"]: f"{figure['value']:g} {figure['source']}" for figure in plan["inputs"]},
    )


def wave_ends(said: Said, came: Sequence[Life], demand_s: float) -> tuple[WaveEnd, ...]:
    """Those at whose end there are more usable nodes than before."""
    ends = []
    before = 0
    for limit, until_s, ready in said.waves:
        if ready > before:
            real_s = came[ready - 1].usable_s - demand_s if len(came) >= ready else None
            ends.append(WaveEnd(limit=limit, ready=ready, said_s=until_s, real_s=real_s))
        before = ready
    return tuple(ends)
