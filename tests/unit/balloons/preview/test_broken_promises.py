"""What a plan says that it cannot keep: plans of a forecast that is made by hand."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from balloons.preview.forecast import Band, Forecast
from balloons.preview.inputs import assumed_inputs
from balloons.preview.scale_up_plan import Asked, PlanError, ScaleUpPlan, check_size, make_plan
from tests.unit.balloons.preview.test_waves import USUAL, forecast_of

NOTHING_ASKED = make_plan(assumed_inputs(nodes=10), Asked(add=0), datetime(2026, 11, 21, 12, 0, tzinfo=UTC))
ENDLESS = Band(None, None, None)


def broken(forecast: Forecast, within_s: float | None = None) -> tuple[str, ...]:
    plan: ScaleUpPlan = replace(NOTHING_ASKED, asked=Asked(add=10, within_s=within_s), coming=10, forecast=forecast)
    return plan.broken


@pytest.mark.parametrize(
    ("within_s", "said"),
    [
        (None, None),
        (110.0, None),
        (109.0, "one in twenty takes longer than 1m49s (1m40s; nine in ten: 1m30s to 1m50s)"),
        (100.0, "one in twenty takes longer than 1m40s (1m40s; nine in ten: 1m30s to 1m50s)"),
        (99.0, "it takes longer than 1m39s in most cases (1m40s; nine in ten: 1m30s to 1m50s)"),
    ],
)
def test_a_promise_is_kept_if_nineteen_in_twenty_keep_it(within_s: float | None, said: str | None) -> None:
    assert broken(forecast_of(USUAL), within_s) == ((said,) if said else ())


def test_what_may_have_no_end_keeps_no_promise() -> None:
    open_end = forecast_of(USUAL, eta_s=Band(100.0, 90.0, None))
    assert broken(open_end) == ()
    (said,) = broken(open_end, 3600.0)
    assert said.endswith("(1m40s; nine in ten: 1m30s to no end)")


def test_a_scale_up_without_an_end_says_why() -> None:
    stuck = replace(USUAL, is_stuck=True)
    assert broken(forecast_of(USUAL, eta_s=ENDLESS), 60.0) == ("it does not end within 12 hours",)
    (said,) = broken(forecast_of(stuck, eta_s=ENDLESS))
    assert said.startswith("it never ends: the autoscaler destroys machines before they have booted")


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (None, ()),
        (0.9, ()),
        (1.0, ("the autoscaler would destroy 1 machine that has not registered after 15m",)),
        (7.0, ("the autoscaler would destroy 7 machines that have not registered after 15m",)),
    ],
)
def test_machines_that_are_destroyed_are_told(lost: float | None, said: tuple[str, ...]) -> None:
    assert broken(forecast_of(USUAL, lost=Band(lost, 0.0, 9.0))) == said


def test_servers_that_refuse_more_than_a_hundredth_make_the_end_doubtful() -> None:
    assert broken(forecast_of(USUAL, error_share=0.01)) == ()
    (said,) = broken(forecast_of(USUAL, error_share=0.02))
    assert said == "the API servers would refuse 2.0 % of all requests, and it may take much longer than said"


def test_more_nodes_than_any_cluster_has_are_refused() -> None:
    check_size(150_000)
    with pytest.raises(PlanError, match="accepted: 1 to 150,000"):
        check_size(150_001)
