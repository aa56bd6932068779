"""The frame of the benchmarks: verdicts, the table and the object."""

import json

import pytest

from benchmarks.report import Figure, Report, as_json, as_table, run


def figure(
    value: float, *, floor: float | None = None, goal: float | None = None, is_higher_better: bool = False
) -> Figure:
    return Figure(
        name="f", what="a thing", value=value, unit="x", floor=floor, goal=goal, is_higher_better=is_higher_better
    )


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(41, "goal met"), (40, "goal met"), (39, "floor held"), (20, "floor held"), (19, "BELOW FLOOR")],
)
def test_more_is_judged_by_floor_and_goal(value: float, verdict: str) -> None:
    assert figure(value, floor=20, goal=40, is_higher_better=True).verdict == verdict


@pytest.mark.parametrize(("value", "verdict"), [(250, "goal met"), (251, "goal missed")])
def test_less_is_better_unless_said_otherwise(value: float, verdict: str) -> None:
    assert figure(value, goal=250).verdict == verdict


def test_a_figure_without_bounds_is_not_judged() -> None:
    assert figure(1).verdict == ""


def report(value: float, *, is_quick: bool = False) -> Report:
    return Report(
        name="b", figures=(figure(value, floor=8, goal=4),), faked=("no server",), behind={"n": 1}, is_quick=is_quick
    )


def test_below_the_floor_fails_the_run_but_a_quick_run_is_not_judged() -> None:
    assert run("b", lambda is_quick: report(9), []) == 1
    assert run("b", lambda is_quick: report(9, is_quick=is_quick), ["--quick"]) == 0
    assert run("b", lambda is_quick: report(5), []) == 0


def test_json_names_the_figures_and_what_is_behind_them(capsys: pytest.CaptureFixture[str]) -> None:
    run("b", lambda is_quick: report(5), ["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["f"] == 5
    assert found["bounds"]["f"]["verdict"] == "floor held"
    assert (found["behind"], found["faked"]) == ({"n": 1}, ["no server"])


def test_the_table_shows_floor_goal_verdict_and_what_is_faked() -> None:
    table = as_table(report(1234.5))
    assert all(part in table for part in ("1,234 x", "<= 8.00", "<= 4.00", "BELOW FLOOR", "- no server"))


def test_cases_of_one_figure_share_its_name() -> None:
    cases = tuple(
        Figure(name="f", case=case, what="a thing", value=value, unit="s") for case, value in (("a", 1.0), ("b", 2.0))
    )
    found = Report(name="b", figures=cases, faked=())
    assert json.loads(as_json(found))["f"] == {"a": 1.0, "b": 2.0}
    assert "f a" in as_table(found)
