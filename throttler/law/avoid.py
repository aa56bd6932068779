"""Congestion avoidance: a gradient law (as TCP Vegas and Netflix's Gradient have it) that rests where delay is just up.

g = clamp(T / r, 1/2, 1)        W <- W x (1 + gain x (g + q - 1))        equilibrium r = T / (1 - q)
"""

from throttler.law.settings import LawSettings

LONGEST_STEP = 3.0
"""Adaptation times that one look may make up for after a pause."""
FAR_BELOW_KNEE_BOOST = 2.0
UNGATED_GAIN = 0.5
"""Machines that cannot be held back are asked for at no less than this share of the pace."""
QUICKEST_S = 5.0
SLOWEST_S = 10.0
"""The window adapts by one step per quarter of a join, within these bounds: a scrape, and the study's 10 s."""


def adaptation_time_s(join_s: float) -> float:
    """How long one step of the gradient takes."""
    return min(max(join_s / 4.0, QUICKEST_S), SLOWEST_S)


def pull(index: float, settings: LawSettings) -> float:
    """Relative change of the window per adaptation time: +8 % far below the equilibrium, 0 at it, -2 % far above."""
    gradient = min(max(settings.target / index, 0.5), 1.0) if index > 0 else 1.0
    return settings.gain * (gradient + settings.queue - 1.0)


def grown(window: float, high_index: float, room: float | None, steps: float, settings: LawSettings) -> float:
    """The window after growth, which asks for two low samples and for room; never smaller.

    The gradient sees delay only where it already rises; utilisation says before how far that is. `room` is the share
    by which the window may grow until the servers are full: with much of it the window grows twice as fast as the
    gradient has it, with little by a part of what is left.
    """
    share = max(0.0, pull(high_index, settings))
    if room is not None:
        share = min(settings.room_boost * share, settings.room_gain * max(0.0, room))
    return window * (1.0 + share * min(steps, LONGEST_STEP))


def shrunk(window: float, low_index: float, settings: LawSettings) -> float:
    """The window after one cut, which asks for two high samples: 5 % per equilibrium that the index is above it."""
    excess = max(0.0, low_index / settings.equilibrium - 1.0)
    return window * (1.0 - min(settings.cut_limit, settings.cut * excess))


def cut_time_s(scrape_s: float, join_s: float) -> float:
    """How long a cut must show before the next: two scrapes, or the third of a join that has most of its work."""
    return max(2.0 * scrape_s, join_s / 3.0)


def pacing_gain(index: float, settings: LawSettings) -> float:
    """Share of the window's pace that goes in while delay is up: the backlog drains now, before any cut can show.

    It goes by the newest sample alone: unlike a cut it is taken back as soon as delay falls. By the square, because
    what is let in now loads most half a minute later: with less, one of twelve runs with list bursts collapsed. What
    nothing holds back after it was asked for arrives a boot time later, when that delay is long over: there a strong
    answer only starves the servers and floods them in turn.
    """
    share = min(1.0, settings.equilibrium / index) if index > 0 else 1.0
    return share**2 if settings.has_gate else max(UNGATED_GAIN, share)
