"""Servers, joins and DaemonSet pods as flows, one step at a time and reckoned by hand."""

from itertools import pairwise

import pytest

from balloons.preview.join_progress import PODS_AT, ROUND, DaemonPods, Felt, FlowServer, Joining
from tests.unit.balloons.preview.small_worlds import world
from throttler.simulator.requests_and_machines import JOIN, SERVER
from throttler.simulator.scenario_and_faults import Scenario

SMALL = Scenario(name="small", demands=(), servers=1, capacity=10.0, seats_per_capacity=20.0)
"""Ten seat-seconds per second, 200 seats, room for 2,500 requests in the queue."""
IDLE_S = (11 * 0.150 + 124 * 0.010) / 135
"""The mean of a join's requests, executed one by one."""
SEAT_S = 0.5 * (11 * 0.3 * 0.150 + 124 * 0.01 * 0.010) / JOIN.cost_at(0)
"""Half of the mean execution time of a seat-second."""
AT_ONCE = 200 * SEAT_S
"""Seat-seconds that execute; what is more waits."""


def served(pods: DaemonPods, *seconds: float) -> list[int]:
    return [pods.step(each) for each in seconds]


def test_a_node_is_served_with_its_last_pod() -> None:
    pods = DaemonPods(2, 10.0, 0.0)
    pods.add(5)
    assert served(pods, 0.5, 0.25, 0.25) == [2, 1, 2], "of each of two DaemonSets at the same time"
    late = DaemonPods(8, 32.0, 0.0)
    late.add(4)
    assert served(late, 0.75, 0.125, 0.125) == [0, 2, 2], "two DaemonSets are the last quarter of eight"
    assert late.queued == 0


def test_pods_that_were_made_count_before_any_node_has_its_last() -> None:
    pods = DaemonPods(8, 32.0, 0.0)
    pods.add(4)
    assert (pods.step(0.5), pods.made_of_nodes, pods.queued) == (0, 2.0, 4)
    assert pods.round_s == 1.0
    assert (pods.step(0.5), pods.made_of_nodes, pods.queued) == (4, 2.0, 0)
    assert pods.round_s == 0.0
    assert (pods.step(0.5), pods.made_of_nodes) == (0, 0.0)


def test_a_burst_is_made_at_once_and_saved_up_anew() -> None:
    pods = DaemonPods(1, 10.0, 30.0)
    pods.add(50)
    assert served(pods, 0.0, 1.0, 0.5) == [30, 10, 5]
    assert served(pods, 0.5, *[1.0] * 9) == [5, *[0] * 9]
    pods.add(100)
    assert served(pods, 0.0, 1.0) == [30, 10], "no more than one burst is saved"


def test_a_rounds_room_is_filled_first_come_first() -> None:
    pods = DaemonPods(1, 1000.0, 0.0)
    pods.add(200)
    pods.add(0)
    pods.add(100)
    assert pods.queued == 300
    assert (pods.step(0.125), pods.round_s) == (125, 250 / 1000)
    assert (pods.step(0.15), pods.round_s) == (150, 50 / 1000)
    assert (pods.step(0.025), pods.queued) == (25, 0)


def test_who_comes_while_a_round_is_made_waits_for_the_next() -> None:
    pods = DaemonPods(4, 40.0, 0.0)
    pods.add(10)
    assert served(pods, 0.5) == [0]
    pods.add(10)
    assert served(pods, 0.5, 0.5, 0.5) == [10, 0, 10]


def test_where_no_pods_are_made_nodes_pass_at_once() -> None:
    pods = DaemonPods(0, 10.0, 0.0, 6.0)
    pods.add(3 * ROUND)
    assert (pods.step(0.0), pods.queued, pods.made_of_nodes, pods.round_s) == (3 * ROUND, 0, 0.0, 0.0)


def test_a_status_is_written_beside_each_pod_up_to_one_and_a_half_bursts() -> None:
    """Eight DaemonSets' 6 writes each, and no more than 45 of these 48: the burst is 30."""
    pods = DaemonPods(8, 20.0, 30.0, 6.0)
    pods.add(4)
    pods.step(0.0)
    assert pods.round_s == (32 + 32) / 20
    pods.step(3.2)
    pods.add(4)
    pods.step(0.0)
    assert pods.round_s == (32 + 13) / 20, "the rest of the same rush"
    served(pods, 4.0, 1.0)
    pods.add(4)
    pods.step(0.0)
    assert pods.round_s == (32 + 32) / 20, "a new rush, once the burst is whole again"
    few = DaemonPods(8, 20.0, 40.0, 2.0)
    few.add(4)
    few.step(0.0)
    assert few.round_s == (32 + 16) / 20


