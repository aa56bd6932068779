"""A rush: one job asks for many whole nodes at once. What it was like for the job and for an innocent client."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from lab.cloud.json_api import Json, JsonApi
from lab.demo.rush_scene import SERVER, RushScene, training
from lab.demo.scene import JOBS
from lab.demo.service import service_log
from lab.errors import LabError
from lab.percentile import percentile
from lab.processes import log_tail
from lab.processes.cpu_share import cpu_s
from lab.scaleup.bystander import bystander
from lab.scaleup.cluster import STRANGER, errors_answered

PODS_PATH = f"/api/v1/namespaces/{JOBS}/pods"
CLAIMS_PATH = "/apis/karpenter.sh/v1/nodeclaims"
THROTTLES_PATH = "/apis/kube-balloons.github.io/v1alpha1/jointhrottles"
DEADLINE_S = 900.0
SETTLE_EVERY_S = 2.0
"""How often is counted what still has to start when the job runs: a list of all pods is work for the server too."""


@dataclass(frozen=True, kw_only=True)
class RushRecord:
    """Seconds count from the moment when the job was submitted; a node is usable to the job when its worker runs."""

    usable_s: tuple[float, ...]
    joined_s: tuple[float, ...]
    """When each machine's join had ended, by the audit log: its kubelet had told that all DaemonSets' pods ran. Its
    worker may not have been bound by then, or may run already."""
    bystander_p50_ms: float
    bystander_p99_ms: float
    """Until they were answered well, refusals and waits between included."""
    bystander_requests: int
    bystander_refusals: int
    errors: int
    """429 and 5xx that the API server answered, whoever asked, by its own counters."""
    in_vain: int
    """Requests in the audit log that met 429 or 5xx and were sent again; the innocent client's are left out."""
    ordered_s: tuple[float, ...]
    """When each machine was ordered, by the audit log; more than the nodes where some were bought in vain."""
    server_busy: float
    """Share of its one core that the API server used until the last node was usable."""
    unstarted: int
    """DaemonSets' pods of the nodes that did not run yet when the last worker did."""
    settled_s: float
    """When those ran too, to within `SETTLE_EVERY_S`."""

    @property
    def machines(self) -> int:
        """Machines that were ordered in all."""
        return len(self.ordered_s)

    @property
    def most_in_flight(self) -> int:
        """The most machines that were ordered and whose join had not ended at one time."""
        steps = sorted([(at_s, 1) for at_s in self.ordered_s] + [(at_s, -1) for at_s in self.joined_s])
        return max(accumulate(step for _, step in steps), default=0)

    @property
    def all_usable_s(self) -> float:
        """When the last node was usable."""
        return self.usable_s[-1]

    @property
    def mean_usable_s(self) -> float:
        """How long a node took on average."""
        return statistics.fmean(self.usable_s)

    def usable_at(self, at_s: float) -> int:
        """How many nodes were usable by then."""
        return sum(1 for usable_s in self.usable_s if usable_s <= at_s)


def _to_nobody(count: int) -> None:
    """Who waits is told nothing."""


async def run_rush(scene: RushScene, nodes: int, tell: Callable[[int], None] = _to_nobody) -> RushRecord:
    """Submit the job and wait until every worker runs; `tell` hears of each, with how many there are."""
    accesses = [scene.plane.access()]
    before, in_vain = await errors_answered(accesses), sent_in_vain(scene.plane.audit_events())
    pid = scene.plane.pid(SERVER)
    used_s = cpu_s(pid)
    async with bystander(scene.plane.access(STRANGER)) as met:
        try:
            started, usable = await asyncio.wait_for(_until_all_run(scene, nodes, tell), DEADLINE_S)
        except TimeoutError as error:
            state, log = await how_far(scene.api), log_tail(service_log(scene.plane))
            raise LabError(f"{nodes} workers did not run within {DEADLINE_S:.0f} s: {state}\n{log}".rstrip()) from error
    used_s = cpu_s(pid) - used_s
    errors = await errors_answered(accesses) - before
    in_vain = sent_in_vain(scene.plane.audit_events()) - in_vain
    ordered_s = ordered(scene.plane.audit_events(), started)
    unstarted = await unstarted_pods(scene.api)
    try:
        await asyncio.wait_for(_until_settled(scene.api, unstarted), DEADLINE_S)
    except TimeoutError as error:
        raise LabError(f"DaemonSets' pods did not all run within {DEADLINE_S:.0f} s") from error
    pods = await scene.api.items("/api/v1/pods")
    return RushRecord(
        usable_s=tuple(usable),
        joined_s=tuple(joined(pods, scene.plane.audit_events(), started)),
        bystander_p50_ms=1000 * percentile(met.latencies_s, 0.5),
        bystander_p99_ms=1000 * percentile(met.latencies_s, 0.99),
        bystander_requests=len(met.latencies_s),
        bystander_refusals=met.refusals,
        errors=int(errors),
        in_vain=in_vain,
        ordered_s=tuple(ordered_s),
        server_busy=used_s / usable[-1],
        unstarted=unstarted,
        settled_s=time.time() - started if unstarted else usable[-1],
    )


