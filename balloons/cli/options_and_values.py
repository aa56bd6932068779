"""Options that several commands share, what the value of an option may be, and which values a shell completes.

Shared are the options that name a cluster and say how long it is asked, which object is meant, what is logged and how
it is printed. Each can also be given as BALLOONS_<OPTION> in the environment. A user names one object as kind NAME or
kind/NAME, in a namespace or with one before the name.

Values are counts, numbers, prices, times, addresses, namespaces and files. Each kind refuses in one sentence that names
the value and what is accepted; click puts the option's name before it. Numbers are written in plain digits: Python's
own reading also takes `1_000` and digits of other scripts.

Completed are names of the cluster or the dump that the line names, codes and policies. Whatever goes wrong meanwhile
gives no values: a shell that waits for a name has no place for an error.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from balloons.cli.terminal import CommandError, ExitCode, colour_asked

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from balloons.cluster.kinds import Kind
    from balloons.service.settings import ListenAddress, MetricsTls

F = TypeVar("F", bound=Callable[..., Any])
_TLS_FILES = {
    "cert": "Certificate (PEM): serve metrics and probes by TLS only. Read again when it changes.",
    "key": "Its private key (PEM, no password).",
    "client-ca": "CA certificates (PEM): only their clients may read /metrics. Probes stay open.",
}
IN_NAMESPACES = ("pod", "pool")
KINDS = {"balloonpool": "pool", "nodepool": "pool", "jointhrottle": "throttle"}
"""What kubectl and `status -o name` call them."""
FILE = "FILE"
OFF = "off"
"""The metrics address that means: no server."""
DUMP_FILE = "a file that `balloons dump` wrote"
PLAN_FILE = "a file that `balloons plan --save FILE` wrote"
MOST_PORT = 65535
_COUNT = re.compile(r"[0-9]{1,20}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,4})?", re.ASCII | re.IGNORECASE)


class Choice(click.Choice[str]):
    """One of some words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """What is accepted, as the other types say it."""
        return f"{str(value)[:80]!r}; accepted: {', '.join(self.choices)}"


class Count(click.ParamType[int]):
    """A whole number from `least` to `most`."""

    name = "count"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    @property
    def bounds(self) -> str:
        """For help."""
        return f"{self.least:,} to {self.most:,}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails with what is accepted."""
        if _COUNT.fullmatch(str(value)) and self.least <= int(value) <= self.most:
            return int(value)
        return self.fail(f"{str(value)[:80]!r}; accepted: a whole number from {self.bounds}", param, ctx)


class Number(click.ParamType[float]):
    """A finite number; `least` and `most` are accepted, too. Without them the preview has bounds of its own."""

    name = "number"

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least, self.most = least, most

    @property
    def bounds(self) -> str:
        """For help; empty where the preview has them."""
        return "" if self.least is None or self.most is None else f"{self.least:,g} to {self.most:,g}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with what is accepted."""
        number = float(value) if _NUMBER.fullmatch(str(value)) else None
        if number is not None and (self.least is None or self.most is None or self.least <= number <= self.most):
            return number
        return self.fail(f"{str(value)[:80]!r}; accepted: {self._accepted(param)}", param, ctx)

    def _accepted(self, param: click.Parameter | None) -> str:
        if self.bounds:
            return f"a number from {self.bounds}"
        # Imported here: it is heavy, and nothing has failed for whom reads help.
        from balloons.preview.inputs import BOUNDS, accepted

        name = param.name if param else None
        return accepted(name) if name in BOUNDS else "a number"


class Price(click.ParamType[float]):
    """Per hour: 0 or more."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The price; fails with what is accepted."""
        # Imported here: it is heavy, and who reads help gives no price.
        from balloons.preview.inputs import PRICES_BELOW

        if _NUMBER.fullmatch(str(value)) and 0 <= float(value) < PRICES_BELOW:
            return float(value)
        return self.fail(f"{str(value)[:80]!r}; accepted: a number, 0 or more, below {PRICES_BELOW:,}", param, ctx)


