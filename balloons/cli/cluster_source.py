"""Where a command finds its cluster: by a kubeconfig, by the pod that we run in, or in a dump (`--from`)."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from balloons.cli.terminal import CommandError, ExitCode, reason, warn

if TYPE_CHECKING:
    from datetime import datetime

    from balloons.cluster.kinds import Kind
    from balloons.cluster.seen_cluster import SeenCluster
    from throttler.kube.connection import Connection
    from throttler.kube.kube_client import Attempt, KubeClient

PROGRAM = "kube-balloons-cli"
MOST_TOLD = 5
"""Of objects of one kind that are left out."""
CALLS_PER_S, BURST = 50.0, 50
"""As kubectl limits itself."""
PATIENCE_S = 5.0
"""A command that gives credentials and asks nobody takes a second or two."""
_DUMP = "--from FILE, which `balloons dump` wrote"
_OFFLINE = f"--offline, or {_DUMP}"
WITHOUT = {
    "plan": _OFFLINE,
    "simulate": _OFFLINE,
    "report": f"--plan FILE, {_OFFLINE}",
    "doctor": f"-f FOLDER of manifests, or {_DUMP}",
    "status": _DUMP,
    "top": _DUMP,
    "explain": _DUMP,
}
"""What commands can do where there is no cluster."""


def see(options: dict[str, Any], command: str, wanted: "Iterable[Kind]") -> "SeenCluster":
    """The cluster that the options name, with these kinds; says on stderr what could not be seen.

    Raises ConfigError, ApiError (nothing can be read at all) and CommandError (a dump that is none).
    """
    if options.get("from_file"):
        cluster = _from_file(options["from_file"])
        warn(dump_in_words(options["from_file"], cluster.taken_at))
    else:
        cluster = _live(options, command, wanted)
    cluster = cluster.only(wanted)
    for name, listed in cluster.not_seen.items():
        because = f": {listed.message}" if listed.message else ""
        assert listed.unread is not None
        warn(f"{name} not seen ({listed.unread.value}{because})")
    for name, listed in cluster.lists.items():
        if listed.unread is None and not listed.is_complete:
            unread = [f"{listed.unreadable:,} could not be read"] if listed.unreadable else []
            beyond = [f"{listed.left_out:,} or more were left out"] if listed.left_out else []
            warn(f"{name} seen in part: {' and '.join(unread + beyond)}")
    if context := click.get_current_context(silent=True):
        # What a command decodes, and so leaves out, shows as it goes on.
        context.call_on_close(lambda: _tell_undecodable(cluster))
    return cluster


def _tell_undecodable(cluster: "SeenCluster") -> None:
    for name, listed in cluster.lists.items():
        for key, why in list(listed.undecodable.items())[:MOST_TOLD]:
            warn(f"{name} {'/'.join(filter(None, key))} left out: {why}")
        if (more := len(listed.undecodable) - MOST_TOLD) > 0:
            warn(f"{name}: {more:,} more left out")


def dump_in_words(path: str, taken_at: "datetime") -> str:
    """Old data is never shown without a word: the environment may still name a dump that was looked at last week."""
    from datetime import UTC, datetime

    from balloons.text_and_colours import long_duration

    age_s = max(0.0, (datetime.now(UTC) - taken_at).total_seconds())
    return f"from a dump, {path}, taken {taken_at:%Y-%m-%d %H:%M:%S} UTC ({long_duration(age_s)} ago)"


def _from_file(path: str) -> "SeenCluster":
    from balloons.reading.read_cluster import ArchiveError, read_archive

    try:
        return read_archive(path)
    except ArchiveError as error:
        raise CommandError(f"{path}: {error}", ExitCode.BAD_INPUT) from error
    except OSError as error:
        raise CommandError(f"{path}: {reason(error)}", ExitCode.BAD_INPUT) from error


def _live(options: dict[str, Any], command: str, wanted: "Iterable[Kind]") -> "SeenCluster":
    import asyncio

    return asyncio.run(read_live(options, command, wanted))


async def read_live(options: dict[str, Any], command: str, wanted: "Iterable[Kind]") -> "SeenCluster":
    """From the API server."""
    from balloons.reading.read_cluster import read_cluster

    async with open_cluster(options, command) as (client, _):
        return await read_cluster(client, wanted, options["context"] or "")


@asynccontextmanager
async def open_cluster(
    options: dict[str, Any], command: str, *, is_dry_run: bool = False
) -> "AsyncIterator[tuple[KubeClient, Connection]]":
    """A client for what the options name; errors that mean "nobody there" say what to try next."""
    from throttler.kube.connection import ConnectionOptions, load_connection
    from throttler.kube.errors import ConfigError, UnauthorizedError, UnreachableError
    from throttler.kube.kube_client import CeilingGate, ignore_attempt, open_client

    connection_options = ConnectionOptions(
        kubeconfig=options["kubeconfig"],
        context=options["context"],
        as_user=options["as_user"],
        as_groups=options["as_group"],
        request_timeout_s=seconds(options["request_timeout"]),
    )
    try:
        async with _silence_explained():
            connection = await load_connection(connection_options)
    except ConfigError as error:
        if command not in WITHOUT or options["context"]:
            raise
        raise CommandError(f"{error}; without a cluster: {WITHOUT[command]}", ExitCode.BAD_INPUT) from error
    gate = CeilingGate(CALLS_PER_S, burst=BURST)
    observer = _show if options["verbose"] else ignore_attempt
    opened = open_client(connection, command, gate=gate, observer=observer, is_dry_run=is_dry_run, program=PROGRAM)
    async with opened as client:
        try:
            yield client, connection
        except UnreachableError as error:
            raise CommandError(
                f"{connection.base_url}: {error.message.removeprefix(f'{connection.base_url}: ')}; is the cluster up, "
                "and the context right (kubectl config current-context)?"
            ) from error
        except UnauthorizedError as error:
            raise CommandError(
                f"{connection.base_url}: {error.message}; log in again, then try `kubectl auth whoami`"
            ) from error


@asynccontextmanager
async def _silence_explained() -> "AsyncIterator[None]":
    """What a kubeconfig's command asks of its user, such as a code to log in with, is not shown: it would hang."""
    import asyncio

    words = "still waiting for the kubeconfig's credentials; if they need a login, log in first: kubectl auth whoami"
    telling = asyncio.get_running_loop().call_later(PATIENCE_S, warn, words)
    try:
        yield
    finally:
        telling.cancel()


def seconds(text: str) -> float:
    """A length of time as kubectl takes it (30s, 2m, or a number of seconds); raises click.BadParameter."""
    from throttler.kube.quantities_and_durations import DurationError, parse_duration

    try:
        length_s = float(text) if text.replace(".", "", 1).isdecimal() and text.isascii() else parse_duration(text)
    except DurationError:
        length_s = 0.0
    if not 0 < length_s <= 300:
        raise click.BadParameter(f"{text!r}; accepted: 1s to 300s", param_hint="--request-timeout")
    return length_s


def _show(attempt: "Attempt") -> None:
    size = f"{attempt.size_bytes:,} bytes"
    click.echo(f"{attempt.verb} {attempt.resource}: {attempt.code}, {attempt.seconds:.3f} s, {size}", err=True)
