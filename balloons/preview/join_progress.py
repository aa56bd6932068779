"""Joins as a flow: all share one clock of progress, which runs slower as the servers do, so a join is two numbers.

A join registers, waits for its DaemonSet pods to be made, and finishes. What it costs the servers goes by its progress.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile

import numpy as np

from balloons.preview.daemon_pods import DaemonPods
from balloons.preview.world import World
from throttler.simulator.plant import JOIN, THINK_SPREAD

PODS_AT = 0.05
"""Share of a join after which the node is registered and the controller manager sees it."""
_GRID = np.linspace(0.0, 1.0, 41)


def _work_done() -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Share of a join's work that is behind it at each share of its time, on idle servers."""
    at, cost = [], []
    for lane in JOIN.lanes:
        now_s = 0.0
        for step in lane.steps:
            now_s += step.think_s
            at.append(now_s / JOIN.alone_s)
            cost.append(step.kind.cost_at(0))
            now_s += step.kind.work_s
    spread = np.array([np.clip((_GRID - t * (1 - THINK_SPREAD / 4)) / (t * THINK_SPREAD / 2), 0, 1) for t in at])
    done = np.average(spread, axis=0, weights=cost)
    return np.asarray((done - done[0]) / (done[-1] - done[0]))


_DONE = _work_done()


class Joining:
    """All joins of one run; counts are nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods = DaemonPods(world.daemon_sets, world.pods_per_s, world.burst, world.status_writes)
        self._clock = 0.0
        """Shares of a join that have passed for whoever joins."""
        self._starting: deque[tuple[float, int, float]] = deque()
        """(clock at the beginning, joins, time) of those that have not registered."""
        self._registered: deque[list[float]] = deque()
        """[joins, time] of those that wait for DaemonSet pods."""
        self._finishing: deque[tuple[float, int, float]] = deque()
        self._sizes: deque[float] = deque()
        """Of those: how many joins' worth of work they still bring; pods that were made long ago have done theirs."""
        self._early_work = 0.0
        """Joins' worth of such pods' work that the servers have not taken yet."""
        self.under_way = self.ended = 0
        self.usable: list[tuple[float, int]] = []
        """(time, nodes) in order."""
        self._latest: deque[float] = deque(maxlen=20)
        self._ready_at: deque[float] = deque()
        """On the clock, of nodes that are not Ready yet."""

    @property
    def pods_queued(self) -> int:
        """Nodes that wait for DaemonSet pods."""
        return self._pods.queued

    @property
    def mean_s(self) -> float | None:
        """How long the latest joins took; None before the first has ended."""
        return sum(self._latest) / len(self._latest) if self._latest else None

    def oldest_s(self, now_s: float) -> float:
        """For how long the oldest join has been under way."""
        queues = (self._starting, self._registered, self._finishing)
        return now_s - min((queue[0][-1] for queue in queues if queue), default=now_s)

    def unnoticed(self, now_s: float) -> int:
        """Joins that have ended and that pacing still counts."""
        return sum(nodes for _, nodes in self._ended_since(now_s - self._world.notice_s))

    def _ended_since(self, since_s: float) -> Iterator[tuple[float, int]]:
        return takewhile(lambda end: end[0] > since_s, reversed(self.usable))

    def let_in(self, joins: int, now_s: float) -> None:
        """So many machines begin to join."""
        if joins:
            self._starting.append((self._clock, joins, now_s))
            self._ready_at.append(self._clock + self._world.ready_share)
            self.under_way += joins

    def has_ready(self) -> bool:
        """Whether nodes have become Ready since this was asked last."""
        found = False
        while self._ready_at and self._clock >= self._ready_at[0]:
            self._ready_at.popleft()
            found = True
        return found

    def progress(self, gain: float, accepted: float) -> float:
        """Let the clock move on by `gain`; joins' worth of work sent meanwhile, with what was refused and comes again.

        `accepted` is the share of requests that is not refused.
        """
        self._clock += gain
        early = accepted * self._early_work
        self._early_work -= early
        if not self._starting and not self._finishing:
            return early
        size = np.array([*(each[1] for each in self._starting), *self._sizes])
        now = self._clock - np.array([each[0] for each in (*self._starting, *self._finishing)])
        share = float(size @ (np.interp(now, _GRID, _DONE) - np.interp(now - gain, _GRID, _DONE)))
        return early + share / accepted

    def advance(self, seconds: float, now_s: float) -> None:
        """Let so much time pass until now: nodes register, get their DaemonSet pods, end."""
        while self._starting and self._clock - self._starting[0][0] >= PODS_AT:
            _, joins, since_s = self._starting.popleft()
            self._registered.append([joins, since_s])
            self._pods.add(joins)
        early = self._early_share()
        served = self._pods.step(seconds)
        self._early_work += early * self._pods.made_of_nodes
        self._finish(served, early)
        while self._finishing and self._clock - self._finishing[0][0] >= 1.0:
            self._sizes.popleft()
            _, joins, since_s = self._finishing.popleft()
            self._end(joins, since_s, now_s)

    def _early_share(self) -> float:
        """Of a join's work, what its DaemonSet pods have done before the last of them is made.

        Where making them takes much longer than a join, that is nearly all of theirs.
        """
        round_s = self._pods.round_s
        return self._world.daemon_share * round_s / (round_s + self._world.join_s)

    def _finish(self, served: int, early: float) -> None:
        """So many have got their last pod."""
        while served:
            head = self._registered[0]
            part = min(served, int(head[0]))
            self._finishing.append((self._clock - PODS_AT, part, head[1]))
            self._sizes.append(part * (1.0 - early))
            served -= part
            head[0] -= part
            if not head[0]:
                self._registered.popleft()

    def _end(self, joins: int, since_s: float, now_s: float) -> None:
        self.under_way -= joins
        self.ended += joins
        self.usable.append((now_s, joins))
        self._latest.append(now_s - since_s)
