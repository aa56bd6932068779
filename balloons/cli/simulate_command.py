"""`balloons simulate`: what if the cluster, the API servers or the pacing were different?"""

from typing import Any

import click

from balloons.cli.cluster_options import check_offline, cluster_options
from balloons.cli.complete import faults, policies, pools, swept
from balloons.cli.options import color_option, option
from balloons.cli.plan_options import MOST_ADDED, InSections, offline_option, stated_options


@click.command(cls=InSections)
@option(
    "--add",
    type=click.IntRange(1, MOST_ADDED),
    default=500,
    show_default=True,
    metavar="N",
    help="How many more nodes.",
)
@option(
    "--pool",
    default="",
    metavar="NAME",
    shell_complete=pools,
    help="Which pool grows; default: the largest.",
)
@option(
    "--policy",
    "policies",
    multiple=True,
    shell_complete=policies,
    metavar="NAME",
    help="throttle, none, oracle, gradient2, aimd, aimd-429, rate=PER_MINUTE or window=N; repeatable.",
)
@option(
    "--fault",
    "faults",
    multiple=True,
    shell_complete=faults,
    metavar="KIND@AT+FOR[=N]",
    help="loss, slow, blind or lists; repeatable.",
)
@option(
    "--sweep",
    metavar="NAME=A,B,C",
    shell_complete=swept,
    help="Run with each value of a figure: add, boot, servers, ...",
)
@option(
    "--file",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="YAML file of figures, named like the options below.",
)
@option("--gate/--no-gate", default=None, help="Whether booted machines can be held before they join.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="For machines.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
@cluster_options
@offline_option
@stated_options
def simulate(**given: Any) -> int:
    """Compare policies, clusters and faults in simulation. Nothing is written.

    \b
    Examples:
      balloons simulate --offline --add 2000 --servers 2 --fault loss@3m+2m
      balloons simulate --policy throttle --policy rate=60 --sweep servers=1,2,4

    Everything starts from the cluster (or --from a dump, or --offline from usual values); options below replace what is
    known of it. Times are medians of a few runs.
    """
    from balloons.cli.simulate_screen import show_simulation

    if given["offline"]:
        check_offline(click.get_current_context())
    return show_simulation(given)
