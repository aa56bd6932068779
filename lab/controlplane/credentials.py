"""Who may reach the API servers of one control plane: its certificate authority, and what clients are given."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = datetime.timedelta(days=30)
CLOCK_SLACK = datetime.timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def binding(
    name: str, role: str, *subjects: dict[str, str], namespace: str = "", is_own: bool = False
) -> dict[str, Any]:
    """Gives subjects (kind, name, an account's namespace) a ClusterRole, or the namespace's `is_own` Role.

    It holds in one namespace, or in the whole cluster.
    """
    group = "rbac.authorization.k8s.io"
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **where},
        "roleRef": {"apiGroup": group, "kind": "Role" if is_own else "ClusterRole", "name": role},
        "subjects": list(subjects),
    }


@dataclass(frozen=True)
class KeyPair:
    """Paths of a PEM certificate and of its private key."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Signs server and client certificates; its files go to `folder`, keys readable by the owner only."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("kube-balloons-lab-ca", ())
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = self._write("ca", certificate, self._key)

    def issue_server(self, file_name: str) -> KeyPair:
        """Issue a serving certificate for loopback and the names that a cluster gives its API server."""
        addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1", "10.0.0.1")]
        names = x509.SubjectAlternativeName([*map(x509.DNSName, SERVER_NAMES), *addresses])
        return self._issue(file_name, _subject("kubernetes", ()), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue_client(self, file_name: str, user: str, groups: Sequence[str]) -> KeyPair:
        """Issue a client certificate: Kubernetes reads the user from CN and the groups from O."""
        return self._issue(file_name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def new_key(self, file_name: str) -> Path:
        """Write a private key without a certificate (the one that signs ServiceAccount tokens)."""
        path = self._folder / f"{file_name}.key"
        _write_private(path, _pem(ec.generate_private_key(ec.SECP256R1())))
        return path

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return self._write(file_name, builder.sign(self._key, hashes.SHA256()), key)

    def _write(self, file_name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
        pair = KeyPair(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(pair.key, _pem(key))
        return pair


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + VALID_FOR)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Not PKCS #8: Kubernetes does not find the public half in that form when it reads a ServiceAccount key.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_private(path: Path, content: bytes) -> None:
    """At once: a process that was started with this file may be about to read it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    Path(part.name).rename(path)


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
    # JSON is YAML too, and every client reads it.
    _write_private(path, json.dumps(config, indent=1).encode())
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
