"""The TLS context of a connection, built by the official client and renewed when its files change."""

import ssl
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from throttler.client.errors import ConfigError, cut

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration


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
