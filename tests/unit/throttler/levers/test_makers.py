"""Which NodePools may make a machine for a pod, of many: found by their labels, and not one by one."""

import pytest

from tests.counted_work import counting
from tests.unit.throttler.levers.pool_scene import a_pool, room, term
from throttler.joins.demand import Crowd
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import Requirement
from throttler.levers.lever_and_reasons import Holder
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import Makers, WaitingWork, may_make

SPOT = "karpenter.sh/capacity-type"
HOLDER = Holder(throttle="default", epoch=1)


IN_A, IN_BOTH = Requirement("team", "In", ("a",)), Requirement("team", "In", ("a", "b", "a"))


@pytest.mark.parametrize("terms", [(), ((),), ((IN_A,),), ((IN_BOTH,),), ((IN_BOTH, IN_A),), ((IN_A,), (IN_BOTH,))])
@pytest.mark.parametrize(
    "selector", [{}, {"team": "a"}, {"team": "b", SPOT: "spot"}, {"karpenter.sh/nodepool": "of-b"}]
)
def test_the_pools_that_may_make_a_machine_are_found_by_their_labels(
    selector: dict[str, str], terms: tuple[tuple[Requirement, ...], ...]
) -> None:
    pools = [
        a_pool("of-a", labels={"team": "a"}),
        a_pool("of-b", labels={"team": "b"}, requirements=[term(SPOT, "In", "spot")]),
        a_pool("of-some", requirements=[term("team", "In", "a", "b")]),
        a_pool("of-none"),
        a_pool("tainted", labels={"team": "a"}, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    ]
    how = Scheduling(node_selector=selector, node_terms=terms)
    found = sorted(pool.metadata.name for pool in Makers(pools).of(how))
    assert found == sorted(pool.metadata.name for pool in pools if may_make(pool, how))


def work_of(teams: int, *, by_terms: bool) -> int:
    """Of one look at so many NodePools, each for the pods of a team of its own, which wait."""
    pools = [a_pool(f"p{number}", labels={"team": f"t{number}"}) for number in range(teams)]
    views = [NodePoolView(pool=pool) for pool in pools]
    hows = [Scheduling(node_selector=dict(pool.spec.labels)) for pool in pools]
    if by_terms:
        hows = [Scheduling(node_terms=((Requirement("team", "In", (f"t{at}",)),),)) for at in range(teams)]
    crowds = tuple(Crowd(how, {}, 3) for how in hows)
    found: dict[str, int] = {}
    waiting = WaitingWork(crowds=crowds)
    with counting(found, "a look"):
        decide_node_pools(views, room(teams, 3 * teams), waiting, HOLDER, NodePoolMemory(), 0.0)
    return found["a look"]


@pytest.mark.parametrize("by_terms", [False, True])
def test_four_times_the_teams_with_a_pool_each_are_about_four_times_the_work(*, by_terms: bool) -> None:
    """What it was before: 4 s at each look, for 1,000 NodePools and as many kinds of pods that wait."""
    assert work_of(80, by_terms=by_terms) / work_of(20, by_terms=by_terms) <= 5
