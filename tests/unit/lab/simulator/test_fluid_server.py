"""One server as a fluid: what is done, what waits, who is refused."""

from itertools import pairwise

import pytest

from lab.simulator.fluid_server import Answer, Arrivals, FluidServer
from throttler.simulator.requests_and_machines import SERVER

STEP_S = 0.25
CAPACITY, SEATS = 4.0, 16


def arrivals(requests: float, work_s: float = 0.01) -> Arrivals:
    return Arrivals(requests, requests * work_s, 0.5 * requests * work_s * work_s)


def steps(server: FluidServer, count: int, coming: Arrivals, first: int = 0) -> list[Answer]:
    return [server.step(coming, CAPACITY, step * STEP_S, step) for step in range(first, first + count)]


def test_an_idle_server_is_neither_slow_nor_full() -> None:
    server = FluidServer(CAPACITY, SEATS, 0.0, STEP_S)
    *_, last = steps(server, 40, arrivals(10))
    assert last.stretch < 1.01
    assert (last.wait_s, last.accepted, last.is_queued) == (0.0, 1.0, False)
    assert server.busy_s == pytest.approx(10 * 0.01 * 40 / CAPACITY, rel=0.02)


def test_more_than_it_can_do_stretches_execution_before_anything_queues() -> None:
    server = FluidServer(CAPACITY, SEATS, 0.0, STEP_S)
    found = steps(server, 400, Arrivals(30, 1.02, 1.02 * 0.056))
    stretched = next(index for index, answer in enumerate(found) if answer.stretch > 1.5)
    waiting = next(index for index, answer in enumerate(found) if answer.wait_s > 0)
    assert stretched < waiting


def test_everything_that_is_queued_is_settled_once() -> None:
    server = FluidServer(CAPACITY, SEATS, 0.0, STEP_S)
    queued, settled = [], []
    for step in range(600):
        answer = server.step(arrivals(300 if step < 100 else 0), CAPACITY, step * STEP_S, step)
        queued += [step] if answer.is_queued else []
        settled += [each.ticket for each in server.settled]
    assert len(queued) > 50
    assert settled == queued
    assert server.queued == pytest.approx(0.0, abs=1e-6)


def test_a_full_queue_refuses_and_its_retry_after_doubles_up_to_the_longest() -> None:
    server = FluidServer(CAPACITY, SEATS, 0.0, STEP_S)
    found = steps(server, 600, arrivals(1000))
    assert found[-1].accepted < 0.5
    assert server.queued <= SERVER.queue_per_capacity * CAPACITY + 1e-6
    assert found[0].retry_after_s == SERVER.retry_after_min_s
    assert found[-1].retry_after_s == SERVER.retry_after_max_s


def test_nobody_waits_longer_than_the_longest_wait() -> None:
    server = FluidServer(CAPACITY, SEATS, 0.0, STEP_S)
    for step in range(400):
        server.step(arrivals(100, 0.15), CAPACITY, step * STEP_S, step)
        assert all((step - each.ticket) * STEP_S <= SERVER.max_wait_s for each in server.settled)


WIDE, ROOM = 64, 1000.0
"""Seats enough to be all in use whenever anything waits, and room in the queue of a server of this capacity."""


def wide() -> FluidServer:
    return FluidServer(CAPACITY, WIDE, 0.0, STEP_S)


def heavy(requests: float, work: float) -> Arrivals:
    """Each runs for 0.1 s in the seats it takes."""
    return Arrivals(requests, work, 0.05 * work)


NOTHING = Arrivals(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("requests", "work", "is_queued"), [(51, 9.01, True), (50, 9.01, False), (51, 9.0, False), (1000, 9.0, False)]
)
def test_a_queue_is_long_beyond_a_twentieth_of_its_room_and_two_seconds(
    requests: float, work: float, is_queued: bool
) -> None:
    """Of nine seat-seconds one is done in the step, and the eight that are left take two seconds."""
    assert wide().step(heavy(requests, work), CAPACITY, 0.0, 7).is_queued == is_queued


