"""Figures as people read them, text from the cluster made safe for a terminal, and what each colour means.

Anybody who can write a label could otherwise paint on a terminal.

In charts, dashboards and bars alike one thing has one colour wherever it is shown. The hues of stages are Okabe and
Ito's, which people with any colour vision tell apart; a name stands beside each. What is named after a user's own
objects (pools, throttles, servers) has no colour here: a dashboard tells those apart by colours of its own.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

POLICIES = {"none": "no pacing", "throttle": "JoinThrottle"}
"""`balloons.preview.forecast` that users know by another name."""
TITLES = {
    "boot": "machine boot",
    "bootSpread": "boot, machine to machine",
    "join": "join, until usable",
    "reaction": "autoscaler's reaction",
    "daemonSets": "DaemonSet pods per node",
    "daemonPodRate": "controller manager, pods",
    "bindRate": "scheduler, binds",
    "killTimer": "registration timeout",
    "apiServers": "API servers",
    "serverCores": "one API server",
    "background": "API servers' usual load",
    "joinCost": "cost of a join",
    "joinRequests": "requests of a join",
    "launchRate": "machines started by the cloud",
}
"""Of `plan_json.figures`."""
_UNITS = {"seconds": "", "share": "", "count": "", "cores": " cores", "coreSeconds": " core-s", "perSecond": "/s"}
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, change the direction of text, or show nothing at all."""


def duration(seconds: float | None) -> str:
    """`45s`, `3m20s`, `2h05m`; `never` for None."""
    if seconds is None:
        return "never"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s" if seconds >= 1 or not seconds else f"{seconds:.1f}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    if minutes < 48 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes // 1440}d{minutes % 1440 // 60:02d}h"


def end(seconds: float | None, *, is_collapse: bool = False, is_stuck: bool = False) -> str:
    """When a scale-up ends: `>` where it may be much later, as servers refuse too much to tell, or after 12 h."""
    if seconds is None:
        return "never" if is_stuck else "> 12h"
    return ("> " if is_collapse else "") + duration(seconds)


def times(factor: float) -> str:
    """`1.0x`, `18x`."""
    return f"{factor:,.1f}x" if factor < 9.95 else f"{factor:,.0f}x"


def long_duration(seconds: float) -> str:
    """`12d`, `5h`, else as `duration`: for ages."""
    hours = seconds / 3600.0
    if hours >= 48:
        return f"{hours / 24:.0f}d"
    return f"{hours:.0f}h" if hours >= 2 else duration(seconds)


def share(value: float) -> str:
    """As a percentage; what is there and too small to show is `<0.1 %`."""
    percent = 100.0 * value
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def figure(value: float, unit: str) -> str:
    """The value with its unit; one that is not ours is shown as it is called."""
    if unit == "seconds":
        return duration(value)
    if unit == "share":
        return share(value)
    after = _UNITS.get(unit, f" {unit}")
    return f"{value:,.3g}{after}" if value < 1000 else f"{value:,.0f}{after}"


def printable(text: str) -> str:
    """The text with every such character spelled out (`\\x1b`, `\\u202e`); line breaks too."""
    if text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def _spelled(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


@dataclass(frozen=True, slots=True)
class Colour:
    """One meaning. `light` and `dark` are for the two kinds of paper, as areas and lines of a chart."""

    light: str
    dark: str
    terminal: str = ""
    """The sequence that begins it (RESET ends it); empty: the terminal's own."""
    panel: str = ""
    """Of a line on a dashboard, where `light` would be too pale."""

    @property
    def line(self) -> str:
        """Of a dashboard: it has to be seen on black and on white."""
        return self.panel or self.light


RESET = "\x1b[0m"
"""Of a terminal: back to its own colour."""
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
