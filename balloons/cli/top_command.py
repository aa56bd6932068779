"""`balloons top`: pools and zones at a glance, never thousands of lines."""

from typing import Any

import click

from balloons.cli.cluster_options import cluster_options, see, warn
from balloons.cli.options import color_option
from balloons.cli.plan_options import Price


@click.command(short_help="Show nodes by pool and zone: busy, warm, idle, cost.")
@cluster_options
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Go on showing a bar for each pool.")
@click.option("--prices", type=click.Path(), metavar="FILE", help="YAML: instance type -> price per hour.")
@click.option("--price", type=Price(), metavar="N", help="Price of one node per hour, where no other is known.")
@color_option
def top(**given: Any) -> None:
    """Show nodes by pool and zone: ready, busy, warm, idle, joining, sick, how full of real work, and what they cost.

    \b
    Examples:
      balloons top
      balloons top -w
      balloons top --from cluster.tar.gz -o json

    Pools are those of Karpenter, EKS, GKE or AKS, else instance types. Shares are requests of work over allocatable.
    """
    import asyncio

    from balloons.cli.documents import printed
    from balloons.cli.look import Look
    from balloons.cli.plan_files import prices as prices_of
    from balloons.cli.table import table
    from balloons.cli.top_rows import COLUMNS, FIRST_TO_GO, document, groups, rows
    from balloons.cluster import seen_cluster
    from balloons.cluster.detect import detect
    from balloons.doctor.diagnose import DETECTION

    prices = prices_of(given["prices"], given["price"])
    if given["is_watching"]:
        _check_watched(given)
        from balloons.cli.top_watch import follow

        asyncio.run(follow(given, Look.of_terminal("", has_headers=True), prices))
    seen = see(given, "top", DETECTION)
    found = groups(seen_cluster.nodes(seen), seen_cluster.pods(seen), seen.taken_at.timestamp(), prices)
    if given["output"] == "json":
        click.echo(printed(document(found)))
        return
    look = Look.of_terminal("", has_headers=not given["no_headers"])
    shown = rows(found)
    text = (
        table(COLUMNS, shown, width=look.width, kept=2, first_to_go=FIRST_TO_GO, has_headers=look.has_headers)
        if shown
        else []
    )
    click.echo("".join(f"{line}\n" for line in text), nl=False)
    warn(detect(seen).in_words if shown else f"no nodes seen; {detect(seen).in_words}")


def _check_watched(options: dict[str, Any]) -> None:
    """Raises click.UsageError for what a watch cannot be."""
    if options["from_file"]:
        raise click.UsageError("--from with --watch: a dump does not change")
    if options["output"] == "json":
        raise click.UsageError("--watch with --output json: accepted with a table")
