"""Options that `plan` and `simulate` share: what the user states about a cluster, instead of what is known of it."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from balloons.cli.options import option

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.ParamType[float]):
    """`90s`, `15m`, `1h30m`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what is accepted."""
        from throttler.kube.duration import DurationError, parse_duration

        if isinstance(value, int | float) or not value.strip("0s"):
            return float(str(value).rstrip("s") or 0)
        try:
            return parse_duration(f"{value}s" if value.replace(".", "", 1).isdecimal() else value)
        except DurationError as error:
            return self.fail(str(error), param, ctx)


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


def offline_option(command: F) -> F:
    """For whoever has no cluster, or wants to ask about another one."""
    return click.option("--offline", is_flag=True, help="Look at no cluster: flags and usual values only.")(command)


def stated_of(given: Mapping[str, Any]) -> Any:
    """The `Stated` of these options; raises click.UsageError."""
    from balloons.preview.stated import NAMES, Stated, StatedError, check

    names = [name.replace("-", "_") for name in NAMES]
    try:
        return check(Stated(**{name: given[name] for name in names}))
    except StatedError as error:
        raise click.UsageError(f"--{error}") from error
