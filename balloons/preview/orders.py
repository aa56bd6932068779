"""From leave to machines that boot: the autoscaler looks every so often, and the cloud starts no more than it can."""

from math import inf

from balloons.preview.looks import Looks
from balloons.preview.world import World
from throttler.joins.grants import Grants, as_asked
from throttler.joins.joins import Joins


class Orders:
    """Leave that pacing gave, as the service keeps it, and machines that were asked for and have not been started."""

    def __init__(self, world: World, now_s: float) -> None:
        self._looks = Looks(world.look_s, world.is_look_prompted)
        self._rate = world.launches_per_s
        self._burst = max(1.0, world.launch_burst)
        self._credit = float(world.launch_burst) if self._rate else inf
        self._grants = Grants(delay_s=world.order_s)
        self._asked = self._started = 0
        self._started_s = now_s

    @property
    def is_launch_bound(self) -> bool:
        """Whether machines were asked for that the cloud has not started."""
        return self._asked > 0

    def as_asked(self, joins: Joins, now_s: float) -> Joins:
        """The joins as pacing counts them: leave that was given is as good as asked for."""
        self._grants = self._grants.looked(self._started, joins.waiting, now_s)
        return as_asked(joins, self._grants)

    def give_leave(self, machines: int, now_s: float) -> None:
        """So many more may be asked for."""
        self._grants = self._grants.and_also(machines, now_s)

    def expect_look(self, now_s: float) -> None:
        """There is new demand: the autoscaler looks now (its reaction has been counted)."""
        self._looks.expect(now_s)

    def prompt_look(self, now_s: float) -> None:
        """A node has come, or is Ready."""
        self._looks.prompt(now_s)

    def look(self, *, is_anybody_waiting: bool, now_s: float) -> None:
        """The autoscaler asks for what it may, if it is time for it; whoever waits then waits for its next look."""
        if is_anybody_waiting and self._looks.is_due(now_s):
            self._asked = self._grants.left

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
        self._started += started
        return started
