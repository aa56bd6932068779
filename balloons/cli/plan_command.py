"""`balloons plan`: what a scale-up will do, before anybody starts it; and afterwards, how true that was."""

from typing import Any

import click

from balloons.cli.cluster_options import check_offline, cluster_options
from balloons.cli.options import color_option, option
from balloons.cli.plan_options import InSections, asked_options, check_asked, offline_option, stated_options


@click.command(cls=InSections, short_help="Predict a scale-up: when, limited by what, at which load.")
@asked_options
@option("--save", metavar="FILE", help="Write the plan as JSON, for --compare and `report --plan`.")
@option("--compare", metavar="FILE", help="Compare a saved plan with what has happened since.")
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="All figures and waves, or for machines."
)
@click.option("--no-headers", is_flag=True, help="Leave out the lines of column names.")
@color_option
@cluster_options
@offline_option
@stated_options
def plan(**given: Any) -> int:
    """Predict a scale-up: when nodes are ready, what limits it, the load on the API servers, the cost.

    \b
    Examples:
      balloons plan --to 500
      balloons plan --job train.yaml --pool gpu -o json

    Reads the cluster and writes nothing; needs no CRD of ours. The options below replace what is learned from the
    cluster; with --offline nothing else is known. Exit codes: 0 done, 1 failed, 2 bad input, 3 the plan breaks a
    promise: not all nodes can come, machines are lost, pods fit nowhere, or --within is exceeded.
    """
    from balloons.cli.plan_screen import compare, show_plan

    check_asked(given, "to", "add", "pods", "job", "compare")
    if given["offline"]:
        check_offline(click.get_current_context())
    return compare(given) if given["compare"] else show_plan(given)
