import asyncio

import pytest

from throttler.kube.kube_client import CeilingGate, OpenGate

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("throttler_clock")]


def now() -> float:
    return asyncio.get_running_loop().time()


async def passed_at(gate, count: int) -> list[float]:
    """When each of `count` callers that came together was let through, in the order they came."""
    times: list[float] = []

    async def caller() -> None:
        await gate.pass_through()
        times.append(now())

    start = now()
    await asyncio.gather(*(caller() for _ in range(count)))
    return [at - start for at in times]


@pytest.mark.parametrize(("calls_per_s", "burst"), [(5, 1), (5, 5), (0.5, 1), (0.1, 2), (100, 10)])
async def test_no_window_holds_more_than_the_ceiling(calls_per_s, burst):
    count = 4 * burst + 3
    times = await passed_at(CeilingGate(calls_per_s, burst), count)
    window_s = burst / calls_per_s
    gaps = [later - earlier for earlier, later in zip(times, times[burst:], strict=False)]
    assert all(gap >= window_s - 1e-6 for gap in gaps)
    assert times[-1] <= 1.3 * count / calls_per_s + 1


async def test_without_a_burst_the_first_calls_are_spaced_as_well():
    times = await passed_at(CeilingGate(5, 1), 3)
    assert times[0] < 0.01
    assert times[1] >= 0.2
    assert times[2] >= 0.4


async def test_first_come_first_served():
    gate, order = CeilingGate(10, 1), []

    async def caller(number: int) -> None:
        await gate.pass_through()
        order.append(number)

    await asyncio.gather(*(caller(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_caller_that_gives_up_takes_no_ones_turn():
    gate = CeilingGate(1, 1)
    await gate.pass_through()
    given_up = asyncio.create_task(gate.pass_through())
    await asyncio.sleep(0.1)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    before = now()
    await gate.pass_through()
    assert now() - before < 1


async def test_lease_traffic_never_waits():
    times = await passed_at(OpenGate(), 1000)
    assert times[-1] == 0


@pytest.mark.parametrize(("calls_per_s", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (5, 0)])
async def test_a_rate_that_is_none_is_refused(calls_per_s, burst):
    with pytest.raises(ValueError, match="calls_per_s"):
        CeilingGate(calls_per_s, burst)