def test_nodes_that_come_together_get_their_last_pod_together() -> None:
    """Of 150 joins whose pods took 60 s the mean was usable after 51.6 s on a real one: DaemonSet by DaemonSet."""
    pods = DaemonPods(8, 20.0, 40.0, 6.0)
    pods.add(150)
    served = {at_s: pods.step(1.0) for at_s in range(1, 70)}
    assert sum(served.values()) == 150
    mean_s = sum(at_s * nodes for at_s, nodes in served.items()) / 150
    assert mean_s == pytest.approx(51.6, rel=0.05)


def test_larger_herds_are_served_in_rounds() -> None:
    pods = DaemonPods(1, 1000.0, 0.0)
    pods.add(3 * ROUND)
    assert sum(pods.step(0.25) for _ in range(3)) == 3 * ROUND
    assert pods.queued == 0


@pytest.mark.parametrize(
    ("nodes", "daemon_sets", "took_s"), [(72, 8, 30.0), (56, 8, 23.4), (77, 7, 27.5), (92, 6, 29.0)]
)
def test_daemon_sets_status_is_written_through_the_same_limit(nodes: int, daemon_sets: int, took_s: float) -> None:
    """Four real scale-ups at the default of 20/s, from the first node to the last pod made (benchmarks.truth)."""
    pods = DaemonPods(daemon_sets, 20.0, 30.0, 6.0)
    pods.add(nodes)
    at_s = next(step / 4 for step in range(1, 200) if not (pods.step(0.25), pods.queued)[1])
    assert at_s == pytest.approx(took_s, abs=1.5)


def test_an_idle_server_answers_as_fast_as_it_can() -> None:
    server = FlowServer(SMALL, 0.0)
    assert server.idle_s == pytest.approx(IDLE_S)
    idle = Felt(server.idle_s, 1.0, 0.0, 1.0, SERVER.retry_after_min_s)
    assert server.felt == idle
    assert server.step(0.0, 0.0, 10.0, 0.0, 1.0) == idle
    assert (server.requests, server.errors, server.busy_s) == (0.0, 0.0, 0.0)
    felt = server.step(10.0, 0.1, 10.0, 1.0, 1.0)
    assert (felt.latency_s, felt.accepted) == (pytest.approx(server.idle_s), 1.0)
    assert server.busy_s == pytest.approx(0.01, rel=0.1), "most of a tenth of a seat-second, of ten in a second"


def test_requests_that_cost_next_to_nothing_are_all_answered() -> None:
    """What is refused comes again, ever less of it, until its cost is no number any more."""
    assert FlowServer(SMALL, 0.0).step(5e-324, 0.0, 10.0, 0.0, 1.0).accepted == 1.0


def test_joins_that_are_heavier_take_longer_on_an_idle_server() -> None:
    heavy = Scenario(name="heavy", demands=(), servers=1, capacity=10.0, join_weight=3.0)
    assert FlowServer(heavy, 0.0).idle_s == pytest.approx(3 * IDLE_S)


def test_what_finds_no_seat_waits_behind_the_others() -> None:
    server = FlowServer(SMALL, 0.0)
    felt = server.step(1000.0, 40.0, 10.0, 0.0, 1.0)
    wait_s = (40.0 - 10.0 - AT_ONCE) / 10
    assert felt.wait_s == pytest.approx(wait_s)
    assert felt.stretch == 200 / 10
    assert felt.latency_s == pytest.approx(20 * IDLE_S + wait_s)
    assert felt.accepted == 1.0
    counted = server.counters
    assert (counted.requests, counted.errors, counted.started_s, counted.seats_share) == (1000, 0, 0.0, 1.0)
    assert (counted.latency_count, counted.wait_count, counted.busy_s) == (1000, 1000, 1.0)
    assert counted.latency_sum_s == pytest.approx(1000 * felt.latency_s)
    assert counted.wait_sum_s == pytest.approx(1000 * felt.wait_s)


