"""Joiners against hollow nodes: the same requests, per verb and resource, over the same window."""

import asyncio
import json
import time
from collections.abc import Sequence

from lab.cloud.kubelet_joiner import Herd, JoinerSettings
from lab.cloud.machines import HollowNodes, HollowNodeSettings
from lab.controlplane import ControlPlane
from tests.lab.request_mix import Mix, mix_per_node

WINDOW_S = 36.0
"""From a node's own first request: its join, its Lease's creation and two renewals, its report of images."""
SHARE, SLACK = 0.10, 0.34
"""Kinds that come about once or twice per node may differ by a third of one: timers of 10 s fall where they fall."""
MERGED_SHARE = {("get", "pods"): 0.25, ("patch", "pods/status"): 0.25}
"""How many reports of a pod a kubelet merges into one hangs on how busy the machine is (17 % fewer, two cores at a load
of 8); a joiner that forgot one report of each pod would be off by a third."""
BUSY_SLACK = {("get", "nodes"): 1.5}
"""A kubelet that is short of a core reads its own Node once more when its status has changed meanwhile; 1.2 times on a
machine of half the speed."""
NODES, ROUNDS, DAEMONS = 6, 4, 8
PATIENCE_S = 180.0


def daemon_sets(namespace: str, count: int, label: str) -> str:
    container = {"name": "pause", "image": "registry.example/pause:1"}
    items = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": f"agent-{number}", "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": {"app": f"agent-{number}"}},
                "template": {
                    "metadata": {"labels": {"app": f"agent-{number}"}},
                    "spec": {"nodeSelector": {"mix": label}, "containers": [container]},
                },
            },
        }
        for number in range(count)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


async def wait_for_pods(plane: ControlPlane, namespace: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        pods = (await plane.get_async("pods", namespace=namespace))["items"]
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        if len(running) == count:
            return
        assert time.monotonic() < deadline, f"{len(running)} of {count} pods run"
        await asyncio.sleep(0.2)


def allowed(kind: tuple[str, str], count: float) -> float:
    return max(MERGED_SHARE.get(kind, SHARE) * count, BUSY_SLACK.get(kind, SLACK))


def differences(real: Mix, ours: Mix) -> list[str]:
    return [
        f"{' '.join(kind)}: hollow {real.get(kind, 0):.2f}, joiner {ours.get(kind, 0):.2f} per node"
        for kind in sorted({*real, *ours})
        if abs(real.get(kind, 0) - ours.get(kind, 0)) > allowed(kind, real.get(kind, 0))
    ]


async def join_both(
    plane: ControlPlane, namespace: str, daemons: int, hollow: Sequence[str], lean: Sequence[str]
) -> tuple[Mix, Mix]:
    """One after the other, so that neither kind meets a busier server, then the rest of the window."""
    labels = {"mix": namespace}
    async with HollowNodes(plane) as machines, Herd(plane.access()) as herd:
        for number, (real, ours) in enumerate(zip(hollow, lean, strict=True), start=1):
            await machines.start(HollowNodeSettings(name=real, labels=labels))
            await wait_for_pods(plane, namespace, (2 * number - 1) * daemons)
            record = await herd.join(
                JoinerSettings(name=ours, labels=labels, daemon_pods=daemons, deadline_s=PATIENCE_S)
            )
            assert record.is_complete
        await wait_for_pods(plane, namespace, 2 * NODES * daemons)
        await asyncio.sleep(WINDOW_S)
        await herd.remove(*lean)
        await machines.stop(*hollow)
    events = list(plane.audit_events(namespace))
    return mix_per_node(events, hollow, WINDOW_S), mix_per_node(events, lean, WINDOW_S)


def pooled(rounds: Sequence[Mix]) -> Mix:
    """The mean of rounds of equally many nodes."""
    kinds = {kind for mix in rounds for kind in mix}
    return {kind: sum(mix.get(kind, 0) for mix in rounds) / len(rounds) for kind in kinds}


async def test_a_joiner_sends_what_a_hollow_node_sends(control_plane: ControlPlane, namespace: str) -> None:
    """How many reports of a pod a kubelet merges into one hangs on chance: some rounds may be needed for a mean."""
    await control_plane.kubectl_async("apply", "-f", "-", input=daemon_sets(namespace, DAEMONS, namespace))
    reals, leans = list[Mix](), list[Mix]()
    for round_ in range(ROUNDS):
        hollow = [f"{namespace}-real-{round_}-{number}" for number in range(NODES)]
        lean = [f"{namespace}-lean-{round_}-{number}" for number in range(NODES)]
        real, ours = await join_both(control_plane, namespace, DAEMONS, hollow, lean)
        assert ("patch", "pods/status") in real
        reals.append(real)
        leans.append(ours)
        if not differences(pooled(reals), pooled(leans)):
            return
    assert differences(pooled(reals), pooled(leans)) == []