async def unstarted_pods(api: JsonApi) -> int:
    """Pods of DaemonSets that do not run on their node yet, those that do not even exist included."""
    wanted = len(await api.items("/apis/apps/v1/daemonsets")) * len(await api.items("/api/v1/nodes"))
    pods = await api.items("/api/v1/pods")
    return wanted - sum(1 for pod in pods if _is_of_daemon_set(pod) and _runs(pod))


def _is_of_daemon_set(pod: Json) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


async def _until_settled(api: JsonApi, unstarted: int) -> None:
    while unstarted:
        await asyncio.sleep(SETTLE_EVERY_S)
        unstarted = await unstarted_pods(api)


def ordered(events: Iterable[Json], since: float) -> Sequence[float]:
    """When each NodeClaim was made, in seconds after `since` (since the epoch)."""
    made = (
        event
        for event in events
        if event["verb"] == "create"
        and (event.get("objectRef") or {}).get("resource") == "nodeclaims"
        and _is_done(event)
    )
    return sorted(_at(event) - since for event in made)


def _is_done(event: Json) -> bool:
    return bool(event.get("responseStatus", {}).get("code", 0) in (200, 201))


def _at(event: Json) -> float:
    """When it was answered, in seconds since the epoch."""
    return datetime.fromisoformat(event["stageTimestamp"]).timestamp()


def joined(pods: Iterable[Json], events: Iterable[Json], since: float) -> Sequence[float]:
    """When the last of each node's DaemonSet pods was told to be ready, in seconds after `since` (since the epoch).

    A pod's condition has it to the second; the API server heard it with the first report that is not older.
    """
    reports: dict[tuple[str, str], list[float]] = {}
    for event in events:
        about = event.get("objectRef") or {}
        if (about.get("resource"), about.get("subresource")) == ("pods", "status") and _is_done(event):
            reports.setdefault((about["namespace"], about["name"]), []).append(_at(event))
    ends: dict[str, float] = {}
    for pod in filter(_is_of_daemon_set, pods):
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        conditions = {condition["type"]: condition for condition in pod["status"]["conditions"]}
        ready_at = datetime.fromisoformat(conditions["Ready"]["lastTransitionTime"]).timestamp()
        told_at = min(at for at in reports[metadata["namespace"], metadata["name"]] if at >= ready_at)
        ends[node] = max(told_at - since, ends.get(node, 0.0))
    return sorted(ends.values())


async def how_far(api: JsonApi) -> str:
    """What a rush that does not end has come to: pods and claims by their state, and what each throttle says."""
    pods = Counter(_pod_state(pod) for pod in await api.items(PODS_PATH))
    claims = Counter(_claim_state(claim) for claim in await api.items(CLAIMS_PATH))
    throttles = [
        throttle.get("status", {}).get("message", "says nothing") for throttle in await api.items(THROTTLES_PATH)
    ]
    return f"pods {dict(pods)}; claims {dict(claims)}; throttles {throttles}"


def _pod_state(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase")) + (" on a node" if pod["spec"].get("nodeName") else "")


def _claim_state(claim: Json) -> str:
    conditions = claim.get("status", {}).get("conditions", ())
    return next((str(condition["type"]) for condition in conditions if condition["status"] != "True"), "well")


def sent_in_vain(events: Iterable[Json]) -> int:
    """Requests that their client has to send again."""
    refused = (event for event in events if event["user"]["username"] != STRANGER)
    return sum(1 for event in refused if _is_refusal(event.get("responseStatus", {}).get("code", 0)))


def _is_refusal(code: int) -> bool:
    return code == 429 or code >= 500


async def _until_all_run(scene: RushScene, nodes: int, tell: Callable[[int], None]) -> tuple[float, Sequence[float]]:
    """When it was submitted, in seconds since the epoch, and after how long each worker ran."""
    running: dict[str, float] = {}
    watch = asyncio.create_task(_watch(scene.api, running, nodes, tell))
    await asyncio.sleep(0.5)  # the watch is open before the first pod exists
    started, wall = time.monotonic(), time.time()
    job = training(nodes, is_gated=scene.is_gated)
    await scene.api.create(f"/apis/apps/v1/namespaces/{JOBS}/deployments", job)
    await watch
    return wall, sorted(at - started for at in running.values())


async def _watch(api: JsonApi, running: dict[str, float], nodes: int, tell: Callable[[int], None]) -> None:
    async for name, pod in api.follow(PODS_PATH):
        if pod is not None and name not in running and _runs(pod):
            running[name] = time.monotonic()
            tell(len(running))
        if len(running) == nodes:
            return


def _runs(pod: Json) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")
