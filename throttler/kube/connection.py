"""From a kubeconfig, or from a pod's own files, to an endpoint, and to who we are, whom we trust and what time it is
there: kept fresh under a running process.

`kubernetes.aio` reads the configuration, runs the authentication plugins and builds the TLS context. A kubeconfig is
checked first, so that a mistake is named by file and field.

`kubernetes.aio` is imported inside the functions that need it: it takes 0.3 s, which `balloons --help` must
not pay.
"""

import asyncio
import base64
import binascii
import math
import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import structlog
import yaml

from throttler.kube.errors import ConfigError, cut

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config.kube_config import KubeConfigLoader


MAX_AGE_S = 30.0
"""A rotated token is in use well within a minute."""
AGAIN_AFTER_S = 5.0
"""How soon a failed or forced reading may be repeated: a refused exec plugin is not run in a loop."""
READ_LIMIT_S = 20.0
"""An exec plugin that hangs must not hang the service."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The Authorization header (None where a client certificate says who we are) and the TLS context."""

    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None


class CredentialSource(Protocol):
    """Where credentials come from."""

    async def read(self, afresh: bool) -> Credentials:
        """The credentials as of now; `afresh` distrusts everything remembered, expiry dates included.

        Raises ConfigError or OSError when there are none.
        """


class CredentialKeeper:
    """Holds the last good credentials, reads them again by age (monotonic) and when the server refuses.

    A reading goes on when its caller gives up: an attempt at the Lease lasts a second, and a plugin may take longer.
    """

    def __init__(self, source: CredentialSource, first: Credentials) -> None:
        self._source = source
        self._held = first
        self._due_at = asyncio.get_running_loop().time() + MAX_AGE_S
        self._may_force_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def current(self) -> Credentials:
        """What to use for the next attempt; one caller reads again when due, the others go on."""
        if asyncio.get_running_loop().time() >= self._due_at and self._under_way is None:
            await asyncio.shield(self._begin(afresh=False))
        return self._held

    async def renew(self, refused: Credentials) -> bool:
        """After a refusal: whether there now are others than those `refused`; reads at most once in 5 s."""
        while (reading := self._under_way) is not None:
            await asyncio.shield(reading)
        now = asyncio.get_running_loop().time()
        if self._held == refused and now >= self._may_force_at:
            self._may_force_at = now + AGAIN_AFTER_S
            await asyncio.shield(self._begin(afresh=True))
        return self._held != refused

    @property
    def _under_way(self) -> asyncio.Task[None] | None:
        return None if self._reading is None or self._reading.done() else self._reading

    def _begin(self, *, afresh: bool) -> asyncio.Task[None]:
        self._reading = asyncio.create_task(self._read(afresh), name="credentials")
        return self._reading

    async def _read(self, afresh: bool) -> None:
        """A token file that is missing, empty or half-written for a moment leaves the old token in use."""
        wait_s = MAX_AGE_S
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                self._held = await self._source.read(afresh)
        except (ConfigError, OSError) as error:
            wait_s = AGAIN_AFTER_S
            log.warning("credentials could not be read again, the old ones stay", problem=cut(str(error)))
        self._due_at = asyncio.get_running_loop().time() + wait_s


CLOCKS_AGREE_S = 5.0
"""A Date has whole seconds, and an answer may be read late: clocks that differ by no more are the same."""
AGREED_FOR_S = 60.0
"""While some API server has agreed so lately with the time that we go by, another one that does not changes nothing."""
DATES_S = (1e9, 1e10)
"""2001 to 2286: what is not between these is no time of a clock that was ever set."""


