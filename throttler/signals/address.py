"""What is known of the API servers behind one address: usually one, behind a load balancer several.

Each process is told apart by its start time. A new start time is a restart when it lies after the last answer of the
process before; when it lies earlier, both ran at the same time, so the address hides more than one.
"""

from dataclasses import dataclass, replace

from throttler.signals.reading import Reading, SilentServer
from throttler.signals.sample import Sample
from throttler.signals.window import Flaw, is_from_the_future, reading_between

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
        seen = _continued(self.name, before, sample) if before else Process(base=sample, latest=sample)
        return replace(self, processes=(*others, seen), waiting_since_s=None, failing_since_s=None, problem="")

    @property
    def count(self) -> int:
        """How many servers this address stands for, seen or not."""
        return max(1, len(self.processes))

    def readings(self) -> tuple[Reading, ...]:
        """The newest complete window of each process."""
        found = (replace(p.reading, server=self.server_of(p)) for p in self.processes if p.reading is not None)
        return tuple(found)

    def silent(self, now_s: float) -> SilentServer | None:
        """What is wrong with the address itself, or with a process that has no complete window yet."""
        found = self._silent(now_s)
        if found is None or self.processes:
            return found
        return replace(found, since_s=self.known_since_s, was_seen=False)

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


def _continued(name: str, before: Process, sample: Sample) -> Process:
    window = reading_between(name, before.base, sample)
    if isinstance(window, Reading):
        return Process(base=sample, latest=sample, reading=window)
    if window is Flaw.FROZEN:
        since_s = before.base.asked_s if before.frozen_since_s is None else before.frozen_since_s
        return replace(before, latest=sample, frozen_since_s=since_s)
    return replace(before, latest=sample, base=sample if window.is_reset else before.base)


def _is_same(sample: Sample, process: Process) -> bool:
    return process.latest.started_at == sample.started_at


def _is_replaced_by(sample: Sample, process: Process) -> bool:
    """Whether `process` is the sample's own, or gone: the sample's began after its last answer, or long ago seen."""
    if _is_same(sample, process) or sample.asked_s - process.latest.asked_s > FORGOTTEN_AFTER_S:
        return True
    if sample.started_at is None or process.latest.started_at is None or process.latest.wall_s is None:
        return True
    return sample.started_at >= process.latest.wall_s - WALL_STEP_S
