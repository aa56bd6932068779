"""How old the news of each API server is, in one word each: what status, metrics and alerts show."""

import enum
from dataclasses import dataclass

from throttler.signals.reading import Reading, Signals
from throttler.signals.servers import is_server

STALE_AFTER_S = 30.0
"""Metrics that stand still are noticed within this: six scrapes of ours ..."""
SPANS = 1.5
"""... and not before a source that looks every half minute, as a Prometheus may, could have looked again."""
LONGEST_FRESH_S = 90.0


class State(enum.Enum):
    """What a server's news is worth."""

    FRESH = "Fresh"
    STALE = "Stale"
    SILENT = "Silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server: `age_s` since the end of its newest complete window, None when it never had one."""

    name: str
    state: State
    age_s: float | None
    message: str = ""


def server_states(signals: Signals, now_s: float) -> tuple[ServerState, ...]:
    """Every server that exists, sorted by name; silence goes before staleness. Our own requests are no server."""
    readings = {reading.server: reading for reading in signals.readings if is_server(reading)}
    silent = {
        server.server: ServerState(
            name=server.server,
            state=State.SILENT,
            age_s=_age_s(readings.get(server.server), now_s),
            message=server.problem,
        )
        for server in signals.silent
    }
    others = (_state(reading, now_s) for name, reading in readings.items() if name not in silent)
    return tuple(sorted((*silent.values(), *others), key=lambda state: state.name))


def fresh_for_s(reading: Reading) -> float:
    """How old the window may become before it says nothing."""
    return min(max(STALE_AFTER_S, SPANS * reading.span_s), LONGEST_FRESH_S)


def is_fresh(reading: Reading, now_s: float) -> bool:
    """Whether the window ended recently enough to act on."""
    return now_s - reading.ended_s <= fresh_for_s(reading)


def _state(reading: Reading, now_s: float) -> ServerState:
    age_s = now_s - reading.ended_s
    if is_fresh(reading, now_s):
        return ServerState(name=reading.server, state=State.FRESH, age_s=age_s)
    message = f"its newest complete window ended {age_s:.0f} s ago"
    return ServerState(name=reading.server, state=State.STALE, age_s=age_s, message=message)


def _age_s(reading: Reading | None, now_s: float) -> float | None:
    return None if reading is None else now_s - reading.ended_s
