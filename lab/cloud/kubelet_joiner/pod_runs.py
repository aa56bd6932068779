"""What a kubelet does with the pods bound to its node: watches what they refer to, gets tokens, starts, ends, tells."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from lab.cloud.kubelet_joiner.client import NodeApi, growing_waits_s
from lab.cloud.kubelet_joiner.object_bodies import timestamp
from lab.cloud.kubelet_joiner.object_decoding import Pod, TokenSource, read_pod_event
from lab.cloud.kubelet_joiner.pod_status import PodStatuses, Stage
from lab.cloud.kubelet_joiner.reflector import Reflector

EVENT_TRIES, EVENT_RETRY_AFTER_S = 12, 10.0
"""client-go, tools/record: an Event is tried twelve times, 10 s apart, the first wait shortened at random."""
AT_START = ("Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID")
PER_CONTAINER = ("Pulled", "Created", "Started")


class EventWriter:
    """Writes Events one after the other."""

    def __init__(self, api: NodeApi, node_name: str) -> None:
        self._api = api
        self._node_name = node_name
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._news = asyncio.Event()

    def node_started(self) -> None:
        """Tell that the kubelet began."""
        for reason in AT_START:
            self._add_about_node(reason)

    def node_is_ready(self) -> None:
        """Tell that the node became Ready."""
        self._add_about_node("NodeReady")

    def pod_started(self, pod: Pod) -> None:
        """Tell that all containers of a pod run."""
        meta = pod.metadata
        about = {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        for container in pod.spec.containers:
            for reason in PER_CONTAINER:
                self._add(about | {"fieldPath": f"spec.containers{{{container.name}}}"}, meta.namespace, reason)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._news.wait()
            while self._waiting:
                await self._write(*self._waiting.popleft())
            self._news.clear()

    async def _write(self, path: str, body: bytes) -> None:
        for attempt in range(EVENT_TRIES):
            answer = await self._api.send("POST", path, body)
            # Whatever the server refuses for good is dropped, as by client-go.
            if answer.status and answer.status < 500 and answer.status != 429:
                return
            await asyncio.sleep(EVENT_RETRY_AFTER_S * (random.random() if attempt == 0 else 1.0))

    def _add_about_node(self, reason: str) -> None:
        self._add({"kind": "Node", "name": self._node_name, "uid": self._node_name}, "default", reason)

    def _add(self, about: dict[str, str], namespace: str, reason: str) -> None:
        now = timestamp()
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": f"{about['name']}.{random.getrandbits(64):016x}", "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": f"{reason} ({about['kind']} {about['name']})",
            "source": {"component": "kubelet", "host": self._node_name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Normal",
            "reportingComponent": "kubelet",
            "reportingInstance": self._node_name,
        }
        self._waiting.append((f"/api/v1/namespaces/{namespace}/events", msgspec.json.encode(event)))
        self._news.set()


MOUNT_AFTER_S = (0.1, 0.21)
"""Two loops of 100 ms (desired state, reconciler) pass before a volume is set up."""
LOOK_FOR_VOLUMES_EVERY_S = 0.3
"""podAttachAndMountRetryInterval: a pod starts at the first such beat at which its volumes are there."""
SANDBOX_SPREAD_S = 0.008
RUNNING_AFTER_S = (0.008, 0.015)
"""Observed on hollow nodes: how far sandboxes of one moment lie apart, and how long a container then needs."""
TOKEN_BACKOFF_S, LONGEST_TOKEN_BACKOFF_S = 0.5, 122.0
"""kubelet's backoff of a failed volume operation."""
KILL_S = 0.3
"""Observed on a hollow node: from the deletion of a pod to its end."""

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class PodRuns:
    """The pods of one node; feed it the lines of the watch with `take`.

    `spawn` starts a task that ends with the node. `on_daemons` is called with the number of DaemonSet pods that
    run and are ready, as the API says, whenever it changes; `on_started` with each pod whose containers began to run.
    """

    def __init__(
        self,
        api: NodeApi,
        statuses: PodStatuses,
        images: set[str],
        events: EventWriter | None,
        *,
        image_pull_s: float,
        spawn: Spawn,
        on_daemons: Callable[[int], None],
        on_started: Callable[[Pod], None],
    ) -> None:
        self._api = api
        self._statuses = statuses
        self._images = images
        self._events = events
        self._image_pull_s = image_pull_s
        self._spawn = spawn
        self._on_daemons = on_daemons
        self._on_started = on_started
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[str] = set()
        self._daemons: set[str] = set()
        self._watched: dict[tuple[str, str, str], tuple[set[str], asyncio.Task[None]]] = {}

    def take(self, line: bytes) -> None:
        """Act on one line of the watch of the node's pods."""
        event = read_pod_event(line)
        if event is None:
            return
        pod = event.object
        self._count_daemon(pod, is_there=event.type != "DELETED")
        self._statuses.saw(pod)
        if event.type == "DELETED":
            self._forget(pod)
        elif pod.metadata.deletion_timestamp is not None:
            self._end(pod)
        elif pod.metadata.uid not in self._tasks and not pod.is_over:
            self._tasks[pod.metadata.uid] = self._spawn(self._run(pod))

    def _count_daemon(self, pod: Pod, *, is_there: bool) -> None:
        if not pod.is_of_daemon_set:
            return
        if is_there and pod.is_running_and_ready and pod.metadata.deletion_timestamp is None:
            self._daemons.add(pod.metadata.uid)
        else:
            self._daemons.discard(pod.metadata.uid)
        self._on_daemons(len(self._daemons))

    def _end(self, pod: Pod) -> None:
        if pod.metadata.uid in self._ending:
            return
        self._ending.add(pod.metadata.uid)
        if task := self._tasks.pop(pod.metadata.uid, None):
            task.cancel()
        self._tasks[pod.metadata.uid] = self._spawn(self._kill(pod))

    def _forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._statuses.forget(uid)
        self._ending.discard(uid)
        if task := self._tasks.pop(uid, None):
            task.cancel()
        for key, (users, watch) in list(self._watched.items()):
            users.discard(uid)
            if not users:
                watch.cancel()
                del self._watched[key]

    async def _run(self, pod: Pod) -> None:
        if pod.is_running_and_ready:
            # A restarted node: the API knows already, only what is mounted must be followed again.
            self._statuses.report(pod, Stage.RUNNING, known=Stage.RUNNING)
            self._on_started(pod)
            return self._watch_references(pod)
        clock = asyncio.get_running_loop().time
        arrived_at = clock()
        self._statuses.report(pod, Stage.ACCEPTED)
        self._watch_references(pod)
        await asyncio.sleep(random.uniform(*MOUNT_AFTER_S))
        await asyncio.gather(*(self._get_token(pod, source) for source in pod.token_sources))
        beats = max(1, math.ceil((clock() - arrived_at) / LOOK_FOR_VOLUMES_EVERY_S))
        await asyncio.sleep(arrived_at + beats * LOOK_FOR_VOLUMES_EVERY_S - clock())
        await self._start(pod)
        return None

    async def _start(self, pod: Pod) -> None:
        await asyncio.sleep(random.uniform(0.0, SANDBOX_SPREAD_S))
        self._statuses.report(pod, Stage.SANDBOX)
        await asyncio.sleep(self._image_pull_s + random.uniform(*RUNNING_AFTER_S))
        self._images.update(container.image for container in pod.spec.containers)
        if self._events is not None:
            self._events.pod_started(pod)
        self._statuses.report(pod, Stage.RUNNING)
        self._on_started(pod)

    async def _kill(self, pod: Pod) -> None:
        await asyncio.sleep(KILL_S)
        self._statuses.report(pod, Stage.ENDED, known=Stage.RUNNING if pod.is_running_and_ready else Stage.NEW)

    def _watch_references(self, pod: Pod) -> None:
        """Watch each object that the pod refers to, once per node however many pods do."""
        namespace = pod.metadata.namespace
        for resource, name in sorted(pod.referenced_objects()):
            key = (namespace, resource, name)
            if key not in self._watched:
                path = f"/api/v1/namespaces/{namespace}/{resource}"
                reflector = Reflector(self._api, path, f"metadata.name={name}")
                self._watched[key] = (set(), self._spawn(reflector.run()))
            self._watched[key][0].add(pod.metadata.uid)

    async def _get_token(self, pod: Pod, source: TokenSource) -> None:
        account = f"/api/v1/namespaces/{pod.metadata.namespace}/serviceaccounts/{pod.spec.service_account_name}"
        body = _token_request(pod, source)
        for wait_s in growing_waits_s(TOKEN_BACKOFF_S, 2.0, LONGEST_TOKEN_BACKOFF_S):
            if (await self._api.send("POST", f"{account}/token", body)).is_ok:
                return
            await asyncio.sleep(wait_s)


def _token_request(pod: Pod, source: TokenSource) -> bytes:
    meta = pod.metadata
    spec = {
        "audiences": [source.audience] if source.audience else None,
        "expirationSeconds": source.expiration_seconds,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid},
    }
    return msgspec.json.encode({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec})
