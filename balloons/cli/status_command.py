"""`balloons status`: throttles and pools, as people know objects from kubectl."""

from typing import Any

import click

from balloons.cli.cluster_options import cluster_options
from balloons.cli.complete import namespaces, pools_and_throttles, waits
from balloons.cli.options import color_option, option
from balloons.cli.plan_options import Seconds


@click.command(short_help="Show throttles and balloon pools, and why they are so.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=pools_and_throttles)
@option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=namespaces,
    help="Namespace to look in; the context's own if absent.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in every namespace.")
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Keep watching.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until --for is met.")
@click.option(
    "--for",
    "conditions",
    multiple=True,
    metavar="WHAT",
    shell_complete=waits,
    help="condition=Ready (or another, or =STATUS), warm=N, idle, phase=Idle; repeatable. condition=Ready if absent.",
)
@option(
    "--timeout",
    type=Seconds(),
    metavar="TIME",
    default="5m",
    show_default=True,
    help="Longest time for --wait; 0 looks once.",
)
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="More columns, or for machines."
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
@cluster_options
def status(**given: Any) -> int:
    """Show throttles (pace, nodes in flight) and balloon pools (warm, wanted nodes), and why.

    \b
    Examples:
      balloons status -A -w
      balloons status gpu --wait --for warm=8 --timeout 15m
      balloons status --wait --for idle

    NAME names a pool or a throttle. With --wait everything that is shown must meet --for. What is missing is printed on
    stderr, and the exit code is 4 when the time is over.
    """
    import asyncio

    from balloons.cli.look import Look
    from balloons.cli.status_screen import Wanted, show_dump, show_status

    _check(given)
    wanted = Wanted(
        names=given["names"],
        look=Look.of_terminal(output=given["output"] or "", has_headers=not given["no_headers"]),
        is_watching=given["is_watching"],
        awaited=_awaited(given) if given["is_waiting"] else (),
        timeout_s=given["timeout"],
    )
    return show_dump(given, wanted) if given["from_file"] else asyncio.run(show_status(given, wanted))


def _check(given: dict[str, Any]) -> None:
    """Raises click.UsageError for options that contradict each other."""
    if given["is_watching"] and given["output"] in ("json", "yaml"):
        raise click.UsageError(f"--watch with --output {given['output']}: accepted with a table, wide or name")
    if given["is_watching"] and given["is_waiting"]:
        raise click.UsageError("--watch with --wait: accepted is one of them")
    if given["conditions"] and not given["is_waiting"]:
        raise click.UsageError("--for without --wait: nothing would wait for it")
    if given["from_file"] and (given["is_watching"] or given["is_waiting"]):
        raise click.UsageError("--from with --watch or --wait: a dump does not change")


def _awaited(given: dict[str, Any]) -> Any:
    from balloons.cli.awaited import AwaitedError, awaited

    try:
        return [awaited(text) for text in given["conditions"] or ("condition=Ready",)]
    except AwaitedError as error:
        raise click.UsageError(f"--for {error}") from error
