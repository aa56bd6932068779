"""What holds for every sequence of looks, sensible or not."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.throttler.law.looks import STEP_S
from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.law.verdict import Phase, Verdict
from throttler.signals.reading import STALE_AFTER_S, Alarm, Reading, Signals, SilentServer

ANY = st.floats(allow_nan=True, allow_infinity=True)
SENSIBLE = st.floats(min_value=0.0, max_value=60.0)
COUNT = st.integers(min_value=0, max_value=3000)
LIMITS = LawSettings(window_initial=16, window_min=2, window_max=400, max_in_flight=1500)


def _readings(figures: st.SearchStrategy[float]) -> st.SearchStrategy[Reading]:
    """`ended_s` is how long before the look (`_seen_at`): by a time of its own hardly one would be fresh."""
    maybe = st.none() | figures
    return st.builds(
        Reading,
        server=st.sampled_from(["a", "b"]),
        ended_s=st.floats(min_value=-5.0, max_value=40.0),
        span_s=st.just(10.0),
        requests=figures | st.just(1000.0),
        errors=figures | st.just(0.0),
        latency_s=maybe,
        queue_wait_s=maybe,
        seats_share=maybe,
        cpu_share=maybe,
    )


def _signals(figures: st.SearchStrategy[float]) -> st.SearchStrategy[Signals]:
    silent = st.builds(SilentServer, server=st.just("c"), problem=st.just("no answer"), since_s=st.just(0.0))
    alarm = st.builds(Alarm, name=st.just("cni"), value=SENSIBLE, threshold=st.just(30.0))
    return st.builds(
        Signals,
        readings=st.lists(_readings(figures), max_size=2, unique_by=lambda each: each.server).map(tuple),
        silent=st.lists(silent, max_size=1).map(tuple),
        alarms=st.lists(alarm, max_size=1).map(tuple),
    )


def _seen_at(now_s: float, signals: Signals) -> Signals:
    return replace(signals, readings=tuple(replace(each, ended_s=now_s - each.ended_s) for each in signals.readings))


def _joins(figures: st.SearchStrategy[float]) -> st.SearchStrategy[Joins]:
    maybe = st.none() | figures
    return st.builds(
        Joins,
        waiting=COUNT,
        urgent=st.integers(min_value=0, max_value=5),
        booting=COUNT,
        held=COUNT,
        joining=COUNT,
        joined=COUNT,
        join_s=maybe,
        boot_s=maybe,
        oldest_booting_s=figures,
        oldest_held_s=figures,
        oldest_joining_s=figures,
        is_controller_bound=st.booleans(),
    )


def _looks(figures: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[Signals, Joins, float]]]:
    elapsed_s = st.sampled_from([0.0, 0.1, STEP_S, 12.0, 100.0])
    return st.lists(st.tuples(_signals(figures), _joins(figures), elapsed_s), min_size=1, max_size=12)


Check = Callable[[LawMemory, Verdict, Signals, Joins, LawMemory, float], None]


def _go_through(looks: list[tuple[Signals, Joins, float]], check: Check, limits: LawSettings = LIMITS) -> None:
    memory, now_s = LawMemory.start(Learned(window=50.0, baseline_s=0.02, join_s=70.0, age_s=10.0)), 100.0
    for signals, joins, elapsed_s in looks:
        now_s += elapsed_s
        signals, before = _seen_at(now_s, signals), memory
        verdict, memory = govern(signals, joins, memory, limits, now_s)
        check(before, verdict, signals, joins, memory, now_s)


@pytest.mark.parametrize("has_gate", [True, False])
@given(looks=_looks(ANY))
@settings(max_examples=examples(0.4))
def test_every_number_stays_finite_and_within_its_bounds(
    has_gate: bool, looks: list[tuple[Signals, Joins, float]]
) -> None:
    limits = LawSettings(window_initial=16, window_min=2, window_max=400, max_in_flight=1500, has_gate=has_gate)

    def check(_: LawMemory, verdict: Verdict, __: Signals, joins: Joins, memory: LawMemory, now_s: float) -> None:
        assert 2 <= verdict.window <= 400
        assert 0 <= verdict.admit <= joins.held
        assert 0 <= verdict.allowance <= joins.waiting
        assert verdict.allowance == 0 or joins.in_flight + verdict.allowance <= 1500 + limits.reserved_nodes
        assert all(math.isfinite(each) for each in (verdict.window, verdict.pace_per_min, verdict.error_share))
        assert verdict.index is None or math.isfinite(verdict.index)
        assert verdict.because.sentence
        learned = learned_of(memory, now_s)
        figures = (learned.window, learned.baseline_s, learned.join_s, learned.boot_s, learned.load_per_join)
        assert all(figure is None or math.isfinite(figure) for figure in figures)

    _go_through(looks, check, limits)


@given(looks=_looks(SENSIBLE))
@settings(max_examples=examples(0.4))
def test_one_step_never_cuts_below_half_of_what_was_used(looks: list[tuple[Signals, Joins, float]]) -> None:
    def check(before: LawMemory, verdict: Verdict, _: Signals, joins: Joins, __: LawMemory, ___: float) -> None:
        if before.window is None or before.is_idle or verdict.phase is Phase.IDLE:
            return
        floor = 0.5 * min(before.window, max(joins.joining, LIMITS.window_min))
        assert verdict.window >= min(floor, before.window) - 1e-9

    _go_through(looks, check)


@given(looks=_looks(SENSIBLE))
@settings(max_examples=examples(0.4))
def test_window_never_grows_without_new_readings_or_without_demand(looks: list[tuple[Signals, Joins, float]]) -> None:
    def check(before: LawMemory, verdict: Verdict, signals: Signals, joins: Joins, _: LawMemory, now_s: float) -> None:
        if before.window is None or before.is_idle or verdict.phase is Phase.IDLE:
            return
        is_blind = not any(0 <= now_s - each.ended_s <= STALE_AFTER_S for each in signals.readings)
        has_demand = joins.waiting + joins.booting + joins.held > 0
        if is_blind or not has_demand or signals.silent or any(alarm.is_on for alarm in signals.alarms):
            assert verdict.window <= before.window + 1e-9

    _go_through(looks, check)


@given(looks=_looks(SENSIBLE))
@settings(max_examples=examples(0.4))
def test_nothing_goes_in_beyond_the_window_but_what_nears_its_limit(looks: list[tuple[Signals, Joins, float]]) -> None:
    def check(_: LawMemory, verdict: Verdict, __: Signals, joins: Joins, ___: LawMemory, ____: float) -> None:
        if joins.oldest_held_s < 300:
            assert verdict.admit <= max(0.0, verdict.window - joins.joining)

    _go_through(looks, check)


@given(looks=_looks(SENSIBLE))
@settings(max_examples=40)
def test_what_a_reason_says_of_delay_and_of_the_window_is_true(looks: list[tuple[Signals, Joins, float]]) -> None:
    def check(before: LawMemory, verdict: Verdict, *_: object) -> None:
        why, detail = verdict.because.sentence, verdict.because.detail
        if "times the baseline, below" in why:
            assert detail["index"] < detail["target"], why
        if "times the baseline, above" in why:
            assert detail["index"] >= detail["target"], why
        if "falls to" in why:
            assert before.window is None or before.is_idle or verdict.window < before.window, why

    _go_through(looks, check)


@given(looks=_looks(ANY), errors=st.floats(min_value=100.0, max_value=1000.0))
@settings(max_examples=examples(0.4))
def test_probes_up_again_from_the_floor(looks: list[tuple[Signals, Joins, float]], errors: float) -> None:
    """Whatever was seen before; errors are more than there were while nothing joined, which are not ours."""
    memory, now_s = LawMemory.start(), 100.0
    for signals, joins, elapsed_s in looks:
        now_s += elapsed_s
        _, memory = govern(_seen_at(now_s, signals), joins, memory, LIMITS, now_s)
    now_s += 1000.0
    errors += 2.0 * 5.0 * max((per_s for _, per_s in memory.foreign.servers.samples), default=0.0)

    def look(memory: LawMemory, errors: float, joining: int, now_s: float) -> tuple[Verdict, LawMemory]:
        figures = {"requests": 1000.0 + errors, "errors": errors, "latency_s": 0.01, "cpu_share": 0.1}
        seen = Reading(server="a", ended_s=now_s, span_s=5.0, **figures)
        joins = Joins(held=100, joining=joining, joined=10, join_s=60.0)
        return govern(Signals(readings=(seen,)), joins, memory, LIMITS, now_s)

    for _ in range(40):
        now_s += STEP_S
        verdict, memory = look(memory, errors, 2, now_s)
    assert verdict.window == LIMITS.window_min
    for _ in range(200):
        now_s += STEP_S
        verdict, memory = look(memory, 0.0, int(verdict.window), now_s)
        if verdict.window > 3 * LIMITS.window_min:
            return
    pytest.fail(f"the window is {verdict.window} after 200 looks")


@dataclass(frozen=True)
class Chapter:
    """Looks at the same, and a pause before them."""

    pause_s: float
    looks: int
    servers: tuple[str, ...]
    """Without any nothing is seen."""
    delay_s: float
    errors: float
    others_errors: float
    joining: int
    held: int
    is_alarmed: bool
    limits: LawSettings

    def signals(self, now_s: float) -> Signals:
        figures = {"errors": self.errors, "others_errors": self.others_errors, "latency_s": self.delay_s}
        usual = Reading(server="", ended_s=now_s, span_s=STEP_S, requests=1000.0, cpu_share=0.2, **figures)
        alarms = (Alarm(name="cni", value=40.0 if self.is_alarmed else 0.0, threshold=30.0),)
        return Signals(readings=tuple(replace(usual, server=server) for server in self.servers), alarms=alarms)


OTHER_LIMITS = replace(LIMITS, window_min=10, window_initial=20, window_max=60)
CHAPTERS = st.builds(
    Chapter,
    pause_s=st.sampled_from([0.0, 0.0, 400.0, 86_400.0]),
    looks=st.integers(min_value=1, max_value=15),
    servers=st.sampled_from([("a", "b"), ("a", "b"), ("c",), ()]),
    delay_s=st.sampled_from([0.02, 0.2, 0.5, 2.0]),
    errors=st.sampled_from([0.0, 0.0, 5.0, 50.0]),
    others_errors=st.sampled_from([0.0, 0.0, 50.0]),
    joining=st.sampled_from([0, 1, 20, 300]),
    held=st.sampled_from([0, 500]),
    is_alarmed=st.sampled_from([False, False, False, True]),
    limits=st.sampled_from([LIMITS, LIMITS, OTHER_LIMITS, replace(OTHER_LIMITS, has_gate=False)]),
)


Told = Callable[[Chapter, LawMemory, Verdict, LawMemory], None]


def _told(
    story: list[Chapter], check: Told, memory: LawMemory | None = None, now_s: float = 1000.0
) -> tuple[LawMemory, float]:
    """The memory after all chapters, and the time."""
    memory, joined = memory or LawMemory.start(), 0
    for chapter in story:
        now_s += chapter.pause_s
        for _ in range(chapter.looks):
            now_s += STEP_S
            joined += chapter.joining // 10
            joins = Joins(held=chapter.held, joining=chapter.joining, joined=joined, join_s=60.0 if joined else None)
            before = memory
            verdict, memory = govern(chapter.signals(now_s), joins, memory, chapter.limits, now_s)
            check(chapter, before, verdict, memory)
    return memory, now_s


STORIES = st.lists(CHAPTERS, min_size=1, max_size=8)


@given(story=STORIES)
@settings(max_examples=examples(0.4))
def test_window_and_its_sentence_agree_whatever_was_before(story: list[Chapter]) -> None:
    def check(chapter: Chapter, before: LawMemory, verdict: Verdict, _: LawMemory) -> None:
        assert chapter.limits.window_min <= verdict.window <= chapter.limits.window_max
        figures = verdict.because.detail
        assert figures.get("window", verdict.window) == pytest.approx(verdict.window), verdict.because

    _told(story, check)


@given(story=STORIES)
@settings(max_examples=examples(0.1))
def test_errors_brake_and_calm_servers_let_it_grow_whatever_was_an_hour_before(story: list[Chapter]) -> None:
    memory, now_s = _told(story, lambda *_: None)
    usual = Chapter(0.0, 40, ("a", "b"), 0.02, 0.0, 0.0, 0, 0, is_alarmed=False, limits=LIMITS)
    idle = replace(usual, pause_s=3600.0)
    memory, now_s = _told([idle], lambda *_: None, memory, now_s)
    ramp = replace(usual, joining=300, held=500)
    grown, _ = _told([ramp], lambda *_: None, memory, now_s)
    anew, _ = _told([idle, ramp], lambda *_: None, LawMemory.start(learned_of(memory, now_s)), now_s)
    assert (grown.window or 0.0) >= 0.5 * (anew.window or 0.0)
    phases: list[Phase] = []
    failing = replace(ramp, looks=1, errors=50.0)
    _told([replace(ramp, looks=3), failing], lambda _, __, verdict, ___: phases.append(verdict.phase), memory, now_s)
    assert phases[-1] is Phase.BRAKE
