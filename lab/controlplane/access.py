"""How a client reaches one API server: as files for plain HTTP clients, or as a kubeconfig."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from lab.controlplane.certificates import KeyPair


@dataclass(frozen=True)
class ApiAccess:
    """An API server's address, the CA that vouches for it, and a client certificate of one user."""

    url: str
    ca: Path
    client: KeyPair

    def ssl_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts only this CA and shows the client certificate."""
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that holds all it needs inside, readable by the owner only."""
        user = {
            "client-certificate-data": _base64(self.client.certificate),
            "client-key-data": _base64(self.client.key),
        }
        return _write(path, self.url, self.ca, user)

    def write_token_kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig for the same server that shows `token` instead of the client certificate."""
        return _write(path, self.url, self.ca, {"token": token})


def _write(path: Path, url: str, ca: Path, user: dict[str, str]) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority-data": _base64(ca)}}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    # JSON is YAML too, and every client reads it.
    path.write_text(json.dumps(config, indent=1))
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
