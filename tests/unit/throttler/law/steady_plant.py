"""API servers that bear anything, under trouble that is nobody's here: what of it stops growth shows at once.

Machines boot in a minute and join in another. Nothing that is let in changes any figure of the servers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.signals.reading import Reading, Signals, SilentServer

LEAD_S = 180.0
START_S = 10_000.0
LOOK_S = 5.0
REQUESTS_PER_S = 1000.0

LATE_S = 120.0
"""Twice a boot: from then on joins/join_memory.py takes a machine for lost."""

Trouble = Callable[[Reading, float], Reading]
"""What becomes of a healthy server's reading that ends so many seconds after the ramp began."""


def none(reading: Reading, at_s: float) -> Reading:
    return reading


def errors(share: float, *servers: str, from_s: float = -LEAD_S, for_s: float = 1e9) -> Trouble:
    """429 and 5xx that look as if joins had caused them; on all servers, or on these."""

    def change(reading: Reading, at_s: float) -> Reading:
        is_struck = not servers or reading.server in servers
        is_on = is_struck and from_s < at_s and at_s - reading.span_s < from_s + for_s
        return replace(reading, errors=share * reading.requests) if is_on else reading

    return change


def figures(**changed: float) -> Trouble:
    return lambda reading, at_s: replace(reading, **changed)  # type: ignore[arg-type]


@dataclass(kw_only=True)
class Plant:
    """One ramp; `run` goes on until all have joined or the time is over."""

    demand: int = 1000
    servers: tuple[str, ...] = ("a", "b", "c")
    never_seen: int = 0
    has_gate: bool = False
    scrape_s: float = 5.0
    boot_s: float = 60.0
    join_s: float = 60.0
    window_max: float = 5000.0
    never_register: float = 0.0
    """Share of the machines that boot and are never heard of."""
    trouble: Trouble = none
    learned: Learned | None = None
    verdicts: list[Verdict] = field(default_factory=list)

    def run(self, limit_s: float = 3600.0) -> "Plant":
        settings = LawSettings(has_gate=self.has_gate, guess_trust=0.0, window_max=self.window_max)
        memory = LawMemory.start(self.learned)
        self.joined, self.took_s = 0, limit_s
        booting: list[tuple[float, int]] = []
        joining: list[tuple[float, int]] = []
        dead: list[tuple[float, int]] = []
        waiting, held, ordered = 0, 0, 0
        for at_s, readings in self._looks(limit_s):
            waiting = self.demand - self.joined if at_s == 0.0 else waiting
            arrived = sum(count for ends_s, count in booting if ends_s <= at_s)
            booting = [each for each in booting if each[0] > at_s]
            held += arrived if self.has_gate else 0
            joining += [] if self.has_gate else [(at_s + self.join_s, arrived)]
            self.joined += sum(count for ends_s, count in joining if ends_s <= at_s)
            joining = [each for each in joining if each[0] > at_s]
            if self.joined >= self.demand:
                self.took_s = at_s
                break
            joins = Joins(
                waiting=waiting,
                booting=sum(count for _, count in booting + dead),
                late_booting=sum(count for at, count in dead if self.joined and at_s - at > LATE_S),
                held=held,
                joining=sum(count for _, count in joining),
                joined=self.joined,
                join_s=self.join_s if self.joined else None,
                boot_s=self.boot_s if arrived or held or joining or self.joined else None,
                oldest_booting_s=max(
                    (
                        *(at_s + self.boot_s - ends_s for ends_s, _ in booting),
                        *(at_s - at for at, _ in dead if at_s - at <= LATE_S or not self.joined),
                    ),
                    default=0.0,
                ),
                oldest_joining_s=max((at_s + self.join_s - ends_s for ends_s, _ in joining), default=0.0),
            )
            signals = Signals(readings=readings, silent=self._silent())
            verdict, memory = govern(signals, joins, memory, settings, START_S + at_s)
            self.verdicts.append(verdict)
            if at_s >= 0:
                asked, admitted = min(verdict.allowance, waiting), min(verdict.admit, held)
                waiting, held = waiting - asked, held - admitted
                never = int((ordered + asked) * self.never_register) - int(ordered * self.never_register)
                ordered += asked
                dead += [(at_s, never)] if never else []
                booting += [(at_s + self.boot_s, asked - never)] if asked > never else []
                joining += [(at_s + self.join_s, admitted)] if admitted else []
        return self

    def reasons(self) -> set[str]:
        return {verdict.because.code for verdict in self.verdicts}

    def left_out(self) -> set[str]:
        return {why.code for verdict in self.verdicts for why in verdict.left_out}

    def _looks(self, limit_s: float) -> Iterator[tuple[float, tuple[Reading, ...]]]:
        """Times since the ramp began, and the newest reading of each server: they are scraped one after the other."""
        newest: dict[str, Reading] = {}
        for step in range(int((LEAD_S + limit_s) / LOOK_S)):
            at_s = step * LOOK_S - LEAD_S
            for number, server in enumerate(self.servers):
                due_s = self.scrape_s * number / len(self.servers)
                ended_s = at_s - (at_s - due_s) % self.scrape_s
                newest[server] = self.trouble(self._healthy(server, START_S + ended_s), ended_s)
            yield at_s, tuple(newest.values())

    def _healthy(self, server: str, ended_s: float) -> Reading:
        return Reading(
            server=server,
            ended_s=ended_s,
            span_s=self.scrape_s,
            requests=REQUESTS_PER_S * self.scrape_s,
            errors=0.0,
            latency_s=0.004,
            service_s=0.004,
            queue_wait_s=0.0,
            cpu_share=0.2,
            seats_share=0.1,
        )

    def _silent(self) -> tuple[SilentServer, ...]:
        return tuple(
            SilentServer(server=f"unseen-{number}", problem="", since_s=START_S - LEAD_S, was_seen=False)
            for number in range(1, self.never_seen + 1)
        )
