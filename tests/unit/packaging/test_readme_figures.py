"""README's figures are those of the benchmark page and of the manifests."""

import re
from pathlib import Path

import pytest
import yaml

from tools.readme_figures import benchmarks_with, readme_with, rushes

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def row(text: str, start: str) -> list[str]:
    """The cells of the table's row that begins so, without the first."""
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_demo_figures_are_those_of_the_benchmark_page() -> None:
    """After a new measurement: change its rows on the page, then `python -m tools.readme_figures`."""
    assert benchmarks_with(BENCHMARKS) == BENCHMARKS
    assert readme_with(README, BENCHMARKS) == README


def test_new_figures_change_their_rows_on_the_page_and_the_tool_does_the_rest() -> None:
    rows = (
        "| **at once** | 61.4 | 60-62 | 37 | 1,551 | 1,400-1,600 | 1,016 | 1,000-1,020 | 70 |\n"
        "| **gates, cold** | 74.6 | 70-75 | 41 | 343 | 300-400 | 0 | 0-1 | 71 |"
    )
    page = re.sub(r"^\| \*\*at once\*\* .*\n.*$", rows, BENCHMARKS, flags=re.MULTILINE)
    page = re.sub(r"^(\| the job's last pod has a node \|).*$", r"\1 21.2 s | 250 ms |", page, flags=re.MULTILINE)
    measured = readme_with(README, page)
    assert row(measured, "| time until the job's last pod") == ["21.2 s", "250 ms"]
    assert row(measured, "| time until all nodes") == ["61 s", "75 s"]
    assert row(measured, "| the slowest 1 %") == ["1.6 s", "0.34 s"]
    assert row(measured, "| requests that were refused") == ["1,016", "0"]
    short = row(benchmarks_with(page), "| What does pacing cost")[0]
    assert short == "150 nodes on one small API server: 75 s instead of 61 s; others' p99 0.34 s instead of 1.6 s"


def test_rows_of_the_rush_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="the row at once"):
        rushes(BENCHMARKS.replace("| **gates, cold** |", "| **a ceiling** |"))


def test_what_is_said_of_plans_stands_there_too() -> None:
    (said,) = re.findall(r"(\d+) ended within 10 %.*?(\d+)\s+within 15 %, and (\d+) within its band", README, re.DOTALL)
    figures = ("`eta_within_10`", "`eta_within_15`", "`band_covers`")
    told = [row(BENCHMARKS, f"| {figure}")[0] for figure in figures]
    assert [f"{count} of 20" for count in said] == told


def test_what_the_service_needs_is_what_the_manifests_request_and_the_fleet_measured() -> None:
    cpu_m = memory_mib = 0
    for part in ("service", "guard"):
        spec = yaml.safe_load((ROOT / f"manifests/components/{part}/deployment.yaml").read_text())["spec"]
        requests = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
        cpu_m += spec["replicas"] * int(requests["cpu"].removesuffix("m"))
        memory_mib += spec["replicas"] * int(requests["memory"].removesuffix("Mi"))
    assert f"{cpu_m / 1000} CPU and {memory_mib} MiB together" in README
    fleet = BENCHMARKS.partition("\n## fleet: ")[2].partition("\n## ")[0]
    assert f"a replica held {row(fleet, '| `memory_mb`')[0]} at most" in README
    assert f"sent {row(fleet, '| `requests_per_s_idle`')[0]} requests a second" in README
