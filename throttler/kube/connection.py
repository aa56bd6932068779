"""From a kubeconfig, or from a pod's own files, to an endpoint and to credentials that stay fresh.

`kubernetes.aio` reads the configuration, runs the authentication plugins and builds the TLS context
(credential_sources.py, tls_context.py).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml

from throttler.kube.credentials import (
    CredentialKeeper,
    InClusterSource,
    KubeconfigSource,
    check_server,
    merge_documents,
    summarize_context,
)
from throttler.kube.errors import ConfigError, cut

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

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
        proxy=configuration.proxy or _proxy_from_environment(base_url),
    )


def context_names(kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The contexts of the kubeconfig that would be used; raises ConfigError where there is none."""
    merged = merge_documents(_documents(kubeconfig or environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG))
    return list(merged["contexts"])


def _documents(paths: str) -> list[tuple[str, Any]]:
    """The parsed files that exist; several paths may name files that do not, as with kubectl."""
    found = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not found:
        raise ConfigError(
            f"{paths}: no such kubeconfig, and this process does not run in a pod; "
            "name one in --kubeconfig or $KUBECONFIG"
        )
    return [(path, _parse(path)) for path in found]


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
    """What HTTPS_PROXY and NO_PROXY say about the server, as every other client reads them."""
    parts = urlsplit(base_url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)
