"""How wide a band must be: fitted to runs, and tried on the runs that it was not fitted to."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from math import hypot
from pathlib import Path

import pytest

from balloons.preview.forecast import SECOND_S, UNDRAWN_SPREAD, time_band
from benchmarks.truth.__main__ import main
from benchmarks.truth.case import Case, cases
from benchmarks.truth.happened import Happened, Usual, keep
from benchmarks.truth.node_lives import Life
from benchmarks.truth.trial import Trial, judged
from benchmarks.truth.undrawn_spread import Deviation, calibration, deviation, fitted, held_left_out

CASE: Case = replace(next(iter(cases(1, False))), nodes=1, machines=None)
SAID_S = 30.0


def plan_of(ends_s: Sequence[float]) -> dict[str, object]:
    """What a plan with such worlds says."""
    band = time_band(list(ends_s))
    eta = {"medianSeconds": band.median, "lowSeconds": band.low, "highSeconds": band.high}
    return {"nodesComing": 1, "eta": eta, "limit": None, "waves": [], "inputs": []}


def happened(real_s: float) -> Happened:
    life = Life(name="n", asked_s=1.0, registered_s=2.0, made_s=3.0, usable_s=real_s)
    usual = Usual(background=0.05, join_cpu_s=0.2)
    return Happened(
        case=CASE,
        usual=usual,
        demand_s=0.0,
        lives=(life,),
        compared_s=None,
        server_busy=0.1,
        machine_busy=0.1,
        load=0.0,
    )


def trial(real_s: float, ends_s: Sequence[float] = (SAID_S,)) -> Trial:
    return judged(happened(real_s), plan_of(ends_s))


def test_what_the_worlds_allowed_for_is_read_off_the_band_of_that_side() -> None:
    ends_s = [27.0, 28.0, 29.0, SAID_S, SAID_S, SAID_S, 34.0, 38.0, 42.0]
    late, early = deviation(trial(36.0, ends_s)), deviation(trial(29.0, ends_s))
    assert late is not None
    assert early is not None
    assert late.off_s == pytest.approx(6.0)
    assert late.drawn_s == pytest.approx(hypot(((16 + 64 + 144) / 3) ** 0.5, SECOND_S))
    assert early.drawn_s == pytest.approx(hypot(((9 + 4 + 1) / 3) ** 0.5, SECOND_S))
    assert late.is_within(UNDRAWN_SPREAD) == trial(36.0, ends_s).is_covered


def test_a_run_in_which_other_nodes_came_has_no_deviation_and_counts_as_missed() -> None:
    other = judged(happened(30.0), {**plan_of([SAID_S]), "nodesComing": 2})
    assert deviation(other) is None
    found = {each.name: each for each in calibration([trial(31.0), trial(29.0), other])}
    assert (found["runs"].value, found["left_out_held"].value, found["left_out_held"].unit) == (3, 2, "of 3")


def test_spread_that_the_runs_were_drawn_from_is_found_and_holds_nine_in_ten() -> None:
    chance = random.Random(7)
    runs = [
        Deviation(said_s=SAID_S, off_s=chance.gauss(0.0, hypot(1.0, 0.1 * SAID_S)), drawn_s=1.0) for _ in range(400)
    ]
    assert fitted(runs) == pytest.approx(0.1, abs=0.01)
    assert held_left_out(runs[:150]) / 150 == pytest.approx(0.9, abs=0.03)


def test_worlds_that_explain_everything_leave_nothing() -> None:
    assert fitted([Deviation(said_s=SAID_S, off_s=1.0, drawn_s=5.0)] * 3) == 0.0


def test_a_plan_that_says_it_knows_little_hides_no_error_of_those_that_know() -> None:
    sure = [Deviation(said_s=SAID_S, off_s=3.0, drawn_s=1.0)] * 9
    unsure = Deviation(said_s=2 * SAID_S, off_s=5.0, drawn_s=20.0)
    assert fitted([*sure, unsure]) == pytest.approx(fitted(sure), rel=0.1)
    assert held_left_out([*sure, unsure]) == 10


def test_a_run_is_judged_by_the_others_alone() -> None:
    """One that is far off would widen its own band until it holds it."""
    calm, far = (Deviation(said_s=SAID_S, off_s=off_s, drawn_s=1.0) for off_s in (0.5, 6.0))
    assert far.is_within(fitted([calm, far]))
    assert held_left_out([calm, far]) == 1


def test_kept_runs_of_several_folders_are_judged_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And one that has not ended yet is left out."""
    for seed, number, real_s in (("a", "00", 31.0), ("a", "01", 28.0), ("b", "00", 33.0)):
        folder = tmp_path / seed / number
        folder.mkdir(parents=True)
        keep(happened(real_s), folder)
        (folder / "plan.json").write_text(json.dumps(plan_of([SAID_S])))
    (tmp_path / "b" / "01").mkdir()
    main(["--calibrate", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
    printed = capsys.readouterr().out
    assert "undrawn_spread" in printed
    assert "of 3" in printed
