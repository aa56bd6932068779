"""`python -m benchmarks.preview`: how long one waits for a plan, a simulation and the help."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from balloons.preview.assumed import assumed_inputs
from balloons.preview.inputs import PlanInputs
from balloons.preview.plan import Asked, make_plan
from balloons.preview.plan_json import plan_json
from balloons.preview.policies import NONE, THROTTLE
from balloons.preview.stated import Stated, with_stated
from balloons.preview.what_if import simulate
from benchmarks.report import Figure, Report, progress, run

ROUNDS = 5
AT = datetime(2026, 11, 21, tzinfo=UTC)
LARGE = Stated(servers=5, server_cores=16, nodes=500, controller_qps=200, scheduler_qps=200)
HUGE = Stated(servers=10, server_cores=32, nodes=500, controller_qps=2000, scheduler_qps=2000)
FAKED = (
    "No cluster: the inputs are stated and assumed figures, so reads are not part of it (the goal is after the reads).",
    "The plan is made with both sides, paced and not, and turned into JSON; nothing is printed.",
    "The simulation runs 100,000 nodes without pacing and with it, one world each.",
    "help_s is the wall time of `balloons --help` in a process of its own, the interpreter's start included.",
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
        if cell.found.eta_s.median is None:
            raise RuntimeError(f"{cell.policy} does not end")


def _help() -> None:
    subprocess.run([sys.executable, "-m", "balloons", "--help"], check=True, capture_output=True)


def _seconds(what: str, rounds: int, act: Callable[[], None]) -> list[float]:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        act()
        found.append(time.perf_counter() - started)
        progress(f"{what}: {found[-1]:.2f} s")
    return found


def _figure(name: str, what: str, seconds: list[float], goal: float) -> Figure:
    return Figure(
        name=name,
        what=f"{what}, median of {len(seconds)}",
        value=statistics.median(seconds),
        unit="s",
        goal=goal,
        floor=3 * goal,
    )


if __name__ == "__main__":
    sys.exit(run("preview", measure))
