"""A small real control plane with DaemonSets: what a herd of joiners meets, and how often it answers with errors."""

import contextlib
import re
from collections.abc import AsyncIterator, Sequence

import aiohttp

from lab.controlplane import ApiAccess, ControlPlane, ControlPlaneSettings, binding, start_control_plane
from lab.controlplane.settings import ApiServerSettings, ControllerManagerSettings, SchedulerSettings

DAEMON_SETS = 8
"""As many agents as a usual node carries: network, storage, proxy, logs, metrics, devices."""
DEVICE_PLUGIN = f"agent-{DAEMON_SETS - 1}"
"""That of the devices."""
READ_SEATS, WRITE_SEATS = 20, 10
"""Of each server, in place of 400 and 200; one core each."""
QUICK_MANAGER_QPS, DEFAULT_MANAGER_QPS = 300.0, 20.0
"""Out of the way, so that the API server is what binds; and the binary's default (--kube-api-qps)."""
SCHEDULER_QPS = 300.0
NEVER_S = 86_400
STRANGER = "lab:stranger"
"""Everybody else. No administrator: system:masters is exempt from Priority and Fairness and would wait for nobody."""


def small_plane(servers: int, manager_qps: float, is_audited: bool) -> ControlPlaneSettings:
    """Servers of one core and few seats; nodes that fall silent stay Ready, since a run is short."""
    server = ApiServerSettings(
        max_requests_inflight=READ_SEATS, max_mutating_requests_inflight=WRITE_SEATS, gomaxprocs=1
    )
    return ControlPlaneSettings(
        api_servers=(server,) * servers,
        controller_manager=ControllerManagerSettings(
            kube_api_qps=manager_qps, kube_api_burst=int(2 * manager_qps), node_monitor_grace_period_s=NEVER_S
        ),
        scheduler=SchedulerSettings(kube_api_qps=SCHEDULER_QPS, kube_api_burst=int(2 * SCHEDULER_QPS)),
        audit=is_audited,
    )


@contextlib.asynccontextmanager
async def start_small_plane(
    servers: int, manager_qps: float, is_audited: bool = False, choosy: int = 0
) -> AsyncIterator[ControlPlane]:
    """The control plane with its DaemonSets, the last `choosy` of which mind taints, and no node yet."""
    async with start_control_plane(small_plane(servers, manager_qps, is_audited)) as plane:
        strangers = binding("strangers", "view", {"kind": "User", "name": STRANGER})
        agents = (daemon_set(number, is_choosy=number >= DAEMON_SETS - choosy) for number in range(DAEMON_SETS))
        await plane.apply_async(*agents, strangers)
        yield plane


def daemon_set(number: int, *, is_choosy: bool = False) -> dict[str, object]:
    """An agent that tolerates everything, as agents do, or no more than what Karpenter puts on a new node."""
    labels = {"app": f"agent-{number}"}
    pod = {
        "tolerations": [{"operator": "Exists", **({"key": "karpenter.sh/unregistered"} if is_choosy else {})}],
        "containers": [{"name": "agent", "image": "registry.example/agent:1"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"agent-{number}", "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


CODES = re.compile(rb'^apiserver_request_total\{[^}]*code="(429|5[0-9][0-9])"[^}]*\} ([0-9.e+]+)$', re.MULTILINE)


async def errors_answered(accesses: Sequence[ApiAccess]) -> float:
    """429 and 5xx of all servers since they started, from their own counters; a server that is away counts 0."""
    return sum([await _errors_of(access) for access in accesses])


async def _errors_of(access: ApiAccess) -> float:
    connector = aiohttp.TCPConnector(ssl=access.ssl_context())
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.get(f"{access.url.rstrip('/')}/metrics") as answer,
    ):
        body = await answer.read()
    return sum(float(value) for _, value in CODES.findall(body))
