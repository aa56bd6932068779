"""Where credentials come from: a pod's own files, or a user of a kubeconfig.

`kubernetes.aio` is imported inside the functions that need it: it takes 0.3 s, which `balloons --help` must
not pay.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import yaml

from throttler.client.credentials import Credentials
from throttler.client.errors import ConfigError, cut
from throttler.client.kubeconfig import ContextSummary
from throttler.client.tls_context import TlsContext

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config.kube_config import KubeConfigLoader


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
