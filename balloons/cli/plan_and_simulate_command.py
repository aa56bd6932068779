"""`balloons plan`: what a scale-up will do, before anybody starts it. `balloons simulate`: what if the cluster, the API
servers or the pacing were different? And the options of whatever makes a plan."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import click

from balloons.cli.options_and_values import (
    FILE,
    PLAN_FILE,
    Count,
    File,
    Number,
    Price,
    Seconds,
    cluster_options,
    color_option,
    faults,
    option,
    output_option,
    policies,
    pools,
    swept,
)

F = TypeVar("F", bound=Callable[..., Any])
NAMES_A_CLUSTER = ("from_file", "kubeconfig", "context")
OF_A_COMPARISON = (
    *("compare", "output", "no_headers", "color", "offline", "debug"),
    *(*NAMES_A_CLUSTER, "as_user", "as_group", "request_timeout", "verbose"),
)
"""Options that a plan that was made before can still have; that --offline has no cluster is told by itself."""
MOST_ADDED = 150_000
"""As `balloons.preview.forecast`, which is not imported for help."""
DURATIONS = ("boot", "join", "reaction", "kill-timer")
_STATED = (
    ("nodes", "Nodes that the cluster has now."),
    ("boot", "Time from ordering a machine until its node registers."),
    ("boot-spread", "Its standard deviation between machines, as a share."),
    ("join", "Time from registering until usable, on idle API servers."),
    ("reaction", "Time until the autoscaler orders machines for waiting pods."),
    ("servers", "Number of API servers."),
    ("server-cores", "CPU cores of each API server."),
    ("background", "Share of these cores that is usually in use."),
    ("join-cost", "CPU seconds that a join costs the API servers."),
    ("daemonsets", "DaemonSet pods per node."),
    ("controller-qps", "The controller manager's --kube-api-qps."),
    ("scheduler-qps", "The scheduler's --kube-api-qps."),
    ("launch-rate", "Machines that the cloud starts per second."),
    ("launch-burst", "Machines that it starts at once before that."),
    ("kill-timer", "Time until a machine that has not registered is destroyed."),
    ("max-nodes", "Most nodes that the cluster may have."),
)
PRINTING = "Output"


def check_offline(context: click.Context) -> None:
    """--offline looks at no cluster: raises click.UsageError for another option of the command line that names one."""
    asked = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        if param.name in NAMES_A_CLUSTER and context.get_parameter_source(param.name) is asked:
            raise click.UsageError(
                f"{param.opts[0]} with --offline, which looks at no cluster: accepted is one of the two"
            )


def check_saved(context: click.Context, option: str, done: str, known: Collection[str], accepted: str) -> None:
    """A saved plan is taken as it is: whatever would have made another one is refused, not passed over.

    Raises click.UsageError for an option of the command line that is none of `known`.
    """
    asked = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        if param.name and context.get_parameter_source(param.name) is asked and param.name not in known:
            text = f"{param.opts[0]} with {option}: a saved plan is {done} as it is; accepted: {accepted}"
            raise click.UsageError(text)


def stated_options(command: F) -> F:
    """One option for each figure that can be stated."""
    return _with_figures(command, _STATED)


def simulated_options(command: F) -> F:
    """The same for what passes over ceilings."""
    return _with_figures(command, [figure for figure in _STATED if figure[0] != "max-nodes"])


def _with_figures(command: F, figures: Sequence[tuple[str, str]]) -> F:
    for name, text in reversed(figures):
        kind: click.ParamType[float] = Seconds() if name in DURATIONS else Number()
        metavar = "TIME" if name in DURATIONS else "N"
        command = option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
    return command


def asked_options(command: F) -> F:
    """What is to be planned, and by which prices."""
    for decorate in reversed(
        (
            option("--to", type=Count(1, 1_000_000), metavar="N", help="Nodes that the pool should have."),
            option("--add", type=Count(1, MOST_ADDED), metavar="N", help="Nodes to add."),
            option(
                "--pods",
                metavar=FILE,
                type=File("a file of pods"),
                help="Find room for the pods in FILE (YAML or JSON, - for stdin).",
            ),
            option(
                "--job",
                metavar=FILE,
                type=File("a file with a Job"),
                help="Find room for all pods of a Job at once, or for none.",
            ),
            option(
                "--pool",
                default="",
                metavar="NAME",
                shell_complete=pools,
                help="Pool that grows. Default: the largest.",
            ),
            option(
                "--within",
                type=Seconds(),
                metavar="TIME",
                help="Exit with 3 if one scale-up in twenty would take longer.",
            ),
            option(
                "--price",
                type=Price(),
                metavar="N",
                help="Price of one new node per hour where --prices and nodes' labels tell none.",
            ),
            option(
                "--prices",
                metavar=FILE,
                type=File("a file of prices"),
                help="YAML: instance type -> price per hour.",
            ),
        )
    ):
        command = decorate(command)
    return command


class InSections(click.Command):
    """Help with its many options in sections: what is asked, where, under which assumptions, and how it is printed."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One list for each section."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in (*SECTIONS, PRINTING)}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                section = next((name for name, names in SECTIONS.items() if param.name in names), PRINTING)
                sections[section].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


