"""`python -m benchmarks.preview`: how long one waits for a plan, a simulation and the help."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from balloons.preview.forecast import NONE, THROTTLE
from balloons.preview.inputs import PlanInputs, Stated, assumed_inputs, with_stated
from balloons.preview.plan_json import plan_json
from balloons.preview.scale_up_plan import Asked, make_plan
from balloons.preview.simulate import simulate
from benchmarks.report import Figure, Report, progress, run

ROUNDS = 5
AT = datetime(2026, 11, 21, tzinfo=UTC)
LARGE = Stated(servers=5, server_cores=16, nodes=500, controller_qps=200, scheduler_qps=200)
HUGE = Stated(servers=10, server_cores=32, nodes=500, controller_qps=2000, scheduler_qps=2000)
FAKED = (
    "No cluster: the inputs are stated and assumed figures, so reads are not part of it (the goal is after the reads).",
    "The plan is made with both sides, paced and not, and turned into JSON; nothing is printed.",
    "The simulation runs 100,000 nodes without pacing and with it, in three worlds each.",
    "help_s is `balloons --help` in a process of its own, the interpreter's start included.",
    "Seconds are CPU time: all three use one core and wait for nothing, so this is what one waits on an idle core; the "
    "wall times are behind the figures.",
)


def measure(is_quick: bool) -> Report:
    """Rounds of each, medians; every plan must have an end."""
    rounds = 1 if is_quick else ROUNDS
    nodes, huge = (100, 300) if is_quick else (7000, 100_000)
    plans = _seconds("plan", rounds, lambda: _plan(_inputs(LARGE), nodes))
    simulations = _seconds("simulate", 1 if is_quick else 2, lambda: _simulate(_inputs(HUGE), huge))
    helps = _seconds("help", rounds, _help)
    return Report(
        name="preview",
        figures=(
            _figure("plan_7500_s", f"a plan for {nodes + 500:,} nodes, after its reads", plans, 1.0),
            _figure("simulate_100k_s", f"two policies with {huge:,} nodes", simulations, 10.0),
            _figure("help_s", "`balloons --help`", helps, 0.2),
        ),
        faked=FAKED,
        behind={"plan_s": plans, "simulate_s": simulations, "help_s": helps},
        is_quick=is_quick,
    )


def _inputs(stated: Stated) -> PlanInputs:
    return with_stated(assumed_inputs(), stated)


def _plan(inputs: PlanInputs, nodes: int) -> None:
    body = plan_json(make_plan(inputs, Asked(add=nodes), AT))
    if body["eta"]["medianSeconds"] is None or body["broken"]:
        raise RuntimeError(f"the plan does not end: {body['broken']}")


def _simulate(inputs: PlanInputs, nodes: int) -> None:
    for cell in simulate(inputs, "", nodes, (NONE, THROTTLE)):
        if cell.forecast.eta_s.median is None:
            raise RuntimeError(f"{cell.policy} does not end")


def _help() -> None:
    subprocess.run([sys.executable, "-m", "balloons", "--help"], check=True, capture_output=True)


def _seconds(what: str, rounds: int, act: Callable[[], None]) -> dict[str, list[float]]:
    """CPU time, of child processes too, and beside it what the clock on the wall said."""
    seconds: dict[str, list[float]] = {"cpu": [], "wall": []}
    for _ in range(rounds):
        cpu, wall = _cpu_s(), time.perf_counter()
        act()
        seconds["cpu"].append(_cpu_s() - cpu)
        seconds["wall"].append(time.perf_counter() - wall)
        progress(f"{what}: {seconds['cpu'][-1]:.2f} s of CPU, {seconds['wall'][-1]:.2f} s in all")
    return seconds


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _figure(name: str, what: str, seconds: dict[str, list[float]], goal: float) -> Figure:
    cpu = seconds["cpu"]
    return Figure(
        name=name,
        what=f"{what}, CPU, median of {len(cpu)}",
        value=statistics.median(cpu),
        unit="s",
        goal=goal,
        floor=3 * goal,
    )


if __name__ == "__main__":
    sys.exit(run("preview", measure))