def test_counters_go_on_from_step_to_step() -> None:
    server = FlowServer(SMALL, 0.0)
    first = server.step(1000.0, 40.0, 10.0, 0.0, 1.0)
    second = server.step(500.0, 5.0, 10.0, 1.0, 1.0)
    counted = server.counters
    assert (counted.requests, counted.latency_count, counted.wait_count) == (1500, 1500, 1500)
    assert counted.latency_sum_s == pytest.approx(1000 * first.latency_s + 500 * second.latency_s)
    assert counted.wait_sum_s == pytest.approx(1000 * first.wait_s + 500 * second.wait_s)
    assert counted.busy_s == pytest.approx(2.0)


def test_a_slow_server_is_busy_with_what_it_can_do_and_that_is_less() -> None:
    server = FlowServer(SMALL, 0.0)
    felt = server.step(1000.0, 40.0, 5.0, 0.0, 1.0)
    assert (server.busy_s, felt.stretch) == (0.5, 200 / 5)
    assert felt.wait_s == pytest.approx((40.0 - 5.0 - AT_ONCE) / 5)


def test_a_full_server_is_busy_for_as_long_as_a_step_takes() -> None:
    server = FlowServer(SMALL, 0.0)
    felt = server.step(1000.0, 60.0, 10.0, 0.0, 2.0)
    assert server.busy_s == pytest.approx(2.0)
    assert felt.wait_s == pytest.approx((60.0 - 20.0 - AT_ONCE) / 10)


def test_who_would_wait_for_longer_than_fifteen_seconds_is_refused() -> None:
    """200 seat-seconds of 500 requests: ten are done, 11 execute, 150 may wait."""
    server = FlowServer(SMALL, 0.0)
    felt = server.step(500.0, 200.0, 10.0, 0.0, 1.0)
    refused = (200.0 - 10.0 - AT_ONCE - 150.0) / 0.4
    assert felt.wait_s == pytest.approx(15.0)
    assert server.errors == pytest.approx(refused)
    assert felt.accepted == pytest.approx(1.0 - refused / 500)
    assert server.counters.latency_count == pytest.approx(500 - refused)


def test_who_finds_the_queue_full_is_refused() -> None:
    """5,000 requests of 0.04: 2,500 may wait, and that is 100 seat-seconds."""
    server = FlowServer(SMALL, 0.0)
    felt = server.step(5000.0, 200.0, 10.0, 0.0, 1.0)
    assert felt.wait_s == pytest.approx(10.0)
    assert server.errors == pytest.approx((200.0 - 10.0 - AT_ONCE - 100.0) / 0.04)
    dragged = server.step(0.0, 0.0, 10.0, 1.0, 1.0)
    assert dragged.stretch > 200 / 10, "all work is heavier while the queue is long"
    assert server.busy_s == pytest.approx(2.0)


def test_a_queue_that_is_too_long_for_what_comes_now_slows_a_server_no_more_than_a_full_one() -> None:
    """What waits is 150 seat-seconds, of which only 2.5 would fit if all of it were as small as these requests."""
    server = FlowServer(SMALL, 0.0)
    server.step(500.0, 200.0, 10.0, 0.0, 1.0)
    felt = server.step(1000.0, 1.0, 10.0, 1.0, 1.0)
    assert felt.stretch == pytest.approx(20.0 * SERVER.drag(1.0))


def test_while_nothing_comes_a_queue_is_as_full_as_it_would_be_of_joins_requests() -> None:
    """100 seat-seconds wait: 4,700 of them, which are more than fit, or 1,570 that are three times as heavy."""
    heavy = Scenario(name="heavy", demands=(), servers=1, capacity=10.0, seats_per_capacity=20.0, join_weight=3.0)
    for scenario, share in ((SMALL, 1.0), (heavy, 100.0 / (3 * IDLE_S) / 2500)):
        server = FlowServer(scenario, 0.0)
        server.step(5000.0, 200.0, 10.0, 0.0, 1.0)
        assert server.step(0.0, 0.0, 10.0, 1.0, 0.25).stretch == pytest.approx(20.0 * SERVER.drag(share))


def test_no_more_is_refused_than_has_come_and_a_little_gets_through() -> None:
    server = FlowServer(SMALL, 0.0)
    server.step(500.0, 160.0, 10.0, 0.0, 1.0)
    felt = server.step(10.0, 100.0, 1.0, 1.0, 1.0)
    assert felt.accepted == 0.02
    assert server.requests == 510
    assert server.errors == 10


