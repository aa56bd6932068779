"""A timeline for people and for machines. Pure."""

import textwrap
from datetime import datetime

from balloons.cli.documents import ExplanationDocument, StepItem
from balloons.cli.look import Look
from balloons.cli.table import NARROW_GAP, lines
from balloons.explain import Step, Timeline
from balloons.preview.words import duration
from balloons.printable import printable

COLUMNS = ("TIME", "WAIT", "STEP", "BECAUSE", "MESSAGE")


def text(found: Timeline, look: Look) -> list[str]:
    """The table of steps, then how it stands.

    On a terminal that is too narrow a message goes on below its step, and then a step below its time.
    """
    rows = [_row(step) for step in found.steps]
    whole = lines(COLUMNS, rows, has_headers=look.has_headers)
    if look.width is not None and max(map(len, whole), default=0) > look.width:
        whole = _narrow(rows, look.width, has_headers=look.has_headers)
    return [*whole, *_wrapped(f"now: {found.now}", look.width, "  ")]


def _narrow(rows: list[dict[str, str]], width: int, *, has_headers: bool) -> list[str]:
    """Each message in lines of its own."""
    short = lines(COLUMNS[:-1], rows, has_headers=has_headers, gap=NARROW_GAP)
    if max(map(len, short), default=0) > width:
        return [line for row in rows for line in _stacked(row, width)]
    heads = short[len(short) - len(rows) :]
    below = (_wrapped(row["MESSAGE"], width, "    ") if row["MESSAGE"] else [] for row in rows)
    pairs = zip(heads, below, strict=True)
    return [*short[: len(short) - len(rows)], *(line for head, more in pairs for line in (head, *more))]


def _stacked(row: dict[str, str], width: int) -> list[str]:
    """One step in lines of its own: when, what, and in which words."""
    when, what = " ".join((row["TIME"], row["WAIT"])).rstrip(), ": ".join(filter(None, (row["STEP"], row["BECAUSE"])))
    told = _wrapped(row["MESSAGE"], width, "    ") if row["MESSAGE"] else []
    return [when, *_wrapped(what, width, "  "), *told]


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    """Words are never cut: names are there to be copied."""
    if width is None:
        return [printable(text)]
    first = "" if text.startswith("now: ") else indent
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


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
