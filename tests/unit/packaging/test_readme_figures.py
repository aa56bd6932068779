"""README's figures are those of the benchmark page."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
MEASURED = README.partition("## Before and after")[2].partition("\n## ")[0]


def row(text: str, start: str) -> list[str]:
    """The cells of the table's row that begins so, without the first."""
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def rush(way: str) -> list[str]:
    """The demo's rush on the benchmark page as README rounds it: seconds, seconds, requests."""
    demo = BENCHMARKS.partition("| `make demo` on a clean clone ")[2]
    line = next(line for line in f"|{demo}".splitlines() if f"| {way} |" in f"|{line}")
    all_s, _, p99_ms, errors = [cell.strip() for cell in line.partition(way)[2].strip(" |").split("|")][:4]
    p99_s = float(p99_ms.replace(",", "")) / 1000.0
    return [f"{float(all_s):.0f} s", f"{p99_s:.1f} s" if p99_s >= 1.0 else f"{p99_s:.2f} s", errors]


def test_the_rush_is_the_one_on_the_benchmark_page() -> None:
    shown = [row(MEASURED, start) for start in ("| time until all nodes", "| 1 % of everybody", "| requests that were")]
    at_once, paced = zip(*shown, strict=True)
    assert list(at_once) == rush("at once")
    assert list(paced) == rush("gates, cold, as it is")


def test_the_warm_job_is_the_one_on_the_benchmark_page() -> None:
    assert row(MEASURED, "| time until the job's last pod") == row(BENCHMARKS, "| the job's last pod has a node |")


def test_what_is_said_of_plans_stands_there_too() -> None:
    (said,) = re.findall(r"within 15 %.*?(\d+) within 10 %.*?(\d+) within its band", README, re.DOTALL)
    figures = ("`eta_within_10`", "`band_covers`")
    aside = [row(BENCHMARKS, f"| {figure}")[1] for figure in figures]
    assert [f"{each} of 20" for each in said] == aside
    assert row(BENCHMARKS, "| `eta_within_15`")[:2] == ["20 of 20", "20 of 20"]
