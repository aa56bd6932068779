"""The ways of a rush that are compared, and the two settings in which they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lab.demo.rush_scene import Lever, Pacing

HERD = "at once"
BOUND = 60
"""`maxInFlight` of the ways that are held to it; far below the job, above what a small server needs."""
WINDOWS = (20, 40, 80, 120)
HALF_A_CORE = 0.5
"""Of the API server in the second setting. A quicker machine needs less for a herd to be more than it bears."""
_GATES = frozenset({Lever.GATES})
_BOTH = frozenset({Lever.CEILING, Lever.TAINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a rush runs; `server_cores` is the API server's share of a core, None all that it gets."""

    name: str
    server_cores: float | None = None


def settings_of(server_cores: float) -> tuple[Setting, Setting]:
    """The first has all cores for everybody; in the second the API server has so much of a core."""
    share = "half a core" if server_cores == HALF_A_CORE else f"{server_cores:g} of a core"
    held = Setting(name=f"{share} for the API server", server_cores=server_cores)
    return Setting(name="the machine's cores for everybody"), held


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How growth is paced; None: not at all. `teacher` names the way whose memory it begins with."""

    name: str
    pacing: Pacing | None = None
    teacher: str = ""

    def remembering(self, learned: Mapping[str, Any] | None) -> Pacing | None:
        """With what another way's throttle wrote down."""
        return replace(self.pacing, learned=learned) if self.pacing is not None and self.teacher else self.pacing


def _pair(name: str, levers: frozenset[Lever]) -> tuple[Way, Way]:
    cold = Way(name=f"{name}, cold", pacing=Pacing(levers=levers))
    return cold, Way(name=f"{name}, remembered", pacing=Pacing(levers=levers), teacher=cold.name)


WAYS: Mapping[str, Way] = MappingProxyType(
    {
        way.name: way
        for way in (
            Way(name=HERD),
            *(Way(name=f"ceiling, window {window}", pacing=Pacing(window=window)) for window in WINDOWS),
            *_pair("ceiling", frozenset({Lever.CEILING})),
            *_pair("gates", _GATES),
            *_pair("ceiling and taint", _BOTH),
            Way(name="gates, window 80", pacing=Pacing(levers=_GATES, window=80)),
            Way(name=f"ceiling, at most {BOUND}", pacing=Pacing(max_in_flight=BOUND)),
            Way(name=f"gates, at most {BOUND}", pacing=Pacing(levers=_GATES, max_in_flight=BOUND)),
        )
    }
)
"""By name; a teacher stands before its pupil."""
