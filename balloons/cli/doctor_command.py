"""`balloons doctor`: traps of autoscaling, with codes and commands that put them right."""

import os
from typing import Any

import click

from balloons.cli.cluster_options import cluster_options, see
from balloons.cli.complete import codes
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.options import color_option, option


@click.command(short_help="Find what makes autoscaling or warm capacity fail silently.")
@cluster_options
@option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Look at manifests; - for stdin; repeatable.",
)
@option("-R", "--recursive", is_flag=True, help="Look into the folders of --filename.")
@option("--in-cluster", is_flag=True, help="Use the account of the pod this runs in, whatever kubeconfig there is.")
@option("--only", metavar="CODES", shell_complete=codes, help="Only these checks, such as KB001,KB020.")
@option("--skip", metavar="CODES", shell_complete=codes, help="Not these checks.")
@option(
    "--fail-on",
    type=click.Choice(["info", "warning", "error"]),
    help="Exit with 3 from this severity on, or where such a check cannot look.",
)
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json"]), default="table", help="How to print it.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
def doctor(**given: Any) -> int:
    """Find what makes warm capacity, autoscaling or pacing fail silently.

    \b
    Examples:
      balloons doctor
      balloons doctor -f manifests/ -R --fail-on error

    Only reads. Every code is explained in docs/doctor.md; findings go to stdout, everything else to stderr.
    """
    from balloons.doctor.check import Severity
    from balloons.doctor.diagnose import diagnose, kinds_of

    checks = _checks(given)
    is_live = not given["files"]
    seen = see(_where(given), "doctor", kinds_of(checks)) if is_live else _manifests(given)
    found = diagnose(seen, checks, is_live=is_live)
    _print(found, given)
    least = given["fail_on"]
    if least is None:
        return ExitCode.DONE
    if unable := found.unable(Severity[least.upper()]):
        from balloons.cli.cluster_options import warn

        codes = ",".join(unable)
        warn(f"--fail-on {least} fails: {len(unable)} checks could not look; give the rights, or --skip {codes}")
        return ExitCode.FINDINGS
    is_bad = any(each.check.severity >= Severity[least.upper()] for each in found.findings)
    return ExitCode.FINDINGS if is_bad else ExitCode.DONE


def _checks(given: dict[str, Any]) -> Any:
    from balloons.doctor.diagnose import ALL_CHECKS, chosen_checks

    only, skip = (_codes(given[name]) for name in ("only", "skip"))
    try:
        return chosen_checks(only, skip)
    except KeyError as error:
        codes = f"{ALL_CHECKS[0].code} to {ALL_CHECKS[-1].code} as listed in docs/doctor.md"
        raise CommandError(f"no check {error.args[0]!r}; accepted: {codes}", ExitCode.BAD_INPUT) from error


def _codes(text: str | None) -> set[str]:
    return {code.strip().upper() for code in (text or "").split(",") if code.strip()}


def _where(given: dict[str, Any]) -> dict[str, Any]:
    """With --in-cluster the pod's own account, or a sentence."""
    if not given["in_cluster"]:
        return given
    from throttler.kube.connection import ConnectionOptions, is_in_cluster

    if not is_in_cluster(ConnectionOptions()):
        raise CommandError("--in-cluster: this process runs in no pod with a ServiceAccount token", ExitCode.BAD_INPUT)
    os.environ.pop("KUBECONFIG", None)
    return {**given, "kubeconfig": None, "context": None}


def _manifests(given: dict[str, Any]) -> Any:
    from datetime import UTC, datetime

    from balloons.reading.files import ManifestError, read_manifests

    if given["from_file"] or given["in_cluster"]:
        raise click.UsageError("--filename looks at manifests: not together with --from or --in-cluster")
    try:
        return read_manifests(given["files"], datetime.now(UTC), is_recursive=given["recursive"])
    except ManifestError as error:
        raise CommandError(str(error), ExitCode.BAD_INPUT) from error


def _print(found: Any, given: dict[str, Any]) -> None:
    from balloons.cli.cluster_options import warn
    from balloons.cli.doctor_text import document, summary, text
    from balloons.cli.documents import printed
    from balloons.cli.look import Look

    if given["output"] == "json":
        click.echo(printed(document(found)))
        return
    look = Look.of_terminal(given["output"], has_headers=not given["no_headers"])
    click.echo("".join(f"{line}\n" for line in text(found, look)), nl=False)
    for line in summary(found, look):
        warn(line)