SECTIONS = {
    "What": {"to", "add", "pods", "job", "pool", "within", "price", "prices", "compare", "saved", "policies", "faults"}
    | {"sweep", "gate"},
    "Cluster": {"kubeconfig", "context", "from_file", "offline", "as_user", "as_group", "request_timeout"},
    "Figures of your own, in place of the cluster's": {name.replace("-", "_") for name, _ in _STATED} | {"file"},
}
"""Of options; the others are about what is printed."""


def check_asked(options: Mapping[str, Any], *names: str) -> None:
    """That exactly one of these options is there; raises click.UsageError."""
    asked = [name for name in names if options[name] is not None]
    if len(asked) != 1:
        accepted = ", ".join(f"--{name} {'N' if name in ('to', 'add') else 'FILE'}" for name in names)
        words = " with ".join(f"--{name}" for name in asked) or "nothing"
        raise click.UsageError(f"{words} asked for; accepted: one of {accepted}")


def offline_option(command: F) -> F:
    """For whoever has no cluster, or wants to ask about another one."""
    return click.option("--offline", is_flag=True, help="Ask no cluster: use options and usual values only.")(command)


def stated_of(options: Mapping[str, Any]) -> Any:
    """The `Stated` of these options; raises click.UsageError."""
    from balloons.preview.inputs import NAMES, Stated, StatedError, check

    names = [name.replace("-", "_") for name in NAMES]
    swept = (options.get("sweep") or "").partition("=")[0]
    has_burst = options.get("launch_burst") is not None or swept == "launch-burst"
    if has_burst and options.get("launch_rate") is None and swept != "launch-rate":
        raise click.UsageError("--launch-burst without --launch-rate: nothing is slower after it; accepted: both")
    try:
        return check(Stated(**{name: options.get(name) for name in names}))
    except StatedError as error:
        raise click.UsageError(f"--{error}") from error


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
    from balloons.cli.plan_and_simulate_screen import compare, show_plan

    check_asked(options, "to", "add", "pods", "job", "compare")
    if options["save"] == "-":
        raise click.UsageError("--save -: the plan's text goes to stdout; accepted: a file, or -o json without --save")
    if options["offline"]:
        check_offline(click.get_current_context())
    if options["compare"] is None:
        return show_plan(options)
    accepted = "-o, --no-headers, --color, and options that say which cluster to ask"
    check_saved(click.get_current_context(), "--compare", "compared", OF_A_COMPARISON, accepted)
    return compare(options)


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
@simulated_options
def simulate(**options: Any) -> int:
    """Compare policies, clusters and faults in simulation. Nothing is written.

    \b
    Examples:
      balloons simulate --offline --add 2000 --servers 2 --fault loss@3m+2m
      balloons simulate --policy throttle --policy rate=60 --sweep servers=1,2,4

    It starts from the cluster, from a dump (--from), or from usual values (--offline). Figures that you give below
    replace these. Limits on nodes are passed over. Times are medians of several runs. docs/plan.md explains policies
    and faults.
    """
    from balloons.cli.plan_and_simulate_screen import show_simulation

    if options["offline"]:
        check_offline(click.get_current_context())
    return show_simulation(options)
