"""`balloons doctor`: traps of autoscaling."""

import os
from typing import Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.shared_options import cluster_options, color_option, option, output_option
from balloons.cli.terminal import CommandError, ExitCode
from balloons.cli.values import FILE, Choice, File, codes


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
        from balloons.cli.terminal import warn
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
        return chosen_checks(only, skip)
    except KeyError as error:
        codes = f"{ALL_CHECKS[0].code} to {ALL_CHECKS[-1].code} as listed in docs/doctor.md"
        raise CommandError(f"no check {error.args[0]!r}; accepted: {codes}", ExitCode.BAD_INPUT) from error


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


def _print_diagnosis(diagnosis: Any, options: dict[str, Any]) -> None:
    from balloons.cli.doctor_text import diagnosis_document, diagnosis_text, summary
    from balloons.cli.documents import printed
    from balloons.cli.terminal import Look, warn

    if options["output"] in ("json", "yaml"):
        click.echo(printed(diagnosis_document(diagnosis), options["output"]), nl=False)
        return
    look = Look.of_terminal(options["output"] or "", has_headers=not options["no_headers"])
    click.echo("".join(f"{line}\n" for line in diagnosis_text(diagnosis, look)), nl=False)
    for line in summary(diagnosis, look):
        warn(line)
