"""The truth of plans: how scale-ups are drawn, what timestamps tell, and which limit is said to have bound."""

import itertools
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.truth.__main__ import drawn_seed
from benchmarks.truth.case import HISTORY, KINDS, QUICK_NODES, Case, cases
from benchmarks.truth.cpu_use import Spent, own_cores, usual
from benchmarks.truth.figures import figures, row
from benchmarks.truth.happened import Happened, Usual, keep, kept
from benchmarks.truth.node_lives import HALF_S, Life, lives
from benchmarks.truth.scene import WHOLE_NODE, WORKER, pods
from benchmarks.truth.trial import WaveEnd, judged, said_of, wave_ends
from benchmarks.truth.true_limit import (
    AUTOSCALER,
    BOOT,
    BUSY,
    CEILING,
    JOIN,
    MANAGER,
    QUOTA,
    SERVERS,
    WINDOW,
    held_by,
    stretches,
)

CASE = Case(number=0, kind="boot", nodes=20, boot_s=20.0, boot_jitter=0.05, daemon_sets=1, seats=(400, 200), cores=2)
DEMAND_S = 1_000.0


def a_life(asked: float, registered: float, made: float, usable: float, name: str = "n") -> Life:
    """Seconds from the demand."""
    times = {"asked_s": asked, "registered_s": registered, "made_s": made, "usable_s": usable}
    return Life(name=name, **{key: DEMAND_S + at_s for key, at_s in times.items()})


def all_alike(life: Life, count: int = 20) -> list[Life]:
    return [life] * count


# -- cases --------------------------------------------------------------------------------------------------------


def test_twenty_cases_have_every_kind_and_equal_seeds_are_equal() -> None:
    first, again, other = (list(itertools.islice(cases(seed), 20)) for seed in (1, 1, 2))
    assert Counter(each.kind for each in first) == KINDS
    assert first == again
    assert first != other


def test_what_can_come_follows_from_the_configuration() -> None:
    assert CASE.can_come == 20
    assert replace(CASE, pool_limit=HISTORY + 8).can_come == 8
    assert replace(CASE, pool_limit=HISTORY + 8, machines=HISTORY + 5).can_come == 5


def test_karpenter_cannot_go_beyond_a_limit_by_what_its_claims_leave_out() -> None:
    """Claims say what pods ask for, machines have more: all of it together must not make room for one machine."""
    limits = [each.pool_limit for seed in range(200) for each in itertools.islice(cases(seed), 20) if each.pool_limit]
    missing = WORKER.cpu_millis - int(WHOLE_NODE["cpu"].removesuffix("m"))
    assert 0 < max(limits) * missing < WORKER.cpu_millis


def test_pods_take_whole_machines_in_every_resource_that_ceilings_are_written_in() -> None:
    requests = pods("work", 1)[0]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "7900m", "memory": "32758Mi"}


def test_server_has_its_part_of_a_shared_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cores: joins that cost it 0.3 and everybody 0.6 core-seconds leave it two, or those it may use."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert own_cores(0.3, 0.6, 4) == pytest.approx(2.0)
    assert own_cores(0.3, 0.6, 1) == 1.0
    assert own_cores(0.3, 0.2, 4) == 4.0


def test_what_a_join_cost_is_told_from_what_goes_on_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    before, after, calm = (
        Spent(at_s=0.0, process_s=10.0, wanted_s=0.0, machine_s=50.0),
        Spent(at_s=20.0, process_s=14.0, wanted_s=0.0, machine_s=60.0),
        Spent(at_s=24.0, process_s=14.2, wanted_s=0.0, machine_s=60.4),
    )
    found = usual(before, after, calm, 12, 2)
    # 0.05 and 0.1 cores are busy anyway: of 20 s one and two core-seconds, which leaves 3 and 8.
    assert found.join_cpu_s == pytest.approx(3 / 12)
    assert found.cores == pytest.approx(2 * 3 / 8)
    assert found.background == pytest.approx(0.05 / 0.75)


def test_quick_cases_are_small() -> None:
    assert max(each.nodes for each in itertools.islice(cases(1, is_quick=True), 20)) <= QUICK_NODES


# -- lives --------------------------------------------------------------------------------------------------------


def at(seconds: int) -> str:
    return f"2026-11-22T03:00:{seconds:02}Z"


def thing(name: str, made: int, ready: int | None, **more: Any) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
    metadata = {"name": name, "creationTimestamp": at(made), **more.pop("metadata", {})}
    return {"metadata": metadata, "status": {"conditions": conditions}, **more}


