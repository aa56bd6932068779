"""One server by itself: who is refused, and when."""

from math import inf

import pytest

from lab.simulator.request_server import REJECTION_WORK, SINGLE, VISITOR_LIST, Client, RequestServer, RetryAfter
from throttler.simulator.requests_and_machines import SERVER


def server(capacity: float = 2.0, seats: int = 8) -> RequestServer:
    return RequestServer(0, capacity, seats, now_s=0.0)


def send(to: RequestServer, number: int, *, work_s: float = 1.0, seats: int = 1, now_s: float = 0.0) -> bool:
    client = Client(None, SINGLE[VISITOR_LIST], 60.0, to)
    client.attempt, client.sent_s = number, now_s
    return to.take(client, work_s, seats, now_s)


def all_events(of: RequestServer) -> list[tuple[float, int, bool]]:
    events = []
    while of.next_s < inf:
        now_s = of.next_s
        served = of.step(now_s)
        if served:
            events.append((now_s, served[0].attempt, served[1]))
    return events


def test_a_request_alone_takes_its_work() -> None:
    one = server()
    send(one, 1, work_s=0.15, seats=2)
    assert all_events(one) == [(pytest.approx(0.15), 1, True)]


def test_executing_requests_share_the_capacity() -> None:
    one = server(capacity=2.0, seats=8)
    for number in range(1, 9):
        send(one, number, work_s=1.0)
    assert [at_s for at_s, _, _ in all_events(one)] == pytest.approx([4.0] * 8)


def test_work_done_is_capacity_times_time_whatever_the_mix() -> None:
    one = server(capacity=2.0, seats=8)
    works = [0.3, 1.7, 0.9, 2.2, 0.4, 1.1]
    for number, work_s in enumerate(works, start=1):
        send(one, number, work_s=work_s, seats=2)
    last_s = all_events(one)[-1][0]
    assert last_s >= 2 * sum(works) / 2.0
    assert one.counters(last_s).busy_s * 2.0 == pytest.approx(2 * sum(works), rel=1e-3)


def test_only_a_full_queue_refuses_at_once() -> None:
    one = server(capacity=1.0, seats=2)
    taken = [send(one, number) for number in range(1, 300)]
    limit = int(SERVER.queue_per_capacity * 1.0)
    assert taken == [True] * (2 + limit) + [False] * (299 - 2 - limit)


def test_who_waits_for_15_s_is_refused_then_and_not_before() -> None:
    one = server(capacity=1.0, seats=1)
    for number in range(1, 31):
        send(one, number)
    events = all_events(one)
    refused_s = [at_s for at_s, _, is_answer in events if not is_answer]
    assert refused_s
    assert refused_s == [15.0] * len(refused_s)
    assert len(events) == 30


def test_requests_that_wait_are_served_in_order() -> None:
    one = server(capacity=4.0, seats=1)
    for number in range(1, 11):
        send(one, number)
    assert [number for _, number, is_answer in all_events(one) if is_answer] == list(range(1, 11))


def test_a_slower_server_finishes_later_by_what_is_left() -> None:
    one = server(capacity=2.0, seats=8)
    send(one, 1, work_s=2.0, seats=2)
    one.set_capacity(1.0, now_s=1.0)
    assert all_events(one) == [(pytest.approx(3.0), 1, True)]


def test_an_answer_that_nobody_waits_for_is_work_in_vain() -> None:
    one = server()
    send(one, 1, work_s=40.0)
    client = one.open_clients()[0]
    assert one.overdue(59.0) == []
    assert one.overdue(60.0) == [client]
    client.attempt = 0
    assert one.step(one.next_s) is None
    assert one.counters(60.0).busy_s == pytest.approx(20.0)


def test_rejections_keep_a_busy_server_from_its_work() -> None:
    one = server(capacity=2.0, seats=4)
    for number in range(1, 5):
        send(one, number)
    for _ in range(100):
        one.reject(0.0)
    assert all_events(one)[0][0] == pytest.approx(2.0 + 100 * REJECTION_WORK / 2.0)


def test_a_stopped_server_breaks_what_is_open() -> None:
    one = server(seats=1)
    for number in range(1, 4):
        send(one, number)
    assert sorted(client.attempt for client in one.stop(0.5)) == [1, 2, 3]
    assert one.next_s == inf
    assert not one.is_up


def test_retry_after_doubles_to_32_s_while_rejections_go_on() -> None:
    header = RetryAfter()
    told = [header.on_rejection(0.5 * step) for step in range(200)]
    assert told[0] == 1.0
    assert sorted(set(told)) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert told == sorted(told)


def test_retry_after_falls_back_once_rejections_end() -> None:
    header = RetryAfter()
    for step in range(200):
        header.on_rejection(0.5 * step)
    assert header.on_rejection(130.0) == 32.0
    assert header.on_rejection(400.0) == 1.0