def test_what_a_long_queue_holds_is_served_at_the_servers_pace_in_order() -> None:
    server = wide()
    first = server.step(heavy(100, 10.0), CAPACITY, 0.0, 7)
    assert first == Answer(0.0, 0.0, WIDE / CAPACITY, 1.0, 1.0, is_queued=True)
    assert (server.queued, server.busy_s, server.executing, server.settled) == (100, 0.0, WIDE, [])
    second = server.step(heavy(50, 2.0), CAPACITY, STEP_S, 8)
    assert second.is_queued, "whoever comes later waits behind the others"
    assert server.queued == pytest.approx(100 - 10 + 50, abs=0.1)
    assert server.busy_s == pytest.approx(STEP_S)
    ended = {}
    for step in range(2, 20):
        server.step(NOTHING, CAPACITY, step * STEP_S, 7 + step)
        ended |= {each.ticket: (step, each.served) for each in server.settled}
    assert ended[7] == (11, 1.0), "ten seat-seconds, one in each step since, a little less while the queue drags"
    assert ended[8] == (13, 1.0)
    assert server.queued == 0.0


def test_what_has_waited_for_fifteen_seconds_is_refused_with_what_is_left_of_it() -> None:
    server = wide()
    server.step(heavy(100, 100.0), CAPACITY, 0.0, 7)
    ended = {}
    for step in range(1, 80):
        server.step(NOTHING, CAPACITY, step * STEP_S, 7 + step)
        ended |= {each.ticket: (step, each.served) for each in server.settled}
    step, served = ended[7]
    assert (step + 1) * STEP_S == SERVER.max_wait_s
    assert served == pytest.approx(step / 100, abs=0.001), "a seat-second of a hundred in each step"
    assert server.queued == 0.0


def test_a_full_queue_takes_in_what_finds_room() -> None:
    server = wide()
    answer = server.step(heavy(4000, 60.0), CAPACITY, 0.0, 7)
    assert (answer.accepted, server.queued) == (0.25, ROOM)
    assert server.step(heavy(10, 1.0), CAPACITY, STEP_S, 8).accepted < 1.0
    assert server.busy_s == pytest.approx(0.05 * STEP_S), "3,000 refusals owe three seat-seconds: these come first"


def test_retry_after_doubles_once_in_its_own_length_while_requests_are_refused_and_halves_again() -> None:
    server = wide()
    told = [server.step(heavy(4000, 60.0), CAPACITY, step * STEP_S, step).retry_after_s for step in range(30)]
    assert [told.index(each) * STEP_S for each in (1.0, 2.0, 4.0, 8.0)] == [0.0, 1.0, 3.0, 7.0]
    calm = wide()
    calm.step(heavy(4000, 60.0), CAPACITY, 0.0, 0)
    told = [calm.step(NOTHING, CAPACITY, step * STEP_S, step).retry_after_s for step in range(1, 20)]
    assert [told.index(2.0), told.index(1.0, 5)] == [3, 11]


def test_a_short_queue_waits_for_what_is_before_it() -> None:
    """Of 13.2 seat-seconds 6.4 execute at once, one is done in the step, and the rest waits at four a second."""
    server = wide()
    answer = server.step(heavy(50, 13.2), CAPACITY, 0.0, 7)
    assert (answer.wait_s, answer.accepted, answer.is_queued) == (0.0, 1.0, False)
    assert answer.wait_end_s == pytest.approx((13.2 - 1.0 - 64 * 0.05) / 4)
    assert server.executing == WIDE
    assert server.queued == pytest.approx(50 * (13.2 - 1.0 - 3.2) / 13.2)
    assert server.busy_s == pytest.approx(STEP_S)
    assert server.step(NOTHING, CAPACITY, STEP_S, 8).wait_s == pytest.approx(answer.wait_end_s, rel=0.01)


def test_a_server_begins_empty_after_a_restart() -> None:
    server = wide()
    for step in range(8):
        server.step(heavy(4000, 60.0), CAPACITY, step * STEP_S, step)
    server.start(2.0)
    assert (server.queued, server.busy_s, server.executing, server.settled) == (0.0, 0.0, 0.0, [])
    assert server.step(heavy(10, 0.1), CAPACITY, 2.0, 9) == wide().step(heavy(10, 0.1), CAPACITY, 2.0, 9)


def test_what_refusals_owe_is_paid_first_and_once() -> None:
    """Three seat-seconds, of one that a step can do: 95 % of three steps, and the rest of the fourth."""
    server = wide()
    server.step(heavy(4000, 60.0), CAPACITY, 0.0, 0)
    busy = [0.0]
    for step in range(1, 7):
        server.step(NOTHING, CAPACITY, step * STEP_S, step)
        busy.append(server.busy_s)
    shares = [(after - before) / STEP_S for before, after in pairwise(busy)]
    assert shares == pytest.approx([0.05, 0.05, 0.05, 1 - 0.15, 1.0, 1.0])
