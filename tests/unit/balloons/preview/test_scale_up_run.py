"""One scale-up as a flow: the fast grain against the grain by cohort, and the limits that only it knows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from balloons.preview.join_progress import REQUESTS
from balloons.preview.possible_worlds import World
from balloons.preview.scale_up_run import at_least_s, flow
from lab.simulator.by_cohort import simulate
from lab.simulator.study_scenarios import TWELVE
from tests.unit.balloons.preview.small_worlds import ROOMY, world
from throttler.joins.joins import Joins
from throttler.law.settings import LawSettings
from throttler.signals.reading import Signals
from throttler.simulator.pacing_policies import AtOnce, FixedWindow, FullKnowledge, LawPolicy, Permit
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.scenario_and_faults import ListBurst, ScaleUp, Scenario, ServerLoss
from throttler.simulator.simulated_scrape import CLOCK_START_S

BY_LETTER = {scenario.name[0]: scenario for scenario in TWELVE}


@pytest.mark.whole
@pytest.mark.parametrize("letter", ["A", "G", "M"])
def test_ends_when_the_grain_by_cohort_ends(letter: str) -> None:
    scenario = BY_LETTER[letter]
    fast = flow(world(scenario), FullKnowledge(scenario))
    slow = simulate(scenario, FullKnowledge(scenario), 1)
    assert fast.done_s == pytest.approx(slow.done_s, rel=0.08)
    assert fast.error_share < 1e-4


def test_every_node_becomes_usable_once() -> None:
    found = flow(world(), AtOnce())
    assert sum(nodes for _, nodes in found.usable_s) == 120
    last = found.moments[-1]
    assert (last.ready, last.waiting, last.booting, last.held, last.joining) == (120, 0, 0, 0, 0)


def test_equal_worlds_run_alike() -> None:
    assert flow(world(), AtOnce()) == flow(world(), AtOnce())


def test_the_law_sees_every_server() -> None:
    """A cold start begins with what all of them may bear: told of one of four, it began with a quarter."""
    seen: set[frozenset[str]] = set()

    class Looking(AtOnce):
        def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
            seen.add(frozenset(reading.server for reading in signals.readings))
            return super().step(signals, joins, now_s)

    flow(world(), Looking())
    assert max(seen, key=len) == {f"server-{index}" for index in range(ROOMY.servers)}
    seen.clear()
    flow(world(replace(ROOMY, faults=(ServerLoss(at_s=-1e6, for_s=2e6, server=1),))), Looking())
    assert "server-1" not in frozenset[str]().union(*seen), "but none that is down"


@pytest.mark.parametrize("rhythm", [0.25, 0.75])
def test_the_first_scrape_comes_within_the_worlds_own_part_of_the_time_between_two(rhythm: float) -> None:
    looks: list[tuple[float, bool]] = []

    class Looking(AtOnce):
        def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
            looks.append((now_s, bool(signals.readings)))
            return super().step(signals, joins, now_s)

    slow = replace(ROOMY, scrape_s=40.0, lead_s=120.0)
    flow(world(slow, rhythm=rhythm), Looking())
    first_s = next(at_s for at_s, has_readings in looks if has_readings)
    second_scrape_s = CLOCK_START_S - 120.0 + (1.0 + rhythm) * 40.0
    assert second_scrape_s <= first_s <= second_scrape_s + 15.0


def test_controller_manager_makes_daemon_pods_at_its_own_pace() -> None:
    """Observed on a real one: 200 joins with 8 DaemonSets wait 80 s for their 1,600 pods."""
    herd = Scenario(
        name="herd", demands=(ScaleUp(at_s=0.0, nodes=200),), servers=1, capacity=500.0, boot_s=1.0, lead_s=60.0
    )
    found = flow(world(herd, join_s=8.0, daemon_sets=8, pods_per_s=20.0, burst=30.0), AtOnce())
    assert found.done_s == pytest.approx(1 + 80 + 8, rel=0.08)


def test_daemon_pods_load_the_servers_as_they_are_made() -> None:
    """One core, 200 joins of 0.27 core-seconds: 80 s of pods, over which most of the work is spread."""
    herd = Scenario(
        name="herd", demands=(ScaleUp(at_s=0.0, nodes=200),), servers=1, capacity=17.0, boot_s=1.0, background=0.05
    )
    given = {"join_s": 8.0, "daemon_sets": 8, "pods_per_s": 20.0, "burst": 30.0}
    spread = flow(world(herd, daemon_share=0.67, **given), AtOnce())
    lumped = flow(world(herd, daemon_share=0.0, **given), AtOnce())
    assert spread.done_s == pytest.approx(88, rel=0.15)
    assert (lumped.done_s or 0) > 1.1 * (spread.done_s or 0)
    assert spread.error_share < lumped.error_share


def test_cloud_starts_machines_no_faster_than_it_does() -> None:
    found = flow(world(launches_per_s=1.0, launch_burst=20), AtOnce())
    # 100 of the 120 machines after the burst, at one per second; then the last one boots and joins.
    assert found.done_s == pytest.approx(100 + 120 + JOIN.alone_s, rel=0.15)
    assert any(moment.is_launch_bound for moment in found.moments)


def test_machines_are_asked_for_when_the_demand_comes_and_not_at_the_next_look() -> None:
    late = replace(ROOMY, demands=(ScaleUp(at_s=2.0, nodes=120),), boot_jitter=0.0)
    found = flow(world(late), AtOnce())
    assert found.usable_s[0][0] == pytest.approx(2.0 + 120.0 + JOIN.alone_s, abs=1.0)


def test_what_a_window_lets_in_waits_for_the_autoscalers_next_look() -> None:
    """Karpenter and cluster-autoscaler look again every 10 s: 15 joins of 3 s at a time are asked for 10 s apart."""
    quick = replace(ROOMY, boot_s=4.0, boot_jitter=0.0, has_gate=False)
    settings = LawSettings(window_initial=15, window_max=15, max_in_flight=15, has_gate=False)
    found = flow(world(quick, join_s=3.0), LawPolicy(quick, settings=settings))
    asked = [after.at_s for before, after in pairwise(found.moments) if after.waiting < before.waiting]
    assert len(asked) > 5
    # A moment is kept when pacing is asked next: not at the look, but so much after each of them.
    assert {after - before for before, after in pairwise(asked)} == {10.0}


def test_joins_that_pacing_has_not_seen_to_end_keep_their_place() -> None:
    """Joins of 3 s that are noticed 4 s later miss every other look of an autoscaler that comes every 10 s."""
    quick = replace(ROOMY, boot_s=4.0, boot_jitter=0.0, has_gate=False)
    settings = LawSettings(window_initial=15, window_max=15, max_in_flight=15, has_gate=False)
    seen, late = (
        flow(world(quick, join_s=3.0, notice_s=notice_s), LawPolicy(quick, settings=settings))
        for notice_s in (0.0, 6.0)
    )
    assert (late.done_s or 0) > 1.2 * (seen.done_s or 0)
    assert sum(nodes for _, nodes in late.usable_s) == 120


def test_slow_boots_are_further_off_than_quick_ones() -> None:
    """Log-normal, as the boots of real fleets: of 120 machines the slowest is 2.5 deviations off."""
    even = flow(world(replace(ROOMY, boot_jitter=0.3)), AtOnce())
    skewed = flow(world(replace(ROOMY, boot_jitter=0.3, boot_is_skewed=True)), AtOnce())
    assert (skewed.done_s or 0) > 1.1 * (even.done_s or 0)
    assert skewed.usable_s[0][0] > even.usable_s[0][0]


def test_slow_boots_are_lost_to_the_kill_timer() -> None:
    slow = Scenario(
        name="slow",
        demands=(ScaleUp(at_s=0.0, nodes=20),),
        servers=2,
        capacity=50.0,
        boot_s=300.0,
        boot_jitter=0.2,
        kill_timer_s=300.0,
        lead_s=60.0,
    )
    assert flow(world(slow), AtOnce()).lost > 0


def test_overload_is_felt() -> None:
    """A tenth of the servers: requests wait, some are refused, and the end comes later."""
    small = Scenario(name="small", demands=(ScaleUp(at_s=0.0, nodes=300),), servers=1, capacity=4.0, lead_s=60.0)
    herd = flow(world(small), AtOnce())
    paced = flow(world(small), FixedWindow(20))
    assert herd.worst_latency_s > 20 * herd.idle_latency_s
    assert paced.worst_latency_s < 0.25 * herd.worst_latency_s
    assert paced.error_share == 0


def test_what_is_refused_is_a_share_of_everybodys_requests() -> None:
    """A quiet hour of others' requests before the herd makes its refusals fewer in a hundred."""
    small = Scenario(name="small", demands=(ScaleUp(at_s=0.0, nodes=300),), servers=1, capacity=4.0, lead_s=60.0)
    soon, late = (flow(world(replace(small, lead_s=lead_s)), AtOnce()) for lead_s in (60.0, 3600.0))
    assert 0.0 < late.error_share < 0.6 * soon.error_share


