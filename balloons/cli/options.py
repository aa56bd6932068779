"""Options that several commands share: what names their cluster, which object is meant, what is stated for a plan.

Each can also be given as BALLOONS_<OPTION> in the environment. A user names one object as kind NAME or kind/NAME, in a
namespace or with one before the name.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from balloons.cli.terminal import CommandError, ExitCode, colour_asked
from balloons.cli.values import DUMP_FILE, FILE, Choice, Count, File, Number, Price, Seconds, contexts, names_of, pools

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
NAMES_A_CLUSTER = ("from_file", "kubeconfig", "context")
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


def check_offline(context: click.Context) -> None:
    """--offline looks at no cluster: raises click.UsageError for another option of the command line that names one."""
    asked = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        if param.name in NAMES_A_CLUSTER and context.get_parameter_source(param.name) is asked:
            raise click.UsageError(
                f"{param.opts[0]} with --offline, which looks at no cluster: accepted is one of the two"
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
            option("--price", type=Price(), metavar="N", help="Price of one new node per hour."),
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
    try:
        return check(Stated(**{name: options[name] for name in names}))
    except StatedError as error:
        raise click.UsageError(f"--{error}") from error
