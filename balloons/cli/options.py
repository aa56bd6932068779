"""Options that several commands share; each can also be given as BALLOONS_<OPTION> in the environment."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from balloons.cli.complete import contexts
from balloons.cli.look import colour_asked

if TYPE_CHECKING:
    from balloons.service.settings import MetricsTls

F = TypeVar("F", bound=Callable[..., Any])
FILE = "FILE"


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option with its environment variable, named after the long form; shells complete a FILE."""
    if settings.get("metavar") == FILE:
        settings.setdefault("type", click.Path(readable=False, allow_dash=True))
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "BALLOONS_" + long.removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=False, **settings)


def is_in_pod() -> bool:
    """Whether a kubelet started this process; then metrics are served to others without being asked."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def connection_options(command: F) -> F:
    """--kubeconfig and --context, spelled as kubectl does."""
    text = "Context of the kubeconfig; the current one if absent."
    command = option("--context", metavar="NAME", shell_complete=contexts, help=text)(command)
    return option(
        "--kubeconfig",
        metavar="FILE",
        help="Path of a kubeconfig; if absent $KUBECONFIG, the pod's own account, or ~/.kube/config.",
    )(command)


def metrics_tls_options(command: F) -> F:
    """The files by which metrics and probes are served by TLS."""
    for name, text in reversed(_TLS_FILES.items()):
        command = option(f"--metrics-{name}-file", metavar="FILE", help=text)(command)
    return command


_TLS_FILES = {
    "cert": "Serve metrics and probes by TLS only: our certificate, PEM; read again when it changes.",
    "key": "Its private key, PEM without a password.",
    "client-ca": "Authorities, PEM, whose clients alone may read /metrics; probes stay open.",
}


def metrics_tls(asked: Mapping[str, Any]) -> "MetricsTls | None":
    """What those options say together; raises SettingsError."""
    from balloons.service.settings import MetricsTls

    cert, key, client_ca = (asked[f"metrics_{name}_file"] for name in ("cert", "key", "client_ca"))
    if not (cert or key or client_ca):
        return None
    return MetricsTls(cert_file=cert or "", key_file=key or "", client_ca_file=client_ca)


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
