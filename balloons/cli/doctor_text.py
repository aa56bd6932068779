"""A diagnosis for people and for machines. Pure."""

import textwrap

from balloons.cli.documents import DiagnosisDocument, FindingItem, SkippedItem
from balloons.cli.look import Look
from balloons.cli.table import lines
from balloons.doctor.check import Finding, Severity, count
from balloons.doctor.diagnose import Diagnosis
from balloons.printable import printable

COLUMNS = ("SEVERITY", "CODE", "OBJECT", "FINDING")
WIDE = (*COLUMNS, "FIX", "DOCS")
CODES_WIDTH = 78
_COLOURS = {Severity.ERROR: "\x1b[31m", Severity.WARNING: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_GLYPHS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "i"}


def text(found: Diagnosis, look: Look) -> list[str]:
    """For a terminal a few lines for each finding, for a pipe or `wide` one row of a table."""
    if look.is_terminal and look.output != "wide":
        width = min(look.width or 80, 120)
        return [line for each in found.findings for line in _block(each, width, look)]
    headers = WIDE if look.output == "wide" else COLUMNS
    rows = [_row(each) for each in found.findings]
    return lines(headers, rows, has_headers=look.has_headers) if rows else []


def summary(found: Diagnosis, look: Look) -> list[str]:
    """What was looked at, and what not; what passed by its code, and with its title where there is room for all."""
    width = min(look.width or CODES_WIDTH, CODES_WIDTH)
    counts = [(s.word, sum(each.check.severity is s for each in found.findings)) for s in reversed(Severity)]
    said = ", ".join(f"{count} {word}{'s' if count != 1 and word != 'info' else ''}" for word, count in counts if count)
    skipped = sorted(set(found.skipped.values()))
    by_why = [f"{', '.join(c for c, w in found.skipped.items() if w == why)} ({why})" for why in skipped]
    if not found.checked:
        said = "nothing could be looked at"
    titles = [f"passed: {check.code} {check.title}" for check in found.passed]
    codes = f"passed: {' '.join(check.code for check in found.passed)}"
    passed = titles if look.output == "wide" else textwrap.wrap(codes, width, subsequent_indent="  ")
    return [
        found.detected,
        *(passed if found.passed else []),
        f"{count(found.checked, 'check')}: {said or 'nothing found'}",
        *([f"skipped: {'; '.join(by_why)}"] if by_why else []),
    ]


def document(found: Diagnosis) -> DiagnosisDocument:
    """For machines; the list is there even when it is empty."""
    return DiagnosisDocument(
        detected=found.detected,
        checked=found.checked,
        skipped=[SkippedItem(code, why) for code, why in found.skipped.items()],
        findings=[_item(each) for each in found.findings],
    )


def _item(finding: Finding) -> FindingItem:
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


def _row(finding: Finding) -> dict[str, str]:
    item = _item(finding)
    return {
        "SEVERITY": item.severity,
        "CODE": item.code,
        "OBJECT": item.object,
        "FINDING": item.message,
        "FIX": item.fix,
        "DOCS": item.docs,
    }


def _block(finding: Finding, width: int, look: Look) -> list[str]:
    severity, trouble = finding.check.severity, finding.trouble
    head = f"{_GLYPHS[severity]} {severity.word} {finding.check.code}"
    shown = f"{_COLOURS[severity]}{head}\x1b[0m" if look.is_coloured else head
    # A command is not wrapped: it is there to be copied.
    return [
        f"{shown}  {printable(trouble.object)}",
        *_wrapped(printable(trouble.sentence), width),
        f"    fix: {printable(trouble.fix)}",
        f"    see: {finding.check.page}",
    ]


def _wrapped(sentence: str, width: int) -> list[str]:
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
