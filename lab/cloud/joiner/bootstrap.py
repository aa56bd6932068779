"""TLS bootstrap: a certificate request with a bootstrap token, as kubelet/certificate/bootstrap does."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.cloud.joiner.node_api import NodeApi
from lab.cloud.joiner.reflector import Reflector
from lab.controlplane.certificates import KeyPair

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
FIRST_TRY_AGAIN_S = 1.0


class _Meta(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    certificate: str = ""


class _Request(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    object: _Request


async def request_certificate(api: NodeApi, name: str, folder: Path) -> KeyPair:
    """Ask for the node's client certificate and wait for it, however long its approval takes."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = await _create(api, _csr(name, key))
    await api.send("GET", f"{REQUESTS}/{request}")
    certificate = await _wait_for(api, request)
    pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.key.touch(mode=0o600)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    pair.certificate.write_bytes(certificate)
    return pair


async def _create(api: NodeApi, csr: bytes) -> str:
    spec = {
        "request": base64.b64encode(csr).decode(),
        "signerName": SIGNER,
        "usages": ["digital signature", "client auth"],
    }
    body = {
        "kind": "CertificateSigningRequest",
        "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"generateName": "csr-"},
        "spec": spec,
    }
    while True:
        answer = await api.send("POST", REQUESTS, msgspec.json.encode(body), is_read=True)
        if answer.is_ok:
            return msgspec.json.decode(answer.body, type=_Request).metadata.name
        # The process of a kubelet ends here and is started again by its service manager.
        await asyncio.sleep(FIRST_TRY_AGAIN_S)


async def _wait_for(api: NodeApi, request: str) -> bytes:
    issued: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def take(line: bytes) -> None:
        certificate = msgspec.json.decode(line, type=_Event).object.status.certificate
        if certificate and not issued.done():
            issued.set_result(base64.b64decode(certificate))

    watch = asyncio.create_task(Reflector(api, REQUESTS, f"metadata.name={request}", take).run())
    try:
        return await issued
    finally:
        watch.cancel()
        await asyncio.wait([watch])


def _csr(name: str, key: ec.EllipticCurvePrivateKey) -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
