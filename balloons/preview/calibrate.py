"""What a cluster's own nodes teach: how long machines boot and nodes join."""

import statistics
from collections.abc import Callable, Sequence

from balloons.preview.assumed import REACTION_S
from balloons.preview.births import Birth
from balloons.preview.known import Known

DAY_S = 86_400.0
"""Older nodes say little about today's images and agents."""
LEAST = 3
"""Fewer nodes teach nothing."""
LEAST_SPREAD = 0.05
"""Scale-ups differ from each other by more than their nodes' mean tells."""
GUESS_SPREAD = 0.2
"""Where only the pods that a node was made for tell when it was asked for: they may have waited for something else."""
MOST_JITTER = 0.3
SECONDS_VARIANCE = 1 / 6
"""Timestamps are whole seconds: what that adds to the variance of a difference of two."""
BURST_S = 30.0
"""Pods that were made further apart are no part of one burst (chosen: longer than any batch of an autoscaler)."""
LOOK_APART_S = 2.0
"""Machines that were asked for further apart come from two looks: those of one are asked for within a second."""
BURST_SPREAD = 0.3
"""Of the reaction to one burst: it depends on where in its own rhythm the autoscaler was."""


def boot(births: Sequence[Birth], known: Known) -> Known:
    """Boot time: by NodeClaims where there are enough, else by the pods that nodes were made for."""
    claimed = [each for each in births if each.is_asked_by_claim and each.boot_s is not None]
    if len(claimed) >= LEAST:
        return _learned(claimed, _boot_s, known, "")
    guessed = [each for each in births if each.boot_s is not None]
    return _learned(guessed, _boot_after_reaction_s, known, ", by the pods they were made for", GUESS_SPREAD)


def boot_jitter(births: Sequence[Birth], known: Known) -> Known:
    """Standard deviation between machines over their median, robustly; only NodeClaims tell it.

    By the tenth and ninetieth percentile, 2.563 deviations apart, which costs a third of the sample's worth.
    """
    times = [each.boot_s for each in births if each.is_asked_by_claim and each.boot_s is not None]
    if len(times) < 2 * LEAST or not (centre := statistics.median(times)):
        return known
    tenths = statistics.quantiles(times, n=10)
    told = ((tenths[-1] - tenths[0]) / 2.563) ** 2
    error = told * (2 / (0.65 * (len(times) - 1))) ** 0.5
    variance = _at_least_0(told - SECONDS_VARIANCE, error)
    spread = min(0.5, max(0.1, error / (2 * variance))) if variance else 0.0
    return Known.learned(min(MOST_JITTER, variance**0.5 / centre), _from(len(times)), spread)


def _at_least_0(value: float, error: float) -> float:
    """The mean of what a figure may be that cannot be below 0 and was measured with a normal error.

    Machines that seem not to differ at all in whole seconds still do, by what whole seconds hide.
    """
    if not error:
        return max(0.0, value)
    normal = statistics.NormalDist()
    return value + error * normal.pdf(value / error) / max(1e-12, normal.cdf(value / error))


def reaction(births: Sequence[Birth], known: Known) -> Known:
    """How soon the autoscaler asks for the first machines of a burst; what it asks for later was held back."""
    bursts = _bursts(births)
    count = sum(map(len, bursts))
    if count < LEAST:
        return known
    times = [_first_reaction_s(burst) for burst in bursts]
    spread = max(LEAST_SPREAD, BURST_SPREAD / len(times) ** 0.5)
    return Known.learned(max(0.5, statistics.median(times)), _from(count), spread)


def _bursts(births: Sequence[Birth]) -> list[list[Birth]]:
    """Of those that tell what they were made for, the oldest first."""
    told = sorted(((each.wanted_s, each) for each in births if each.wanted_s is not None), key=lambda pair: pair[0])
    bursts: list[list[Birth]] = []
    latest_s = float("-inf")
    for wanted_s, birth in told:
        if wanted_s > latest_s + BURST_S:
            bursts.append([])
        bursts[-1].append(birth)
        latest_s = wanted_s
    return bursts


def _first_reaction_s(burst: Sequence[Birth]) -> float:
    """The mean over the machines that were asked for first, within a second."""
    first_s = min(each.asked_s for each in burst if each.asked_s is not None)
    return statistics.fmean(
        each.reaction_s for each in burst if each.reaction_s is not None and (each.asked_s or 0.0) <= first_s + 1.0
    )


def join(births: Sequence[Birth], known: Known) -> Known:
    """A join's own time, without its waiting for DaemonSet pods to be made: that is another limit."""
    return _learned([each for each in births if each.own_s is not None], lambda each: each.own_s or 0.0, known, "")


def ready_share(births: Sequence[Birth]) -> float | None:
    """Share of joins after which nodes were Ready; None while there are too few."""
    told = [(each.ready_s - each.created_s, each.join_s) for each in births if each.ready_s and each.join_s]
    whole_s = sum(join_s for _, join_s in told)
    return None if len(told) < LEAST or not whole_s else sum(ready_s for ready_s, _ in told) / whole_s


def _boot_s(birth: Birth) -> float:
    return birth.boot_s or 0.0


def _boot_after_reaction_s(birth: Birth) -> float:
    """Pods wait for the autoscaler's reaction first, which is counted by itself."""
    return max(0.0, _boot_s(birth) - REACTION_S.value)


def _learned(
    births: Sequence[Birth], time_s: Callable[[Birth], float], known: Known, how: str, least: float = LEAST_SPREAD
) -> Known:
    """The middle; `known` while there are too few."""
    if len(births) < LEAST:
        return known
    times = [time_s(each) for each in births]
    centre = middle(times)
    deviation = statistics.stdev(times) / centre if centre else 0.0
    spread = min(0.5, max(least, deviation / len(times) ** 0.5))
    return Known.learned(max(0.5, centre), f"{_from(len(times))}{how}", spread)


def middle(times: Sequence[float]) -> float:
    """The mean without the outermost tenths, at least one at each end: a few odd ones do not count, and whole seconds
    still tell tenths, which a median does not."""
    outer = max(1, round(len(times) / 10))
    return statistics.fmean(sorted(times)[outer:-outer])


def _from(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'} of the last 24 h"
