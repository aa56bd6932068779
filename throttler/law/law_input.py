"""What one look goes by, and what comes of it."""

from dataclasses import dataclass, replace
from functools import cached_property

from throttler.joins.joins import Joins
from throttler.kube.reasons_and_events import Because
from throttler.law import join_model, window_formulas
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase

TYPICAL_SCRAPE_S = 10.0
OWN_SCRAPE_S = 5.0
"""What prompt joins are held against: where a Prometheus looks every half minute no join becomes quicker for it."""
LONGEST_SCRAPE_S = 60.0
LOOK_S = 10.0
"""Both autoscalers look at least so often while pods wait."""
LOOKS_PER_FLOW = 4.0
CROWDED = 1.1
"""With more than this share of the window in flight it lets nothing in."""
QUEUED = 2.0
"""Joins that take so many times their least wait for each other as long as they work: by Little's law more of them at a
time end no sooner."""


@dataclass(frozen=True, kw_only=True)
class LawInput:
    """All that one look goes by. What several parts ask for, and takes long to find, is kept."""

    memory: LawMemory
    """After `observed`."""
    health: Health
    joins: Joins
    settings: LawSettings
    now_s: float
    elapsed_s: float

    @property
    def window(self) -> float:
        """W before this look, by the bounds of now: they may have been edited, and a knee knows none."""
        settings = self.settings
        return min(max(self.memory.window or settings.window_initial, settings.window_min), settings.window_max)

    @cached_property
    def low_index(self) -> float | None:
        """The index that both samples of the worst server reach."""
        low_s = self.health.low_s
        return None if low_s is None else low_s / self.memory.baseline.within(self.settings)

    @cached_property
    def high_index(self) -> float | None:
        """The index that no sample of any server exceeds; of waves none of the whole cycle of orders.

        The lull between two waves proves nothing.
        """
        high_s = self.health.high_s
        if high_s is not None and self.has_waves:
            since_s = self.now_s - self.cycle_s
            high_s = max([high_s, *(delay_s for at_s, delay_s in self.memory.delays if at_s >= since_s)])
        return None if high_s is None else high_s / self.memory.baseline.within(self.settings)

    @property
    def newest_index(self) -> float | None:
        """The index of the newest samples alone; None while unknown, or not of joins."""
        newest_s, cuts = self.health.newest_s, self.memory.cuts
        if newest_s is None or (cuts is not None and cuts.is_useless(self.health.low_s, self.now_s)):
            return None
        return newest_s / self.memory.baseline.within(self.settings)

    @cached_property
    def latest_join_s(self) -> float:
        """How long the latest joins took, and at least as long as it takes to see them."""
        guessed_s = max(self.settings.join_guess_least_s, self.joins.oldest_joining_s)
        return max(self.memory.join_time.or_guess(guessed_s), 2.0 * self.scrape_s)

    @cached_property
    def is_prompt(self) -> bool:
        """Whether a join ends within two scrapes of ours: then delay tells at once what the last step did.

        Slower joins bring their load when the window has long gone on; there utilisation has to say it before.
        """
        least_s = self.memory.join_time.least_s
        scrape_s = min(self.scrape_s, OWN_SCRAPE_S)
        return least_s is not None and least_s <= window_formulas.SCRAPES_PER_DOUBLING * scrape_s

    @property
    def do_joins_queue(self) -> bool:
        """Whether prompt joins behind a gate wait for each other, and the servers are why: requests wait as long, too.

        Once this scale-up has lasted as long, what is known of the latest joins is of its own.
        """
        known, low = self.memory.join_time, self.low_index or 0.0
        is_other = self.has_waves or self.joins.is_controller_bound or low < QUEUED
        if is_other or not self.is_prompt or known.now_s is None:
            return False
        queued_s = QUEUED * (known.least_s or known.now_s)
        return min(known.now_s, self.memory.flow.busy_s) >= queued_s

    def cpu_at(self, share: float) -> float:
        """The CPU share of the busiest server at this share of what it gets."""
        return share * self.health.full_cpu

    @property
    def warm_window(self) -> float | None:
        """Joins in flight at the utilisation that slow start aims at; None while unknown."""
        settings = self.settings
        share = self.cpu_at(settings.feed_forward_share)
        return join_model.window_at(self.memory.load, share, settings.swing_room)

    @property
    def full_window(self) -> float | None:
        """Joins in flight at which the busiest server is full; None while unknown."""
        return join_model.window_at(self.memory.load, self.cpu_at(self.settings.full_share), self.settings.swing_room)

    @property
    def committed_window(self) -> float | None:
        """The largest window where slow joins flow and nothing holds them back once they are ordered; else None.

        Delay moves when they have come, and by then a boot time's worth more is on its way. So their CPU alone bounds
        them, also where a server's seats are taken.
        """
        settings = self.settings
        if settings.has_gate or self.has_waves or self.is_prompt:
            return None
        share = self.cpu_at(settings.committed_share)
        full = join_model.committed_at(self.memory.load, share, settings.swing_room, self.peak)
        return None if full is None else full / settings.pacing

    @property
    def prior_pace_per_s(self) -> float | None:
        """Joins per second that a guess by the cost of idle requests gives; None while unknown."""
        share = self.cpu_at(self.settings.feed_forward_share)
        return join_model.guessed_pace_per_s(
            self.memory.load, self.health.servers, share, self.settings.requests_per_join
        )

    @property
    def scrape_s(self) -> float:
        """How long the newest windows are."""
        span_s = self.health.longest_span_s
        return TYPICAL_SCRAPE_S if span_s is None else min(span_s, LONGEST_SCRAPE_S)

    @property
    def join_s(self) -> float:
        """How long joins take when they do not queue."""
        guessed_s = max(self.settings.join_guess_least_s, self.joins.oldest_joining_s)
        return self.memory.join_time.least_s or guessed_s

    @cached_property
    def has_waves(self) -> bool:
        """Whether machines come in waves: no gate holds them, and joins are known to end within a few looks.

        Slower joins overlap from one look of the autoscaler to the next: they flow.
        """
        known_s = self.memory.join_time.now_s or self.memory.join_time.least_s
        return known_s is not None and self._may_have_waves

    @property
    def _may_have_waves(self) -> bool:
        return not self.settings.has_gate and self.latest_join_s < LOOKS_PER_FLOW * LOOK_S

    @property
    def is_patient(self) -> bool:
        """Whether much delay is borne: joins are prompt, or in waves; until the first has ended they are a wave."""
        return self.is_prompt or self._may_have_waves

    @property
    def cycle_s(self) -> float:
        """How long the machines of one look of the autoscaler load the servers, until those of the next one come."""
        return max(2.0 * self.scrape_s, self.latest_join_s + LOOK_S)

    @property
    def boot_and_cycle_s(self) -> float:
        """How long it takes until machines that are ordered now have loaded the servers for a whole cycle."""
        return (self.memory.boot_s or 0.0) + self.cycle_s

    @cached_property
    def peak(self) -> int:
        """The most joins in flight that the newest readings can have felt; of waves, in one cycle of orders.

        A wave that has only just come was not there when they were made.
        """
        if self.has_waves:
            return self.memory.flow.peak_joining(self.now_s - self.cycle_s, self.read_until_s)
        return self.memory.flow.peak_joining(self.now_s - 2.0 * self.scrape_s, self.now_s)

    @property
    def crest(self) -> int:
        """The most joins in flight of the latest wave that readings have felt, however long the lull since.

        Before the first one it is what an earlier process learned, as is how long joins take.
        """
        return self.memory.flow.latest_crest(self.read_until_s, self.cycle_s) or round(self.memory.knee.window or 0.0)

    @property
    def loading(self) -> int:
        """Joins in flight that delay and errors tell of: the crest of a wave, which ebbs away before they are known."""
        return self.peak if self.has_waves else self.joins.joining

    @property
    def effect_s(self) -> float:
        """How long it takes until the servers feel a change of the window: of waves, a boot and a join."""
        return (self.memory.boot_s or 0.0) + self.latest_join_s if self.has_waves else 0.0

    @property
    def is_crowded(self) -> bool:
        """Whether more is in flight than the window, which was cut and has let nothing in since."""
        return self.joins.joining > CROWDED * self.window

    @property
    def is_at_maximum(self) -> bool:
        """Whether the window is as large as the user lets it be."""
        return self.window >= self.settings.window_max

    @property
    def borne(self) -> int:
        """Joins in flight that came within the time of one before the newest readings began.

        All of them were felt, and none is so old that it loads no more.
        """
        began_s = self.read_until_s - self.scrape_s
        return min(self.memory.flow.came_between(began_s - self.join_s, began_s), self.joins.joining)

    @cached_property
    def is_used(self) -> bool:
        """Whether the window is filled and something waits to fill more of it."""
        joining = self.felt if self.is_prompt and not self.has_waves else self.peak
        return self.joins.coming > 0 and joining >= self.settings.used_share * self.window

    @property
    def read_until_s(self) -> float:
        """When the newest reading ended."""
        return self.now_s if self.health.read_until_s is None else self.health.read_until_s

    def is_untried(self, window: float) -> bool:
        """Whether nobody can know how long the joins of a wave of this window last, and its first may still come.

        No reading has felt it since it was doubled; or what is known of joins is what an earlier process remembered.
        """
        if self.memory.join_time.now_s is None:
            return True
        doubled_s = self.memory.doubled_s
        if doubled_s is None or self.now_s - doubled_s > self.boot_and_cycle_s:
            return False
        return self.crest < self.settings.used_share * window

    @cached_property
    def felt(self) -> float:
        """Mean joins in flight while the newest readings were made: what their delay tells of.

        Prompt joins come in bursts. After one has ended the mean is far below the peak, and the calm is no proof.
        """
        mean = self.memory.flow.mean_joining(self.read_until_s - self.scrape_s, self.read_until_s)
        return self.peak if mean is None else mean

    @property
    def steps(self) -> float:
        """Adaptation times since the gradient last looked; 0 without new readings."""
        if not self.is_new or self.memory.moved_s is None:
            return 0.0
        return max(0.0, self.now_s - self.memory.moved_s) / window_formulas.adaptation_time_s(self.join_s)

    @property
    def used_window(self) -> float:
        """The window that would have let in what is really in flight: what delay and errors tell of."""
        return min(self.window, max(1.0, self.loading / self.settings.pacing))

    @property
    def steady_window(self) -> float:
        """The window that would have let in what was felt: of waves the crest, with which the next one begins."""
        return min(self.window, max(1.0, float(self.peak))) if self.has_waves else self.used_window

    @property
    def is_new(self) -> bool:
        """Whether there are readings that were not judged yet: the same one never counts twice."""
        return bool(self.health.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUpdate:
    """What came of it; `memory` carries the new window."""

    memory: LawMemory
    phase: Phase
    because: Because


def update(facts: LawInput, window: float, phase: Phase, why: Because) -> WindowUpdate:
    """The window becomes `window`; all else in the memory stays."""
    return WindowUpdate(memory=replace(facts.memory, window=window), phase=phase, because=why)


def with_memory(facts: LawInput, **changes: object) -> LawInput:
    """The same look with something remembered."""
    return replace(facts, memory=replace(facts.memory, **changes))  # type: ignore[arg-type]


def judged(facts: LawInput) -> LawInput:
    """The new readings have moved the window, or had their chance to."""
    return with_memory(facts, moved_s=facts.now_s) if facts.is_new else facts
