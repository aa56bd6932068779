"""`balloons plan`: what a scale-up will do, before anybody starts it; and afterwards, how true that was."""

from typing import Any

import click

from balloons.cli.cluster_options import cluster_options
from balloons.cli.options import option
from balloons.cli.plan_options import Number, Seconds, offline_option, stated_options


@click.command()
@option("--to", type=click.IntRange(1, 1_000_000), metavar="N", help="Nodes that there shall be in the pool.")
@option("--add", type=click.IntRange(1, 1_000_000), metavar="N", help="Nodes more than there are.")
@option("--pods", metavar="FILE", help="Pods to run (YAML or JSON; - is stdin): where do they go?")
@option("--job", metavar="FILE", help="The same for a Job, as one gang: whole or not at all.")
@option("--pool", default="", metavar="NAME", help="NodePool or pool to grow; the largest if absent.")
@option("--within", type=Seconds(), metavar="TIME", help="Exit with 3 when one in ten takes longer.")
@option("--price", type=Number(), metavar="N", help="Price of one new node per hour.")
@option("--prices", metavar="FILE", help="YAML: instance type -> price per hour.")
@option("--save", metavar="FILE", help="Write the plan as JSON, for --compare.")
@option("--compare", metavar="FILE", help="Hold a saved plan against what has happened since.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="For machines.")
@click.option("--no-headers", is_flag=True, help="Leave out the lines of column names.")
@cluster_options
@offline_option
@stated_options
def plan(**given: Any) -> int:
    """Say what growing to so many nodes will do: when, limited by what, at which load and cost.

    \b
    Examples:
      balloons plan --to 500
      balloons plan --job train.yaml --pool gpu -o json

    Reads the cluster and writes nothing; needs no CRD of ours. Figures below stand in for what is learned from it; with
    --offline they are all there is. Exit codes: 0 done, 1 failed, 2 bad input, 3 the plan breaks a promise: not all
    nodes can come, machines are lost, pods fit nowhere, or --within is exceeded.
    """
    from balloons.cli.plan_screen import compare, show_plan

    asked = [name for name in ("to", "add", "pods", "job", "compare") if given[name] is not None]
    if len(asked) != 1:
        raise click.UsageError(
            f"{' with '.join(f'--{n}' for n in asked) or 'nothing'} asked for; "
            "accepted: one of --to N, --add N, --pods FILE, --job FILE, --compare FILE"
        )
    return compare(given) if given["compare"] else show_plan(given)
