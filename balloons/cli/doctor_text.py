"""Diagnoses, for people and for machines. Pure."""

import textwrap

from balloons.cli.documents import DiagnosisDocument, FindingItem, SkippedItem
from balloons.cli.terminal import Look, lines
from balloons.doctor.check import Finding, Severity
from balloons.doctor.diagnose import Diagnosis
from balloons.text_and_colours import printable
from throttler.kube.quantities_and_durations import count

DIAGNOSIS_COLUMNS = ("SEVERITY", "CODE", "OBJECT", "FINDING")
WIDE_DIAGNOSIS_COLUMNS = (*DIAGNOSIS_COLUMNS, "FIX", "DOCS")
CODES_WIDTH = 78
_COLOURS = {Severity.ERROR: "\x1b[31m", Severity.WARNING: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_GLYPHS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "i"}
_ASCII_GLYPHS = {**_GLYPHS, Severity.ERROR: "x"}


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
