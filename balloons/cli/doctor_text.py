"""Diagnoses and timelines, for people and for machines. Pure."""

import textwrap
from datetime import datetime

from balloons.cli.documents import DiagnosisDocument, ExplanationDocument, FindingItem, SkippedItem, StepItem
from balloons.cli.terminal import NARROW_GAP, Look, lines
from balloons.display_text import duration, printable
from balloons.doctor.check import Finding, Severity
from balloons.doctor.diagnose import Diagnosis
from balloons.explain import Step, Timeline
from throttler.kube.quantities_and_durations import count

DIAGNOSIS_COLUMNS = ("SEVERITY", "CODE", "OBJECT", "FINDING")
WIDE_DIAGNOSIS_COLUMNS = (*DIAGNOSIS_COLUMNS, "FIX", "DOCS")
CODES_WIDTH = 78
_COLOURS = {Severity.ERROR: "\x1b[31m", Severity.WARNING: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_GLYPHS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "i"}
_ASCII_GLYPHS = {**_GLYPHS, Severity.ERROR: "x"}
TIMELINE_COLUMNS = ("TIME", "WAIT", "STEP", "BECAUSE", "MESSAGE")


def diagnosis_text(diagnosis: Diagnosis, look: Look) -> list[str]:
    """For a terminal a few lines for each finding, for a pipe one row of a table, with the fix if it is `wide`."""
    if look.is_terminal:
        width = min(look.width or 80, 120)
        return [line for finding in diagnosis.findings for line in _block(finding, width, look)]
    headers = WIDE_DIAGNOSIS_COLUMNS if look.output == "wide" else DIAGNOSIS_COLUMNS
    rows = [_finding_row(finding) for finding in diagnosis.findings]
    return lines(headers, rows, has_headers=look.has_headers) if rows else []


def summary(diagnosis: Diagnosis, look: Look) -> list[str]:
    """What was looked at, and what not; what passed by its code, and with its title where there is room for all."""
    width = min(look.width or CODES_WIDTH, CODES_WIDTH)
    counts = [(s.word, sum(finding.check.severity is s for finding in diagnosis.findings)) for s in reversed(Severity)]
    said = ", ".join(f"{count} {word}{'s' if count != 1 and word != 'info' else ''}" for word, count in counts if count)
    skipped = sorted(set(diagnosis.skipped.values()))
    by_why = [f"{', '.join(c for c, w in diagnosis.skipped.items() if w == why)} ({why})" for why in skipped]
    if not diagnosis.checked:
        said = "nothing could be looked at"
    codes = f"passed: {' '.join(check.code for check in diagnosis.passed)}"
    passed = textwrap.wrap(codes, width, subsequent_indent="  ")
    if look.output == "wide":
        passed = ["none of these was found:", *(f"  {check.code} {check.title}" for check in diagnosis.passed)]
    return [
        diagnosis.detected,
        *(passed if diagnosis.passed else []),
        f"{count(diagnosis.checked, 'check')}: {said or 'nothing found'}",
        *([f"skipped: {'; '.join(by_why)}"] if by_why else []),
    ]


def diagnosis_document(diagnosis: Diagnosis) -> DiagnosisDocument:
    """For machines; the list is there even when it is empty."""
    return DiagnosisDocument(
        detected=diagnosis.detected,
        checked=diagnosis.checked,
        skipped=[SkippedItem(code, why) for code, why in diagnosis.skipped.items()],
        findings=[_finding_item(finding) for finding in diagnosis.findings],
    )


def _finding_item(finding: Finding) -> FindingItem:
    check, trouble = finding.check, finding.trouble
    return FindingItem(
        code=check.code,
        severity=check.severity.word,
        title=check.title,
        object=trouble.object,
        message=trouble.sentence,
        fix=trouble.fix,
        docs=check.page,
    )


def _finding_row(finding: Finding) -> dict[str, str]:
    item = _finding_item(finding)
    return {
        "SEVERITY": item.severity,
        "CODE": item.code,
        "OBJECT": item.object,
        "FINDING": item.message,
        "FIX": item.fix,
        "DOCS": item.docs,
    }


def _block(finding: Finding, width: int, look: Look) -> list[str]:
    severity, trouble, name = finding.check.severity, finding.trouble, printable(finding.trouble.object)
    glyph = _GLYPHS[severity] if look.is_unicode else _ASCII_GLYPHS[severity]
    head = f"{glyph} {severity.word} {finding.check.code}"
    shown = f"{_COLOURS[severity]}{head}\x1b[0m" if look.is_coloured else head
    # A command is not wrapped: it is there to be copied.
    return [
        *([f"{shown}  {name}"] if len(f"{head}  {name}") <= width else [shown, *_wrapped_finding(name, width)]),
        *_wrapped_finding(printable(trouble.sentence), width),
        f"    fix: {printable(trouble.fix)}",
        f"    see: {finding.check.page}",
    ]


def _wrapped_finding(sentence: str, width: int) -> list[str]:
    """Names are never cut, not at their hyphens either: they are there to be copied."""
    indent = "    "
    return textwrap.wrap(
        sentence,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def timeline_text(timeline: Timeline, look: Look) -> list[str]:
    """The table of steps, then how it stands.

    On a terminal that is too narrow a message goes on below its step, and then a step below its time.
    """
    rows = [_step_row(step) for step in timeline.steps]
    whole = lines(TIMELINE_COLUMNS, rows, has_headers=look.has_headers)
    if look.width is not None and max(map(len, whole), default=0) > look.width:
        whole = _narrow(rows, look.width, has_headers=look.has_headers)
    return [*whole, *_wrapped_message(f"now: {timeline.now}", look.width, "  ")]


def _narrow(rows: list[dict[str, str]], width: int, *, has_headers: bool) -> list[str]:
    """Each message in lines of its own."""
    short = lines(TIMELINE_COLUMNS[:-1], rows, has_headers=has_headers, gap=NARROW_GAP)
    if max(map(len, short), default=0) > width:
        return [line for row in rows for line in _stacked(row, width)]
    heads = short[len(short) - len(rows) :]
    below = (_wrapped_message(row["MESSAGE"], width, "    ") if row["MESSAGE"] else [] for row in rows)
    pairs = zip(heads, below, strict=True)
    return [*short[: len(short) - len(rows)], *(line for head, more in pairs for line in (head, *more))]


def _stacked(row: dict[str, str], width: int) -> list[str]:
    """One step in lines of its own: when, what, and in which words."""
    when, what = " ".join((row["TIME"], row["WAIT"])).rstrip(), ": ".join(filter(None, (row["STEP"], row["BECAUSE"])))
    told = _wrapped_message(row["MESSAGE"], width, "    ") if row["MESSAGE"] else []
    return [when, *_wrapped_message(what, width, "  "), *told]


def _wrapped_message(text: str, width: int | None, indent: str) -> list[str]:
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


def timeline_document(timeline: Timeline) -> ExplanationDocument:
    """For machines."""
    return ExplanationDocument(
        subject=timeline.subject,
        seen_at=_time(timeline.seen_at),
        now=timeline.now,
        steps=[_step_item(step) for step in timeline.steps],
    )


def _step_item(step: Step) -> StepItem:
    return StepItem(_time(step.at) if step.at else None, step.wait_s, step.what, step.because, step.message)


def _step_row(step: Step) -> dict[str, str]:
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
