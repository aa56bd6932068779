"""A flood of slow writes by many accounts, one of them louder than its queues are long; on loopback, bounded, dry runs.

Each write is held by a webhook that takes its time, as slow webhooks do: it keeps its seat, and costs no core.
"""

import asyncio
import base64
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

import aiohttp

from lab.controlplane import ControlPlane, binding
from lab.controlplane.credentials import CertificateAuthority

NAMESPACE = "flood"
HELD_S = 2.0
"""How long each write keeps its seat."""
LOUD, OTHERS, EACH = 350, 30, 4
"""Requests in flight of one account (its six queues of 50 take 300), other accounts, and the requests of each."""
REST_S = 1.0
"""After a refusal, as the server asks for."""


@asynccontextmanager
async def slow_writes(plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    """A namespace in which every ConfigMap takes `HELD_S` to be written, and in which the flood may write."""
    authority = CertificateAuthority(folder)
    pair = authority.issue_server("webhook")
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = _Hooks(("127.0.0.1", 0), _SlowHook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = asyncio.create_task(asyncio.to_thread(server.serve_forever))
    try:
        hook = _webhook(server.server_port, authority.pair.certificate)
        await plane.apply_async({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        accounts = {"kind": "Group", "name": f"system:serviceaccounts:{NAMESPACE}"}
        await plane.apply_async(binding("flood", "edit", accounts, namespace=NAMESPACE), hook)
        while await _takes_s(plane) < HELD_S:
            await asyncio.sleep(0.2)
        yield
    finally:
        await asyncio.to_thread(server.shutdown)
        await serving
        server.server_close()


@asynccontextmanager
async def flood(plane: ControlPlane) -> AsyncIterator[Counter[int]]:
    """Flood the server until left; counts what it answered by status code."""
    answers = Counter[int]()
    accounts = [*["loud"] * LOUD, *(f"other-{number}" for number in range(OTHERS) for _ in range(EACH))]
    connector = aiohttp.TCPConnector(ssl=plane.access().ssl_context(), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [asyncio.create_task(_write_for_ever(plane, session, account, answers)) for account in accounts]
        try:
            yield answers
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        assert isinstance(end, asyncio.CancelledError), end


async def _write_for_ever(
    plane: ControlPlane, session: aiohttp.ClientSession, account: str, answers: Counter[int]
) -> None:
    url = f"{plane.server_urls[0]}/api/v1/namespaces/{NAMESPACE}/configmaps?dryRun=All"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "flood-"}}
    # Impersonated: thirty tokens would be asked for first.
    headers = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{account}"}
    while True:
        async with session.post(url, json=body, headers=headers) as answer:
            answers[answer.status] += 1
            await answer.read()
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            await asyncio.sleep(REST_S)


class _Hooks(ThreadingHTTPServer):
    """All seats of the server may ask at the same time."""

    request_queue_size = 128


class _SlowHook(BaseHTTPRequestHandler):
    """One connection per review, closed after it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(HELD_S)
        response = {"uid": asked["request"]["uid"], "allowed": True}
        body = json.dumps({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # The API server does not wait for reviews of requests that were given up.
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
        """Not on standard error."""


async def _takes_s(plane: ControlPlane) -> float:
    """How long one write takes for the administrator, whom no queue holds."""
    begun = time.monotonic()
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
    await asyncio.to_thread(plane.try_to_create, probe, NAMESPACE)
    return time.monotonic() - begun


def _webhook(port: int, ca: Path) -> dict[str, Any]:
    client = {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(ca.read_bytes()).decode()}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    webhook = {
        "name": "slow.flood.example.com",
        "clientConfig": client,
        "rules": [rule],
        "namespaceSelector": where,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [webhook],
    }
