"""From leave to machines that boot: the autoscaler looks every so often, and the cloud starts no more than it can."""

from math import inf

from balloons.preview.looks import Looks
from balloons.preview.world import World


class Orders:
    """What the autoscaler may order at its next look, and machines that were ordered and have not been started."""

    def __init__(self, world: World, now_s: float) -> None:
        self._looks = Looks(world.look_s, world.is_look_prompted)
        self._rate = world.launches_per_s
        self._burst = max(1.0, world.launch_burst)
        self._credit = float(world.launch_burst) if self._rate else inf
        self._allowance = self._asked = 0
        self._started_s = now_s

    @property
    def is_launch_bound(self) -> bool:
        """Whether machines were asked for that the cloud has not started."""
        return self._asked > 0

    def allow(self, machines: int) -> None:
        """So many more may be ordered from now on."""
        self._allowance = machines

    def expect_look(self, now_s: float) -> None:
        """There is new demand: the autoscaler looks now (its reaction has been counted)."""
        self._looks.expect(now_s)

    def prompt_look(self, now_s: float) -> None:
        """A node has come, or is Ready."""
        self._looks.prompt(now_s)

    def look(self, *, is_anybody_waiting: bool, now_s: float) -> None:
        """The autoscaler asks for what it may, if it is time for it; whoever waits then waits for its next look."""
        if is_anybody_waiting and self._looks.is_due(now_s):
            self._asked = self._allowance

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
        self._allowance = max(0, self._allowance - started)
        return started
