"""How many machines to ask for: a virtual queue over the boot time, which is dead time.

With a gate, machines boot in advance and are metered at the join. Each machine that is asked for now comes after the
boot time and is let in when those before it are; it must be let in well before its time limit even if the pace turns
out to be half of what it seems (`stock_pace`), because a machine that misses its kill timer is lost, and most are
asked for before anything is proven. Without a gate what has booted joins: `forecast` says how many.
"""

from dataclasses import dataclass

from throttler.joins.joins import Joins
from throttler.law.settings import LawSettings

MARGIN_S = 60.0
"""Well before: kept clear of every time limit."""
OUT_OF_TURN_S = 40.0
"""Who was asked for first goes in first, and may have arrived so much later than the next (jitter of the boots)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the virtual queue runs on."""

    window: float
    pace_per_s: float
    """Joins per second that will be let in, as far as is known."""
    boot_s: float


def longest_hold_s(boot_s: float, settings: LawSettings) -> float:
    """How long a machine may be planned to wait at the gate: not so long that it would go first for its age alone."""
    by_timer = settings.kill_timer_s - boot_s - MARGIN_S
    return max(0.0, min(by_timer, settings.max_wait_s - MARGIN_S - OUT_OF_TURN_S - settings.deadline_s))


def gated_stock(outlook: Outlook, joins: Joins, settings: LawSettings) -> float:
    """Machines that may be booting and held so that the last one asked for now is let in in time."""
    pace_per_s = settings.stock_pace * outlook.pace_per_s
    gate_idle_s = 0.0 if joins.held else max(0.0, outlook.boot_s - joins.oldest_booting_s)
    horizon_s = longest_hold_s(outlook.boot_s, settings) + outlook.boot_s - gate_idle_s
    free = max(0.0, outlook.window - joins.joining)
    return free + pace_per_s * max(0.0, horizon_s)


def boot_time_s(joins: Joins, remembered_s: float | None, settings: LawSettings) -> float:
    """Boot time as measured, else as remembered or guessed, and never less than a machine has been booting already."""
    if joins.boot_s is not None:
        return joins.boot_s
    return max(remembered_s or settings.boot_guess_s, joins.oldest_booting_s)
