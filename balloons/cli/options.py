"""Options that several commands share; each can also be given as BALLOONS_<OPTION> in the environment."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from balloons.cli.look import colour_asked

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option with its environment variable, named after the long form."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "BALLOONS_" + long.removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=False, **settings)


def is_in_pod() -> bool:
    """Whether a kubelet started this process; then metrics are served to others without being asked."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def connection_options(command: F) -> F:
    """--kubeconfig and --context, spelled as kubectl does."""
    command = option("--context", metavar="NAME", help="Context of the kubeconfig; the current one if absent.")(command)
    return option(
        "--kubeconfig",
        metavar="FILE",
        help="Path of a kubeconfig; if absent $KUBECONFIG, the pod's own account, or ~/.kube/config.",
    )(command)


def log_options(command: F) -> F:
    """--log-format and --debug, of the commands that log."""
    command = option("--debug", is_flag=True, help="Log more, and show tracebacks.")(command)
    formats = click.Choice(["auto", "json", "pretty"])
    return option("--log-format", type=formats, default="auto", help="Default: pretty on a terminal.")(command)


def color_option(command: F) -> F:
    """--color: heeded by what is printed (`Look`) and by click, which takes colours out of pipes."""
    return option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        expose_value=False,
        callback=_heed_color,
        help="When to print in colour; auto heeds NO_COLOR, FORCE_COLOR and TERM.",
    )(command)


def _heed_color(context: click.Context, _: click.Parameter, choice: str) -> None:
    context.color = colour_asked(choice, os.environ)
