"""When the next decision is due."""

import asyncio

import pytest

from balloons.service.wake import Wake

pytestmark = pytest.mark.virtual_time


def clock() -> float:
    return asyncio.get_running_loop().time()


async def slept_s(wake: Wake, not_before_s: float = 0.0, latest_s: float = 10.0) -> float:
    started = clock()
    await wake.sleep(started + not_before_s, started + latest_s)
    return round(clock() - started, 3)


async def test_nothing_changes_until_the_interval_is_over() -> None:
    assert await slept_s(Wake(clock)) == 10.0


async def test_change_during_the_sleep_ends_it_soon() -> None:
    wake = Wake(clock)
    asyncio.get_running_loop().call_later(3, wake.poke, 0.05)
    assert await slept_s(wake) == 3.05


async def test_change_before_the_sleep_is_not_lost() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    assert await slept_s(wake) == 0.05


async def test_urgent_change_overtakes_an_earlier_calm_one() -> None:
    wake = Wake(clock)
    wake.poke(1.0)
    asyncio.get_running_loop().call_later(0.2, wake.poke, 0.05)
    assert await slept_s(wake) == 0.25


async def test_later_changes_do_not_put_it_off() -> None:
    wake = Wake(clock)
    for i in range(10):
        asyncio.get_running_loop().call_later(i * 0.02, wake.poke, 0.05)
    assert await slept_s(wake) == 0.05


async def test_changes_wait_for_the_rest_after_a_long_decision() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    assert await slept_s(wake, not_before_s=0.75) == 0.75


async def test_answered_change_does_not_wake_again() -> None:
    wake = Wake(clock)
    wake.poke(0.05)
    await slept_s(wake)
    assert await slept_s(wake) == 10.0


async def test_nothing_relevant_asks_for_nothing() -> None:
    wake = Wake(clock)
    wake.poke(None)
    assert await slept_s(wake) == 10.0
