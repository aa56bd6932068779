"""The benchmarks that need no control plane work at all: small runs, whose results are checked inside."""

import pytest

from benchmarks.decide.__main__ import measure as measure_decide
from benchmarks.decode.__main__ import measure as measure_decode
from benchmarks.decode.node_list import node_pages
from benchmarks.report import Report

pytestmark = pytest.mark.whole


def named(report: Report) -> dict[str, float]:
    return {figure.name: figure.value for figure in report.figures}


def test_decode_measures_both_sides() -> None:
    figures = named(measure_decode(True))
    assert figures.keys() == {"ratio", "bytes_per_node"}
    assert all(value > 0 for value in figures.values())


def test_decide_measures_time_and_memory() -> None:
    figures = named(measure_decide(True))
    assert figures.keys() == {"full_ms_100k", "tick_ms_100k", "memory_mb_100k"}
    assert all(value > 0 for value in figures.values())


@pytest.mark.parametrize("count", [1, 500, 501])
def test_synthetic_nodes_are_as_large_as_real_ones(count: int) -> None:
    pages = node_pages(count)
    assert len(pages) == (count + 499) // 500
    assert 16_000 < sum(map(len, pages)) / count < 18_500
