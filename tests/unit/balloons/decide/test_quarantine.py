"""A pool that breaks the decision holds still, and every other pool's plan is what it would be without it."""

from balloons.api.pool import PoolNodes, Schedule
from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.settings import DecideSettings
from tests.world import NOW, World, a_pool, nodes
from throttler.kube.selectors import LabelSelector

SETTINGS = DecideSettings()
BROKEN = a_pool(
    "broken",
    nodes=PoolNodes(LabelSelector({"pool": "cpu"})),
    schedules=(Schedule("no cron at all", "1h", size=1),),
)


def test_a_pool_that_cannot_be_decided_says_so_and_changes_nothing() -> None:
    plan, _ = decide(World.of(BROKEN, nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    (decision,) = plan.pools
    assert decision.because.code == "Failed"
    assert "no cron at all" in decision.because.sentence or "Cron" in decision.because.sentence
    assert decision.actions == ()


def test_the_other_pools_are_decided_as_if_it_were_not_there() -> None:
    alone, _ = decide(World.of(a_pool(), nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    beside, _ = decide(World.of(a_pool(), BROKEN, nodes=nodes(3)).snapshot(), Memory(), SETTINGS, NOW)
    assert [d for d in beside.pools if d.pool.name == "gpu"] == list(alone.pools)
