"""Values as Grafana writes them in a unit. Pure."""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_MINUTES_FROM_S = 300.0


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


def unit_size(top: float, unit: str) -> float:
    """How much one of the units is in which `top` is written: steps of an axis are round in it."""
    if unit == "s":
        return 60.0 if top >= _MINUTES_FROM_S else 1.0
    return 1024.0 ** _power(top) if unit in ("bytes", "Bps") else 1.0


def _time(seconds: float) -> str:
    if 0 < abs(seconds) < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if abs(seconds) < _MINUTES_FROM_S else f"{seconds / 60:.3g} min"


def _binary(value: float) -> str:
    power = _power(value)
    return f"{value / 1024**power:.3g} {_BINARY[power]}"


def _power(value: float) -> int:
    """Of 1024, in whose multiples it is written."""
    return next((power for power in range(len(_BINARY) - 1) if abs(value) < 1024 ** (power + 1)), len(_BINARY) - 1)