class ServerClock:
    """Seconds since the epoch by the clock of the API servers, which date all objects: what ages of objects go by.

    It is our own clock as long as an API server agrees with it, and where none does that of one of them: a node whose
    time was set wrong would take all that is held for overdue. Between two answers only monotonic time counts.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset_s = wall() - monotonic()
        self._agreed_s = -math.inf

    def now_s(self) -> float:
        """What time it is."""
        return self._offset_s + self._monotonic()

    def heard(self, date: datetime | None) -> None:
        """The head of an answer has just come, with this Date."""
        told_s = date.timestamp() if date is not None else 0.0
        if not DATES_S[0] <= told_s <= DATES_S[1]:
            return
        own_s, at_s = self._wall(), self._monotonic()
        if abs(told_s - own_s) <= CLOCKS_AGREE_S:
            self._offset_s, self._agreed_s = own_s - at_s, at_s
        elif abs(told_s - self.now_s()) <= CLOCKS_AGREE_S:
            self._agreed_s = at_s
        elif at_s - self._agreed_s > AGREED_FOR_S:
            self._offset_s, self._agreed_s = told_s - at_s, at_s


SECTIONS = ("clusters", "contexts", "users")
CLUSTER_DATA = ("certificate-authority-data",)
USER_DATA = ("client-certificate-data", "client-key-data")


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """The chosen context: its default namespace, its server, and whether a command gives the credentials."""

    name: str
    server: str
    namespace: str
    user: str
    runs_command: bool


def merge_documents(documents: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Several kubeconfigs (path, parsed document) as one: the first entry of a name wins, as in kubectl."""
    merged: dict[str, Any] = {section: {} for section in SECTIONS}
    merged["current-context"] = ""
    for path, document in documents:
        if not isinstance(document, Mapping):
            raise ConfigError(f"{path}: not a kubeconfig (a mapping is needed)")
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        for section in SECTIONS:
            for name, entry in _named(path, section, document.get(section)):
                merged[section].setdefault(name, entry)
    return merged


def summarize_context(merged: Mapping[str, Any], context: str | None, path: str) -> ContextSummary:
    """The context to use (None: the current one); raises ConfigError naming the field that is wrong."""
    name = context or merged["current-context"]
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: current-context is empty; choose one of {_known(merged, 'contexts')}")
    chosen = _entry(merged, "contexts", name, "context", f"{path}: {'--context' if context else 'current-context'}")
    at = f"{path}: contexts[{name}].context"
    cluster_name, user_name = _text(chosen, "cluster", at), _text_or(chosen, "user", "", at)
    cluster = _entry(merged, "clusters", cluster_name, "cluster", f"{at}.cluster")
    user = _entry(merged, "users", user_name, "user", f"{at}.user") if user_name else {}
    _check_base64(cluster, CLUSTER_DATA, f"{path}: clusters[{cluster_name}].cluster")
    _check_base64(user, USER_DATA, f"{path}: users[{user_name}].user")
    return ContextSummary(
        name=name,
        server=check_server(
            _text(cluster, "server", f"{path}: clusters[{cluster_name}].cluster"),
            f"{path}: clusters[{cluster_name}].cluster.server",
        ),
        namespace=_text_or(chosen, "namespace", "default", at),
        user=user_name,
        runs_command="exec" in user,
    )


def check_server(url: str, at: str) -> str:
    """The URL without a slash at its end; raises ConfigError unless it is http(s) with a host."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"{at}: {url!r} is not an http(s) URL")
    return url.rstrip("/")


def _named(path: str, section: str, entries: Any) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if entries is None:
        return
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: {section} must be a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: {section}[{index}] needs a name")
        yield entry["name"], entry


def _entry(merged: Mapping[str, Any], section: str, name: str, part: str, at: str) -> Mapping[str, Any]:
    if name not in merged[section]:
        raise ConfigError(f"{at}: {name!r} is not among the {section} ({_known(merged, section)})")
    value = merged[section][name].get(part)
    if not isinstance(value, Mapping):
        raise ConfigError(f"{at}: {section}[{name}].{part} must be a mapping")
    return value


def _known(merged: Mapping[str, Any], section: str) -> str:
    return ", ".join(merged[section]) or f"there are no {section}"


def _text(mapping: Mapping[str, Any], key: str, at: str) -> str:
    value = mapping.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{at}.{key} is missing or empty")
    return value


def _text_or(mapping: Mapping[str, Any], key: str, otherwise: str, at: str) -> str:
    return _text(mapping, key, at) if mapping.get(key) else otherwise


def _check_base64(mapping: Mapping[str, Any], keys: Iterable[str], at: str) -> None:
    for key in keys:
        try:
            base64.b64decode(str(mapping.get(key) or ""), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{at}.{key} is not base64: {error}") from error


class TlsContext:
    """The TLS context of a configuration, built anew when one of its files has changed."""

    def __init__(self) -> None:
        self._mark = b""
        self._context: ssl.SSLContext | None = None

    def current(self, configuration: "Configuration") -> ssl.SSLContext | None:
        """The context for https, None for http; raises ConfigError when a certificate cannot be used."""
        if not configuration.host.startswith("https:"):
            return None
        mark = _fingerprint(configuration)
        if mark != self._mark:
            self._context = _build_tls(configuration)
            self._mark = mark
        return self._context


def _build_tls(configuration: "Configuration") -> ssl.SSLContext:
    from kubernetes.aio.client.rest import RESTClientObject

    try:
        context: ssl.SSLContext = RESTClientObject(configuration).ssl_context
    except (ssl.SSLError, OSError, ValueError) as error:
        files = ", ".join(path for path in _tls_files(configuration) if path)
        raise ConfigError(f"TLS files {files}: {cut(str(error))}") from error
    return context


def _fingerprint(configuration: "Configuration") -> bytes:
    mark = sha256(repr((configuration.verify_ssl, _tls_files(configuration))).encode())
    for path in _tls_files(configuration):
        mark.update(Path(path).read_bytes() if path else b"-")
    return mark.digest()


def _tls_files(configuration: "Configuration") -> tuple[str | None, ...]:
    return configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file


LOAD_ERRORS = (OSError, yaml.YAMLError, aiohttp.ClientError, ValueError, KeyError, TypeError, AttributeError)
"""What the official loader raises besides its own error: wrong types in a kubeconfig, an OIDC issuer away."""


class InClusterSource:
    """The files that the kubelet projects into a pod; the token is read from its file each time."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._token_file = folder / "token"
        self._tls = TlsContext()
        self.configuration: Configuration = _in_cluster_configuration(folder, environ)

    async def read(self, afresh: bool) -> Credentials:
        """See CredentialSource; the file is all there is, so `afresh` changes nothing."""
        token = self._token_file.read_text().strip()
        if not token:
            raise ConfigError(f"{self._token_file}: the token file is empty")
        return Credentials(f"Bearer {token}", self._tls.current(self.configuration))