class Seconds(click.ParamType[float]):
    """`90s`, `15m`, `1h30m`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what is accepted."""
        from throttler.kube.quantities_and_durations import DurationError, parse_time

        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_time(f"{value}s" if value.replace(".", "", 1).isdecimal() else value)
        except DurationError as error:
            return self.fail(str(error), param, ctx)


class HostPort(click.ParamType["ListenAddress | None"]):
    """host:port, [v6]:port or :port (every interface); None for `off`."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "ListenAddress | None":
        """The address; fails with what is accepted."""
        from balloons.service.settings import ListenAddress

        if value == OFF:
            return None
        host, colon, port = str(value).rpartition(":")
        if not (colon and _COUNT.fullmatch(port) and int(port) <= MOST_PORT):
            text = f"{str(value)[:80]!r}; accepted: host:port, :port with a port up to {MOST_PORT}, or {OFF}"
            return self.fail(text, param, ctx)
        return ListenAddress(host.strip("[]") or "0.0.0.0", int(port))


class Namespace(click.ParamType[str]):
    """The name of a namespace.

    What can be none is refused, and so is an empty one: no Lease is ever there, and a guard takes that for a service
    that is dead.
    """

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; fails with what is accepted."""
        if _NAMESPACE.fullmatch(str(value)):
            return str(value)
        accepted = "the name of a namespace, such as kube-balloons"
        return self.fail(f"{str(value)[:80]!r}; accepted: {accepted}", param, ctx)


class File(click.Path):
    """The name of a file. One that is read has to be there, and to be `accepted`; `-` is a stream.

    An empty name is refused: it is what a shell makes of a variable that is not set, and something else would be read
    in its place.
    """

    def __init__(self, accepted: str = "a file", *, is_read: bool = True, is_or_folder: bool = False) -> None:
        super().__init__(readable=False, allow_dash=True)
        self.accepted, self.is_read, self.is_or_folder = accepted, is_read, is_or_folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails with what is wrong with the file."""
        if not value:
            self.fail(f"'' is no file; accepted: {self.accepted}", param, ctx)
        problem = self._problem(str(value)) if self.is_read and value != "-" else ""
        return self.fail(f"{value}: {problem}; accepted: {self.accepted}", param, ctx) if problem else value

    def _problem(self, name: str) -> str:
        """Why it cannot be read; empty if it can."""
        try:
            mode = os.stat(name).st_mode
        except (OSError, ValueError) as error:
            return (getattr(error, "strerror", None) or "no name of a file").lower()
        if stat.S_ISDIR(mode) and not self.is_or_folder:
            return os.strerror(errno.EISDIR).lower()
        return "" if os.access(name, os.R_OK) else os.strerror(errno.EACCES).lower()


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


def namespace_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """`option` for a namespace; shells complete those of pools."""
    return option(*names, metavar="NAME", type=Namespace(), shell_complete=namespaces, **settings)


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


def metrics_options(outside: str, in_pod: str) -> Callable[[F], F]:
    """Where metrics and probes are served, by default `in_pod` or `outside` of one, and the files for TLS."""

    def added(command: F) -> F:
        for name, text in reversed(_TLS_FILES.items()):
            command = option(f"--metrics-{name}-file", metavar="FILE", help=text)(command)
        return option(
            "--metrics-address",
            type=HostPort(),
            metavar="HOST:PORT",
            default=lambda: in_pod if is_in_pod() else outside,
            help=f"Address for /metrics and probes, or {OFF}. Default: {outside}, in a pod {in_pod}.",
        )(command)

    return added


def metrics_tls(asked: Mapping[str, Any]) -> "MetricsTls | None":
    """What the options of these files say together; raises SettingsError."""
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


COMPLETION_TIMEOUT = "2s"
"""For one request: somebody waits at a prompt."""
MOST_COMPLETED = 200


def codes(_context: click.Context, _param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Codes of checks with their titles; after a comma the next one."""
    from click.shell_completion import CompletionItem

    from balloons.doctor.diagnose import ALL_CHECKS

    before, comma, last = begun.rpartition(",")
    checks = (check for check in ALL_CHECKS if check.code.startswith(last.upper()))
    return [CompletionItem(f"{before}{comma}{check.code}", help=check.title) for check in checks]


