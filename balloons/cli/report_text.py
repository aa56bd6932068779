"""A report as text: what was asked, when it is done, the chart, the waves. Pure."""

from balloons.cli.look import Look
from balloons.cli.plan_chart import chart
from balloons.cli.plan_text import WAVES, table
from balloons.cli.table import Row
from balloons.printable import printable
from balloons.report import sentences
from balloons.report.document import Document
from balloons.report.series import series_of

MOST_WAVES = 100


def report_lines(plan: Document, look: Look, wide: Look) -> list[str]:
    """Everything; `wide` is how the chart looks, which has a width also where a table has none."""
    head = [
        sentences.title(plan),
        f"Seen: {sentences.shown(plan.cluster.autoscaler)}",
        sentences.when(plan),
        sentences.limited_by(plan),
    ]
    broken = [f"! {printable(each)}" for each in sentences.first(plan.broken, MOST_WAVES)]
    parts = [[line for line in head if line], chart(series_of(plan), wide), _waves(plan, look), broken]
    return [line for index, part in enumerate(filter(None, parts)) for line in ([""] if index else []) + part]


def _waves(plan: Document, look: Look) -> list[str]:
    rows: list[Row] = [
        dict(zip(WAVES, sentences.wave_row(number, wave), strict=True))
        for number, wave in enumerate(plan.waves[:MOST_WAVES], start=1)
    ]
    return table(WAVES, rows, look) if rows else []
