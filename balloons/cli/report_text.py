"""A report as text: the answer, the chart, the waves. Pure."""

from balloons.cli.look import Look
from balloons.cli.plan_chart import chart
from balloons.cli.plan_text import plan_lines
from balloons.report.document import Document, courses_of, series_of


def report_lines(plan: Document, look: Look, wide: Look) -> list[str]:
    """A plan with everything in it; `wide` is how the chart looks, which has a width also where a table has none."""
    return plan_lines(plan, look, chart(series_of(plan), wide, courses=courses_of(plan)))
