"""One change of leader: what is done to the leader, and what the server saw of it."""

import asyncio
import enum
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.takeover.judge import AuditTail, Write, second_writers, tenures
from benchmarks.takeover.pair import SHARED_TURN_S, Pair
from benchmarks.takeover.replica import PATIENCE_S, Replica

LOOK_S = 0.1
SETTLED_S = 2 * SHARED_TURN_S
"""Both replicas have been looked at, and the leader has written, for so long before anything is done to it."""
AFTERMATH_S = (0.5, 3.0)
"""How long the other leads before the first comes back to life."""
TEMPTED_S = 2.0
"""How long a former leader that is back has for writing what it must not."""


class Fault(enum.StrEnum):
    """What is done to the leader."""

    KILLED = "killed"
    FROZEN = "frozen"
    STALLED = "stalled"
    TERMINATED = "terminated"


SUDDEN = (Fault.KILLED, Fault.FROZEN, Fault.STALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`leads_s`: until the other had the Lease; `writes_s`: until its first write was done; both from the fault on."""

    fault: Fault
    leads_s: float
    writes_s: float


class Ring:
    """A pair, and trial after trial on it."""

    def __init__(self, pair: Pair, audit_log: Path, seed: int = 0) -> None:
        self.pair = pair
        self._tail = AuditTail(audit_log, pair.users)
        self._random = random.Random(seed)

    @property
    def all_writes(self) -> list[Write]:
        """What both replicas have written so far, the Lease included."""
        return self._tail.read()

    @property
    def two_writers(self) -> list[Write]:
        """Writes that reached the server while the other replica led, over all trials."""
        return second_writers(self.all_writes)

    @property
    def writes(self) -> int:
        """How much was written besides the Lease: without writes no two could be seen."""
        return sum(not write.is_lease for write in self.all_writes)

    async def run(self, fault: Fault) -> Trial:
        """One trial; raises TimeoutError when nobody takes over."""
        leader = await self._settled_leader()
        other = next(replica for replica in self.pair.replicas if replica is not leader)
        await asyncio.sleep(self._random.uniform(0, 1.5))
        before, begun_s = len(self._tail.read()), time.time()
        await self._strike(leader, fault)
        since_s, first_s = await self._taken_over(other, before)
        self._assert_it_bit(leader, fault)
        await asyncio.sleep(self._random.uniform(*AFTERMATH_S))
        await self._revive(leader, fault)
        return Trial(fault=fault, leads_s=since_s - begun_s, writes_s=first_s - begun_s)

    async def _settled_leader(self) -> Replica:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            leaders = [replica for replica in self.pair.replicas if await replica.leads()]
            are_ready = [await replica.is_ready() for replica in self.pair.replicas]
            recent = [w for w in self._tail.read()[-50:] if not w.is_lease and time.time() - w.done_s < SETTLED_S]
            if len(leaders) == 1 and all(are_ready) and any(write.who == leaders[0].name for write in recent):
                return leaders[0]
            await asyncio.sleep(LOOK_S)
        raise TimeoutError("no leader that writes, and one ready beside it")

    async def _strike(self, leader: Replica, fault: Fault) -> None:
        match fault:
            case Fault.KILLED:
                leader.send(signal.SIGKILL)
            case Fault.FROZEN:
                leader.send(signal.SIGSTOP)
            case Fault.STALLED:
                leader.path.swallowed = 0
                leader.path.is_stalled = True
            case Fault.TERMINATED:
                leader.send(signal.SIGTERM)

    async def _taken_over(self, other: Replica, before: int) -> tuple[float, float]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            new = [tenure for tenure in tenures(self._tail.read()[before:]) if tenure.who == other.name]
            if new and new[0].first_write_s is not None:
                return new[0].since_s, new[0].first_write_s
            await asyncio.sleep(LOOK_S)
        raise TimeoutError(f"{other.name} did not take over; its log ends: {other.log.read_text()[-2000:]}")

    def _assert_it_bit(self, leader: Replica, fault: Fault) -> None:
        """A fault that never happened proves nothing."""
        if fault is Fault.FROZEN and not leader.is_stopped:
            raise AssertionError(f"{leader.name} was not frozen")
        if fault is Fault.STALLED and not leader.path.swallowed:
            raise AssertionError(f"{leader.name} sent no Lease request into the stall")

    async def _revive(self, leader: Replica, fault: Fault) -> None:
        match fault:
            case Fault.KILLED | Fault.TERMINATED:
                await leader.wait()
                leader.start()
                await leader.until_ready()
                return
            case Fault.FROZEN:
                leader.send(signal.SIGCONT)
            case Fault.STALLED:
                leader.path.is_stalled = False
        await asyncio.sleep(TEMPTED_S)


def faults(trials: int) -> Iterator[Fault]:
    """Kills, freezes and stalls in turn, `trials` of them, and after every third a SIGTERM."""
    for number in range(trials):
        yield SUDDEN[number % len(SUDDEN)]
        if number % len(SUDDEN) == len(SUDDEN) - 1 or number == trials - 1:
            yield Fault.TERMINATED
