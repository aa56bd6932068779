"""One server as a fluid: what is done, what waits, who is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.simulator.fluid_server import Answer, Arrivals, FluidServer, seat_rate, work_left
from throttler.simulator.plant import SERVER

STEP_S = 0.25
CAPACITY, SEATS = 4.0, 16


def arrivals(requests: float, work_s: float = 0.01) -> Arrivals:
    return Arrivals(requests, requests * work_s, 0.5 * requests * work_s * work_s)


def steps(server: FluidServer, count: int, coming: Arrivals, first: int = 0) -> list[Answer]:
    return [server.step(coming, CAPACITY, step * STEP_S, step) for step in range(first, first + count)]


@given(st.floats(0.0, 100.0), st.floats(0.5, 50.0))
def test_seats_never_do_more_than_they_are_or_the_server_can(seats: float, capacity: float) -> None:
    assert 0.0 < seat_rate(seats, capacity) <= max(1e-9, min(seats, capacity)) * (1 + 1e-9)


@given(st.floats(0.0, 1e4), st.floats(0.005, 1.0), st.floats(0.5, 50.0))
def test_no_step_does_more_than_the_capacity_allows(work: float, residue_s: float, capacity: float) -> None:
    left = work_left(work, residue_s, 4 * capacity, capacity, STEP_S)
    assert work - capacity * STEP_S - 1e-6 <= left <= work + 1e-9


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
