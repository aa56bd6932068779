"""`balloons plan`, `simulate` and `report`: what a scale-up will do, before anybody starts it.

`balloons simulate`: what if the cluster, the API servers or the pacing were different? `balloons report`: a plan as a
page, a picture or a chart, for whoever has to agree to it.
"""

from typing import Any

import click

from balloons.cli.options import (
    MOST_ADDED,
    InSections,
    asked_options,
    check_asked,
    check_offline,
    cluster_options,
    color_option,
    offline_option,
    option,
    output_option,
    stated_options,
)
from balloons.cli.values import FILE, PLAN_FILE, Choice, Count, File, faults, policies, pools, swept

FORMATS = ("html", "png", "svg", "text")
OF_A_SAVED_PLAN = ("saved", "output", "output_format", "chart", "no_headers", "color", "debug")
"""Options that a plan that was made before can still have."""


@click.command(cls=InSections, short_help="Predict a scale-up: time, limit, API load, cost.")
@asked_options
@option("--save", metavar=FILE, help="Save the plan as JSON, for --compare and `report --plan`.")
@option("--compare", metavar=FILE, type=File(PLAN_FILE), help="Compare a saved plan with what happened since.")
@output_option("wide", "json", "yaml", says="wide: all figures and waves. json, yaml: for programs.")
@click.option("--no-headers", is_flag=True, help="Leave out the lines of column names.")
@color_option
@cluster_options
@offline_option
@stated_options
def plan(**options: Any) -> int:
    """Predict a scale-up: when its nodes are ready, what limits it, how it loads the API servers, what it costs.

    \b
    Examples:
      balloons plan --to 500
      balloons plan --job train.yaml --pool gpu -o json

    It reads the cluster and writes nothing. It needs no CRD of ours. Figures that you give below replace those of the
    cluster. With --offline it asks no cluster.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 the plan breaks a promise: not all nodes can come, machines are lost,
    pods fit nowhere, the API servers are overloaded, or --within is exceeded.
    """
    from balloons.cli.plan_screen import compare, show_plan

    check_asked(options, "to", "add", "pods", "job", "compare")
    if options["offline"]:
        check_offline(click.get_current_context())
    return compare(options) if options["compare"] else show_plan(options)


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
    from balloons.cli.plan_screen import show_simulation

    if options["offline"]:
        check_offline(click.get_current_context())
    return show_simulation(options)


@click.command(cls=InSections, short_help="Draw a plan as a picture or a web page.")
@asked_options
@option("--plan", "saved", metavar=FILE, type=File(PLAN_FILE), help="Draw the plan that `plan --save` wrote.")
@click.option(
    "-o",
    "--output",
    metavar=FILE,
    type=File(is_read=False),
    help="File to write: .html, .png, .svg or .txt. Default: stdout.",
)
@click.option(
    "--chart",
    type=Choice(["stages", "compared"]),
    default="stages",
    show_default=True,
    help="Chart in .svg and .png: nodes by stage, or paced and unpaced.",
)
@click.option(
    "--format",
    "output_format",
    type=Choice(FORMATS),
    help="Format where the name of FILE does not tell. Default: text.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names (text only).")
@color_option
@cluster_options
@offline_option
@stated_options
def report(**options: Any) -> int:
    """Draw a plan: nodes over time, API load, what others wait, waves, reasons and figures used.

    \b
    Examples:
      balloons report --to 500 -o report.html
      balloons report --plan plan.json --chart compared -o report.svg

    The page is one file that loads nothing. It suits light and dark screens and paper. Equal plans give equal bytes.
    Pages and pictures need the extra `report`. Exit codes are those of `plan`: 3 when the plan breaks a promise.
    """
    from balloons.cli.plan_screen import show_report

    check_asked({**options, "plan": options["saved"]}, "to", "add", "pods", "job", "plan")
    if options["offline"]:
        check_offline(click.get_current_context())
    if options["saved"] is not None:
        _check_saved(click.get_current_context())
    return show_report(options)


def _check_saved(context: click.Context) -> None:
    """A saved plan is drawn as it is: whatever would have made another one is refused, not passed over."""
    asked = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        if param.name and context.get_parameter_source(param.name) is asked and param.name not in OF_A_SAVED_PLAN:
            accepted = "-o, --format, --chart, --no-headers, --color"
            raise click.UsageError(f"{param.opts[0]} with --plan: a saved plan is drawn as it is; accepted: {accepted}")