def test_retry_after_doubles_after_its_own_length_while_requests_are_refused_and_halves_again() -> None:
    server = FlowServer(SMALL, 0.0)
    told = [server.step(5000.0, 200.0, 10.0, now_s / 2, 0.5).retry_after_s for now_s in range(140)]
    turns = {after: index / 2 for index, (before, after) in enumerate(pairwise(told), 1) if before != after}
    assert told[0] == 1.0
    assert turns == {2.0: 1.0, 4.0: 3.0, 8.0: 7.0, 16.0: 15.0, 32.0: 31.0}
    told = [server.step(0.0, 0.0, 10.0, 70.0 + now_s, 1.0).retry_after_s for now_s in range(80)]
    assert [told.index(each) for each in (16.0, 8.0, 4.0, 2.0, 1.0)] == [25, 41, 49, 53, 55]
    assert told[-1] == 1.0


def joining(**changes: object) -> Joining:
    return Joining(world(SMALL, **changes))


def register(joins: Joining, now_s: float = 0.0) -> float:
    """Let whoever has just begun register; the work that was sent."""
    sent = joins.progress(PODS_AT, 1.0)
    joins.advance(0.0, now_s)
    return sent


def move(joins: Joining, shares: int, from_s: float = 0.0) -> float:
    """Let sixteenths of a join pass, one a second; the work that was sent, in joins."""
    sent = 0.0
    for passed in range(1, shares + 1):
        sent += joins.progress(1 / 16, 1.0)
        joins.advance(1.0, from_s + passed)
    return sent


def test_joins_end_when_the_clock_has_gone_round() -> None:
    joins = joining()
    joins.let_in(10, 0.0)
    assert (joins.under_way, joins.ended, joins.mean_s, joins.oldest_s(7.0)) == (10, 0, None, 7.0)
    register(joins)
    move(joins, 15)
    assert (joins.under_way, joins.ended, joins.usable) == (10, 0, [])
    move(joins, 1, from_s=15.0)
    assert (joins.under_way, joins.ended, joins.usable) == (0, 10, [(16.0, 10)])
    assert (joins.mean_s, joins.oldest_s(20.0)) == (16.0, 0.0)


def test_a_join_sends_its_work_once_and_again_what_is_refused() -> None:
    joins = joining()
    joins.let_in(10, 0.0)
    assert register(joins) + move(joins, 16) == pytest.approx(10.0)
    assert joins.progress(1 / 16, 1.0) == 0.0
    refused = joining()
    refused.let_in(1, 0.0)
    assert refused.progress(1.0, 0.25) == pytest.approx(4.0)


def test_most_of_a_joins_work_comes_in_its_first_half_minute() -> None:
    """Eleven lists are 3.3 of 4.54 seat-seconds; the last agent's starts after 23 of 74 s, give or take a quarter."""
    joins = joining()
    joins.let_in(100, 0.0)
    first = register(joins) + move(joins, 6)
    assert first == pytest.approx(100 * (3.3 + 0.5) / 4.54, rel=0.05)


def test_who_comes_later_ends_later() -> None:
    joins = joining()
    joins.let_in(0, -50.0)
    joins.let_in(3, 0.0)
    register(joins)
    move(joins, 4)
    joins.let_in(5, 4.0)
    assert joins.oldest_s(4.0) == 4.0
    move(joins, 13, from_s=4.0)
    assert (joins.usable, joins.under_way, joins.oldest_s(17.0)) == ([(16.0, 3)], 5, 13.0)
    move(joins, 7, from_s=17.0)
    assert joins.usable == [(16.0, 3), (21.0, 5)]
    assert (joins.mean_s, joins.ended) == ((16.0 + 17.0) / 2, 8)


def test_a_joins_work_comes_on_average_when_its_requests_are_sent() -> None:
    """However differently agents think: half of them for longer, half for as much shorter."""
    sent, costs = 0.0, 0.0
    for lane in JOIN.lanes:
        now_s = 0.0
        for step in lane.steps:
            now_s += step.think_s
            sent += now_s / JOIN.alone_s * step.kind.cost_at(0)
            costs += step.kind.cost_at(0)
            now_s += step.kind.work_s
    joins = joining()
    joins.let_in(1, 0.0)
    mean = sum((part + 0.5) / 400 * joins.progress(1 / 400, 1.0) for part in range(400))
    assert mean == pytest.approx(sent / costs, rel=0.012)


