"""`balloons report`: a plan as a page, a picture or a chart, for whoever has to agree to it."""

import logging
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.options_and_values import FILE, PLAN_FILE, Choice, File, cluster_options, color_option, option
from balloons.cli.plan_and_simulate_command import (
    InSections,
    asked_options,
    check_asked,
    check_offline,
    check_saved,
    offline_option,
    stated_options,
)
from balloons.cli.terminal import CommandError, ExitCode, Look, warn
from balloons.cli.version_command import own_version

if TYPE_CHECKING:
    from balloons.report.document import Document

FORMATS = ("html", "png", "svg", "text")
OF_A_SAVED_PLAN = ("saved", "output", "output_format", "chart", "no_headers", "color", "debug")
"""Options that a plan that was made before can still have."""
SUFFIXES = {".html": "html", ".htm": "html", ".png": "png", ".svg": "svg", ".txt": "text"}
LIBRARIES = ("jinja2", "matplotlib")
"""Of the extra `report`."""


@click.command(cls=InSections, short_help="Draw a plan as a picture or a web page.")
@asked_options
@option("--plan", "saved", metavar=FILE, type=File(PLAN_FILE), help="Draw the plan that `plan --save` wrote.")
@click.option(
    "-o",
    "--output",
    metavar=FILE,
    type=File(is_read=False),
    help="File to write: .html, .png, .svg or .txt. Default: stdout.",
)
@click.option(
    "--chart",
    type=Choice(["stages", "compared"]),
    default="stages",
    show_default=True,
    help="Chart in .svg and .png: nodes by stage, or paced and unpaced.",
)
@click.option(
    "--format",
    "output_format",
    type=Choice(FORMATS),
    help="Format where the name of FILE does not tell. Default: text.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names (text only).")
@color_option
@cluster_options
@offline_option
@stated_options
def report(**options: Any) -> int:
    """Draw a plan: nodes over time, API load, what others wait, waves, reasons and figures used.

    \b
    Examples:
      balloons report --to 500 -o report.html
      balloons report --plan plan.json --chart compared -o report.svg

    The page is one file that loads nothing. It suits light and dark screens and paper. Equal plans give equal bytes.
    Pages and pictures need the extra `report`. Exit codes are those of `plan`: 3 when the plan breaks a promise.
    """
    check_asked({**options, "plan": options["saved"]}, "to", "add", "pods", "job", "plan")
    if options["offline"]:
        check_offline(click.get_current_context())
    if options["saved"] is not None:
        accepted = "-o, --format, --chart, --no-headers, --color"
        check_saved(click.get_current_context(), "--plan", "drawn", OF_A_SAVED_PLAN, accepted)
    return show_report(options)


def show_report(options: Mapping[str, Any]) -> int:
    """Draw it; the exit code says whether the plan keeps its promises."""
    kind = _kind(options["output"], options["output_format"])
    _check_libraries(kind)
    if kind == "png" and options["output"] in (None, "-") and sys.stdout.isatty():
        raise click.UsageError("a PNG is no text: send it to a file, -o FILE")
    plan = _saved(options["saved"]) if options["saved"] else _new(options)
    _deliver(_drawn(plan, kind, options), options["output"])
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


def _new(options: Mapping[str, Any]) -> "Document":
    from balloons.cli.plan_and_simulate_screen import planned
    from balloons.report.document import read_document

    _, body = planned(options, "report", with_findings=True)
    return read_document(body)


def _saved(path: str) -> "Document":
    from balloons.cli.input_and_output_files import only_document
    from balloons.report.document import DocumentError, read_document

    try:
        return read_document(only_document(path))
    except DocumentError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error


def _drawn(plan: "Document", kind: str, options: Mapping[str, Any]) -> bytes:
    if kind == "text":
        return _text(plan, options).encode(
            sys.stdout.encoding if options["output"] is None else "utf-8", "backslashreplace"
        )
    # The library tells of a home that it cannot write to; it then takes a temporary one, which is fine.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Imported here: a chart in the terminal needs neither library, and has not to wait for them.
    from balloons.report.html_page import page
    from balloons.report.png_and_svg import Chart, can_draw, png, svg

    if kind == "html":
        return page(plan, own_version()).encode()
    chart = Chart(options["chart"])
    if chart is Chart.COMPARED and not can_draw(plan, chart):
        raise CommandError(
            "this plan does not hold both courses over time; accepted: --chart stages", ExitCode.BAD_INPUT
        )
    return {"png": png, "svg": svg}[kind](plan, chart)


def _text(plan: "Document", options: Mapping[str, Any]) -> str:
    from balloons.cli.plan_text_and_chart import report_lines

    look = Look.of_terminal("wide", has_headers=not options["no_headers"])
    if options["output"] is not None:
        look = Look("wide", has_headers=look.has_headers)
    wide = replace(look, width=look.width or shutil.get_terminal_size().columns)
    return "".join(f"{line}\n" for line in report_lines(plan, look, wide))


def _deliver(content: bytes, path: str | None) -> None:
    if path in (None, "-"):
        sys.stdout.buffer.write(content)
    else:
        from balloons.cli.input_and_output_files import write

        write(path, content)
        warn(f"{path}: {len(content):,} bytes")
