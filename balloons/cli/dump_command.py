"""`balloons dump`: what the other commands read, in one file."""

import os
import sys
from typing import Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options_and_values import FILE, File, option, request_options
from balloons.cli.terminal import CommandError, ExitCode, reason

SHORTEST_KEY = 16


@click.command(short_help="Save what the other commands read, as one file.")
@click.argument("file", type=File(is_read=False))
@request_options
@option("--hash-names", is_flag=True, help="Write hashes in place of names. Equal names get equal hashes.")
@option(
    "--hash-key-file",
    metavar=FILE,
    type=File("a file with a key"),
    help=f"Key of the hashes, at least {SHORTEST_KEY} bytes. Default: a random one that is not kept.",
)
def dump(file: str, **options: Any) -> None:
    """Save what doctor, explain, plan, report, simulate, status, top and version read, as one file.

    \b
    Examples:
      balloons dump cluster.tar.gz
      balloons dump cluster.tar.gz --hash-names

    The file holds no Secret, no last-applied annotation, and no argument or environment of ordinary programs. FILE may
    be - for stdout. With --from FILE a command answers byte for byte as it did on the cluster at that moment.
    """
    from balloons.cluster.hashed_names import hashed
    from balloons.cluster.kinds import ALL_KINDS

    if options["hash_key_file"] and not options["hash_names"]:
        raise click.UsageError("--hash-key-file is for --hash-names")
    key = _key(options["hash_key_file"]) if options["hash_names"] else b""
    cluster = see(options, "dump", ALL_KINDS)
    _write(file, hashed(cluster, key) if key else cluster)


def _key(path: str | None) -> bytes:
    if path is None:
        return os.urandom(32)
    try:
        with open(path, "rb") as file:
            key = file.read(4096)
    except OSError as error:
        raise CommandError(f"{path}: {reason(error)}", ExitCode.BAD_INPUT) from error
    if len(key) < SHORTEST_KEY:
        raise CommandError(f"{path} has {len(key)} bytes; accepted: at least {SHORTEST_KEY}", ExitCode.BAD_INPUT)
    return key


def _write(path: str, cluster: Any) -> None:
    """To stdout, or to the file: a dump is there whole or not at all."""
    from balloons.cli.input_and_output_files import written
    from balloons.reading.read_cluster import ArchiveError, write_archive
    from throttler.kube.quantities_and_durations import count

    if path == "-" and sys.stdout.isatty():
        raise click.UsageError("a dump is no text: send it to a file, `balloons dump - > FILE`")
    try:
        if path == "-":
            write_archive(cluster, sys.stdout.buffer)
            return
        with written(path, 0o600) as file:
            write_archive(cluster, file)
    except ArchiveError as error:
        raise CommandError(str(error)) from error
    objects = count(sum(len(listed.objects) for listed in cluster.lists.values()), "object")
    click.echo(f"{path}: {objects}, {os.stat(path).st_size:,} bytes", err=True)
