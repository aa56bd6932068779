"""Which API servers there are, what is known of each, and how old that is: addresses, identity Leases and scrapes.

Usually one server is behind an address, behind a load balancer several. Each process is told apart by its start time. A
new start time is a restart when it lies after the last answer of the process before; when it lies earlier, both ran at
the same time, so the address hides more than one.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from throttler.signals.reading import (
    Flaw,
    Reading,
    Signals,
    SilentServer,
    is_fresh,
    is_from_the_future,
    reading_between,
)
from throttler.signals.sample import Sample

SLOW_AFTER_S = 4.0
"""A scrape that has waited for so long is ill health before it ends; a loaded small server takes 0.5 s."""
FORGOTTEN_AFTER_S = 90.0
"""A process that an answering address has not shown for so long is gone."""
WALL_STEP_S = 2.0
"""The Date header has whole seconds, and two machines' clocks differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One API server process: the sample its next window starts at, and its newest complete window."""

    base: Sample
    latest: Sample
    reading: Reading | None = None
    frozen_since_s: float | None = None
    """Since when its counters stand still, if they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address and the processes seen behind it, oldest first. Times are monotonic seconds."""

    name: str
    known_since_s: float
    processes: tuple[Process, ...] = ()
    waiting_since_s: float | None = None
    failing_since_s: float | None = None
    problem: str = ""

    def asked(self, now_s: float) -> "Address":
        """A scrape has been sent."""
        return replace(self, waiting_since_s=now_s)

    def failed(self, problem: str, now_s: float) -> "Address":
        """The scrape gave nothing usable."""
        known_since_s = (since_s for since_s in (self.failing_since_s, self.waiting_since_s) if since_s is not None)
        since_s = next(known_since_s, now_s)
        return replace(self, waiting_since_s=None, failing_since_s=since_s, problem=problem)

    def answered(self, sample: Sample) -> "Address":
        """The scrape gave a sample; one that cannot be true is a failure and changes nothing else."""
        if is_from_the_future(sample):
            return self.failed(Flaw.FROM_THE_FUTURE.value, sample.asked_s)
        others = tuple(process for process in self.processes if not _is_replaced_by(sample, process))
        before = next((process for process in self.processes if _is_same(sample, process)), None)
        process = Process(base=sample, latest=sample)
        if before is not None:
            window = reading_between(self.name, before.base, sample)
            if isinstance(window, Reading):
                process = replace(process, reading=window)
            elif window is Flaw.FROZEN:
                since_s = before.base.asked_s if before.frozen_since_s is None else before.frozen_since_s
                process = replace(before, latest=sample, frozen_since_s=since_s)
            else:
                base = sample if window.is_reset else before.base
                process = replace(before, latest=sample, base=base, frozen_since_s=None)
        return replace(self, processes=(*others, process), waiting_since_s=None, failing_since_s=None, problem="")

    @property
    def count(self) -> int:
        """How many servers this address stands for, seen or not."""
        return max(1, len(self.processes))

    def readings(self) -> tuple[Reading, ...]:
        """The newest complete window of each process."""
        readings = (replace(p.reading, server=self.server_of(p)) for p in self.processes if p.reading is not None)
        return tuple(readings)

    def silent(self, now_s: float) -> SilentServer | None:
        """What is wrong with the address itself, or with a process that has no complete window yet."""
        silent = self._silent(now_s)
        if silent is None or self.processes:
            return silent
        return replace(silent, since_s=self.known_since_s, was_seen=False)

    def _silent(self, now_s: float) -> SilentServer | None:
        if self.failing_since_s is not None:
            return SilentServer(server=self.name, problem=self.problem, since_s=self.failing_since_s)
        if self.waiting_since_s is not None and now_s - self.waiting_since_s > SLOW_AFTER_S:
            problem = f"no answer for {now_s - self.waiting_since_s:.0f} s so far"
            return SilentServer(server=self.name, problem=problem, since_s=self.waiting_since_s)
        if not self.processes:
            return SilentServer(server=self.name, problem="not scraped yet", since_s=self.known_since_s)
        if all(process.reading is None for process in self.processes):
            since_s = min(process.latest.asked_s for process in self.processes)
            return SilentServer(server=self.name, problem="no complete window yet", since_s=since_s)
        return None

    def server_of(self, process: Process) -> str:
        """The address, and the start time where the address hides several."""
        if len(self.processes) < 2 or process.latest.started_at is None:
            return self.name
        return f"{self.name}@{process.latest.started_at:.2f}"


def _is_same(sample: Sample, process: Process) -> bool:
    """By its start time, which moves with the clock of its host where that is set."""
    latest = process.latest
    if sample.started_at is None or latest.started_at is None or sample.wall_s is None or latest.wall_s is None:
        return sample.started_at == latest.started_at
    set_by_s = sample.started_at - latest.started_at
    moved_by_s = sample.wall_s - latest.wall_s - (sample.taken_s - latest.taken_s)
    return not set_by_s or (abs(set_by_s) > 2 * WALL_STEP_S and abs(moved_by_s - set_by_s) <= WALL_STEP_S)


