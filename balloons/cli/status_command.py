"""`balloons status`: throttles and pools, as people know objects from kubectl."""

from typing import Any

import click

from balloons.cli.options import connection_options, option


@click.command()
@connection_options
@option("-n", "--namespace", metavar="NAME", help="Namespace to look in; the context's own if absent.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in every namespace.")
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Go on showing changes.")
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="More columns, or for machines."
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def status(**given: Any) -> None:
    """Show throttles (pace, nodes in flight) and balloon pools (warm, wanted nodes), and why.

    \b
    Examples:
      balloons status -A -w
      balloons status -n ml -o json
    """
    import asyncio

    from balloons.cli.look import Look
    from balloons.cli.status_screen import show_status
    from throttler.client.connection import ConnectionOptions

    if given["is_watching"] and given["output"] in ("json", "yaml"):
        raise click.UsageError(f"--watch with --output {given['output']}: accepted with a table, wide or name")
    look = Look.of_terminal(output=given["output"] or "", has_headers=not given["no_headers"])
    options = ConnectionOptions(kubeconfig=given["kubeconfig"], context=given["context"])
    asyncio.run(show_status(options, given["namespace"], given["all_namespaces"], given["is_watching"], look))
