"""DaemonSet pods of new nodes: made by one controller that limits itself, whatever the API servers could bear.

The DaemonSet controller goes DaemonSet by DaemonSet, two at a time, and makes up to 250 pods of each before it looks
again (BurstReplicas and --concurrent-daemonset-syncs of kube-controller-manager). So nodes that come together get their
last pod together, at the end: of 150 joins whose pods took 60 s the mean was usable after 52 s, on a real one.
"""

from collections import deque

ROUND = 250
WORKERS = 2
BESIDE_BURST = 1.5
"""What is written beside the pods of one rush is no more than so many times the burst: once hundreds of pods wait for
the client, so does the next status."""


class DaemonPods:
    """A queue of nodes that wait for `pods_each`, served by `per_s` with a burst; counts are joins.

    The controller writes each DaemonSet's status through the same limited client, `writes_each` times in a rush.
    """

    def __init__(self, pods_each: float, per_s: float, burst: float, writes_each: float = 0.0) -> None:
        self._pods_each = pods_each
        self._per_s = per_s
        self._burst = self._credit = burst
        self._most_beside = self._beside = min(writes_each * pods_each, BESIDE_BURST * burst)
        """Writes beside the pods that are still to come in this rush."""
        self._late_share = min(1.0, WORKERS / pods_each) if pods_each else 1.0
        self._waiting: deque[int] = deque()
        self._round = 0
        self._requests = self._left = 0.0
        """Of this round: for its pods and for what is written beside them, in all and still to come."""
        self._served = 0
        """Of this round."""
        self.queued = 0
        """Nodes that have not got all their pods."""
        self.made_of_nodes = 0.0
        """Pods made in the latest step, as nodes' worth."""

    def add(self, nodes: int) -> None:
        """So many nodes have registered."""
        if nodes:
            self._waiting.append(nodes)
            self.queued += nodes

    def step(self, seconds: float) -> int:
        """Let time pass; how many nodes have got their last pod, the first come first."""
        if not self.queued and self._credit >= self._burst:
            self._beside = self._most_beside
        self._credit = min(self._burst, self._credit) + self._per_s * seconds
        self.made_of_nodes = 0.0
        served = 0
        while self.queued and (self._round or self._begin_round()):
            spent = min(self._credit, self._left)
            self._credit -= spent
            self._left -= spent
            self.made_of_nodes += self._round * spent / self._requests if self._requests else 0.0
            served += self._serve()
            if self._left > 1e-9:
                break
            self._round = 0
        return served

    @property
    def round_s(self) -> float:
        """How long the round at hand takes in all: for so long its first pods have run when its last are made."""
        return self._requests / self._per_s if self._round else 0.0

    def _begin_round(self) -> bool:
        """Takes whoever has come by now, up to `ROUND`."""
        taken = 0
        while self._waiting and taken < ROUND:
            part = min(self._waiting[0], ROUND - taken)
            taken += part
            self._waiting[0] -= part
            if not self._waiting[0]:
                self._waiting.popleft()
        self._round, self._served = taken, 0
        beside = min(taken * self._pods_each, self._beside)
        self._beside -= beside
        self._requests = self._left = taken * self._pods_each + beside
        return taken > 0

    def _serve(self) -> int:
        done = 1.0 - self._left / self._requests if self._requests else 1.0
        share = max(0.0, done - (1.0 - self._late_share)) / self._late_share
        newly = int(self._round * min(1.0, share) + 1e-6) - self._served
        self._served += newly
        self.queued -= newly
        return newly
