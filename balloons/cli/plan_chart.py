"""Nodes over time in the terminal, stacked by stage. plotext is imported only when a chart is drawn."""

from collections.abc import Sequence
from typing import Any

from balloons.preview.flow import Moment
from balloons.preview.words import duration

STAGES = (("ready", "█", "green"), ("joining", "▓", "orange"), ("booting", "░", "blue"))
"""From the bottom: what is usable, what loads the API servers, what is paid for and not there yet; each with a glyph of
its own, because colour alone says nothing to many."""
HEIGHT = 13
MOST_COLUMNS = 100
LEAST_COLUMNS = 40
MARGIN = 10
TICKS = 5


def chart(moments: Sequence[Moment], width: int, *, is_coloured: bool) -> list[str]:
    """The lines of the chart; none where the terminal is too narrow for one, or nothing happens."""
    seen = [moment for moment in moments if moment.at_s >= 0.0]
    columns = min(width, MOST_COLUMNS)
    if columns < LEAST_COLUMNS or len(seen) < 2:
        return []
    times = [seen[-1].at_s * index / (columns - MARGIN) for index in range(columns - MARGIN + 1)]
    rows = _sampled(seen, times)
    text: str = _figure(times, rows, columns).string(not is_coloured)
    legend = "  ".join(f"{glyph} {name}" for name, glyph, _ in STAGES)
    return [f"Nodes over time: {legend}", *(line.rstrip() for line in text.splitlines() if line.strip())]


def _sampled(moments: Sequence[Moment], times: Sequence[float]) -> list[tuple[int, int, int]]:
    """(ready, joining and held, booting) at each time."""
    found, at = [], 0
    for time_s in times:
        while at + 1 < len(moments) and moments[at + 1].at_s <= time_s:
            at += 1
        moment = moments[at]
        found.append((moment.ready, moment.joining + moment.held, moment.booting))
    return found


def _figure(times: Sequence[float], rows: Sequence[tuple[int, int, int]], columns: int) -> Any:
    import plotext

    figure = plotext.figure.clear()
    figure.plot_size(columns, HEIGHT)
    for stage in reversed(range(len(STAGES))):
        _, glyph, colour = STAGES[stage]
        tops = [sum(row[: stage + 1]) for row in rows]
        marker = plotext.colorize(glyph, colour)
        figure.draw(figure.bar(list(times), tops, marker=marker, width=1))
    marks = [times[-1] * part / TICKS for part in range(TICKS + 1)]
    figure.ruler("x").ticks(marks, [duration(each) for each in marks])
    return figure.build()