def daemon(node: str, made: int, ready: int | None) -> dict[str, Any]:
    owner = {"ownerReferences": [{"kind": "DaemonSet"}]}
    return thing(f"agent-{node}", made, ready, metadata=owner, spec={"nodeName": node})


def claim(node: str, made: int) -> dict[str, Any]:
    return {"metadata": {"name": node, "creationTimestamp": at(made)}, "status": {"nodeName": node}}


def test_life_is_read_off_the_timestamps_of_claim_node_and_daemon_pods() -> None:
    work = thing("work", 1, 30, spec={"nodeName": "a"})
    (found,) = lives([thing("a", 12, 14)], [daemon("a", 15, 17), work], [claim("a", 3)], 1, 0.0)
    zero_s = found.asked_s - 3 - HALF_S
    assert (found.registered_s - zero_s, found.made_s - zero_s, found.usable_s - zero_s) == (12.5, 15.5, 17.5)


def test_nodes_that_are_not_usable_or_were_asked_for_before_do_not_count() -> None:
    nodes = [thing(name, 12, 14) for name in "abcd"]
    pods = [daemon("a", 13, 16), daemon("b", 13, None), daemon("d", 13, 15)]
    claims = [claim("a", 3), claim("b", 3), claim("c", 3), claim("d", 3)]
    assert [each.name for each in lives(nodes, pods, claims, 1, 0.0)] == ["d", "a"]
    later_s = lives(nodes, pods, [claim("a", 3), claim("d", 9)], 1, 0.0)[-1].asked_s + 4
    assert [each.name for each in lives(nodes, pods, [claim("a", 3), claim("d", 9)], 1, later_s)] == ["d"]


# -- judging ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "life", "busy", "limit"),
    [
        (CASE, a_life(2, 22, 22, 25), 0.3, BOOT),
        (CASE, a_life(2, 12, 40, 42), 0.3, MANAGER),
        (CASE, a_life(2, 12, 13, 40), 0.3, JOIN),
        (CASE, a_life(2, 12, 25, 40), 1.0, SERVERS),
        (replace(CASE, boot_s=28.0), a_life(2, 30, 40, 42), BUSY, BOOT),
        (replace(CASE, boot_s=12.0), a_life(2, 30, 40, 42), BUSY, SERVERS),
        (replace(CASE, boot_s=12.0), a_life(2, 30, 40, 42), 0.3, BOOT),
        (replace(CASE, daemon_sets=30, manager_qps=20.0), a_life(2, 12, 42, 43), 1.0, MANAGER),
        (CASE, a_life(30, 40, 41, 43), 0.3, AUTOSCALER),
        (replace(CASE, window=8), a_life(30, 40, 41, 43), 0.3, WINDOW),
        (replace(CASE, boot_s=8.0, starts_per_s=1.0), a_life(2, 40, 41, 43), 0.3, QUOTA),
        (replace(CASE, boot_s=30.0, starts_per_s=1.0), a_life(2, 40, 41, 43), 0.3, BOOT),
    ],
)
def test_the_longest_stretch_of_the_last_nodes_is_what_held_them(
    case: Case, life: Life, busy: float, limit: str
) -> None:
    assert held_by(case, all_alike(life), DEMAND_S, busy) == (limit,)


def test_only_the_last_tenth_is_asked() -> None:
    early, late = a_life(2, 12, 12, 14), a_life(2, 12, 60, 62)
    assert held_by(CASE, [*all_alike(early, 18), late, late], DEMAND_S, 0.3) == (MANAGER,)
    assert stretches(CASE, [*all_alike(early, 18), late, late], DEMAND_S, 0.3)[MANAGER] == 48


def test_stretches_that_timestamps_cannot_tell_apart_are_both_true() -> None:
    assert held_by(CASE, all_alike(a_life(2, 14, 25, 27)), DEMAND_S, 0.3) == (BOOT, MANAGER)


def test_fewer_nodes_than_asked_for_are_a_ceiling_only_where_the_configuration_says_so() -> None:
    life = a_life(2, 22, 22, 25)
    assert held_by(replace(CASE, machines=HISTORY + 8), all_alike(life, 8), DEMAND_S, 0.3) == (CEILING,)
    assert held_by(CASE, all_alike(life, 8), DEMAND_S, 0.3) == (BOOT,)


# -- trials -------------------------------------------------------------------------------------------------------


