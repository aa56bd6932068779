"""Scale-ups of a few nodes on servers that never matter: each moment reckoned by hand."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from balloons.preview.scale_up_run import Flow, flow
from tests.unit.balloons.preview.small_worlds import world
from tests.unit.throttler.simulator.small_plants import Everything, Nobody, Window
from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.pacing_policies import Permit
from throttler.simulator.requests_and_machines import LIST
from throttler.simulator.scenario_and_faults import ListBurst, ScaleUp, Scenario, ServerLoss, Slowdown

FOUR = Scenario(
    name="four",
    demands=(ScaleUp(at_s=0.0, nodes=4),),
    servers=1,
    capacity=1000.0,
    boot_s=12.0,
    boot_jitter=0.0,
    background=0.001,
    background_swing=0.0,
    lead_s=10.0,
    limit_s=1000.0,
)
"""Wanted at 0, booted at 12."""


def run(scenario: Scenario = FOUR, policy: Everything | Nobody | Window | None = None, **changes: object) -> Flow:
    """Joins take 8 s and half a step, as nodes register in the middle of their first one."""
    return flow(world(scenario, **({"join_s": 8.0, "ready_share": 0.25} | changes)), policy or Everything())


def at_s(found: Flow) -> list[float]:
    return [moment.at_s for moment in found.moments]


def test_pacing_is_asked_every_so_often_and_a_second_after_something_has_happened() -> None:
    found = run()
    #      the demand at 0, boots at 12, Ready at 15, the end
    assert at_s(found) == [-10, -5, 0, 5, 10, 13, 16, 21, 21.5]
    assert found.usable_s == ((21.5, 4),)
    assert (found.done_s, found.is_stuck, found.lost, found.error_share) == (21.5, False, 0, 0.0)
    assert [moment.requests_per_s for moment in found.moments[:5]] == [0.0] * 5, "nothing joins before 12"
    counts = [(moment.waiting, moment.booting, moment.held, moment.joining, moment.ready) for moment in found.moments]
    assert counts == [
        (0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0),
        *[(0, 4, 0, 0, 0)] * 3,
        *[(0, 0, 0, 4, 0)] * 3,
        (0, 0, 0, 0, 4),
    ]


def test_pacing_is_asked_at_once_when_a_demand_comes() -> None:
    found = run(replace(FOUR, demands=(ScaleUp(at_s=2.0, nodes=4),)))
    assert at_s(found)[:5] == [-10, -5, 0, 2, 7]
    assert found.done_s == 23.5


def test_without_a_gate_machines_join_as_they_boot() -> None:
    assert run(replace(FOUR, has_gate=False)).usable_s == ((20.5, 4),)


def test_a_place_in_the_window_is_taken_a_second_after_it_is_free() -> None:
    found = run(policy=Window(1))
    assert found.usable_s == ((21.5, 1), (31.0, 1), (40.5, 1), (50.0, 1))
    assert {moment.window for moment in found.moments} == {1, None}


def test_an_end_that_is_noticed_late_keeps_the_place_for_longer() -> None:
    """Free at 21.5, asked at 22.5 and then five seconds later: counted as joining until 24.5."""
    assert run(policy=Window(1), notice_s=3.0).usable_s[:2] == ((21.5, 1), (36.0, 1))


@dataclass
class Recorded(Everything):
    """Takes everything, and remembers what it was told."""

    joins: list[Joins] = field(default_factory=list)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        self.joins.append(joins)
        return super().step(signals, joins, now_s)


def test_pacing_is_told_what_joins_and_how_long_that_takes() -> None:
    twice = replace(FOUR, demands=(ScaleUp(at_s=0.0, nodes=4), ScaleUp(at_s=20.0, nodes=2)))
    told = Recorded()
    found = run(twice, told, notice_s=3.0)
    assert found.usable_s == ((21.5, 4), (41.0, 2))
    times = at_s(found)[:-1]
    joining = {now_s: (each.joining, each.joined, each.join_s) for now_s, each in zip(times, told.joins, strict=True)}
    assert joining[16] == (4, 0, None)
    assert joining[22.5] == (4, 0, 8.5), "ended at 21.5, and not noticed"
    assert joining[27.5] == (0, 4, 8.5)
    oldest = dict(zip(times, (each.oldest_joining_s for each in told.joins), strict=True))
    assert (oldest[10], oldest[16], oldest[27.5]) == (0.0, 3.0, 0.0)


def test_a_run_in_which_nothing_joins_is_given_up() -> None:
    """After five times the kill timer of 20 s, the look of 10 s and the launch."""
    stuck = replace(FOUR, kill_timer_s=20.0)
    found = run(stuck, Nobody())
    assert (found.done_s, found.is_stuck, found.moments[-1].at_s) == (None, True, 150.5)
    fault = Slowdown(at_s=0.0, for_s=50.0, factor=0.5)
    later = replace(stuck, demands=(ScaleUp(at_s=30.0, nodes=4),), faults=(fault,))
    assert run(later, Nobody()).moments[-1].at_s == 200.5, "counted from the last demand and the end of the last fault"
    assert run(stuck, Nobody(), launches_per_s=0.1, launch_burst=4).moments[-1].at_s == 200.5
    assert run(replace(FOUR, limit_s=100.0), Nobody()).moments[-1].at_s == 100.0


def test_a_run_in_which_most_machines_are_destroyed_is_given_up() -> None:
    """Fifty, and ten for each node wanted: the one that joins in eight seconds does not make up for it."""
    churn = replace(FOUR, demands=(ScaleUp(at_s=0.0, nodes=100),), kill_timer_s=20.0)
    found = run(churn, Window(1))
    assert (found.is_stuck, found.done_s) == (True, None)
    assert 1050 < found.lost <= 1150
    assert found.moments[-1].ready > 0


def test_servers_are_as_busy_as_others_keep_them() -> None:
    busy = replace(FOUR, background=0.3, lead_s=60.0)
    assert run(busy).moments[8].utilisation == pytest.approx(0.3, rel=0.001)
    assert run(replace(busy, servers=4)).moments[8].utilisation == pytest.approx(0.3, rel=0.001)
    lost = replace(busy, servers=4, faults=(ServerLoss(at_s=-30.0, for_s=600.0, server=1),))
    assert run(lost).moments[8].utilisation == pytest.approx(0.4, rel=0.001), "three do the work of four"
    slow = replace(busy, faults=(Slowdown(at_s=-30.0, for_s=600.0, factor=0.2),))
    assert run(slow).moments[8].utilisation == pytest.approx(0.2, rel=0.001), "all that they can"


def test_where_no_server_answers_nothing_is_done() -> None:
    dark = replace(FOUR, background=0.3, lead_s=60.0, faults=(ServerLoss(at_s=-30.0, for_s=600.0),))
    assert run(dark).moments[8].utilisation == 0.0


def test_while_no_server_answers_joins_stand_still_and_others_wait_for_that_long() -> None:
    """With the only one down nothing changed: joins went on, and nobody waited."""
    found = run(replace(FOUR, faults=(ServerLoss(at_s=15.0, for_s=60.0),)))
    assert found.done_s == pytest.approx((run().done_s or 0.0) + 60.0, abs=1.0)
    assert found.worst_latency_s == 60.0
    one_of_two = run(replace(FOUR, servers=2, faults=(ServerLoss(at_s=15.0, for_s=60.0),)))
    assert (one_of_two.done_s, one_of_two.worst_latency_s) == (run().done_s, pytest.approx(run().idle_latency_s))


def test_bursts_of_lists_cost_what_a_list_of_so_many_nodes_costs() -> None:
    burst = ListBurst(at_s=-60.0, for_s=600.0, per_s=500.0)
    listed = replace(FOUR, nodes_before=5000, background=0.1, lead_s=60.0, faults=(burst,))
    assert run(listed).moments[8].utilisation == pytest.approx(0.1 + 500 * LIST.cost_at(5000) / 1000, rel=0.001)


def test_joins_send_their_requests_and_cost_more_in_larger_clusters() -> None:
    found = run()
    requests = sum(after.requests_per_s * (after.at_s - before.at_s) for before, after in pairwise(found.moments))
    assert requests == pytest.approx(4 * 135, rel=0.08)
    assert found.worst_latency_s == pytest.approx(found.idle_latency_s)

    def spent(scenario: Scenario) -> float:
        spans = pairwise(run(scenario).moments)
        return sum(after.utilisation * (after.at_s - before.at_s) for before, after in spans) * scenario.capacity

    quiet = replace(FOUR, background=0.0)
    small, large = spent(quiet), spent(replace(quiet, nodes_before=5000))
    heavy = spent(replace(quiet, join_weight=2.0))
    assert small == pytest.approx(4 * 4.54, rel=0.08)
    assert large / small == pytest.approx((4.54 + 3.3) / 4.54, rel=0.01)
    assert heavy / small == pytest.approx(2.0, rel=0.01)
