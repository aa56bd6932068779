"""Deals the tests to the workers of pytest-xdist: those that wait for a real control plane first, to each its share.

xdist hands every worker one stretch of the list and lets idle ones steal from the end of the longest. In the order of
the files one worker got all the slow tests, and at the end they ran one after the other.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def stretches(count: int, workers: int) -> list[int]:
    """How long a stretch each worker gets of `count` tests, as xdist's work-stealing schedule divides them."""
    sizes: list[int] = []
    for left in range(workers, 0, -1):
        sizes.append((count - sum(sizes)) // left)
    return sizes


def dealt(groups: Iterable[tuple[int, Sequence[T]]], quick: Sequence[T], workers: int) -> list[T]:
    """`groups` are (seconds, slow tests that stay together): the longest go first, each to who has least."""
    hands: list[list[T]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for seconds, tests in sorted(groups, key=lambda group: -group[0]):
        least = loads.index(min(loads))
        loads[least] += seconds
        hands[least] += tests
    rest = list(quick)
    order: list[T] = []
    for hand, size in zip(hands, stretches(len(quick) + sum(map(len, hands)), workers), strict=True):
        more = max(0, size - len(hand))
        order += hand + rest[:more]
        rest = rest[more:]
    return order + rest
