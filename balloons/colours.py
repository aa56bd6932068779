"""What each colour means, in charts, dashboards and bars alike: one thing has one colour wherever it is shown.

The hues of stages are Okabe and Ito's, which people with any colour vision tell apart; a name stands beside each.
What is named after a user's own objects (pools, throttles, servers) has no colour here: a dashboard tells those apart
by colours of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Colour:
    """One meaning. `light` and `dark` are for the two kinds of paper, as areas and lines of a chart."""

    light: str
    dark: str
    terminal: str = ""
    """The sequence that begins it; empty: the terminal's own."""
    panel: str = ""
    """Of a line on a dashboard, where `light` would be too pale."""

    @property
    def line(self) -> str:
        """Of a dashboard: it has to be seen on black and on white."""
        return self.panel or self.light


THERE = Colour("#009e73", "#00b386", "\x1b[32m")
"""Usable and in order: what there is."""
PLANNED = Colour("#0072b2", "#4aa3e0")
"""What a plan, a pool's size or the pacing law means."""
JOINING = Colour("#e69f00", "#f0b429", "\x1b[33m")
HELD = Colour("#cc79a7", "#d98cb8", "\x1b[35m")
BOOTING = Colour("#bcdcf2", "#2c556f", "\x1b[36m", panel="#56b4e9")
WAITING = Colour("#eef0f3", "#262d34", panel="#a1acb5")
"""For what is not there yet."""
BUSY = Colour("#7b68c8", "#9b8ce0", "\x1b[34m")
IDLE = Colour("#e3c341", "#e3c341")
BROKEN = Colour("#b3261e", "#ff7b72", "\x1b[31m")
"""Sick, lost, missing, refused or failed; and where others notice."""
UNPACED = Colour("#d55e00", "#ff8a3d")
LOAD = Colour("#8a4b1f", "#c98d5e")
"""Of the API servers."""

COLOURS: Mapping[str, Colour] = MappingProxyType(
    {
        **dict.fromkeys(("ready", "warm", "there", "joined", "real"), THERE),
        **dict.fromkeys(("good", "done", "decided"), THERE),
        **dict.fromkeys(("planned", "wanted", "pace", "window", "paced", "released"), PLANNED),
        "joining": JOINING,
        "held": HELD,
        "booting": BOOTING,
        **dict.fromkeys(("waiting", "cold", "pending"), WAITING),
        **dict.fromkeys(("stood_by", "fenced", "conflict", "gone"), WAITING),
        **dict.fromkeys(("busy", "preempted"), BUSY),
        "idle": IDLE,
        **dict.fromkeys(("sick", "lost", "missing", "failed"), BROKEN),
        **dict.fromkeys(("refused", "forbidden", "invalid", "unknown", "webhook", "hurts"), BROKEN),
        **dict.fromkeys(("timeout", "unreachable", "unreadable", "too_large"), BROKEN),
        "not paced": UNPACED,
        "load": LOAD,
        "learned": Colour("#7a9a01", "#a3c52f"),
        "allowance": Colour("#2a9d9d", "#4fc4c4"),
        "admit": Colour("#a3487a", "#c96a9c"),
        "decision": Colour("#4d7f8f", "#7fb0bf"),
        "lag": Colour("#b0722b", "#d6a05f"),
        "p50": Colour("#6c8ebf", "#9db8dd"),
        "p99": Colour("#7d5ba6", "#b295d6"),
    }
)
"""By the name under which it is shown: a stage, a state, an outcome, or the last word of a series' name."""

GOOD_LIGHT, WARNING_LIGHT, BAD_LIGHT = "#2e8b57", "#d29922", "#b3261e"
"""A judgement, as a traffic light gives it: all is well, look here, act."""
NEUTRAL = "#7f8a94"
"""No thing and no judgement."""
