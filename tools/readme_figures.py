"""README's figures and the short line of docs/benchmarks.md, from two tables on that page.

`python -m tools.readme_figures` writes them: after a new measurement only its rows are changed by hand. They are the
last pod's row in the section *demo*, and in *rush* the rows of the rounds at once and with gates, cold.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, BENCHMARKS = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
LAST_POD = "| the job's last pod has a node |"
RUSH = "| **at once** |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rush:
    """One way of the demo's rush, rounded for people."""

    ready: str
    others_wait: str
    failed: str


def cells(line: str) -> list[str]:
    """Of a table's row."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rushes(benchmarks: str) -> tuple[Rush, Rush]:
    """At once, and paced by gates: the medians of the rounds; raises ValueError where they are not in this order."""
    lines = benchmarks.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(RUSH))
    at_once, paced = cells(lines[first]), cells(lines[first + 1])
    if "gates" not in paced[0]:
        raise ValueError(
            f"line {first + 1} of docs/benchmarks.md: accepted: the row at once, and below it that of gates"
        )
    return _rush(at_once), _rush(paced)


def _rush(row: list[str]) -> Rush:
    p99_s = float(row[4].replace(",", "")) / 1000.0
    wait = f"{p99_s:.1f} s" if p99_s >= 1.0 else f"{p99_s:.2f} s"
    return Rush(ready=f"{float(row[1]):.0f} s", others_wait=wait, failed=row[6])


def readme_with(readme: str, benchmarks: str) -> str:
    """README with the figures of the benchmark page."""
    (warm,) = (cells(line)[1:] for line in benchmarks.splitlines() if line.startswith(LAST_POD))
    at_once, paced = rushes(benchmarks)
    rows = {
        "| time until the job's last pod has a node |": warm,
        "| time until all nodes are ready |": [at_once.ready, paced.ready],
        "| the slowest 1 % of everybody else's requests take at least |": [at_once.others_wait, paced.others_wait],
        "| requests that were refused or failed |": [at_once.failed, paced.failed],
    }
    for start, figures in rows.items():
        readme = _replaced(rf"^{re.escape(start)}.*$", f"{start} {' | '.join(figures)} |", readme)
    return readme


def benchmarks_with(benchmarks: str) -> str:
    """The benchmark page with its short line about pacing."""
    at_once, paced = rushes(benchmarks)
    said = (
        f"150 nodes on one small API server: {paced.ready} instead of {at_once.ready}; "
        f"others' p99 {paced.others_wait} instead of {at_once.others_wait}"
    )
    start = "| What does pacing cost, and what does it buy? |"
    return _replaced(rf"^{re.escape(start)}[^|]*\|", f"{start} {said} |", benchmarks)


def _replaced(pattern: str, line: str, text: str) -> str:
    page, number = re.subn(pattern, lambda _: line, text, flags=re.MULTILINE)
    if number != 1:
        raise ValueError(f"{number} lines for {pattern}; accepted: 1")
    return page


def main() -> None:
    """Write both files."""
    benchmarks = benchmarks_with(BENCHMARKS.read_text(encoding="utf-8"))
    BENCHMARKS.write_text(benchmarks, encoding="utf-8")
    README.write_text(readme_with(README.read_text(encoding="utf-8"), benchmarks), encoding="utf-8")


if __name__ == "__main__":
    main()
