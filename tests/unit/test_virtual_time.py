import asyncio
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
