"""A control plane: starts its components in order, hands out credentials, reads its audit log, and ends everything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.binaries import CONTROL_PLANE_BINARIES, find_binaries
from lab.controlplane import command_lines
from lab.controlplane.component import Component, ComponentSpec
from lab.controlplane.credentials import ApiAccess, CertificateAuthority, KeyPair
from lab.controlplane.plain_requests import Json, PlainRequests
from lab.controlplane.ports import free_port
from lab.controlplane.settings import ApiServerSettings, ControlPlaneSettings
from lab.errors import LabError
from lab.processes import ProcessGroup

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  # The options of a deletion (preconditions, grace) are in its body.
  - level: Request
    verbs: [delete, deletecollection]
  - level: Metadata
"""
"""Every request is recorded once it is answered (a watch also when it starts), deletions with their body."""


def read_audit_log(path: Path, holding: str = "") -> Iterator[dict[str, Any]]:
    """Yield the events of one API server's audit log; a line that is still being written is left out.

    Only events that hold the text somewhere, which is found far sooner than they are decoded.
    Each event has a user name: the empty one where a server ended before it knew whose request it was.
    """
    if not path.exists():
        return
    with path.open() as lines:
        for line in lines:
            if holding in line and line.endswith("\n"):
                event = json.loads(line)
                event.setdefault("user", {}).setdefault("username", "")
                yield event


CRD_KIND = "CustomResourceDefinition"
LOOK_AGAIN_S = 0.2
TOKEN_S = 8 * 3600
ADMIN = "admin"
ADMIN_GROUPS = ("system:masters",)


@dataclass(frozen=True)
class _Paths:
    """Where the files of a plane lie below its directory."""

    root: Path

    def log(self, component: str) -> Path:
        return self.root / "logs" / f"{component}.log"

    def audit(self, server: str) -> Path:
        return self.root / "audit" / f"{server}.log"