def policies(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of policies, and the beginnings of those with a number."""
    from balloons.preview.forecast import NAMES

    return [name for name in NAMES if name.startswith(begun)]


def pools(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Pools that can grow."""
    from balloons.cluster import kinds, seen_cluster
    from throttler.kube.node import group_of

    cluster = _seen(context, (kinds.NODES, kinds.NODE_POOLS))
    if cluster is None:
        return []
    names = {group_of(node.labels) for node in seen_cluster.nodes(cluster)} | {
        pool.metadata.name for pool in seen_cluster.node_pools(cluster)
    }
    return _some(names, begun)


def subjects(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of what is asked about: pods, nodes, pools or throttles."""
    return names_of(context, str(context.params.get("subject")), begun)


def names_of(context: click.Context, subject: str, begun: str) -> list[str]:
    """Names of objects of this kind; none of a kind that we do not know."""
    from balloons.cluster import kinds
    from balloons.cluster.object_fields_and_flags import name_of

    wanted: dict[str, tuple[Kind, ...]] = {
        "pod": (kinds.PODS,),
        "node": (kinds.NODES,),
        "pool": (kinds.BALLOON_POOLS, kinds.NODE_POOLS),
        "throttle": (kinds.THROTTLES,),
    }
    return _of_objects(context, wanted.get(subject, ()), name_of, begun)


def pools_and_throttles(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Our own objects, but for those that the line names already."""
    from balloons.cluster import kinds
    from balloons.cluster.object_fields_and_flags import name_of

    names = _of_objects(context, (kinds.BALLOON_POOLS, kinds.THROTTLES), name_of, begun)
    return [name for name in names if name not in (context.params.get("names") or ())]


def namespaces(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Those of pools, and of pods where these can be asked about.

    Which it is cannot be told: click drops the arguments of a line that ends in an option without its value.
    """
    from balloons.cluster import kinds
    from balloons.cluster.object_fields_and_flags import namespace_of

    return _of_objects(
        context, (kinds.BALLOON_POOLS, *([kinds.PODS] if context.info_name == "explain" else [])), namespace_of, begun
    )


def contexts(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Those of the kubeconfig that the line names, or the usual one."""
    from throttler.kube.connection import context_names
    from throttler.kube.errors import ConfigError

    try:
        return _some(set(context_names(context.params.get("kubeconfig"))), begun)
    except ConfigError:
        return []


def swept(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Figures that can be swept; their values are the user's."""
    from balloons.preview.simulate import FIGURES, NODES_ADDED

    return [f"{name}=" for name in (NODES_ADDED, *FIGURES) if name.startswith(begun)]


def faults(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Kinds of faults; when and for how long is the user's."""
    from throttler.simulator.scenario_and_faults import FAULT_KINDS

    return [f"{kind}@" for kind in FAULT_KINDS if kind.startswith(begun)]


def waits(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """What `status --wait` can wait for."""
    from balloons.cli.status_text import OF_ALL, OF_THROTTLES, PHASES

    named = [f"condition={name}" for name in (*OF_ALL, *OF_THROTTLES)] + [f"phase={name}" for name in PHASES]
    return [name for name in (*named, "idle", "warm=") if name.startswith(begun)]


def _of_objects(context: click.Context, read: "tuple[Kind, ...]", word: Callable[[Any], str], begun: str) -> list[str]:
    cluster = _seen(context, read)
    return _some({word(item) for kind in read for item in cluster.plain(kind)} if cluster else set(), begun)


def _some(names: set[str], begun: str) -> list[str]:
    return sorted(name for name in names if name and name.startswith(begun))[:MOST_COMPLETED]


def _seen(context: click.Context, wanted: "tuple[Kind, ...]") -> Any:
    import asyncio

    from balloons.cli.cluster_source import read_live
    from balloons.reading.read_cluster import read_archive

    asked = {"as_user": None, "as_group": (), **context.params, "request_timeout": COMPLETION_TIMEOUT, "verbose": False}
    try:
        if asked.get("from_file"):
            return read_archive(asked["from_file"]).only(wanted)
        return asyncio.run(read_live(asked, "completion", wanted)) if wanted else None
    except Exception:  # noqa: BLE001  whatever it is, the prompt has no place for it
        return None
