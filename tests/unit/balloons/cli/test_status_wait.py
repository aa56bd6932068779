"""`balloons status --wait`: what can be waited for, what is still missing, and when the wait ends."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest

from balloons.api.pool import BalloonPool
from balloons.cli.status_screen import AwaitedStatus, told
from balloons.cli.status_text import AwaitedError, Listing, awaited, missing
from tests.unit.balloons.cli.throttle_and_pool import pool, throttle
from throttler.api.throttle import JoinThrottle
from throttler.kube.metadata import Condition

pytestmark = pytest.mark.virtual_time


def pool_with(status: str, warm: int = 3, kind: str = "Ready", generation: int = 0) -> BalloonPool:
    found = pool(warm)
    metadata = msgspec.structs.replace(found.metadata, generation=generation)
    conditions = (Condition(kind, status, "Steady", ""),)
    return msgspec.structs.replace(
        found, metadata=metadata, status=msgspec.structs.replace(found.status, conditions=conditions)
    )


def throttle_with(in_flight: int = 0, waiting: int = 0, phase: str = "Idle") -> JoinThrottle:
    found = throttle()
    status = msgspec.structs.replace(found.status, in_flight=in_flight, waiting=waiting, phase=phase)
    return msgspec.structs.replace(found, status=status)


@pytest.mark.parametrize(
    ("text", "seen", "expected"),
    [
        ("condition=Ready", Listing(pools=[pool_with("True")]), []),
        ("condition=Ready", Listing(pools=[pool_with("False")]), ["ml/gpu: Ready is False"]),
        ("condition=Ready=False", Listing(pools=[pool_with("False")]), []),
        ("condition=Ready", Listing([throttle()], [pool_with("True")]), ["default: Ready is Unknown"]),
        ("condition=Ready", Listing(), ["nothing is there that could have it"]),
        ("condition=Stalled=False", Listing(pools=[pool_with("True")]), []),
        ("condition=Reconciling", Listing(pools=[pool_with("True")]), ["ml/gpu: Reconciling is False"]),
        ("condition=SignalsFresh", Listing(pools=[pool_with("True")]), ["nothing is there that could have it"]),
        ("warm=3", Listing(pools=[pool(3)]), []),
        ("warm=5", Listing(pools=[pool(3), pool(1)]), ["4 of 5 nodes are warm"]),
        ("warm=0", Listing(), []),
        ("idle", Listing([throttle_with()]), []),
        ("idle", Listing([throttle_with(in_flight=2, waiting=7)]), ["default: 2 nodes in flight, 7 waiting"]),
        ("idle", Listing(), ["there is no throttle"]),
        ("phase=Idle", Listing([throttle_with()]), []),
        ("phase=Idle", Listing([throttle_with(phase="Brake")]), ["default: Brake"]),
        ("phase=Paused", Listing([throttle_with(phase="")]), ["default: no phase yet"]),
    ],
)
def test_what_is_missing(text: str, seen: Listing, expected: list[str]) -> None:
    assert missing([awaited(text)], seen, []) == expected


def test_status_of_an_older_spec_and_an_object_that_is_not_there_tell_nothing() -> None:
    changed = Listing(pools=[pool_with("True", generation=2)])
    assert missing([awaited("condition=Ready")], changed, []) == ["ml/gpu: its change has not been seen yet"]
    assert missing([awaited("warm=0")], Listing(), ["gpu"]) == ["gpu is not there"]


@pytest.mark.parametrize(
    "text",
    ["", "ready", "condition=Nice", "condition=Ready=Yes", "warm", "warm=-1", "warm=٣", "warm=99999999", "phase=Red"],
)
def test_what_cannot_be_waited_for_is_refused(text: str) -> None:
    with pytest.raises(
        AwaitedError, match=r"cannot be waited for; accepted: condition=Ready\|.*warm=N, idle, phase=Idle"
    ):
        awaited(text)


async def over_time(steps: Sequence[tuple[float, Listing]]) -> AsyncGenerator[Listing, None]:
    for wait_s, seen in steps:
        await asyncio.sleep(wait_s)
        yield seen
    await asyncio.Event().wait()


def warm(*counts: int) -> list[tuple[float, Listing]]:
    return [(30.0, Listing(pools=[pool(count)])) for count in counts]


async def test_waits_until_all_of_it_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = AwaitedStatus([awaited("warm=3"), awaited("warm=4")], [])
    assert await waiting.until_so(Listing(), over_time(warm(2, 3, 4, 9)), 300)
    assert asyncio.get_running_loop().time() == 1_000 + 90
    assert waiting.listing.pools[0].status.warm == 4
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "waiting: 0 of 3 nodes are warm; 0 of 4 nodes are warm",
        "waiting: 2 of 3 nodes are warm; 2 of 4 nodes are warm",
        "waiting: 3 of 4 nodes are warm",
    ]


async def test_ends_when_the_time_is_over_with_what_is_still_missing(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = AwaitedStatus([awaited("warm=9")], [])
    assert not await waiting.until_so(Listing(), over_time(warm(2, 3)), 100)
    assert asyncio.get_running_loop().time() == 1_000 + 100
    assert capsys.readouterr().err.splitlines()[-1] == "not so after 100 s: 3 of 9 nodes are warm"
    assert waiting.listing.pools[0].status.warm == 3


async def test_no_time_is_one_look() -> None:
    assert await AwaitedStatus([awaited("warm=2")], []).until_so(Listing(pools=[pool(2)]), over_time([]), 0)
    assert not await AwaitedStatus([awaited("warm=3")], []).until_so(Listing(pools=[pool(2)]), over_time(warm(9)), 0)
    assert asyncio.get_running_loop().time() == 1_000


async def test_little_is_told_however_much_changes(capsys: pytest.CaptureFixture[str]) -> None:
    quick = [(0.5, Listing(pools=[pool(count)])) for count in range(100)]
    assert await AwaitedStatus([awaited("warm=99")], []).until_so(Listing(), over_time(quick), 300)
    assert len(capsys.readouterr().err.splitlines()) <= 6


def test_many_objects_are_one_line() -> None:
    assert told([f"pool {number}" for number in range(9)]) == "pool 0; pool 1; pool 2; pool 3; pool 4; and 4 more"