class KubeconfigSource:
    """A user of a kubeconfig: token, token file, exec plugin, OIDC or client certificate."""

    def __init__(self, paths: str, summary: ContextSummary) -> None:
        self._paths = paths
        self._summary = summary
        self._tls = TlsContext()
        self._loader: KubeConfigLoader | None = None
        self.configuration: Configuration = _empty_configuration()

    async def read(self, afresh: bool) -> Credentials:
        """See CredentialSource; `afresh` reads the kubeconfig again and forgets when a token expires."""
        await self._load(afresh)
        header = self.configuration.api_key.get("BearerToken", "").strip() or None
        if self._summary.runs_command and not header and not self.configuration.cert_file:
            at = f"{self._paths}: users[{self._summary.user}].user.exec"
            raise ConfigError(f"{at}: the command gave no credentials (its error is in the log)")
        return Credentials(header, self._tls.current(self.configuration))

    async def _load(self, afresh: bool) -> None:
        from kubernetes.aio.config import ConfigException, load_kube_config

        try:
            if afresh or self._loader is None:
                self._loader = await load_kube_config(
                    self._paths, self._summary.name, self.configuration, persist_config=False
                )
            else:
                await self._loader.load_and_set(self.configuration)
        except (ConfigException, *LOAD_ERRORS) as error:
            raise ConfigError(f"{self._paths}: {type(error).__name__}: {cut(str(error))}") from error


def _in_cluster_configuration(folder: Path, environ: Mapping[str, str]) -> "Configuration":
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.incluster_config import InClusterConfigLoader

    configuration = _empty_configuration()
    loader = InClusterConfigLoader(
        str(folder / "token"), str(folder / "ca.crt"), try_refresh_token=False, environ=environ
    )
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise ConfigError(f"{folder}: {cut(str(error))}") from error
    return configuration


def _empty_configuration() -> "Configuration":
    from kubernetes.aio.client import Configuration

    return Configuration()


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG = "~/.kube/config"
SERVICE = "kube-balloons"
"""How the service names itself to the API server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionOptions:
    """What the user may say about the connection.

    `kubeconfig`: one path, or several as in $KUBECONFIG; None: $KUBECONFIG, else the pod's own files, else
    ~/.kube/config. `context`: None is the current one. `as_user`, `as_groups`: impersonation.
    `request_timeout_s`: the longest one attempt may take (watches: until the headers).
    `service_account`: where a pod finds its token.
    """

    kubeconfig: str | None = None
    context: str | None = None
    as_user: str | None = None
    as_groups: Sequence[str] = ()
    request_timeout_s: float = 10.0
    service_account: Path = SERVICE_ACCOUNT
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def __post_init__(self) -> None:
        if not 0 < self.request_timeout_s <= 300:
            raise ConfigError(f"request timeout must be in (0, 300] s, got {self.request_timeout_s}")
        if self.as_groups and not self.as_user:
            raise ConfigError("as-group needs as: the API server refuses groups without a user")


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything a transport needs, and the namespace that commands use when none is given."""

    base_url: str
    credentials: CredentialKeeper
    namespace: str
    request_timeout_s: float
    impersonation: Sequence[tuple[str, str]] = ()
    tls_server_name: str | None = None
    proxy: str | None = None
    server_clock: ServerClock = field(default_factory=ServerClock)


