"""Which nodes are Ready and still have no DaemonSet pods: what the service sees in its caches, seen by two watches."""

import asyncio
from collections import Counter
from collections.abc import Callable

from lab.cloud.json_api import Json, JsonApi
from lab.controlplane import ApiAccess
from lab.scaleup.cluster import DAEMON_SETS

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/kube-system/pods"


class BareNodes:
    """`clock` is monotonic; `wanted` is how many DaemonSet pods a node is to have."""

    def __init__(self, clock: Callable[[], float], wanted: int = DAEMON_SETS) -> None:
        self._clock = clock
        self._wanted = wanted
        self._ready_s: dict[str, float] = {}
        self._pods: dict[str, str] = {}

    def waiting_s(self) -> list[float]:
        """For how long each has been Ready without all of its pods."""
        there = Counter(self._pods.values())
        now_s = self._clock()
        return [now_s - since_s for name, since_s in self._ready_s.items() if there[name] < self._wanted]

    def saw_node(self, name: str, node: Json) -> None:
        """As it is now."""
        conditions = node.get("status", {}).get("conditions", ())
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            self._ready_s.setdefault(name, self._clock())

    def saw_pod(self, name: str, pod: Json) -> None:
        """One that has a node exists there."""
        if node := pod["spec"].get("nodeName"):
            self._pods[name] = node

    async def follow(self, access: ApiAccess) -> None:
        """Until cancelled."""
        async with JsonApi(access) as api, asyncio.TaskGroup() as group:
            for path, saw in ((NODES, self.saw_node), (PODS, self.saw_pod)):
                group.create_task(_follow(api, path, saw))


async def _follow(api: JsonApi, path: str, saw: Callable[[str, Json], None]) -> None:
    async for name, node in api.follow(path):
        if node is not None:
            saw(name, node)
