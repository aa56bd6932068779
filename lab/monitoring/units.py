"""Values as Grafana writes them in a unit. Pure."""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def in_unit(value: float, unit: str) -> str:
    """The value with its unit, short enough for an axis."""
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return _time(value)
    if unit in ("bytes", "Bps"):
        return _binary(value) + ("/s" if unit == "Bps" else "")
    return f"{value:.3g}/s" if unit == "ops" else f"{round(value, 2):,g}"


def _time(seconds: float) -> str:
    if 0 < abs(seconds) < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if abs(seconds) < 300 else f"{seconds / 60:.3g} min"


def _binary(value: float) -> str:
    power = 0
    while abs(value) >= 1024 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.3g} {_BINARY[power]}"
