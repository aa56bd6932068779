"""Figures as people read them, and text from the cluster made safe for a terminal.

Anybody who can write a label could otherwise paint on it.
"""

import unicodedata

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
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def _spelled(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
