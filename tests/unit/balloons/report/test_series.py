"""Numbers over time: every node is in one stage, and pace counts each join once."""

import pytest

from balloons.report.series import BINS, at, marks, series_of
from tests.unit.balloons.report.a_plan import body, document


def test_stages_hold_every_node_at_every_time() -> None:
    series = series_of(document())
    assert series is not None
    assert {sum(counts) for counts in zip(*series.stages.values(), strict=True)} == {100}
    assert list(series.stages) == ["ready", "joining", "booting", "waiting"]
    assert series.tops["ready"][-1] == 100


def test_pace_adds_up_to_all_nodes() -> None:
    series = series_of(document())
    assert series is not None
    minutes = (series.edges_s[-1] - series.edges_s[0]) / BINS / 60
    assert sum(series.pace) * minutes == pytest.approx(100)


def test_load_is_left_out_where_the_plan_does_not_say() -> None:
    old = body()["timeline"]
    del old[3]["utilisation"]
    series = series_of(document(timeline=old))
    assert series is not None
    assert series.load == ()


@pytest.mark.parametrize("moments", [0, 1])
def test_nothing_over_time_is_no_series(moments: int) -> None:
    assert series_of(document(timeline=body()["timeline"][:moments])) is None


def test_an_instant_is_no_series() -> None:
    first, second = body()["timeline"][:2]
    assert series_of(document(timeline=[first, second | {"atSeconds": 1e-300}])) is None


def test_values_between_two_times_lie_between() -> None:
    assert [at((0.0, 10.0, 10.0, 20.0), (0, 4, 6, 6), each) for each in (0, 5, 15, 99)] == [0, 2, 6, 6]


@pytest.mark.parametrize(("end_s", "step_s"), [(255.0, 30.0), (2232.0, 300.0), (43200.0, 7200.0), (1e9, 1e9 / 9)])
def test_marks_are_round_and_few(end_s: float, step_s: float) -> None:
    found = marks(end_s, 9)
    assert len(found) <= 10
    assert found[1] - found[0] == pytest.approx(step_s)
    assert found[-1] <= end_s
