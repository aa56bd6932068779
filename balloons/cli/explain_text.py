"""A timeline for people and for machines. Pure."""

from datetime import datetime

from balloons.cli.documents import ExplanationDocument, StepItem
from balloons.cli.look import Look
from balloons.cli.table import lines
from balloons.explain.timeline import Step, Timeline
from balloons.preview.words import duration
from balloons.printable import printable

COLUMNS = ("TIME", "WAIT", "STEP", "BECAUSE", "MESSAGE")


def text(found: Timeline, look: Look) -> list[str]:
    """The table of steps, then how it stands. Messages end the line: a terminal may wrap them."""
    rows = [_row(step) for step in found.steps]
    return [*lines(COLUMNS, rows, has_headers=look.has_headers), f"now: {printable(found.now)}"]


def document(found: Timeline) -> ExplanationDocument:
    """For machines."""
    return ExplanationDocument(
        subject=found.subject, seen_at=_time(found.seen_at), now=found.now, steps=[_item(step) for step in found.steps]
    )


def _item(step: Step) -> StepItem:
    return StepItem(_time(step.at) if step.at else None, step.wait_s, step.what, step.because, step.message)


def _row(step: Step) -> dict[str, str]:
    return {
        "TIME": _time(step.at) if step.at else "now",
        "WAIT": _wait(step.wait_s) if step.wait_s is not None else "",
        "STEP": step.what,
        "BECAUSE": step.because,
        "MESSAGE": " ".join(step.message.split()),
    }


def _wait(seconds: float) -> str:
    """Events know microseconds, which nobody waits for: tenths below ten seconds, then as plans have it."""
    return f"+{round(seconds, 1):g}s" if seconds < 10 else f"+{duration(seconds)}"


def _time(at: datetime) -> str:
    """To the second: that is what most objects carry."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
