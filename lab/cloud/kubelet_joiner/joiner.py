"""One joiner: the parts of a kubelet that talk to the API, run together."""

from __future__ import annotations

import asyncio
import contextlib

from lab.cloud.kubelet_joiner.client import NodeApi
from lab.cloud.kubelet_joiner.node import LeaseKeeper, StatusReporter, initialise_csi_node, register
from lab.cloud.kubelet_joiner.object_decoding import Pod, read_node_event
from lab.cloud.kubelet_joiner.pod_runs import EventWriter, PodRuns
from lab.cloud.kubelet_joiner.pod_status import PodStatuses
from lab.cloud.kubelet_joiner.reflector import Reflector
from lab.cloud.kubelet_joiner.settings import JoinerSettings

LOOK_FOR_NODE_EVERY_S = 1.0
"""A kubelet asks for its pods once its watch of its own Node is in step, and looks for that once a second."""
WATCHED_BY_ALL = (
    ("/api/v1/services", "spec.clusterIP!=None"),
    ("/apis/storage.k8s.io/v1/csidrivers", None),
    ("/apis/node.k8s.io/v1/runtimeclasses", None),
)


class Milestones:
    """When (on the event loop's clock) the steps of a join were reached."""

    def __init__(self, daemon_pods: int) -> None:
        self._daemon_pods = daemon_pods
        self.registered_s: float | None = None
        self.ready_s: float | None = None
        self.daemons_ready_s: float | None = None
        self.is_done = asyncio.Event()
        self.note_daemons(0)

    def note_registered(self) -> None:
        """The Node exists."""
        self.registered_s = asyncio.get_running_loop().time()

    def note_ready(self) -> None:
        """The API says that the node is Ready."""
        if self.ready_s is None:
            self.ready_s = asyncio.get_running_loop().time()
        self._look()

    def note_daemons(self, running: int) -> None:
        """The API says how many DaemonSet pods run there."""
        if self.daemons_ready_s is None and running >= self._daemon_pods:
            self.daemons_ready_s = asyncio.get_running_loop().time()
        self._look()

    def _look(self) -> None:
        if self.ready_s is not None and self.daemons_ready_s is not None:
            self.is_done.set()


class Joiner:
    """A machine without a machine; `run` is its life, `milestones` tell how far its join is."""

    def __init__(self, settings: JoinerSettings, api: NodeApi) -> None:
        self.settings = settings
        self.milestones = Milestones(settings.daemon_pods)
        self._api = api
        self._images: set[str] = set()
        self._devices: dict[str, int | str] = {}
        self._events = EventWriter(api, settings.name) if settings.reports_events else None

    async def run(self) -> None:
        """Join and then live on (leases, reports, pods) until cancelled; every task ends with it."""
        may_be_ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            own_node = Reflector(
                self._api, "/api/v1/nodes", f"metadata.name={self.settings.name}", self._take_node_line
            )
            for path, selector in WATCHED_BY_ALL:
                group.create_task(Reflector(self._api, path, selector).run())
            group.create_task(own_node.run())
            group.create_task(LeaseKeeper(self._api, self.settings.name).run())
            group.create_task(self._initialise_storage(may_be_ready))
            group.create_task(self._register_and_report(may_be_ready))
            group.create_task(self._run_pods(group, own_node.is_answered))
            if self._events is not None:
                self._events.node_started()
                group.create_task(self._events.run())

    async def _initialise_storage(self, may_be_ready: asyncio.Event) -> None:
        await initialise_csi_node(self._api, self.settings.name)
        may_be_ready.set()

    async def _register_and_report(self, may_be_ready: asyncio.Event) -> None:
        reporter = StatusReporter(self._api, self.settings.name, self._images, self._devices)
        await register(self._api, self.settings)
        self.milestones.note_registered()
        await reporter.run(may_be_ready)

    async def _run_pods(self, group: asyncio.TaskGroup, node_is_known: asyncio.Event) -> None:
        await asyncio.sleep(LOOK_FOR_NODE_EVERY_S)
        while not node_is_known.is_set():
            await asyncio.sleep(LOOK_FOR_NODE_EVERY_S)
        statuses = PodStatuses(self._api)
        runs = PodRuns(
            self._api,
            statuses,
            self._images,
            self._events,
            image_pull_s=self.settings.image_pull_s,
            spawn=group.create_task,
            on_daemons=self.milestones.note_daemons,
            on_started=self._note_devices,
        )
        pods = Reflector(self._api, "/api/v1/pods", f"spec.nodeName={self.settings.name}", runs.take)
        group.create_task(statuses.run())
        group.create_task(pods.run())

    def _note_devices(self, pod: Pod) -> None:
        if pod.is_of(self.settings.device_plugin):
            self._devices |= self.settings.extended_resources

    def _take_node_line(self, line: bytes) -> None:
        event = read_node_event(line)
        if event is None or event.type == "DELETED" or not event.object.is_ready:
            return
        if self.milestones.ready_s is None and self._events is not None:
            self._events.node_is_ready()
        # A Node that somebody else made Ready before its machine came does not count.
        if self.milestones.registered_s is not None:
            self.milestones.note_ready()


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end, whatever it was."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait([task])