HAPPENED = Happened(
    case=CASE,
    usual=Usual(background=0.05, join_cpu_s=0.2),
    demand_s=DEMAND_S,
    lives=tuple(all_alike(a_life(2, 22, 25, 32))),
    compared_s=31.0,
    server_busy=0.3,
    machine_busy=0.4,
    load=0.5,
)
PLAN = {
    "nodesComing": 20,
    "eta": {"medianSeconds": 30.0, "lowSeconds": 27.0, "highSeconds": 33.0},
    "limit": {"name": BOOT},
    "waves": [{"limit": BOOT, "untilSeconds": 30.0, "ready": 20, "object": ""}],
    "inputs": [{"name": "boot", "value": 20.5, "source": "learned"}],
}
TRIAL = judged(HAPPENED, PLAN)


def test_trial_says_how_far_off_the_plan_was() -> None:
    assert TRIAL.off_by == pytest.approx(2 / 30)
    assert (TRIAL.is_within(0.10), TRIAL.is_within(0.05)) == (True, False)
    assert (TRIAL.is_covered, TRIAL.is_binding_right) == (True, True)
    late = replace(HAPPENED, lives=tuple(all_alike(a_life(2, 8, 30, 34))))
    found = judged(late, PLAN)
    assert (found.is_within(0.10), found.is_covered, found.held_by) == (False, False, (MANAGER,))
    assert not found.is_binding_right


def test_other_nodes_than_the_plan_said_are_never_within() -> None:
    fewer = judged(replace(HAPPENED, lives=HAPPENED.lives[:19]), PLAN)
    assert (fewer.off_by, fewer.is_within(1.0), fewer.is_covered) == (None, False, False)
    assert "other nodes" in row(fewer)


def test_figures_count_runs_and_their_bounds_follow_the_number_of_runs() -> None:
    late = replace(TRIAL, real_s=34.2)
    found = {each.name: each for each in figures([TRIAL] * 9 + [late])}
    counts = {name: found[name].value for name in ("runs", "eta_within_10", "eta_within_15", "band_covers")}
    assert counts == {"runs": 10, "eta_within_10": 9, "eta_within_15": 10, "band_covers": 9}
    assert (found["eta_within_15"].floor, found["band_covers"].goal, found["binding_right"].floor) == (10, 9, 9)
    assert not any(each.is_below_floor for each in found.values())
    assert found["wave_ends_off"].value == pytest.approx(100 * 2 / 30)


def test_waves_end_when_so_many_nodes_were_usable() -> None:
    ends = [("autoscaler", 2.0, 0), (BOOT, 22.0, 1), (JOIN, 25.0, 3)]
    waves = [{"limit": name, "untilSeconds": at_s, "ready": ready, "object": ""} for name, at_s, ready in ends]
    came = [a_life(2, 20, 20, usable) for usable in (21, 24)]
    assert wave_ends(said_of({**PLAN, "waves": waves}), came, DEMAND_S) == (
        WaveEnd(limit=BOOT, ready=1, said_s=22.0, real_s=21.0),
        WaveEnd(limit=JOIN, ready=3, said_s=25.0, real_s=None),
    )


def test_saved_plan_is_read_as_it_is_written() -> None:
    without_end = {"limit": CEILING, "untilSeconds": None, "ready": 8, "object": "NodePool/default"}
    found = said_of({**PLAN, "nodesComing": 8, "waves": [*PLAN["waves"], without_end]})  # type: ignore[misc]
    assert (found.nodes, found.eta_s, found.object) == (8, 30.0, "NodePool/default")
    assert (found.waves, found.inputs) == (((BOOT, 30.0, 20),), {"boot": "20.5 learned"})
    assert said_of({**PLAN, "eta": None, "limit": None, "waves": []}).eta_s is None


def test_what_happened_is_kept_for_its_very_case(tmp_path: Path) -> None:
    assert kept(tmp_path, CASE) is None
    keep(HAPPENED, tmp_path)
    assert kept(tmp_path, CASE) == HAPPENED
    assert kept(tmp_path, replace(CASE, boot_s=21.0)) is None


def test_a_seed_may_be_drawn_from_the_clock() -> None:
    """Nobody can have tuned a plan to the second in which it is tried."""
    before = int(time.time())
    assert drawn_seed("7") == 7
    assert before <= drawn_seed("clock") <= time.time()
    with pytest.raises(ValueError, match="soon"):
        drawn_seed("soon")