def test_a_thousand_cohorts_end_in_the_order_in_which_they_began() -> None:
    joins = joining()
    sent, sizes = 0.0, [1 + second % 7 for second in range(1000)]
    for second in range(1300):
        joins.let_in(sizes[second] if second < 1000 else 0, float(second))
        sent += joins.progress(1 / 256, 1.0)
        joins.advance(1.0, second + 1.0)
    assert [nodes for _, nodes in joins.usable] == sizes
    assert sent == pytest.approx(sum(sizes), rel=0.01)
    assert joins.under_way == 0


def test_the_latest_twenty_cohorts_say_how_long_a_join_takes() -> None:
    joins = joining()
    for cohort in range(21):
        joins.let_in(1, -100.0 if cohort == 0 else 0.0)
        joins.progress(2.0**-10, 1.0)
    joins.progress(PODS_AT, 1.0)
    joins.advance(1.0, 20.0)
    joins.progress(1.0, 1.0)
    joins.advance(1.0, 40.0)
    assert (joins.ended, joins.mean_s) == (21, 40.0)


def test_what_has_just_ended_is_not_noticed_yet() -> None:
    joins = joining(notice_s=5.0)
    joins.let_in(3, 0.0)
    register(joins)
    move(joins, 4)
    joins.let_in(4, 4.0)
    move(joins, 20, from_s=4.0)
    assert [joins.unnoticed(now_s) for now_s in (20.9, 21.0, 25.9, 26.0)] == [7, 4, 4, 0]


def test_nodes_get_ready_on_their_way() -> None:
    joins = joining(ready_share=0.5)
    joins.let_in(3, 0.0)
    joins.let_in(2, 0.0)
    register(joins)
    move(joins, 7)
    assert not joins.has_ready()
    move(joins, 1)
    assert joins.has_ready()
    assert not joins.has_ready(), "told once"


def test_registered_nodes_wait_for_their_daemon_pods() -> None:
    """Ten nodes of four pods each, at two pods a second."""
    joins = joining(daemon_sets=4, pods_per_s=2.0, burst=0.0)
    joins.let_in(10, 0.0)
    register(joins)
    assert joins.pods_queued == 10
    assert joins.progress(1.0, 1.0) == 0.0, "nodes that wait send nothing"
    joins.advance(10.0, 10.0)
    assert joins.pods_queued == 10, "none has its last pod"
    assert joins.oldest_s(10.0) == 10.0
    joins.progress(1.0, 1.0)
    joins.advance(5.0, 15.0)
    assert joins.pods_queued == 5
    joins.progress(0.9, 1.0)
    joins.advance(0.0, 20.0)
    assert joins.ended == 0
    joins.progress(0.06, 1.0)
    joins.advance(0.0, 21.0)
    assert (joins.ended, joins.pods_queued, joins.under_way) == (5, 5, 5)
    assert joins.usable == [(21.0, 5)]


def test_daemon_pods_that_were_made_early_do_their_work_early() -> None:
    """Half of the work is the pods'; making them takes as long as a join, so half of that comes as they are made."""
    joins = joining(daemon_sets=8, daemon_share=0.5, pods_per_s=10.0, burst=0.0, join_s=8.0)
    joins.let_in(10, 0.0)
    first = register(joins)
    joins.advance(4.0, 4.0)
    early = joins.progress(0.0, 1.0)
    assert early == pytest.approx(0.5 * 0.5 * 5), "of the five nodes' worth of pods that have been made"
    assert joins.progress(0.0, 1.0) == 0.0
    joins.advance(4.0, 8.0)
    assert joins.pods_queued == 0
    late = sum(joins.progress(0.25, 1.0) for _ in range(5))
    assert late == pytest.approx(0.25 * 5 + 0.75 * (10 - first))


def test_early_work_that_is_refused_comes_again() -> None:
    joins = joining(daemon_sets=8, daemon_share=0.5, pods_per_s=10.0, burst=0.0, join_s=8.0)
    joins.let_in(10, 0.0)
    register(joins)
    joins.advance(4.0, 4.0)
    assert [joins.progress(0.0, 0.5) for _ in range(2)] == pytest.approx([0.625, 0.3125])
