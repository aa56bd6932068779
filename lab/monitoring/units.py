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
        return f"{1000 * value:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s"
    if unit in ("bytes", "Bps"):
        return _binary(value) + ("/s" if unit == "Bps" else "")
    return f"{value:.3g}/s" if unit == "ops" else f"{round(value, 2):,g}"


def _binary(value: float) -> str:
    power = 0
    while abs(value) >= 1024 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.3g} {_BINARY[power]}"
