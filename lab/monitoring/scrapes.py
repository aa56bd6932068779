"""Several scrapes of one /metrics page as one OpenMetrics text with timestamps, as `promtool tsdb` loads it."""

from __future__ import annotations

from collections.abc import Iterable

END = "# EOF"


class Scrapes:
    """Collects pages in OpenMetrics text; a family's samples stay together, as the format demands."""

    def __init__(self) -> None:
        self._about: dict[str, list[str]] = {}
        self._samples: dict[str, list[str]] = {}

    def add(self, page: str, at_s: float) -> None:
        """One scrape; `at_s` is in seconds since the epoch."""
        family = ""
        about: dict[str, list[str]] = {}
        for line in page.splitlines():
            if line.startswith("# ") and line != END:
                family = line.split(" ")[2]
                about.setdefault(family, []).append(line)
            elif line and line != END:
                self._samples.setdefault(family, []).append(f"{line} {at_s:.3f}")
        self._about.update(about)

    def text(self) -> str:
        """All of it."""
        return "\n".join([*self._lines(), END, ""])

    def _lines(self) -> Iterable[str]:
        for family, samples in self._samples.items():
            # Sorted by series and then by time (the sort is stable): compresses to a third.
            yield from (*self._about[family], *sorted(samples, key=_series))


def _series(line: str) -> str:
    return line.rsplit(" ", 2)[0]
