"""A JoinThrottle on a real Karpenter, `balloons run` beside it, and what the tests ask of them."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type
from lab.controlplane import ControlPlane
from lab.demo.service import bind_to_service
from lab.processes import logged
from tests.lab.cluster_view import ClusterView, until

NODE_POOL = "/apis/karpenter.sh/v1/nodepools/default"
THROTTLES = "/apis/kube-balloons.github.io/v1alpha1/jointhrottles"
SYSTEM = "kube-balloons"
USERS_LIMITS = {"cpu": "1000", "memory": "10Ti"}
WHOLE_NODE = "7"
WINDOW = 8
PATIENCE_S = 180.0


def karpenter_settings(boot_s: float = 2.0) -> KarpenterSettings:
    pool = NodePoolSettings(consolidate_after_s=None, limits=USERS_LIMITS, labels={"team": "a"})
    boot_time = BootTime(median_s=boot_s, jitter=0.2)
    return KarpenterSettings(node_pools=(pool,), instance_types=(paper_type("paper-8", 8, 32),), boot_time=boot_time)


def throttle_object(**spec: Any) -> Json:
    """A throttle that lets at most `WINDOW` machines be in flight."""
    window = {"initial": WINDOW, "min": 2, "max": WINDOW}
    given = {"window": window, "maxInFlight": WINDOW, "levers": {"nodePoolLimits": {}}, **spec}
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "JoinThrottle"}
    return {**kind, "metadata": {"name": "default"}, "spec": given}


async def allow_levers(plane: ControlPlane) -> None:
    """Bind the right to write NodePools, as docs/jointhrottle.md says."""
    await plane.apply_async(bind_to_service("kube-balloons-node-pools"))


class ThrottleService:
    """`balloons run`, which may be killed and started again."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        self._plane, self._logs = plane, logs
        self._processes: list[subprocess.Popen[bytes]] = []

    async def start(self, *options: str) -> None:
        path = await asyncio.to_thread(self._plane.service_account_kubeconfig, SYSTEM, "kube-balloons")
        command = [sys.executable, "-m", "balloons", "run", "--kubeconfig", str(path), "--metrics-address", "off"]
        log = self._logs / f"service-{len(self._processes)}.log"
        self._processes.append(self._plane.processes.spawn([*command, *options], log=log))

    async def end(self, how: signal.Signals) -> int:
        """Send the signal; returns the exit code."""
        process = self._processes[-1]
        process.send_signal(how)
        return await asyncio.to_thread(process.wait, PATIENCE_S)

    def lines(self, event: str) -> list[Json]:
        """What the last one logged about one event."""
        log = self._logs / f"service-{len(self._processes) - 1}.log"
        return [each for each in logged(log) if each["event"] == event]

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()


class ThrottleView(ClusterView):
    """The throttle's status, the NodePool, and a record of what was in flight."""

    def __init__(self, api: JsonApi) -> None:
        super().__init__(api)
        self.most_in_flight = 0

    async def throttle(self) -> Json:
        """The status."""
        found: Json = (await self.api.get(f"{THROTTLES}/default") or {}).get("status", {})
        return found

    async def wait_throttle(self, **wanted: Any) -> None:
        async def is_so() -> bool:
            return wanted.items() <= (await self.throttle()).items()

        await until(f"the throttle says {wanted}", is_so)

    async def pool(self) -> Json:
        found = await self.api.get(NODE_POOL)
        assert found is not None
        return found

    async def limits(self) -> Json:
        found: Json = (await self.pool())["spec"].get("limits") or {}
        return found

    async def trace(self) -> Json:
        """What of the NodePool must be the same before and after."""
        metadata = (pool := await self.pool())["metadata"]
        notes = {k: v for k, v in metadata.get("annotations", {}).items() if not k.startswith("karpenter.sh/")}
        return {"limits": pool["spec"].get("limits"), "labels": metadata.get("labels"), "annotations": notes}

    async def in_flight(self) -> int:
        """Machines that were ordered and whose Node is not Ready."""
        claims, nodes = await self.claims(), await self.nodes()
        ready = [name for name, node in nodes.items() if is_ready(node)]
        return len(claims) - len(ready)

    async def until_running(self, app: str, count: int, deadline_s: float = 400) -> None:
        """Wait for the pods, and note how many machines were in flight meanwhile."""

        async def has_them() -> bool:
            self.most_in_flight = max(self.most_in_flight, await self.in_flight())
            return len(await self.node_of(app)) >= count

        await until(f"{count} pods of {app} run", has_them, deadline_s)

    async def until_as(self, before: Json) -> None:
        async def is_so() -> bool:
            return await self.trace() == before

        await until("the NodePool is as before", is_so, PATIENCE_S)


def is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def throttled(
    plane: ControlPlane, logs: Path, **spec: Any
) -> AsyncIterator[tuple[ThrottleView, ThrottleService]]:
    """A throttle applied, the service running and decided once; in the end every service is killed."""
    await allow_levers(plane)
    service = ThrottleService(plane, logs)
    async with JsonApi(plane.access()) as api:
        view = ThrottleView(api)
        await api.create(THROTTLES, throttle_object(**spec))
        try:
            await service.start()
            await view.wait_throttle(phase="Idle")
            yield view, service
        finally:
            service.close()
