"""Blind: hold for a while, then fall to half, whatever happens; joins that take longer still cut."""

import math

from throttler.law.settings import LawSettings


def drifted(window: float, blind_s: float, elapsed_s: float, settings: LawSettings) -> float:
    """The window after `elapsed_s` more of being blind, `blind_s` in all: it halves once over `stale_drift_s`."""
    end_s = settings.stale_hold_s + settings.stale_drift_s
    from_s = min(max(blind_s - elapsed_s, settings.stale_hold_s), end_s)
    to_s = min(max(blind_s, settings.stale_hold_s), end_s)
    if settings.stale_drift_s <= 0:
        return window / 2.0 if blind_s - elapsed_s < settings.stale_hold_s <= blind_s else window
    return window * math.pow(0.5, (to_s - from_s) / settings.stale_drift_s)
