"""`balloons simulate`: what if the cluster, the API servers or the pacing were different?"""

from typing import Any

import click

from balloons.cli.plan_command import MOST_ADDED, InSections, check_offline, offline_option, stated_options
from balloons.cli.shared_options import cluster_options, color_option, option, output_option
from balloons.cli.values import FILE, Count, File, faults, policies, pools, swept


@click.command(cls=InSections, short_help="Compare policies, clusters and faults in simulation.")
@option(
    "--add",
    type=Count(1, MOST_ADDED),
    default=500,
    show_default=True,
    metavar="N",
    help="Nodes to add.",
)
@option(
    "--pool",
    default="",
    metavar="NAME",
    shell_complete=pools,
    help="Pool that grows. Default: the largest.",
)
@option(
    "--policy",
    "policies",
    multiple=True,
    shell_complete=policies,
    metavar="NAME",
    help="throttle, none, oracle, gradient2, aimd, aimd-429, rate=PER_MINUTE or window=N. Repeatable.",
)
@option(
    "--fault",
    "faults",
    multiple=True,
    shell_complete=faults,
    metavar="KIND@AT+FOR[=N]",
    help="loss, slow, blind or lists. Repeatable.",
)
@option(
    "--sweep",
    metavar="NAME=A,B,C",
    shell_complete=swept,
    help="Run once for each value of a figure: add, boot, servers, ...",
)
@option(
    "--file",
    metavar=FILE,
    type=File("a file of figures"),
    help="YAML file of figures, named like these options.",
)
@option(
    "--gate/--no-gate",
    default=None,
    help="Hold booted machines before they join, or not. Default: as the throttle does.",
)
@output_option("json", "yaml")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@color_option
@cluster_options
@offline_option
@stated_options
def simulate(**options: Any) -> int:
    """Compare policies, clusters and faults in simulation. Nothing is written.

    \b
    Examples:
      balloons simulate --offline --add 2000 --servers 2 --fault loss@3m+2m
      balloons simulate --policy throttle --policy rate=60 --sweep servers=1,2,4

    It starts from the cluster, from a dump (--from), or from usual values (--offline). Figures that you give below
    replace these. Times are medians of several runs.
    """
    from balloons.cli.make_plans_and_simulations import show_simulation

    if options["offline"]:
        check_offline(click.get_current_context())
    return show_simulation(options)