LONG = Scenario(
    name="long",
    demands=(ScaleUp(at_s=0.0, nodes=30_000),),
    servers=3,
    capacity=40.0,
    lead_s=60.0,
    scrape_s=5.0,
    limit_s=43_200.0,
)


def long_world(**changes: object) -> World:
    """The controller manager makes the nodes' pods within three hours at most."""
    return world(LONG, daemon_sets=8, pods_per_s=22.0, step_s=2.0, poke_s=4.0, **changes)


@pytest.mark.whole
def test_long_unpaced_runs_end_alike_in_longer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = flow(long_world(), AtOnce())
    monkeypatch.setattr("balloons.preview.scale_up_run.MOST_STRETCH", 1.0)
    exact = flow(long_world(), AtOnce())
    assert exact.done_s is not None
    assert exact.done_s > 6_000.0
    assert quick.done_s == pytest.approx(exact.done_s, rel=0.02)
    assert quick.worst_latency_s == pytest.approx(exact.worst_latency_s, rel=0.05)
    assert len(quick.moments) < 0.7 * len(exact.moments)


def test_paced_runs_are_never_run_in_longer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window follows what it sees: it would be another one."""
    usual = flow(world(), FixedWindow(20))
    monkeypatch.setattr("balloons.preview.scale_up_run.STRETCH_S", 1.0)
    assert flow(world(), FixedWindow(20)) == usual


@pytest.mark.whole
@pytest.mark.parametrize(("window", "is_given_up"), [(10, True), (400, False)])
def test_a_paced_run_that_cannot_end_is_given_up_early(window: int, is_given_up: bool) -> None:
    """A window of ten lets in one node in a few seconds: thirty thousand take days."""
    found = flow(long_world(), FixedWindow(window))
    assert (found.done_s is None, found.is_stuck) == (is_given_up, False)
    assert found.moments[-1].at_s <= (6_000.0 if is_given_up else LONG.limit_s)
    assert found.moments[-1].ready > 0


@pytest.mark.whole
@pytest.mark.parametrize("policy", [AtOnce(), FixedWindow(10)])
def test_a_hundred_thousand_nodes_take_a_bounded_number_of_looks(policy: AtOnce | FixedWindow) -> None:
    huge = replace(LONG, demands=(ScaleUp(at_s=0.0, nodes=100_000),))
    found = flow(world(huge, daemon_sets=8, pods_per_s=22.0, step_s=2.0, poke_s=4.0), policy)
    assert len(found.moments) < 2_000


STILL = replace(ROOMY, demands=(ScaleUp(at_s=0.0, nodes=1),), background=0.3, background_swing=0.0, boot_s=20.0)
"""Nothing but a steady background, and one node."""


def shares(scenario: Scenario) -> list[float]:
    """How busy the servers were before the node came, in hundredths."""
    quiet = [moment for moment in flow(world(scenario), AtOnce()).moments if moment.at_s < 20.0]
    return [round(100 * moment.utilisation) for moment in quiet]


@pytest.mark.parametrize(("lost", "busy"), [(0, 30), (1, 40), (3, 120)])
def test_a_moment_tells_how_busy_the_servers_were_since_the_one_before(lost: int, busy: int) -> None:
    """What one server does not answer the others get: 30 % of four are 40 % of three."""
    losses = tuple(ServerLoss(at_s=-1e6, for_s=2e6, server=server) for server in range(lost))
    first, second, *others = shares(replace(STILL, faults=losses))
    assert first == 0, "nothing came before it"
    assert second <= others[0]
    assert set(others) == {min(100, busy)}


def test_of_servers_that_are_all_down_none_is_busy() -> None:
    losses = tuple(ServerLoss(at_s=-1e6, for_s=2e6, server=server) for server in range(ROOMY.servers))
    found = flow(world(replace(STILL, faults=losses, limit_s=60.0)), AtOnce())
    assert {moment.utilisation for moment in found.moments} == {0.0}


def test_moments_tell_all_requests_of_joins() -> None:
    """Every one of the 120 sends its requests once, where none is refused."""
    found = flow(world(), AtOnce())
    spans = [after.at_s - before.at_s for before, after in pairwise(found.moments)]
    sent = sum(moment.requests_per_s * span_s for moment, span_s in zip(found.moments[1:], spans, strict=True))
    assert found.error_share == 0.0
    assert sent == pytest.approx(120 * REQUESTS, rel=0.03)
    assert {moment.requests_per_s for moment in flow(world(STILL), AtOnce()).moments if moment.at_s < 20.0} == {0.0}


@pytest.mark.parametrize(("at_s", "is_felt"), [(-55.0, False), (5.0, True)])
def test_the_worst_latency_is_that_since_the_demand_came(at_s: float, *, is_felt: bool) -> None:
    burst = ListBurst(at_s=at_s, for_s=10.0, per_s=4 * 100.0 / 0.3)
    found = flow(world(replace(STILL, faults=(burst,))), AtOnce())
    assert (found.worst_latency_s > 2 * found.idle_latency_s) is is_felt


@pytest.mark.parametrize(("cloud", "ends_s"), [({}, 300.0), ({"launches_per_s": 0.1, "launch_burst": 1}, 350.0)])
def test_a_run_in_which_nothing_joins_for_five_times_as_long_as_all_may_take_is_stuck(
    cloud: dict[str, object], ends_s: float
) -> None:
    """A machine is killed after 50 s, the autoscaler looks every 10 s, and this cloud starts one in 10 s."""
    never = replace(STILL, boot_s=1000.0, boot_jitter=0.0, kill_timer_s=50.0)
    found = flow(world(never, **cloud), AtOnce())
    assert (found.is_stuck, found.done_s, found.usable_s) == (True, None, ())
    assert found.moments[-1].at_s == pytest.approx(ends_s, abs=1.0)
    assert found.lost >= 4


def test_a_run_that_reaches_its_limit_is_not_stuck() -> None:
    found = flow(world(replace(STILL, limit_s=30.0)), AtOnce())
    assert (found.is_stuck, found.done_s, found.moments[-1].ready) == (False, None, 0)
    assert found.moments[-1].at_s == 30.0


SPELL_S = 1800.0


def ended_after(spells: int, first_s: float, more_s: float) -> list[int]:
    """Joins that had ended after each spell, when the n-th takes `first_s` + n * `more_s`."""
    nodes = np.arange(400_000)
    at_s = np.cumsum(first_s + more_s * nodes)
    return [0, *(int(np.searchsorted(at_s, SPELL_S * (spell + 1))) for spell in range(spells))]


@pytest.mark.parametrize("spells", [3, 4, 6])
def test_the_rest_of_a_run_is_told_by_how_much_dearer_each_join_gets(spells: int) -> None:
    first_s, more_s, nodes = 0.2, 4e-6, 100_000
    took_s = first_s * nodes + more_s * nodes**2 / 2
    left_s = at_least_s(ended_after(spells, first_s, more_s), nodes)
    assert left_s == pytest.approx(took_s - SPELL_S * spells, rel=0.05)


def test_a_single_slow_spell_is_not_taken_for_the_run_of_things() -> None:
    steady = [0, 5000, 10_000, 15_000]
    dipped = [0, 5000, 10_000, 14_000]
    assert at_least_s(steady, 50_000) == pytest.approx(7 * SPELL_S)
    assert at_least_s(dipped, 50_000) == pytest.approx(9 * SPELL_S)


@pytest.mark.parametrize(("ended", "left_s"), [([0, 100, 205], 7.571 * 1800), ([0, 0, 100, 200], 8 * 1800)])
def test_a_pace_that_hardly_grows_or_began_late_is_told_by_its_last_spell(ended: list[int], left_s: float) -> None:
    assert at_least_s(ended, 1000) == pytest.approx(left_s, rel=1e-3)


@pytest.mark.parametrize("ended", [[0], [0, 100], [0, 100, 300], [0, 100, 100], [0, 100, 206]])
def test_nothing_is_told_while_the_pace_grows_or_is_unknown(ended: list[int]) -> None:
    assert at_least_s(ended, 1000) is None
