"""Figures as people read them."""

from balloons.preview.known import Known


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
    return f"{minutes // 60}h{minutes % 60:02d}m"


def share(value: float) -> str:
    """As a percentage; what is there and too small to show is `<0.1 %`."""
    percent = 100.0 * value
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def count(number: float, noun: str) -> str:
    """`1 node`, `2,000 nodes`."""
    return f"{number:,.0f} {noun}{'' if round(number) == 1 else 's'}"


_UNITS = {"seconds": "", "share": "", "count": "", "cores": " cores", "coreSeconds": " core-seconds", "perSecond": "/s"}


def figure(known: Known, unit: str) -> str:
    """The value with its unit."""
    if unit == "seconds":
        return duration(known.value)
    if unit == "share":
        return share(known.value)
    return f"{known.value:,.3g}{_UNITS[unit]}" if known.value < 1000 else f"{known.value:,.0f}{_UNITS[unit]}"