class ControlPlane:
    """A running control plane; made by `start_control_plane`, or constructed, started and closed.

    Nothing of it is bound to an event loop or a thread: a session-wide plane serves tests with a loop each.
    Components are called `etcd`, `kube-apiserver-0` (and on), `kube-controller-manager`, `kube-scheduler`.
    The constructor finds the binaries and may therefore take minutes the first time.
    """

    def __init__(self, settings: ControlPlaneSettings | None = None) -> None:
        self.settings = settings or ControlPlaneSettings()
        self.binaries = find_binaries(CONTROL_PLANE_BINARIES)
        directory = self.settings.directory
        self.directory = directory or Path(tempfile.mkdtemp(prefix="kube-balloons-lab-"))
        self.processes = ProcessGroup(remove_at_end=None if directory else self.directory)
        self._paths = _Paths(self.directory)
        for folder in ("logs", "audit", "kubeconfigs"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        self._authority = CertificateAuthority(self.directory / "certificates")
        self._clients: dict[tuple[str, tuple[str, ...]], KeyPair] = {}
        self.requests = PlainRequests(self.access)
        self._files = command_lines.PlaneFiles(
            ca=self._authority.pair,
            serving=self._authority.issue_server("serving"),
            service_account_key=self._authority.new_key("service-accounts"),
        )
        self._server_ports = tuple(free_port() for _ in self.settings.api_servers)
        self._components = {component.spec.name: component for component in self._make_components()}

    async def start(self) -> None:
        """Start every component and return when each is ready; raises LabError and ends all if one is not."""
        try:
            await self._start_and_wait(["etcd"])
            # Several that begin on an empty etcd make the same objects, and one of them may end for it: "unable to
            # perform initial IP and Port allocation check", because another has made the address of the first Service.
            first, *others = (name for name in self._components if "apiserver" in name)
            await self._start_and_wait([first])
            await self._start_and_wait(others)
            await self._start_and_wait([n for n in self._components if n.endswith(("manager", "scheduler"))])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill every process of the plane, machines included, and remove its temporary folder."""
        self.requests.close()
        self.processes.close()

    # --- addresses and credentials ---

    @property
    def etcd_url(self) -> str:
        """Where etcd serves its clients, without TLS and without asking who they are."""
        return self._component("etcd").spec.ready_urls[0].rsplit("/", 1)[0]

    @property
    def server_urls(self) -> tuple[str, ...]:
        """The address of each API server."""
        return tuple(f"https://127.0.0.1:{port}" for port in self._server_ports)

    def access(self, user: str = ADMIN, groups: Sequence[str] | None = None, server: int = 0) -> ApiAccess:
        """Return address and client certificate for `user`; without groups, `admin` is in system:masters."""
        if groups is None:
            groups = ADMIN_GROUPS if user == ADMIN else ()
        return ApiAccess(self.server_urls[server], self._files.ca.certificate, self._client(user, groups))

    def kubeconfig(self, user: str = ADMIN, server: int = 0) -> Path:
        """Return a kubeconfig of `user` (by default the administrator) for one of the API servers."""
        return self.kubeconfig_for(user, None, server)

    def kubeconfig_for(self, user: str, groups: Sequence[str] | None = (), server: int = 0) -> Path:
        """Return a kubeconfig with a client certificate for `user` in `groups`."""
        access = self.access(user, groups, server)
        path = self.directory / "kubeconfigs" / f"{access.client.certificate.stem}-server-{server}.yaml"
        return path if path.exists() else access.write_kubeconfig(path)

    def service_account_kubeconfig(self, namespace: str, name: str, server: int = 0) -> Path:
        """Return a kubeconfig with a fresh token (TokenRequest, 8 h) of an existing ServiceAccount."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        answer = self.requests.send("POST", f"{account}/token", {"spec": {"expirationSeconds": TOKEN_S}})
        token = answer["status"]["token"]
        path = self.directory / "kubeconfigs" / f"serviceaccount-{namespace}-{name}-server-{server}.yaml"
        return self.access(server=server).write_token_kubeconfig(path, token)

    # --- looking at it ---

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - as in subprocess.run
        """Run the real kubectl as administrator, return what it prints; raises LabError with its error."""
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig()),
            # Its cache is keyed by address, and another plane had this port before.
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
        }
        command = [str(self.binaries["kubectl"]), *arguments]
        answer = subprocess.run(command, input=input, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise LabError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    async def kubectl_async(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Do the same without holding up the event loop."""
        return await asyncio.to_thread(self.kubectl, *arguments, input=input)

    def get(self, what: str, name: str = "", *, namespace: str | None = "default", labels: str = "") -> Json:
        """Return one object, or the list of what has these labels; in all namespaces if that is None.

        `what` is called as for kubectl, which takes many times the CPU; the object has its managed fields.
        Raises LabError with what the server says.
        """
        return self.requests.read(what, name, namespace, labels)

    async def get_async(
        self, what: str, name: str = "", *, namespace: str | None = "default", labels: str = ""
    ) -> Json:
        """Do the same without holding up the event loop."""
        return await asyncio.to_thread(self.get, what, name, namespace=namespace, labels=labels)

    def try_to_create(self, manifest: Mapping[str, Any], namespace: str = "default") -> Json:
        """Return what the server would store, defaults included; raises LabError with what it says if it refuses."""
        return self.requests.try_to_create(manifest, namespace)

    def apply(self, *manifests: Mapping[str, Any], namespace: str = "default", manager: str = "kubectl") -> None:
        """Do as `kubectl apply --server-side` in a twentieth of its CPU; raises LabError with what the server says."""
        for manifest in manifests:
            self.requests.apply(manifest, namespace, manager=manager)

    async def apply_async(
        self, *manifests: Mapping[str, Any], namespace: str = "default", manager: str = "kubectl"
    ) -> None:
        """Do the same without holding up the event loop."""
        await asyncio.to_thread(self.apply, *manifests, namespace=namespace, manager=manager)

    async def patch_async(
        self, what: str, name: str, change: Mapping[str, Any], *, namespace: str = "default", subresource: str = ""
    ) -> None:
        """Do as `kubectl patch --type=merge`, as cheaply; raises LabError with what the server says."""
        await asyncio.to_thread(self.requests.patch, what, name, change, namespace, subresource)

    async def delete_async(self, what: str, name: str, *, namespace: str = "default") -> None:
        """Delete an object if there is one, and do not wait until it is gone."""
        await asyncio.to_thread(self.requests.delete, what, name, namespace)

    async def install(self, *manifests: Mapping[str, Any]) -> None:
        """Apply them, and return once the kinds of the CRDs among them can be asked for; raises LabError."""
        await self.apply_async(*manifests)
        crds = {thing["metadata"]["name"]: thing["spec"] for thing in manifests if thing["kind"] == CRD_KIND}
        deadline = time.monotonic() + self.settings.start_deadline_s
        while missing := await asyncio.to_thread(self._not_established, crds):
            if time.monotonic() > deadline:
                raise LabError(f"not established: {', '.join(missing)}")
            await asyncio.sleep(LOOK_AGAIN_S)
        # The server tells clients of a new kind a moment later.
        for spec in crds.values():
            version = next(version["name"] for version in spec["versions"] if version["served"])
            await self.get_async(f"{spec['group']}/{version}/{spec['names']['kind']}", namespace=None)

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self._component(component).spec.log

    @property
    def audit_logs(self) -> tuple[Path, ...]:
        """The audit log of each API server; empty without `audit`."""
        if not self.settings.audit:
            return ()
        return tuple(self._paths.audit(_server_name(number)) for number in range(len(self._server_ports)))

    def audit_events(self, holding: str = "") -> Iterator[dict[str, Any]]:
        """Yield the requests recorded so far that hold the text somewhere, such as a user's name; server by server."""
        for log in self.audit_logs:
            yield from read_audit_log(log, holding)

    def metrics_url(self, component: str) -> str:
        """Return where it serves /metrics (an API server asks for a credential, the others do not)."""
        return self._component(component).spec.ready_urls[0].rsplit("/", 1)[0] + "/metrics"

    # --- chaos ---

    @property
    def component_names(self) -> tuple[str, ...]:
        """The names of all components, in the order in which they start."""
        return tuple(self._components)

    def is_running(self, component: str) -> bool:
        """Return whether the component's process exists (a paused one does)."""
        return self._component(component).is_running

    def pid(self, component: str) -> int:
        """Return the process id of a running component."""
        return self._component(component).pid

    def kill(self, component: str) -> None:
        """Kill a component as a crash would; it stays down until `restart`."""
        self._component(component).kill()

    def pause(self, component: str) -> None:
        """Freeze a component (SIGSTOP): connections stay open, nothing answers."""
        self._component(component).pause()

    def resume(self, component: str) -> None:
        """Let a frozen component go on."""
        self._component(component).resume()

    async def restart(self, component: str) -> None:
        """Start a component again, at the same address and with the same data, and wait until it is ready."""
        target = self._component(component)
        if target.is_running:
            target.kill()
        await self._start_and_wait([component])

    # --- the parts ---

    def _not_established(self, crds: Iterable[str]) -> list[str]:
        known = {crd["metadata"]["name"]: crd for crd in self.get("customresourcedefinitions")["items"]}
        return [name for name in crds if not _is_established(known.get(name, {}))]

    async def _start_and_wait(self, names: Sequence[str]) -> None:
        for name in names:
            self._component(name).start()
        for name in names:
            await self._component(name).wait_until_ready(self.settings.start_deadline_s)

    def _component(self, name: str) -> Component:
        if name not in self._components:
            raise LabError(f"no component is called {name!r}; there are {', '.join(self._components)}")
        return self._components[name]

    def _client(self, user: str, groups: Sequence[str]) -> KeyPair:
        key = (user, tuple(groups))
        if key not in self._clients:
            file_name = f"client-{len(self._clients)}"
            self._clients[key] = self._authority.issue_client(file_name, user, groups)
        return self._clients[key]

    def _make_components(self) -> Iterator[Component]:
        etcd_url = f"http://127.0.0.1:{free_port()}"
        data = self.directory / "etcd"
        flags = command_lines.etcd_flags(data, etcd_url, is_durable=self.settings.etcd_is_durable)
        yield self._component_of("etcd", "etcd", flags, (f"{etcd_url}/health",))
        for number, server in enumerate(self.settings.api_servers):
            yield self._make_api_server(number, server, etcd_url)
        if (manager := self.settings.controller_manager) is not None:
            port, kubeconfig = free_port(), self.kubeconfig_for("lab:controller-manager", ADMIN_GROUPS)
            flags = command_lines.controller_manager_flags(manager, self._files, port, kubeconfig)
            # Without this account the API server refuses every pod of the namespace.
            account = f"{self.server_urls[0]}/api/v1/namespaces/default/serviceaccounts/default"
            yield self._secure_component("kube-controller-manager", flags, port, account)
        if (scheduler := self.settings.scheduler) is not None:
            port, kubeconfig = free_port(), self.kubeconfig_for("system:kube-scheduler")
            flags = command_lines.scheduler_flags(scheduler, self._files, port, kubeconfig)
            yield self._secure_component("kube-scheduler", flags, port)

    def _make_api_server(self, number: int, server: ApiServerSettings, etcd_url: str) -> Component:
        name, port = _server_name(number), self._server_ports[number]
        has_controllers = self.settings.controller_manager is not None
        flags = command_lines.api_server_flags(server, self._files, port, etcd_url, has_controllers=has_controllers)
        if self.settings.audit:
            policy = self.directory / "audit" / "policy.yaml"
            policy.write_text(POLICY)
            flags += command_lines.audit_flags(policy, self._paths.audit(name))
        environment = {"GOMAXPROCS": str(server.gomaxprocs)} if server.gomaxprocs else {}
        url = f"https://127.0.0.1:{port}/readyz"
        return self._component_of(name, "kube-apiserver", flags, (url,), environment)

    def _secure_component(self, name: str, flags: list[str], port: int, *more_urls: str) -> Component:
        return self._component_of(name, name, flags, (f"https://127.0.0.1:{port}/healthz", *more_urls))

    def _component_of(
        self,
        name: str,
        binary: str,
        flags: list[str],
        ready_urls: tuple[str, ...],
        environment: dict[str, str] | None = None,
    ) -> Component:
        spec = ComponentSpec(
            name=name,
            command=[str(self.binaries[binary]), *flags],
            ready_urls=ready_urls,
            tls=self.access().ssl_context() if ready_urls[0].startswith("https") else None,
            log=self._paths.log(name),
            environment={**os.environ, **(environment or {})},
        )
        return Component(spec, self.processes)


def _is_established(crd: Json) -> bool:
    # Of a CRD that was created a moment ago the conditions are null.
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _server_name(number: int) -> str:
    return f"kube-apiserver-{number}"


@contextlib.asynccontextmanager
async def start_control_plane(settings: ControlPlaneSettings | None = None) -> AsyncIterator[ControlPlane]:
    """Start a control plane, ready to be used, and end it with everything that runs on it."""
    plane = ControlPlane(settings)
    try:
        await plane.start()
        yield plane
    finally:
        plane.close()
