"""Replicas that campaign for one Lease in virtual time: clocks of different speed, freezes, lost and late messages.

The server is linearisable, as etcd is. What a replica does between two messages is the election's pure core; when it
does so, and what becomes of its messages, is drawn from a seed.
"""

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from random import Random

from throttler.kube import election
from throttler.kube.election import ATTEMPT_S, NO_RECORD, Election, ElectionStep, Record, next_step

Life = Generator[float, None, None]
"""Yields the real times at which it wants to go on."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Shares of messages and of turns that something happens to."""

    lost: float = 0.0
    late: float = 0.0
    frozen: float = 0.0
    deaf: float = 0.0
    """Turns in which no decision is being made."""
    meddled: float = 0.0
    """Turns after which somebody edits the Lease."""
    removed: float = 0.0
    """Turns after which somebody removes it, once every replica has seen it for some time. A create cannot name a
    version: one that is late, or sent after a freeze, is the gap that is accepted (docs/decisions/0010)."""
    drift: float = 0.0
    """By how much clocks run faster or slower than they should."""


class LeaseServer:
    """The one Lease; a write names the version that it was decided on."""

    def __init__(self) -> None:
        self.record = NO_RECORD
        self._versions = count(1)

    def write(self, expected: str, record: Record) -> Record | None:
        """None is a conflict."""
        if expected != self.record.version:
            return None
        self.record = replace(record, version=str(next(self._versions)))
        return self.record

    def edit(self, *, empties: bool) -> None:
        """What people do to a Lease that is there."""
        if self.record.version:
            self.write(self.record.version, replace(self.record, holder="" if empties else self.record.holder))

    def remove(self) -> None:
        """And what else they do."""
        self.record = NO_RECORD


@dataclass
class Tenure:
    """A stretch of real time in which a replica believed that it may write."""

    who: str
    since: float
    until: float


@dataclass
class World:
    """Runs replicas; `tenures` is what is judged."""

    seed: int
    faults: Faults = field(default_factory=Faults)
    longest_freeze_s: float = 30.0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.server = LeaseServer()
        self.now = self._unsettled_at = 0.0
        self.tenures: list[Tenure] = []
        self.replicas: list[Replica] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, time: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time, next(self._order), what))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, what = heapq.heappop(self._queue)
            what()
        self.now = until

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    @property
    def is_settled(self) -> bool:
        """Whether each replica has seen a Lease for some time: what it sent before that has ended."""
        if any(replica.election.is_new for replica in self.replicas):
            self._unsettled_at = self.now
        return self.now - self._unsettled_at > 2 * ATTEMPT_S

    def two_writers(self) -> list[tuple[Tenure, Tenure]]:
        """Pairs of tenures of different replicas that overlap."""
        pairs = combinations((t for t in self.tenures if t.until > t.since), 2)
        return [(a, b) for a, b in pairs if a.who != b.who and a.since < b.until and b.since < a.until]

    def led_s(self) -> float:
        """For how long anybody might write, so far."""
        led, until = 0.0, 0.0
        for each in sorted(self.tenures, key=lambda tenure: tenure.since):
            end = min(each.until, self.now)
            led += max(0.0, end - max(each.since, until))
            until = max(until, end)
        return led

    def leaders(self) -> set[str]:
        """Who may write now."""
        return {each.who for each in self.tenures if each.since <= self.now < each.until}


