"""The knee: joins in flight at which the servers are just well used, remembered from one scale-up to the next."""

import math
from dataclasses import dataclass, replace

from throttler.law.settings import LawSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """A moving average of the window near the equilibrium; until one was met, the most that did no harm."""

    window: float | None = None
    at_s: float | None = None
    """When it was learned, monotonic; None: by an earlier process, `age_s` before this one started."""
    age_s: float = 0.0
    is_proven: bool = False
    """Whether an equilibrium was met; otherwise it is only a lower bound."""

    def age_at(self, now_s: float) -> float:
        """How long ago it was learned."""
        return self.age_s if self.at_s is None else max(0.0, now_s - self.at_s)


def near_equilibrium(knee: Knee, window: float, now_s: float, settings: LawSettings) -> Knee:
    """The window is used, and the index says that it is right."""
    if knee.window is None or not knee.is_proven:
        return Knee(window=window, at_s=now_s, is_proven=True)
    moved = knee.window + settings.knee_weight * (window - knee.window)
    return Knee(window=moved, at_s=now_s, is_proven=True)


def borne(knee: Knee, joining: int, now_s: float) -> Knee:
    """So many joins in flight did no harm: the knee is not below."""
    if joining <= (knee.window or 0.0):
        return knee
    return replace(knee, window=float(joining), at_s=now_s)


def start_window(knee: Knee, now_s: float, settings: LawSettings) -> float:
    """What a scale-up begins with: nearly the knee, and closer to a cold start the longer ago that was."""
    if knee.window is None:
        return settings.window_initial
    kept = math.pow(0.5, knee.age_at(now_s) / settings.forget_s) if settings.forget_s else 0.0
    trusted = settings.knee_trust * knee.window
    if not knee.is_proven:
        trusted = max(trusted, settings.window_initial)
    return settings.window_initial + kept * (trusted - settings.window_initial)
