"""How a plan looks: the chart, and cluster data that would paint on a terminal."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from balloons.cli.plan_and_simulate_screen import simulation_lines
from balloons.cli.plan_text_and_chart import INPUTS, PLAN_ROWS, ROWS, SIDES, WAVES, chart, plan_lines, report_lines
from balloons.cli.terminal import Look
from balloons.preview.from_cluster import plan_inputs
from balloons.preview.inputs import Ceiling, Stated, assumed_inputs, with_stated
from balloons.preview.plan_json import plan_json
from balloons.preview.scale_up_plan import Asked, ScaleUpPlan, make_plan
from balloons.preview.simulate import simulate
from balloons.preview.workload_pods_and_fitting import Fitting, GangFit
from balloons.reading.read_cluster import read_archive
from balloons.report.document import Document, Series, read_document, series_of
from throttler.kube.quantities_and_durations import count

pytestmark = pytest.mark.whole

EXAMPLE = Path(__file__).resolve().parents[4] / "docs" / "example" / "cluster.tar.gz"
AT = datetime(2026, 11, 21, tzinfo=UTC)


def document(plan: ScaleUpPlan) -> Document:
    return read_document(plan_json(plan))


def series() -> Series:
    """All boot at once and join one after the other, in 250 s."""
    times = tuple(5.0 * step for step in range(51))
    ready = tuple(2 * step for step in range(51))
    edges = tuple(250.0 * part / 48 for part in range(49))
    return Series(
        times_s=times,
        stages={"ready": ready, "booting": tuple(100 - each for each in ready)},
        load=tuple(0.5 for _ in times),
        edges_s=edges,
        pace=tuple(24.0 for _ in edges[1:]),
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_chart_fits_and_tells_stages_apart_without_colour(width: int) -> None:
    lines = chart(series(), Look(width=width))
    assert len(lines) == ROWS + (7 if width == 40 else 6)
    assert max(map(len, lines)) <= width
    drawn = "\n".join(lines[1:])
    times = next(line for line in lines if "2m" in line)
    assert drawn.count("█") == pytest.approx(drawn.count("░"), rel=0.25)
    assert "\x1b" not in drawn
    assert times.split()[0] == "0s"
    titles = " ".join(line.strip() for line in lines[lines.index(times) + 1 : -2])
    assert titles == "Full height: pace 24 joins/min, API load 100 %"


def test_names_of_stages_are_not_broken_on_a_narrow_terminal() -> None:
    assert chart(replace(series(), stages=series().stages | {"joining": series().stages["ready"]}), Look(width=40))[
        :2
    ] == [
        "Nodes over time: █ ready  ░ booting",
        "  ▓ joining",
    ]


def test_chart_is_coloured_on_request_and_left_out_where_there_is_no_room() -> None:
    coloured = chart(series(), Look(width=80, is_coloured=True))
    assert "\x1b[32m█" in coloured[ROWS]
    assert coloured[ROWS].endswith("\x1b[0m")
    assert chart(series(), Look(width=30)) == []
    assert chart(None, Look(width=80)) == []


def test_chart_for_a_terminal_that_knows_ascii_only() -> None:
    lines = chart(series(), Look(width=80, is_unicode=False))
    assert "\n".join(lines).isascii()
    assert lines[0] == "Nodes over time: # ready  . booting"


def test_names_from_the_cluster_cannot_paint() -> None:
    evil = "gpu\x1b[2J\u202e"
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, servers=3, server_cores=32, daemonsets=1))
    pool = replace(given.pools[0], name=evil, ceilings=(Ceiling(name=evil, nodes=2, detail=evil),))
    inputs = replace(given, pools=(pool,), autoscaler=evil, unseen=(evil,))
    lines = plan_lines(document(make_plan(inputs, Asked(add=5), AT)), Look("wide"), [])
    text = "\n".join(lines)
    assert "\\x1b" in text
    assert not any(char in text for char in "\x1b\u202e")


def test_narrow_terminals_keep_what_others_wait_and_wide_keeps_all() -> None:
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, servers=3, server_cores=32, daemonsets=1))
    plan = document(make_plan(given, Asked(add=5), AT))
    lines, whole = (plan_lines(plan, Look(output, width=36), []) for output in ("", "wide"))
    assert "POLICY        ETA  OTHERS-WAIT" in lines
    assert "(no room for API-LOAD, REFUSED," in lines
    assert max(map(len, lines + whole)) <= 36
    assert not [line for line in whole if "(no room" in line or "…" in line]
    assert [name for name in (*WAVES, *SIDES, *INPUTS) if name not in " ".join(whole).split()] == []


@pytest.mark.parametrize("nodes", [836, 1436, 2436], ids=["yes", "may hurt", "no"])
def test_plans_of_the_example_fit_a_terminal_with_their_bill(nodes: int) -> None:
    inputs = plan_inputs(read_archive(str(EXAMPLE)))
    plan = document(make_plan(inputs, Asked(add=nodes, pool="gpu"), AT, prices={"*": 32.77}))
    look = Look(width=80, is_terminal=True)
    lines = plan_lines(plan, look, chart(series_of(plan), look, rows=PLAN_ROWS))
    assert len(lines) <= 30
    assert any(line.startswith("Cost: ") and "/h for 8 warm" in line for line in lines)


def test_a_report_of_everything_fits_half_a_screen() -> None:
    """A number and its sign stay together."""
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, controller_qps=1000, servers=1, server_cores=1))
    plan = document(make_plan(given, Asked(add=60), AT, prices={"*": 3.0}))
    look = Look("wide", width=50)
    lines = report_lines(plan, look, look)
    assert max(map(len, lines)) <= 50
    assert not any(line.lstrip().startswith("%") for line in lines)
    assert "INPUT machine boot  VALUE 20s  SOURCE stated" in lines


def test_a_narrow_simulation_keeps_what_others_feel() -> None:
    cells = simulate(with_stated(assumed_inputs(), Stated(boot=20, join=10)), "", 20, ["none", "throttle"])
    lines = simulation_lines(cells, None, Look(width=44))
    assert max(map(len, lines)) <= 44
    assert [line.split() for line in lines if line.startswith("POL")] == [["POLICY", "ETA", "API-LOAD", "OTHERS-WAIT"]]


def test_a_simulation_names_the_limits_that_it_passes_over() -> None:
    (only,) = assumed_inputs().pools
    full = Ceiling(name="NodePool/x", nodes=5)
    cells = simulate(replace(assumed_inputs(), pools=(replace(only, ceilings=(full,)),)), "", 20, ["none", "rate=60"])
    said = "NodePool/x leaves room for 5. A simulation passes over limits on nodes, a plan does not."
    assert simulation_lines(cells, None, Look())[-2:] == ["", said]


@pytest.mark.parametrize("changes", [{"boot": 1800}, {"servers": 1, "server_cores": 0.5}], ids=["never", "collapse"])
def test_what_the_answer_says_is_not_said_again_as_a_risk(changes: dict[str, float]) -> None:
    plan = document(
        make_plan(with_stated(assumed_inputs(), Stated(controller_qps=1000, **changes)), Asked(add=300), AT)
    )
    text = "\n".join(plan_lines(plan, Look(), []))
    assert text.startswith("No: ")
    assert "In one of twenty" not in text
    assert text.count("would refuse") == (0 if "boot" in changes else 1)


def test_a_pod_that_fits_is_one_pod_and_its_gang_has_a_name() -> None:
    fitting = Fitting(
        pods=1,
        on_there=1,
        on_new=0,
        new_nodes={},
        gangs=(GangFit(name="/small", pods=1, pods_on_new=0, is_placeable=True),),
    )
    plan = document(make_plan(assumed_inputs(), Asked(add=0), AT, fitting=fitting))
    lines = plan_lines(plan, Look(), [])
    assert "1 pod: 1 on nodes that are there, 0 on new ones." in lines
    assert "Gang small (1 pod) can start now, on nodes that are there." in lines


def test_counts() -> None:
    assert [count(1, "node"), count(2000, "node")] == ["1 node", "2,000 nodes"]


@pytest.mark.parametrize("changes", [{}, {"servers": 1, "server_cores": 1}], ids=["spares others", "hurts others"])
def test_a_plan_fits_a_terminal_with_its_answer_on_top(changes: dict[str, float]) -> None:
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, controller_qps=1000, **changes))
    plan = document(make_plan(given, Asked(add=60), AT, prices={"*": 3.0}))
    look = Look(width=80, is_terminal=True)
    lines = plan_lines(plan, look, chart(series_of(plan), look, rows=PLAN_ROWS))
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(("Yes: 60 nodes are ready in ", "Yes, but it hurts: 60 nodes are ready in ", "No: "))