def _is_replaced_by(sample: Sample, process: Process) -> bool:
    """Whether `process` is the sample's own, or gone: the sample's began after its last answer, or long ago seen."""
    if _is_same(sample, process) or sample.asked_s - process.latest.asked_s > FORGOTTEN_AFTER_S:
        return True
    if sample.started_at is None or process.latest.started_at is None or process.latest.wall_s is None:
        return True
    return sample.started_at >= process.latest.wall_s - WALL_STEP_S


OWN_REQUESTS = "own requests"
"""The name under which our own clients' attempts are reported."""
LEASE_ALIVE_S = 60.0
"""API servers renew their identity Lease every 10 s; it stays for up to an hour after they are gone."""
NEVER_SEEN_S = 300.0
"""A server that has not answered once for so long, or is known by its Lease only, no longer stops growth."""


def is_server(reading: Reading) -> bool:
    """Whether the reading is of an API server, and not of what our own requests met."""
    return reading.server != OWN_REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All API servers. `expected` is how many the identity Leases speak of, 0 when they could not be read."""

    addresses: Mapping[str, Address] = field(default_factory=dict)
    expected: int = 0
    unseen_since_s: float | None = None

    def found(self, names: Iterable[str], expected: int, now_s: float) -> "Servers":
        """The servers that exist as of now: new ones are added, those that are gone forgotten."""
        addresses = {name: self.addresses.get(name) or Address(name=name, known_since_s=now_s) for name in names}
        return replace(self, addresses=addresses, expected=expected)._counted(now_s)

    def with_address(self, address: Address, now_s: float) -> "Servers":
        """One address has news; one that is no longer among the servers is left alone."""
        if address.name not in self.addresses:
            return self
        return replace(self, addresses={**self.addresses, address.name: address})._counted(now_s)

    @property
    def unseen(self) -> int:
        """How many servers the Leases speak of beyond those that have an address or showed behind one."""
        return max(0, self.expected - sum(address.count for address in self.addresses.values()))

    def readings(self) -> tuple[Reading, ...]:
        """The newest complete window of every process, however old."""
        return tuple(reading for address in self.addresses.values() for reading in address.readings())

    def silent(self, now_s: float) -> tuple[SilentServer, ...]:
        """Every server without a usable answer; it may still have an older reading."""
        quiet = (address.silent(now_s) for address in self.addresses.values())
        return (*(server for server in quiet if server is not None), *self._unseen(now_s))

    def frozen(self, now_s: float) -> tuple[str, ...]:
        """In words, whose metrics stand still."""
        return tuple(
            f"{address.server_of(process)}: its metrics have not moved for {now_s - process.frozen_since_s:.0f} s"
            for address in self.addresses.values()
            for process in address.processes
            if process.frozen_since_s is not None
        )

    def _counted(self, now_s: float) -> "Servers":
        since_s = self.unseen_since_s if self.unseen_since_s is not None else now_s
        return replace(self, unseen_since_s=since_s if self.unseen else None)

    def _unseen(self, now_s: float) -> tuple[SilentServer, ...]:
        since_s = now_s if self.unseen_since_s is None else self.unseen_since_s
        problem = f"{self.expected} identity Leases, {self.expected - self.unseen} servers found"
        return tuple(
            SilentServer(server=f"unseen-{number}", problem=problem, since_s=since_s, was_seen=False)
            for number in range(1, self.unseen + 1)
        )


def alive_leases(renewals: Iterable[datetime | None]) -> int:
    """How many identity Leases are being renewed, by the newest renewal among them and not by our clock."""
    known = [renewal for renewal in renewals if renewal is not None]
    return sum(1 for renewal in known if (max(known) - renewal).total_seconds() <= LEASE_ALIVE_S)


class State(enum.Enum):
    """What a server's news is worth."""

    FRESH = "Fresh"
    STALE = "Stale"
    SILENT = "Silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server: `age_s` since the end of its newest complete window, None when it never had one."""

    name: str
    state: State
    age_s: float | None
    message: str = ""
    """What is wrong with it, or lacks in what it exports, in words."""


def server_states(signals: Signals, now_s: float) -> tuple[ServerState, ...]:
    """Every server that exists, sorted by name; silence goes before staleness. Our own requests are no server."""
    states = {reading.server: _state(reading, now_s) for reading in signals.readings if is_server(reading)}
    for silent in signals.silent:
        age_s = states[silent.server].age_s if silent.server in states else None
        states[silent.server] = ServerState(name=silent.server, state=State.SILENT, age_s=age_s, message=silent.problem)
    return tuple(states[name] for name in sorted(states))


def _state(reading: Reading, now_s: float) -> ServerState:
    return ServerState(
        name=reading.server,
        state=State.FRESH if is_fresh(reading, now_s) else State.STALE,
        age_s=now_s - reading.ended_s,
        message=f"does not export {', '.join(reading.missing)}" if reading.missing else "",
    )
