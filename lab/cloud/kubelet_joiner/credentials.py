"""Who a joiner is to the API server: by impersonation, or by a certificate of its own, asked for as kubelets do it."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.cloud.kubelet_joiner.client import Connection, NodeApi, NodeClient, Turns
from lab.cloud.kubelet_joiner.reflector import Reflector
from lab.cloud.kubelet_joiner.settings import JoinerSettings
from lab.controlplane.credentials import ApiAccess, KeyPair

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


CertificateOf = Callable[[str], ApiAccess]
"""Returns the access of one node by its name (`plane.access("system:node:NAME", ("system:nodes",))`)."""


class Credentials:
    """Makes each joiner's client. Connections that are made here are closed by the stack they are given."""

    def __init__(self, shared: Connection, access: ApiAccess, certificate_of: CertificateOf | None) -> None:
        self._shared = shared
        self._access = access
        self._certificate_of = certificate_of

    async def client_of(self, settings: JoinerSettings, stack: AsyncExitStack, total: Counter[int]) -> NodeClient:
        """Return the client of a joiner; with a bootstrap token only once its certificate is issued.

        `total` counts the attempts of that way, which are made by another client.
        """
        turns = Turns(settings.qps, settings.burst, asyncio.get_running_loop().time())
        if settings.bootstrap_token is not None:
            access = await self._bootstrap(settings, settings.bootstrap_token, turns, stack, total)
        elif self._certificate_of is not None:
            access = self._certificate_of(settings.name)
        else:
            return NodeClient(self._shared, _impersonation(settings.name), turns)
        return NodeClient(await stack.enter_async_context(Connection(access)), {}, turns)

    async def _bootstrap(
        self, settings: JoinerSettings, token: str, turns: Turns, stack: AsyncExitStack, total: Counter[int]
    ) -> ApiAccess:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-joiner-")))
        async with Connection(self._access, shows_certificate=False) as connection:
            client = NodeClient(connection, {"Authorization": f"Bearer {token}"}, turns)
            pair = await request_certificate(client, settings.name, folder)
            total.update(client.attempts)
        return replace(self._access, client=pair)


def _impersonation(name: str) -> dict[str, str]:
    # The server adds system:authenticated by itself.
    return {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}
