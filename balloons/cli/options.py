"""Options that several commands share; each can also be given as BALLOONS_<OPTION> in the environment."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option with its environment variable, named after the long form."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "BALLOONS_" + long.removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=False, **settings)


def connection_options(command: F) -> F:
    """--kubeconfig and --context, spelled as kubectl does."""
    command = option("--context", metavar="NAME", help="Context of the kubeconfig; the current one if absent.")(command)
    return option(
        "--kubeconfig",
        metavar="FILE",
        help="Path of a kubeconfig; if absent $KUBECONFIG, the pod's own account, or ~/.kube/config.",
    )(command)
