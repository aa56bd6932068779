"""Real kubelets (hollow nodes) that join when told to."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

from lab.cloud.json_api import Json, JsonApi
from lab.cloud.kubelet_joiner import JoinerSettings, JoinRecord
from lab.cloud.machines import HollowNodes, HollowNodeSettings
from lab.controlplane import ControlPlane

DEADLINE_S = 600.0
PODS, NODES = "/api/v1/namespaces/kube-system/pods", "/api/v1/nodes"


class Kubelets:
    """A join begins with the start of the kubelet's process and ends as a joiner's does."""

    def __init__(self, plane: ControlPlane, hollow: HollowNodes) -> None:
        self._plane = plane
        self._hollow = hollow
        self._ready: dict[str, float] = {}
        self._running: dict[str, set[str]] = defaultdict(set)
        self._changed = asyncio.Event()

    async def join(self, settings: JoinerSettings) -> JoinRecord:
        """Start one kubelet and wait until its node is usable."""
        clock = asyncio.get_running_loop().time
        admitted_s = clock()
        await asyncio.to_thread(self._hollow.launch, HollowNodeSettings(name=settings.name))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                while not self._is_usable(settings):
                    await self._changed.wait()
        is_usable = self._is_usable(settings)
        return JoinRecord(
            name=settings.name,
            requested_s=admitted_s,
            admitted_s=admitted_s,
            ready_s=self._ready.get(settings.name),
            daemons_ready_s=clock() if is_usable else None,
        )

    async def follow(self) -> None:
        """Watch nodes and DaemonSet pods until cancelled."""
        async with (
            JsonApi(self._plane.access("lab:benchmark", ("system:masters",))) as api,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._follow_nodes(api))
            group.create_task(self._follow_pods(api))

    def _is_usable(self, settings: JoinerSettings) -> bool:
        return settings.name in self._ready and len(self._running[settings.name]) >= settings.daemon_pods

    async def _follow_nodes(self, api: JsonApi) -> None:
        async for name, node in api.follow(NODES):
            if node is not None and name not in self._ready and _is_ready(node):
                self._ready[name] = asyncio.get_running_loop().time()
                self._tell()

    async def _follow_pods(self, api: JsonApi) -> None:
        async for name, pod in api.follow(PODS):
            if pod is not None and pod.get("status", {}).get("phase") == "Running":
                self._running[pod["spec"]["nodeName"]].add(name)
                self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _is_ready(node: Json) -> bool:
    conditions = Counter((c["type"], c["status"]) for c in node.get("status", {}).get("conditions", ()))
    return conditions["Ready", "True"] > 0


@contextlib.asynccontextmanager
async def open_kubelets(plane: ControlPlane) -> AsyncIterator[Kubelets]:
    """Kubelets of one control plane; all of them end when this is left."""
    async with HollowNodes(plane) as hollow:
        kubelets = Kubelets(plane, hollow)
        following = asyncio.create_task(kubelets.follow())
        try:
            yield kubelets
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