class Replica:
    """One candidate, alive from `start` until it is killed."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        drift = world.faults.drift
        self.rate = 1 + world.random.uniform(-drift, drift)
        self.offset = world.random.uniform(0, 1e5)
        self.election = Election(identity=name)
        self.is_alive = True
        self.frozen_until = 0.0
        world.replicas.append(self)

    def start(self, at: float) -> None:
        life = self._live()
        self.world.at(at, lambda: self._go_on(life))

    @property
    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    def _go_on(self, life: Life) -> None:
        if not self.is_alive:
            return
        if self.world.now < self.frozen_until:
            self.world.at(self.frozen_until, lambda: self._go_on(life))
            return
        self.world.at(next(life), lambda: self._go_on(life))

    def _live(self) -> Life:
        world = self.world
        while True:
            begun, begun_at = world.now, self.clock
            yield from self._turn()
            if world.chance(world.faults.frozen):
                self.frozen_until = world.now + world.random.uniform(0, world.longest_freeze_s)
            if world.chance(world.faults.meddled):
                world.server.edit(empties=world.chance(0.5))
            if world.is_settled and world.chance(world.faults.removed):
                world.server.remove()
            rest_s = self.election.rest_s(begun_at, world.random.random())
            yield max(world.now, begun + rest_s / self.rate)

    def _turn(self) -> Life:
        """As the elector: a look, unless we renew what we know, then the write that follows from it."""
        is_deciding = not self.world.chance(self.world.faults.deaf)
        if self.election.renewed_at_s is None and not is_deciding:
            return
        if self._step(is_deciding) is not ElectionStep.RENEW or not self.election.is_sure:
            found: list[Record] = []
            yield from self._call(lambda: self.world.server.record, found)
            if not found:
                return
            self._set(self.election.saw(found[0], self.clock))
        match self._step(is_deciding):
            case ElectionStep.ACQUIRE | ElectionStep.RENEW:
                stamp = f"{self.name} at {self.world.now}"
                yield from self._write(Record(holder=self.name, transitions=self.election.next_epoch(), stamp=stamp))
            case ElectionStep.PLACE:
                placed: list[Record | None] = []
                empty = Record(transitions=self.election.highest)
                yield from self._call(lambda: self.world.server.write("", empty), placed)

    def _write(self, wanted: Record) -> Life:
        begun_at, record = self.clock, self.election.record or NO_RECORD
        answers: list[Record | None] = []
        self._set(self.election.writing(wanted.stamp, begun_at))
        yield from self._call(lambda: self.world.server.write(record.version, wanted), answers)
        if answers and answers[0] is not None:
            self._set(self.election.wrote(answers[0], begun_at))

    def _step(self, is_deciding: bool) -> ElectionStep:
        step = next_step(self.election, self.clock, is_deciding=is_deciding)
        if step is ElectionStep.STEP_DOWN:
            self._set(self.election.stepped_down())
            return self._step(is_deciding)
        return step

    def _call(self, ask: Callable[[], object], answers: list) -> Life:  # type: ignore[type-arg]
        """One message there and one back; `answers` stays empty when none comes in time."""
        world, patience = self.world, ATTEMPT_S / self.rate
        there, back = (world.random.expovariate(20.0) for _ in range(2))
        there += world.random.uniform(0, 20) if world.chance(world.faults.late) else 0.0
        is_sent, is_answered = not world.chance(world.faults.lost), not world.chance(world.faults.lost)
        box: list[object] = []
        if is_sent:
            world.at(world.now + there, lambda: box.append(ask()))
        began, is_in_time = world.now, is_sent and is_answered and there + back < patience
        yield world.now + (there + back if is_in_time else patience)
        # After a freeze the answer is there; whether it is used or timed out makes no difference to safety.
        if is_in_time or (box and is_answered and world.now - began > there + back):
            answers.extend(box)

    def _set(self, knowledge: Election) -> None:
        """The next knowledge, and what it means for who may write in real time."""
        world, before = self.world, self.election
        self.election = knowledge
        own = [each for each in world.tenures if each.who == self.name]
        if knowledge.renewed_at_s is None:
            if own:
                own[-1].until = min(own[-1].until, world.now)
        elif knowledge.renewed_at_s != before.renewed_at_s:
            until = (knowledge.renewed_at_s + election.RENEW_DEADLINE_S - self.offset) / self.rate
            world.tenures.append(Tenure(self.name, world.now, max(until, world.now)))
