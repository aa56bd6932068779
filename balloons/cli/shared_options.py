"""Options that several commands share: what names their cluster and how long it is asked, which object is meant, what
is logged and how it is printed.

Each can also be given as BALLOONS_<OPTION> in the environment. A user names one object as kind NAME or kind/NAME, in a
namespace or with one before the name.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from balloons.cli.terminal import CommandError, ExitCode, colour_asked
from balloons.cli.values import DUMP_FILE, FILE, Choice, Count, File, Number, contexts, names_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from balloons.service.settings import MetricsTls


F = TypeVar("F", bound=Callable[..., Any])
_TLS_FILES = {
    "cert": "Certificate (PEM): serve metrics and probes by TLS only. Read again when it changes.",
    "key": "Its private key (PEM, no password).",
    "client-ca": "CA certificates (PEM): only their clients may read /metrics. Probes stay open.",
}
IN_NAMESPACES = ("pod", "pool")
KINDS = {"balloonpool": "pool", "nodepool": "pool", "jointhrottle": "throttle"}
"""What kubectl and `status -o name` call them."""


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option with its environment variable, named after the long form; shells complete a FILE."""
    if settings.get("metavar") == FILE:
        settings.setdefault("type", File(is_read=False))
    kind = settings.get("type")
    if isinstance(kind, Count | Number) and kind.bounds:
        settings["help"] = f"{settings['help']} {kind.bounds}."
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "BALLOONS_" + long.removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=False, **settings)


def output_option(*forms: str, says: str = "json, yaml: for programs.") -> Callable[[F], F]:
    """`-o`, with the forms beside the one that people read, which has no name. JSON and YAML are the same data."""
    return click.option("-o", "--output", type=Choice(forms), help=says)


def is_in_pod() -> bool:
    """Whether a kubelet started this process; then metrics are served to others without being asked."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def connection_options(command: F) -> F:
    """--kubeconfig and --context, spelled as kubectl does."""
    text = "Context of the kubeconfig. Default: the current one."
    command = option("--context", metavar="NAME", shell_complete=contexts, help=text)(command)
    return option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig. Default: $KUBECONFIG, the pod's own account, or ~/.kube/config.",
    )(command)


def metrics_tls_options(command: F) -> F:
    """The files by which metrics and probes are served by TLS."""
    for name, text in reversed(_TLS_FILES.items()):
        command = option(f"--metrics-{name}-file", metavar="FILE", help=text)(command)
    return command


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
    formats = Choice(["auto", "json", "pretty"])
    return option(
        "--log-format", type=formats, default="auto", help="Format of the log. auto: pretty on a terminal, else json."
    )(command)


def color_option(command: F) -> F:
    """--color: heeded by what is printed (`Look`) and by click, which takes colours out of pipes."""
    return option(
        "--color",
        type=Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        expose_value=False,
        callback=_heed_color,
        help="When to use colour. auto follows NO_COLOR, FORCE_COLOR and TERM.",
    )(command)


def _heed_color(context: click.Context, _: click.Parameter, choice: str) -> None:
    context.color = colour_asked(choice, os.environ)


class Subject(Choice):
    """One of them, also in the plural, and as kubectl prints objects: `pod/NAME`."""

    name = "subject"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`pod`, or `pod/NAME` with the name still on it."""
        kind, slash, name = value.partition("/")
        word = kind.partition(".")[0].removesuffix("s")
        return super().convert(KINDS.get(word, word), param, ctx) + slash + name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        """The kinds; after a slash the names."""
        from click.shell_completion import CompletionItem

        kind, slash, begun = incomplete.partition("/")
        if not slash:
            return super().shell_complete(ctx, param, incomplete)
        names = names_of(ctx, kind.removesuffix("s"), begun)
        return [CompletionItem(f"{kind}/{name}") for name in names]


def named(subject: str, name: str | None, namespace: str | None) -> tuple[str, str, str | None]:
    """Kind, name, and namespace where one was said: of `kind NAME`, `kind/NAME`, and NAMESPACE/NAME in place of NAME.

    Raises click.UsageError where there is no name or two, and CommandError where there are two different namespaces.
    """
    kind, _, slashed = subject.partition("/")
    if bool(slashed) == bool(name):
        raise click.UsageError(f"which {kind}? accepted: {kind} NAME, or {kind}/NAME")
    said = name or slashed
    before, slash, after = said.partition("/")
    if not slash or kind not in IN_NAMESPACES:
        return kind, said, namespace
    if namespace not in (None, before):
        message = f"{kind} {said!r} names another namespace than -n {namespace}; accepted is one of the two"
        raise CommandError(message, ExitCode.BAD_INPUT)
    return kind, after, before


def request_options(command: F) -> F:
    """Who asks, how long one request may take, and whether requests are shown."""
    command = click.option("--debug", is_flag=True, help="Show tracebacks.")(command)
    command = click.option("-v", "--verbose", is_flag=True, help="Show every request on stderr.")(command)
    command = option(
        "--request-timeout", metavar="TIME", default="30s", show_default=True, help="Longest time for one request."
    )(command)
    command = option("--as-group", multiple=True, metavar="GROUP", help="Group to act as. Repeatable.")(command)
    command = option("--as", "as_user", metavar="USER", help="User to act as.")(command)
    return connection_options(command)


def cluster_options(command: F) -> F:
    """`request_options`, and `--from` for a dump instead of a cluster."""
    command = request_options(command)
    return option("--from", "from_file", metavar=FILE, type=File(DUMP_FILE), help="A file that `balloons dump` wrote.")(
        command
    )
