"""`balloons doctor`: traps of autoscaling, and how a diagnosis is printed for people and for machines."""

import os
import textwrap
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options_and_values import (
    FILE,
    Choice,
    File,
    cluster_options,
    codes,
    color_option,
    option,
    output_option,
)
from balloons.cli.terminal import CommandError, ExitCode, Look, lines, warn
from balloons.text_and_colours import RESET, printable

if TYPE_CHECKING:
    from balloons.cli.json_and_yaml_output import DiagnosisDocument, FindingItem
    from balloons.doctor.check import Finding
    from balloons.doctor.diagnose import Diagnosis

DIAGNOSIS_COLUMNS = ("SEVERITY", "CODE", "OBJECT", "FINDING")
WIDE_DIAGNOSIS_COLUMNS = (*DIAGNOSIS_COLUMNS, "FIX", "DOCS")
CODES_WIDTH = 78
_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
_GLYPHS = {"error": "✗", "warning": "!", "info": "i"}
_ASCII_GLYPHS = {**_GLYPHS, "error": "x"}


@click.command(short_help="Find what makes autoscaling or warm capacity fail silently.")
@cluster_options
@option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar=FILE,
    type=File("files of manifests, folders with -R, or -", is_or_folder=True),
    help="Check manifests instead of a cluster. - for stdin. Repeatable.",
)
@option("-R", "--recursive", is_flag=True, help="Look into the folders of --filename, too.")
@option("--in-cluster", is_flag=True, help="Use the account of the pod that this runs in, not a kubeconfig.")
@option("--only", metavar="CODES", shell_complete=codes, help="Run only these checks, such as KB001,KB020.")
@option("--skip", metavar="CODES", shell_complete=codes, help="Leave out these checks.")
@option(
    "--fail-on",
    type=Choice(["info", "warning", "error"]),
    help="Exit with 3 on a finding of this severity or above, or if such a check cannot look.",
)
@output_option("wide", "json", "yaml", says="wide: also what was not found. json, yaml: for programs.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def doctor(**options: Any) -> int:
    """Find what makes warm capacity, autoscaling or pacing fail silently.

    \b
    Examples:
      balloons doctor
      balloons doctor -f manifests/ -R --fail-on error

    It only reads. docs/doctor.md explains every code. Findings go to stdout, everything else to stderr.
    """
    from balloons.doctor.check import Severity
    from balloons.doctor.diagnose import diagnose, kinds_of

    checks = _checks(options)
    is_live = not options["files"]
    cluster = see(_where(options), "doctor", kinds_of(checks)) if is_live else _manifests(options)
    diagnosis = diagnose(cluster, checks, is_live=is_live)
    _print_diagnosis(diagnosis, options)
    least = options["fail_on"]
    if least is None:
        return ExitCode.DONE
    if unable := diagnosis.unable(Severity[least.upper()]):
        from throttler.kube.quantities_and_durations import count

        codes = ",".join(unable)
        warn(
            f"--fail-on {least} fails: {count(len(unable), 'check')} could not look; give the rights, or --skip {codes}"
        )
        return ExitCode.FINDINGS
    is_bad = any(finding.check.severity >= Severity[least.upper()] for finding in diagnosis.findings)
    return ExitCode.FINDINGS if is_bad else ExitCode.DONE


def _checks(options: dict[str, Any]) -> Any:
    from balloons.doctor.diagnose import ALL_CHECKS, chosen_checks

    only, skip = (_codes(options[name]) for name in ("only", "skip"))
    try:
        checks = chosen_checks(only, skip)
    except KeyError as error:
        codes = f"{ALL_CHECKS[0].code} to {ALL_CHECKS[-1].code} as listed in docs/doctor.md"
        raise CommandError(f"no check {error.args[0]!r}; accepted: {codes}", ExitCode.BAD_INPUT) from error
    if not checks:
        raise CommandError("--skip leaves no check; accepted: at least one that is not left out", ExitCode.BAD_INPUT)
    return checks


def _codes(text: str | None) -> set[str]:
    return {code.strip().upper() for code in (text or "").split(",") if code.strip()}


def _where(options: dict[str, Any]) -> dict[str, Any]:
    """With --in-cluster the pod's own account, or a sentence."""
    if not options["in_cluster"]:
        return options
    from throttler.kube.connection import ConnectionOptions, is_in_cluster

    if not is_in_cluster(ConnectionOptions()):
        raise CommandError("--in-cluster: this process runs in no pod with a ServiceAccount token", ExitCode.BAD_INPUT)
    os.environ.pop("KUBECONFIG", None)
    return {**options, "kubeconfig": None, "context": None}


def _manifests(options: dict[str, Any]) -> Any:
    from datetime import UTC, datetime

    from balloons.reading.read_cluster import ManifestError, read_manifests

    if options["from_file"] or options["in_cluster"]:
        raise click.UsageError("--filename looks at manifests: not together with --from or --in-cluster")
    try:
        return read_manifests(options["files"], datetime.now(UTC), is_recursive=options["recursive"])
    except ManifestError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _print_diagnosis(diagnosis: "Diagnosis", options: dict[str, Any]) -> None:
    from balloons.cli.json_and_yaml_output import printed

    if options["output"] in ("json", "yaml"):
        click.echo(printed(diagnosis_document(diagnosis), options["output"]), nl=False)
        return
    look = Look.of_terminal(options["output"] or "", has_headers=not options["no_headers"])
    click.echo("".join(f"{line}\n" for line in diagnosis_text(diagnosis, look)), nl=False)
    for line in summary(diagnosis, look):
        warn(line)


def diagnosis_text(diagnosis: "Diagnosis", look: Look) -> list[str]:
    """For a terminal a few lines for each finding, for a pipe one row of a table, with the fix if it is `wide`."""
    if look.is_terminal:
        width = min(look.width or 80, 120)
        return [line for finding in diagnosis.findings for line in _block(finding, width, look)]
    headers = WIDE_DIAGNOSIS_COLUMNS if look.output == "wide" else DIAGNOSIS_COLUMNS
    rows = [_finding_row(finding) for finding in diagnosis.findings]
    colours = _COLOURS if look.is_coloured else {}
    return lines(headers, rows, has_headers=look.has_headers, colours=colours) if rows else []


def summary(diagnosis: "Diagnosis", look: Look) -> list[str]:
    """What was looked at, and what not; what passed by its code, and with its title where there is room for all."""
    from balloons.doctor.check import Severity
    from throttler.kube.quantities_and_durations import count

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


def diagnosis_document(diagnosis: "Diagnosis") -> "DiagnosisDocument":
    """For machines; the list is there even when it is empty."""
    from balloons.cli.json_and_yaml_output import DiagnosisDocument, SkippedItem

    return DiagnosisDocument(
        detected=diagnosis.detected,
        checked=diagnosis.checked,
        skipped=[SkippedItem(code, why) for code, why in diagnosis.skipped.items()],
        findings=[_finding_item(finding) for finding in diagnosis.findings],
    )


def _finding_item(finding: "Finding") -> "FindingItem":
    from balloons.cli.json_and_yaml_output import FindingItem

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


def _finding_row(finding: "Finding") -> dict[str, str]:
    item = _finding_item(finding)
    return {
        "SEVERITY": item.severity,
        "CODE": item.code,
        "OBJECT": item.object,
        "FINDING": item.message,
        "FIX": item.fix,
        "DOCS": item.docs,
    }


def _block(finding: "Finding", width: int, look: Look) -> list[str]:
    severity, trouble, name = finding.check.severity.word, finding.trouble, printable(finding.trouble.object)
    glyph = _GLYPHS[severity] if look.is_unicode else _ASCII_GLYPHS[severity]
    head = f"{glyph} {severity} {finding.check.code}"
    shown = f"{_COLOURS[severity]}{head}{RESET}" if look.is_coloured else head
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
