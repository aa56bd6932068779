"""The Events of a real kubelet, which a hollow node does not write. Known from source, not compared with a real one."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import msgspec

from lab.cloud.joiner.node_api import NodeApi
from lab.cloud.joiner.pod import Pod
from lab.cloud.joiner.wall_clock import timestamp

TRIES, RETRY_AFTER_S = 12, 10.0
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
        for attempt in range(TRIES):
            answer = await self._api.send("POST", path, body)
            # Whatever the server refuses for good is dropped, as by client-go.
            if answer.status and answer.status < 500 and answer.status != 429:
                return
            await asyncio.sleep(RETRY_AFTER_S * (random.random() if attempt == 0 else 1.0))

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
