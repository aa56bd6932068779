"""When the autoscaler looks at pods that wait for nodes, what it then may order, and how fast the cloud starts that.

Both autoscalers look every so often, 10 s by default. Karpenter counts them from when it last heard of the pods, and
it hears of all of them whenever the scheduler has tried them anew and tells other numbers: when a node registers, and
when one gets Ready. It then waits until it has heard of no other pod for a second (BATCH_IDLE_DURATION); a pod that
is heard of again does not make it wait longer. Observed on 1.15: it looks 1.0 to 1.3 s after the first node, when the
scheduler tries all pods at once. While more nodes come the scheduler tries them in parts, so that a batch takes up to
2.5 s; and it hears of them anew from each look on.
"""

from dataclasses import dataclass
from math import inf

from balloons.preview.possible_worlds import World

IDLE_S = 1.0
"""Karpenter's default."""
GATHER_S = 1.6
"""At most so long after the first pod of a batch Karpenter hears of one that is new to it, while nodes keep coming."""


@dataclass(slots=True)
class Looks:
    """`every_s` apart where nothing happens; those of an autoscaler that is not `is_prompted` hear of nothing."""

    every_s: float
    is_prompted: bool
    rhythm: float = 0.0
    """From 0 to 1: of GATHER_S, for how long a batch hears of pods that are new to it."""
    _first_s: float = inf
    """When it first heard of the pods since its last look; `inf` while it has not."""
    _new_s: float = inf
    """When it last heard of one that it had not heard of since then."""
    _heard_s: float = -inf
    """When it last heard of any."""

    @property
    def _idle_s(self) -> float:
        return IDLE_S if self.is_prompted else 0.0

    def expect(self, now_s: float) -> None:
        """There is new demand, and the autoscaler looks now: its reaction has been counted."""
        self._first_s = self._new_s = self._heard_s = now_s - self._idle_s

    def prompt(self, now_s: float) -> None:
        """A node has come or is Ready, so that pods that wait are tried anew."""
        if self.is_prompted:
            self._hear(now_s)

    def is_due(self, now_s: float) -> bool:
        """Whether it looks now; asked at least once a second, with pods waiting."""
        again_s = self._heard_s + self.every_s
        if now_s >= again_s:
            self._hear(again_s)
        if now_s < self._new_s + self._idle_s:
            return False
        self._first_s = self._new_s = inf
        return True

    def _hear(self, at_s: float) -> None:
        if at_s < self._first_s:
            self._first_s = self._new_s = at_s
        elif at_s <= self._first_s + GATHER_S * self.rhythm:
            self._new_s = max(self._new_s, at_s)
        self._heard_s = max(self._heard_s, at_s)


class Orders:
    """What the autoscaler may order at its next look, and machines that were ordered and have not been started."""

    def __init__(self, world: World, now_s: float, *, has_lever: bool) -> None:
        self._looks = Looks(world.look_s, world.is_look_prompted, world.rhythm)
        self._raise_every_s, self._taken_up_s = (world.raise_every_s, world.taken_up_s) if has_lever else (0.0, 0.0)
        self._adds_up = not has_lever and not world.scenario.has_gate
        """Whether so many more are allowed each time: the law, and whoever has a stock at a gate, say it of all."""
        self._ordered = self._asked = self._allowance = self._ceiling = 0
        """The ceiling is the most machines that may be ordered in all."""
        self._moved_s = -inf
        """When the ceiling last changed since the first machine was ordered."""
        self._rate = world.launches_per_s
        self._burst = max(1.0, world.launch_burst)
        self._credit = float(world.launch_burst) if self._rate else inf
        self._started_s = now_s

    @property
    def is_launch_bound(self) -> bool:
        """Whether machines were asked for that the cloud has not started."""
        return self._asked > 0

    def allow(self, machines: int, now_s: float) -> None:
        """So many more may be ordered, as soon as a lever says so."""
        if self._adds_up:
            machines += self._allowance
        wanted = self._ordered + machines
        if self._ordered and wanted != self._ceiling:
            if wanted > self._ceiling and now_s < self._moved_s + self._raise_every_s:
                return
            self._moved_s = now_s
        self._ceiling, self._allowance = wanted, machines

    def expect_look(self, now_s: float) -> None:
        """There is new demand: the autoscaler looks now (its reaction has been counted)."""
        self._looks.expect(now_s)

    def prompt_look(self, now_s: float) -> None:
        """A node has come, or is Ready."""
        self._looks.prompt(now_s)

    def look(self, waiting: int, now_s: float) -> None:
        """The autoscaler asks for what it may, if it is time for it; whoever waits then waits for its next look."""
        if waiting and self._looks.is_due(now_s) and now_s >= self._moved_s + self._taken_up_s:
            self._asked = min(waiting, self._allowance)

    def start(self, now_s: float) -> int:
        """How many machines the cloud starts now."""
        if not self._asked:
            return 0
        if self._rate is not None:
            self._credit = min(self._credit + self._rate * (now_s - self._started_s), self._burst)
            self._started_s = now_s
        started = int(min(self._asked, self._credit))
        self._credit -= started
        self._asked -= started
        self._ordered += started
        self._allowance = max(0, self._allowance - started)
        return started
