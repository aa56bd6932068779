"""`balloons report`: a plan as a page, a picture or a chart, for whoever has to agree to it."""

from typing import Any

import click

from balloons.cli.cluster_options import check_offline, cluster_options
from balloons.cli.options import color_option, option
from balloons.cli.plan_options import InSections, asked_options, check_asked, offline_option, stated_options

FORMATS = ("html", "png", "svg", "text")
OF_A_SAVED_PLAN = ("saved", "output", "output_format", "chart", "no_headers", "color", "debug")
"""Options that a plan that was made before can still have."""


@click.command(cls=InSections, short_help="Draw a plan as a picture or a web page.")
@asked_options
@option("--plan", "saved", metavar="FILE", help="A plan that `plan --save` wrote, instead of a new one.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(readable=False, allow_dash=True),
    help="Where to: .html, .png, .svg or .txt; stdout if absent.",
)
@click.option(
    "--chart",
    type=click.Choice(["stages", "compared"]),
    default="stages",
    show_default=True,
    help="Of .svg and .png: nodes by stage, or paced against not paced.",
)
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), help="Where the name of FILE does not say; default: text."
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names (text).")
@color_option
@cluster_options
@offline_option
@stated_options
def report(**given: Any) -> int:
    """Draw a plan: nodes over time, pace and API load, waves, reasons, inputs.

    \b
    Examples:
      balloons report --to 500 -o report.html
      balloons report --plan plan.json --chart compared -o report.svg

    The page is one file that loads nothing, for light and dark screens and for paper. Equal plans give equal bytes.
    Pages and pictures need the extra `report`. The options below replace what is learned from the cluster. Exit codes
    are those of `plan`: 3 when the plan breaks a promise.
    """
    from balloons.cli.report_screen import show_report

    check_asked({**given, "plan": given["saved"]}, "to", "add", "pods", "job", "plan")
    if given["offline"]:
        check_offline(click.get_current_context())
    if given["saved"] is not None:
        _check_saved(click.get_current_context())
    return show_report(given)


def _check_saved(context: click.Context) -> None:
    """A saved plan is drawn as it is: whatever would have made another one is refused, not passed over."""
    asked = click.core.ParameterSource.COMMANDLINE
    for each in context.command.params:
        if each.name and context.get_parameter_source(each.name) is asked and each.name not in OF_A_SAVED_PLAN:
            accepted = "-o, --format, --chart, --no-headers, --color"
            raise click.UsageError(f"{each.opts[0]} with --plan: a saved plan is drawn as it is; accepted: {accepted}")
