"""`balloons status` and `top`: throttles, pools and nodes at a glance.

`balloons status`: throttles and pools, as people know objects from kubectl. `balloons top`: pools and zones at a
glance, never thousands of lines.
"""

from typing import Any

import click

from balloons.cli.cluster_source import see
from balloons.cli.options_and_values import (
    FILE,
    File,
    Price,
    Seconds,
    cluster_options,
    color_option,
    namespace_option,
    option,
    output_option,
    pools_and_throttles,
    waits,
)
from balloons.cli.terminal import warn


@click.command(short_help="Show throttles and pools, and the reason for their state.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=pools_and_throttles)
@namespace_option("-n", "--namespace", help="Namespace to look in. Default: the context's.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in every namespace.")
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Keep watching.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait for what --for says.")
@click.option(
    "--for",
    "conditions",
    multiple=True,
    metavar="WHAT",
    shell_complete=waits,
    help="condition=NAME[=STATUS], warm=N, idle or phase=PHASE. Repeatable. Default: condition=Ready.",
)
@option(
    "--timeout",
    type=Seconds(),
    metavar="TIME",
    default="5m",
    show_default=True,
    help="Longest time for --wait. 0 looks once.",
)
@output_option("wide", "json", "yaml", "name", says="wide: more columns. The others: for programs.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
@cluster_options
def status(**options: Any) -> int:
    """Show throttles (pace, nodes in flight) and pools (warm and wanted nodes), and the reason for their state.

    \b
    Examples:
      balloons status -A -w
      balloons status gpu --wait --for warm=8 --timeout 15m
      balloons status --wait --for idle

    NAME is a pool or a throttle. With --wait, all that is shown must meet --for. If the time is over before, the exit
    code is 4, and stderr says what is missing.
    """
    import asyncio

    from balloons.cli.status_screen import Wanted, show_dump, show_status
    from balloons.cli.terminal import Look

    _check(options)
    wanted = Wanted(
        names=options["names"],
        look=Look.of_terminal(output=options["output"] or "", has_headers=not options["no_headers"]),
        is_watching=options["is_watching"],
        awaited=_awaited(options) if options["is_waiting"] else (),
        timeout_s=options["timeout"],
    )
    return show_dump(options, wanted) if options["from_file"] else asyncio.run(show_status(options, wanted))


def _check(options: dict[str, Any]) -> None:
    """Raises click.UsageError for options that contradict each other."""
    if options["is_watching"] and options["output"] in ("json", "yaml"):
        raise click.UsageError(f"--watch with --output {options['output']}: accepted with a table, wide or name")
    if options["is_watching"] and options["is_waiting"]:
        raise click.UsageError("--watch with --wait: accepted is one of them")
    if options["conditions"] and not options["is_waiting"]:
        raise click.UsageError("--for without --wait: nothing would wait for it")
    if options["from_file"] and (options["is_watching"] or options["is_waiting"]):
        raise click.UsageError("--from with --watch or --wait: a dump does not change")


def _awaited(options: dict[str, Any]) -> Any:
    from balloons.cli.status_text import AwaitedError, awaited

    try:
        return [awaited(text) for text in options["conditions"] or ("condition=Ready",)]
    except AwaitedError as error:
        raise click.UsageError(f"--for {error}") from error


@click.command(short_help="Show nodes by pool and zone: busy, warm, idle, cost.")
@cluster_options
@output_option("json", "yaml")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Show a bar for each pool, and keep it up to date.")
@click.option("--prices", type=File("a file of prices"), metavar=FILE, help="YAML: instance type -> price per hour.")
@click.option("--price", type=Price(), metavar="N", help="Price of one node per hour where none is known.")
@color_option
def top(**options: Any) -> None:
    """Show nodes by pool and zone: how many are busy, warm, idle, joining or sick, and what they cost.

    \b
    Examples:
      balloons top
      balloons top -w
      balloons top --from cluster.tar.gz -o json

    Pools are those of Karpenter, EKS, GKE or AKS, or else instance types. A share is what work requests, of what nodes
    can give.
    """
    import asyncio

    from balloons.cli.input_and_output_files import prices as prices_of
    from balloons.cli.json_and_yaml_output import printed
    from balloons.cli.terminal import Look, table_as_asked
    from balloons.cli.top_screen import FIRST_TO_GO, GROUP_COLUMNS, document, groups, rows
    from balloons.cluster import seen_cluster
    from balloons.cluster.seen_cluster import detect
    from balloons.doctor.diagnose import DETECTION

    prices = prices_of(options["prices"], options["price"])
    if options["is_watching"]:
        _check_watched(options)
        from balloons.cli.top_screen import follow

        asyncio.run(follow(options, Look.of_terminal("", has_headers=True), prices))
    cluster = see(options, "top", DETECTION)
    by_group = groups(seen_cluster.nodes(cluster), seen_cluster.pods(cluster), cluster.taken_at.timestamp(), prices)
    if options["output"]:
        click.echo(printed(document(by_group), options["output"]), nl=False)
        return
    look = Look.of_terminal("", has_headers=not options["no_headers"])
    shown = rows(by_group)
    text = table_as_asked(look, GROUP_COLUMNS, shown, kept=2, first_to_go=FIRST_TO_GO) if shown else []
    click.echo("".join(f"{line}\n" for line in text), nl=False)
    warn(detect(cluster).in_words if shown else f"no nodes seen; {detect(cluster).in_words}")


def _check_watched(options: dict[str, Any]) -> None:
    """Raises click.UsageError for what a watch cannot be."""
    if options["from_file"]:
        raise click.UsageError("--from with --watch: a dump does not change")
    if options["output"]:
        raise click.UsageError(f"--watch with --output {options['output']}: a watch shows bars")
