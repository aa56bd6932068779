"""The summary at the top of the benchmark page says what its sections say, and judges it rightly."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
SUMMARY = PAGE.partition("| benchmark | figure |")[2].partition("\n\n")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SUMMARY.splitlines()[2:]]
MORE_IS_BETTER = {"ratio", "eta_within_10", "eta_within_15", "binding_right", "restored"}
"""Where floor and goal are equal or one is missing, so that they do not tell."""


def amount(text: str) -> float | None:
    """`20 of 20` and `281 ms` as a number; None for an empty cell."""
    found = re.match(r"[\d,.]+", text)
    return float(found[0].replace(",", "")) if found else None


def verdict(name: str, value: float, goal: float | None, floor: float | None) -> str:
    """What the last column has to say."""
    is_more_better = name in MORE_IS_BETTER or (goal is not None and floor is not None and goal > floor)
    sign = 1.0 if is_more_better else -1.0
    if floor is not None and sign * value < sign * floor:
        return "no"
    if goal is not None and sign * value < sign * goal:
        return "floor holds, goal missed" if floor is not None else "goal missed"
    return "yes"


def test_there_is_a_summary_of_every_benchmark_with_goals() -> None:
    assert len(ROWS) >= 20
    with_goals = {section for section in re.findall(r"^## (\w+):", PAGE, re.M) if "| goal |" in of(section)}
    assert with_goals == {re.sub(r"[\[\]]|\(.*", "", row[0]) for row in ROWS}


def of(section: str) -> str:
    return PAGE.partition(f"\n## {section}: ")[2].partition("\n## ")[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].split("`")[1])
def test_each_row_stands_in_its_section_and_is_judged_rightly(row: list[str]) -> None:
    benchmark, figure, value, goal, floor, holds = row
    name = figure.split("`")[1]
    lines = [line for line in of(benchmark.partition("]")[0].strip("[")).splitlines() if f"`{name}`" in line]
    cells = [[cell.split(" (")[0].split(", goal")[0].strip() for cell in line.strip("|").split("|")] for line in lines]
    assert any({value, goal, floor} - {""} <= set(line) for line in cells), cells
    number = amount(value)
    assert number is not None
    assert holds == verdict(name, number, amount(goal), amount(floor))


def test_a_wrong_verdict_is_found() -> None:
    assert verdict("warm_median", 1.098, 1.05, 1.10) == "floor holds, goal missed"
    assert verdict("ratio", 46.0, 40.0, 20.0) == "yes"
    assert verdict("band_covers", 10.0, 18.0, 16.0) == "no"
    assert verdict("full_ms_100k", 281.0, 250.0, None) == "goal missed"
