"""Makes or reads a plan, and draws it as asked."""

import logging
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import click

from balloons.cli.cluster_options import warn
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.look import Look
from balloons.cli.plan_files import documents, write
from balloons.cli.plan_screen import planned
from balloons.cli.report_text import report_lines
from balloons.cli.version_command import own_version
from balloons.report.document import Document, DocumentError, read_document

SUFFIXES = {".html": "html", ".htm": "html", ".png": "png", ".svg": "svg", ".txt": "text"}
LIBRARIES = ("jinja2", "matplotlib")
"""Of the extra `report`."""


def show_report(given: Mapping[str, Any]) -> int:
    """Draw it; the exit code says whether the plan keeps its promises."""
    kind = _kind(given["output"], given["output_format"])
    _check_libraries(kind)
    _check_terminal(kind, given["output"])
    plan = _saved(given["saved"]) if given["saved"] else _new(given)
    _deliver(_drawn(plan, kind, given), given["output"])
    return ExitCode.FINDINGS if plan.broken else ExitCode.DONE


def _kind(path: str | None, asked: str | None) -> str:
    """What to draw: as asked, else as the file's name says, else text."""
    if not path or path == "-":
        return asked or "text"
    suffix = PurePath(path).suffix.lower()
    if asked and SUFFIXES.get(suffix, asked) != asked:
        raise click.UsageError(f"--format {asked} with --output {path}, which says {SUFFIXES[suffix]}: one of the two")
    if asked:
        return asked
    if suffix not in SUFFIXES:
        accepted = ", ".join(SUFFIXES)
        raise click.UsageError(f"--output {path}: {suffix or 'no suffix'}; accepted: {accepted}, or --format")
    return SUFFIXES[suffix]


def _check_libraries(kind: str) -> None:
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if kind != "text" and missing:
        raise CommandError(
            f"{kind} needs {' and '.join(missing)}: pip install '.[report]' in a checkout; without: --format text",
            ExitCode.BAD_INPUT,
        )


def _check_terminal(kind: str, path: str | None) -> None:
    if kind == "png" and path in (None, "-") and sys.stdout.isatty():
        raise click.UsageError("a PNG is no text: send it to a file, -o FILE")


def _new(given: Mapping[str, Any]) -> Document:
    _, body = planned(given, "report", with_findings=True)
    return read_document(body)


def _saved(path: str) -> Document:
    try:
        return read_document(documents(path)[0])
    except DocumentError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error


def _drawn(plan: Document, kind: str, given: Mapping[str, Any]) -> bytes:
    if kind == "text":
        return _text(plan, given).encode(
            sys.stdout.encoding if given["output"] is None else "utf-8", "backslashreplace"
        )
    # The library tells of a home that it cannot write to; it then takes a temporary one, which is fine.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Imported here: a chart in the terminal needs neither library, and has not to wait for them.
    from balloons.report.html_page import page
    from balloons.report.picture import Chart, can_draw, png, svg

    if kind == "html":
        return page(plan, own_version()).encode()
    chart = Chart(given["chart"])
    if chart is Chart.COMPARED and not can_draw(plan, chart):
        raise CommandError(
            "this plan does not hold both courses over time; accepted: --chart stages", ExitCode.BAD_INPUT
        )
    return {"png": png, "svg": svg}[kind](plan, chart)


def _text(plan: Document, given: Mapping[str, Any]) -> str:
    look = Look.of_terminal("wide", has_headers=not given["no_headers"])
    if given["output"] is not None:
        look = Look("wide", has_headers=look.has_headers)
    wide = replace(look, width=look.width or shutil.get_terminal_size().columns)
    return "".join(f"{line}\n" for line in report_lines(plan, look, wide))


def _deliver(content: bytes, path: str | None) -> None:
    if path in (None, "-"):
        sys.stdout.buffer.write(content)
    else:
        write(path, content)
        warn(f"{path}: {len(content):,} bytes")
