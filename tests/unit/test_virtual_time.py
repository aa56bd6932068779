import asyncio
import contextlib
import time

import pytest

from tests.virtual_time import run_virtual


@pytest.mark.virtual_time
async def test_an_hour_passes_at_once():
    loop, real_before = asyncio.get_running_loop(), time.monotonic()
    before = loop.time()
    await asyncio.sleep(3600)
    assert 3600 <= loop.time() - before < 3600.001
    assert time.monotonic() - real_before < 5


@pytest.mark.virtual_time
async def test_timers_fire_in_order():
    fired = []

    async def fire(after_s: float) -> None:
        await asyncio.sleep(after_s)
        fired.append(after_s)

    await asyncio.gather(fire(30), fire(0.5), fire(7))
    assert fired == [0.5, 7, 30]


async def test_the_unmarked_loop_keeps_real_time():
    assert abs(asyncio.get_running_loop().time() - time.monotonic()) < 1


def test_run_virtual_gives_back_the_result():
    assert run_virtual(asyncio.sleep(1000, result="done")) == "done"


def test_a_wait_without_end_is_reported_and_does_not_hang(monkeypatch):
    monkeypatch.setattr("tests.virtual_time.STUCK_AFTER_REAL_S", 0.01)

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="stands still"):
        run_virtual(wait_for_ever())


@pytest.mark.virtual_time
async def test_two_tasks_that_wait_for_a_moment_just_after_another_timer_come_to_an_end() -> None:
    clock = asyncio.get_running_loop().time
    end_s = clock() + 5.0

    async def wait_until(when: float, behind: int) -> int:
        turns = 0
        await asyncio.sleep(5.0)
        for _ in range(behind):
            await asyncio.sleep(0)
        while clock() < when and turns < 1000:
            turns += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(when):
                    await asyncio.Event().wait()
        return turns

    late_s = end_s + 2e-12
    assert clock() < end_s < late_s
    turns = await asyncio.gather(wait_until(late_s, 0), wait_until(late_s, 1))
    assert max(turns) < 1000
