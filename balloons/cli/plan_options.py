"""Options that `plan` and `simulate` share: what the user states about a cluster, instead of what is known of it."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from balloons.cli.complete import pools
from balloons.cli.options import option

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.ParamType[float]):
    """`90s`, `15m`, `1h30m`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what is accepted."""
        from throttler.kube.quantity import DurationError, parse_duration

        if isinstance(value, int | float) or not value.strip("0s"):
            return float(str(value).rstrip("s") or 0)
        try:
            return parse_duration(f"{value}s" if value.replace(".", "", 1).isdecimal() else value)
        except DurationError as error:
            return self.fail(str(error), param, ctx)


class Price(click.ParamType[float]):
    """Per hour: 0 or more."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The price; fails with what is accepted."""
        price = Number().convert(value, param, ctx)
        return price if 0 <= price < 1e6 else self.fail(f"{value}: accepted: 0 or more, below 1,000,000", param, ctx)


class Number(click.ParamType[float]):
    """A finite number; bounds are the preview's own."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with what is accepted."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a number", param, ctx)


MOST_ADDED = 150_000
"""As `balloons.preview.forecast`, which is not imported for help."""
DURATIONS = ("boot", "join", "reaction", "kill-timer")
_STATED = (
    ("nodes", "Nodes that are there now."),
    ("boot", "From being asked for to being registered."),
    ("boot-spread", "Its standard deviation, machine to machine, as a share."),
    ("join", "From registered to usable on idle servers."),
    ("reaction", "From waiting pods to machines asked for."),
    ("servers", "API servers."),
    ("server-cores", "Cores of one API server."),
    ("background", "Share of them in use in usual times."),
    ("join-cost", "Core-seconds that a join costs the API servers."),
    ("daemonsets", "DaemonSet pods per node."),
    ("controller-qps", "The controller manager's --kube-api-qps."),
    ("scheduler-qps", "The scheduler's --kube-api-qps."),
    ("launch-rate", "Machines that the cloud starts per second."),
    ("launch-burst", "... and how many at once before that."),
    ("kill-timer", "When a machine that has not registered is destroyed."),
    ("max-nodes", "The most nodes there may be."),
)


def stated_options(command: F) -> F:
    """One option for each figure that can be stated."""
    for name, text in reversed(_STATED):
        kind: click.ParamType[float] = Seconds() if name in DURATIONS else Number()
        metavar = "TIME" if name in DURATIONS else "N"
        command = option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
    return command


def asked_options(command: F) -> F:
    """What is to be planned, and by which prices."""
    for decorate in reversed(
        (
            option("--to", type=click.IntRange(1, 1_000_000), metavar="N", help="How many nodes the pool should have."),
            option("--add", type=click.IntRange(1, MOST_ADDED), metavar="N", help="How many more nodes."),
            option(
                "--pods",
                metavar="FILE",
                type=click.Path(allow_dash=True),
                help="Find room for the pods in FILE (YAML or JSON; - is stdin).",
            ),
            option(
                "--job",
                metavar="FILE",
                type=click.Path(allow_dash=True),
                help="Find room for all pods of a Job at once, or for none.",
            ),
            option(
                "--pool",
                default="",
                metavar="NAME",
                shell_complete=pools,
                help="Which pool grows; default: the largest.",
            ),
            option("--within", type=Seconds(), metavar="TIME", help="Exit with 3 when one in twenty takes longer."),
            option("--price", type=Price(), metavar="N", help="Price of one new node per hour."),
            option(
                "--prices",
                metavar="FILE",
                type=click.Path(allow_dash=True),
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
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in (*SECTIONS, PRINTING)}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                section = next((name for name, names in SECTIONS.items() if param.name in names), PRINTING)
                found[section].append(record)
        for name, records in found.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


SECTIONS = {
    "What": {"to", "add", "pods", "job", "pool", "within", "price", "prices", "compare", "saved", "policies", "faults"}
    | {"sweep", "gate"},
    "Cluster": {"kubeconfig", "context", "from_file", "offline", "as_user", "as_group", "request_timeout"},
    "Instead of what is learned from the cluster": {name.replace("-", "_") for name, _ in _STATED} | {"file"},
}
"""Of options; the others are about what is printed."""
PRINTING = "Output"


def check_asked(given: Mapping[str, Any], *names: str) -> None:
    """That exactly one of these options is there; raises click.UsageError."""
    asked = [name for name in names if given[name] is not None]
    if len(asked) != 1:
        accepted = ", ".join(f"--{name} {'N' if name in ('to', 'add') else 'FILE'}" for name in names)
        words = " with ".join(f"--{name}" for name in asked) or "nothing"
        raise click.UsageError(f"{words} asked for; accepted: one of {accepted}")


def offline_option(command: F) -> F:
    """For whoever has no cluster, or wants to ask about another one."""
    return click.option("--offline", is_flag=True, help="Ask no cluster: use options and usual values only.")(command)


def stated_of(given: Mapping[str, Any]) -> Any:
    """The `Stated` of these options; raises click.UsageError."""
    from balloons.preview.what_if import NAMES, Stated, StatedError, check

    names = [name.replace("-", "_") for name in NAMES]
    try:
        return check(Stated(**{name: given[name] for name in names}))
    except StatedError as error:
        raise click.UsageError(f"--{error}") from error
