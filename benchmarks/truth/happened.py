"""All that is known of one scale-up besides its plan: plain values, kept as JSON beside what the plan saw."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.truth.case import Case
from benchmarks.truth.node_lives import Life

FILE = "happened.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What the API server's own CPU counter showed before: a plan may not read /metrics, an operator may."""

    background: float
    """Share of its cores in use while nothing joins."""
    join_cpu_s: float
    """Core-seconds of each join of the history."""
    cores: float = 0.0
    """What the server has of a machine that everything shares; 0 where that was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One scale-up; times in seconds since the epoch."""

    case: Case
    usual: Usual
    demand_s: float
    """The pods were created."""
    lives: tuple[Life, ...]
    """Of the nodes that came, in the order in which they were usable."""
    compared_s: float | None
    """The end as `plan --compare` told it, from its own idea of when the demand came."""
    server_busy: float
    """Share of the API server's cores that it used or waited for while nodes joined."""
    machine_busy: float
    """Share of the machine's cores in use from the demand to the end, by anybody."""
    load: float
    """The machine's load average (1 min) at the demand: what others were doing."""
    server_cpu_s: float = 0.0
    """Core-seconds that the API server used from the demand to the end."""
    ordering_cpu_s: float | None = None
    """Of these, those before the first node registered; None where that was not measured."""
    is_served_first: bool = False
    """The API server had its core before every other process; else it shared it, and plans know nothing of that."""


def keep(happened: Happened, folder: Path) -> None:
    """Write it down."""
    (folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(happened)))


def kept(folder: Path, case: Case | None = None) -> Happened | None:
    """What became of this very case, or of whichever was run into that folder; None where there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    happened = msgspec.json.decode(path.read_bytes(), type=Happened)
    return happened if case in (None, happened.case) else None
