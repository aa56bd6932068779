"""How a plan looks: the chart, and cluster data that would paint on a terminal."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from balloons.cli.look import Look
from balloons.cli.plan_chart import HEIGHT, chart
from balloons.cli.plan_text import plan_lines
from balloons.preview.assumed import assumed_inputs
from balloons.preview.flow import Moment
from balloons.preview.inputs import Ceiling
from balloons.preview.plan import Asked, make_plan
from balloons.preview.stated import Stated, with_stated
from balloons.preview.words import count, duration, share

AT = datetime(2026, 11, 21, tzinfo=UTC)


def moments(nodes: int = 100, steps: int = 50) -> list[Moment]:
    """All boot at once and join one after the other."""
    return [
        Moment(
            at_s=5.0 * step,
            waiting=0,
            booting=nodes - nodes * step // steps,
            held=0,
            joining=0,
            ready=nodes * step // steps,
            window=None,
            utilisation=0.0,
            latency_s=0.0,
            requests_per_s=0.0,
            pods_queued=0,
            is_launch_bound=False,
        )
        for step in range(steps + 1)
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_chart_fits_and_tells_stages_apart_without_colour(width: int) -> None:
    lines = chart(moments(), width, is_coloured=False)
    assert len(lines) <= HEIGHT + 1
    assert max(map(len, lines)) <= width
    assert "\x1b" not in "".join(lines)
    drawn = "\n".join(lines[1:])
    assert drawn.count("█") == pytest.approx(drawn.count("░"), rel=0.25)
    assert "4m10s" in lines[-1]


def test_chart_is_coloured_on_request_and_left_out_where_there_is_no_room() -> None:
    assert "\x1b[" in "".join(chart(moments(), 80, is_coloured=True))
    assert chart(moments(), 30, is_coloured=False) == []
    assert chart(moments()[:1], 80, is_coloured=False) == []


def test_names_from_the_cluster_cannot_paint() -> None:
    evil = "gpu\x1b[2J\u202e"
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, servers=3, server_cores=32, daemonsets=1))
    pool = replace(given.pools[0], name=evil, ceilings=(Ceiling(name=evil, nodes=2, detail=evil),))
    inputs = replace(given, pools=(pool,), autoscaler=evil, unseen=(evil,))
    lines = plan_lines(make_plan(inputs, Asked(add=5), AT), Look(), [])
    text = "\n".join(lines)
    assert "\\x1b" in text
    assert not any(char in text for char in "\x1b\u202e")


def test_narrow_terminals_lose_columns_and_no_name() -> None:
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, servers=3, server_cores=32, daemonsets=1))
    lines = plan_lines(make_plan(given, Asked(add=5), AT), Look(width=40), [])
    tables = [line for line in lines if line.startswith(("WAVE", "POLICY", "INPUT", "1 ", "machine boot"))]
    assert tables
    assert max(map(len, tables)) <= 40


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.5, "0.5s"), (59.6, "1m"), (45, "45s"), (200, "3m20s"), (3600, "1h00m"), (None, "never")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_shares_and_counts() -> None:
    assert [share(each) for each in (0, 0.0004, 0.013, 0.25)] == ["0 %", "<0.1 %", "1.3 %", "25 %"]
    assert [count(1, "node"), count(2000, "node")] == ["1 node", "2,000 nodes"]