async def load_connection(options: ConnectionOptions) -> Connection:
    """Reads the configuration; raises ConfigError that names file and field."""
    explicit = options.kubeconfig or options.environ.get("KUBECONFIG")
    if not explicit and not options.context and is_in_cluster(options):
        return await _in_cluster(options)
    return await _from_kubeconfig(explicit or DEFAULT_KUBECONFIG, options)


def is_in_cluster(options: ConnectionOptions) -> bool:
    """Whether this process runs in a pod with a ServiceAccount token."""
    has_host = bool(options.environ.get("KUBERNETES_SERVICE_HOST"))
    return has_host and (options.service_account / "token").exists()


def user_agent(component: str, program: str = SERVICE) -> str:
    """What audit logs and flow control see: `kube-balloons/VERSION (component)`."""
    try:
        return f"{program}/{version('kube-balloons')} ({component})"
    except PackageNotFoundError:
        return f"{program}/source ({component})"


async def _in_cluster(options: ConnectionOptions) -> Connection:
    source = InClusterSource(options.service_account, options.environ)
    first = await source.read(afresh=True)
    return _connection(options, source.configuration, CredentialKeeper(source, first), _pod_namespace(options))


async def _from_kubeconfig(paths: str, options: ConnectionOptions) -> Connection:
    summary = summarize_context(merge_documents(_documents(paths)), options.context, paths)
    source = KubeconfigSource(paths, summary)
    first = await source.read(afresh=True)
    return _connection(options, source.configuration, CredentialKeeper(source, first), summary.namespace)


def _connection(
    options: ConnectionOptions, configuration: "Configuration", keeper: CredentialKeeper, namespace: str
) -> Connection:
    base_url = check_server(configuration.host, "server")
    user = [("Impersonate-User", options.as_user)] if options.as_user else []
    return Connection(
        base_url=base_url,
        credentials=keeper,
        namespace=namespace,
        request_timeout_s=options.request_timeout_s,
        impersonation=(*user, *(("Impersonate-Group", group) for group in options.as_groups)),
        tls_server_name=configuration.tls_server_name,
        proxy=_checked_proxy(configuration.proxy or _proxy_from_environment(base_url)),
    )


def context_names(kubeconfig: str | None) -> list[str]:
    """The contexts of the kubeconfig that would be used; raises ConfigError where there is none."""
    merged = merge_documents(_documents(kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG))
    return list(merged["contexts"])


def _documents(paths: str) -> list[tuple[str, Any]]:
    """The parsed files that exist; several paths may name files that do not, as with kubectl."""
    existing = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not existing:
        raise ConfigError(
            f"{paths}: no such kubeconfig, and this process does not run in a pod; "
            "name one in --kubeconfig or $KUBECONFIG"
        )
    return [(path, _parse(path)) for path in existing]


def _parse(path: str) -> Any:
    try:
        return yaml.safe_load(Path(path).expanduser().read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {cut(str(error))}") from error


def _pod_namespace(options: ConnectionOptions) -> str:
    try:
        return (options.service_account / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


def _proxy_from_environment(base_url: str) -> str | None:
    """What HTTPS_PROXY and NO_PROXY say about the server, as kubectl reads them."""
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not parts.hostname or proxy_bypass(f"{parts.hostname}:{port}") or _is_near(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _is_near(host: str) -> bool:
    """Loopback, or in a network of NO_PROXY (OpenShift names its own so): Go knows both, and Python neither."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or any(address in network for network in _networks(getproxies().get("no", "")))


def _networks(no_proxy: str) -> Iterable[IPv4Network | IPv6Network]:
    for entry in no_proxy.split(","):
        if "/" in entry:
            with suppress(ValueError):
                yield ip_network(entry.strip(), strict=False)


def _checked_proxy(url: str | None) -> str | None:
    """The proxy with its scheme; raises ConfigError for one that we do not speak to, without its password."""
    if not url:
        return None
    whole = url if "://" in url else f"http://{url}"
    scheme, _, rest = whole.partition("://")
    if scheme.lower() not in ("http", "https"):
        raise ConfigError(f"proxy {scheme}://{rest.rpartition('@')[2]}: accepted are http:// and https://")
    return whole
