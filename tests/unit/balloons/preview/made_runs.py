"""Runs of a few moments, and forecasts of such runs, made by hand."""

from dataclasses import replace

from balloons.preview.forecast import Band, Forecast
from balloons.preview.scale_up_run import Flow, FlowMoment
from tests.unit.balloons.preview.small_worlds import world


def moment(at_s: float = 0.0, **changes: float) -> FlowMoment:
    """Nothing has happened yet on servers that are a tenth busy."""
    counts = dict.fromkeys(("waiting", "booting", "held", "joining", "ready", "pods_queued"), 0)
    figures = {"window": None, "utilisation": 0.1, "latency_s": 0.01, "requests_per_s": 1.0, "is_launch_bound": False}
    return FlowMoment(at_s=at_s, **{**counts, **figures, **changes})  # type: ignore[arg-type]


def run(*moments: FlowMoment, **changes: object) -> Flow:
    usual = Flow(
        nodes=10,
        done_s=100.0,
        is_stuck=False,
        usable_s=(),
        lost=0,
        error_share=0.0,
        worst_latency_s=0.01,
        idle_latency_s=0.01,
        moments=moments or (moment(),),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def forecast_of(*runs: Flow, **changes: object) -> Forecast:
    """Of runs in as many worlds; its medians are an end after 100 s, a tenth of the load, and nobody who waits."""
    usual = Forecast(
        nodes=10,
        eta_s=Band(100.0, 90.0, 110.0),
        first_s=Band(50.0, 40.0, 60.0),
        worlds=tuple(world(seed=seed) for seed in range(len(runs))),
        runs=runs,
        run=runs[0],
        lost=Band(0.0, 0.0, 0.0),
        error_share=0.0,
        slower_by=1.0,
        hurt_share=0.0,
        slower_by_high=1.0,
        peak_requests_per_s=1.0,
        peak_utilisation=0.1,
        hurt_s=0.0,
        node_seconds=0.0,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]
