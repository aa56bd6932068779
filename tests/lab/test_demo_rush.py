"""The demo's figures of a rush, worked out again from the audit log and the API server's metrics."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.demo.rush import how_far, run_rush, unstarted_pods
from lab.demo.rush_scene import Pacing, open_rush, wait_for_throttle
from lab.demo.rush_story import Rushes
from lab.demo.scene import JOBS
from lab.demo.summary import rush_figures
from lab.scaleup.cluster import STRANGER

NODES, DAEMON_SETS = 8, 8
SPARE = 4
"""Machines that Karpenter may order in vain."""
pytestmark = pytest.mark.lab
LOOSE_S = 15.0
"""The record is taken by a watch, the audit log by the server: a busy machine keeps them apart by that much."""

Event = Mapping[str, Any]


def at(event: Event) -> float:
    return datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).timestamp()


def on(event: Event, resource: str, namespace: str = JOBS) -> bool:
    reference = event.get("objectRef", {})
    named = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
    return named == resource and reference.get("namespace", "") == namespace


def code(event: Event) -> int:
    return int(event.get("responseStatus", {}).get("code", 0))


def is_refused(number: int) -> bool:
    return number == 429 or number >= 500


def errors_in(metrics: str) -> int:
    families = text_string_to_metric_families(metrics)
    samples = [sample for family in families for sample in family.samples if sample.name == "apiserver_request_total"]
    return int(sum(sample.value for sample in samples if is_refused(int(sample.labels["code"]))))


def created_s(events: Sequence[Event]) -> float:
    return next(at(event) for event in events if event["verb"] == "create" and on(event, "deployments"))


def reports_s(events: Sequence[Event]) -> dict[str, list[float]]:
    """When kubelets reported on each pod of the job, in seconds since it was submitted."""
    submitted_s, reports = created_s(events), defaultdict[str, list[float]](list)
    for event in events:
        user = event.get("impersonatedUser", event["user"])["username"]
        if on(event, "pods/status") and code(event) == 200 and user.startswith("system:node:"):
            reports[event["objectRef"]["name"]].append(at(event) - submitted_s)
    return reports


@pytest.mark.parametrize("is_paced", [False, True], ids=["at once", "paced"])
async def test_figures_match_the_audit_log_and_the_metrics(is_paced):
    async with open_rush(Pacing() if is_paced else None) as scene:
        if is_paced:
            await wait_for_throttle(scene)
        metrics_before = await scene.plane.kubectl_async("get", "--raw", "/metrics")
        events_before = list(scene.plane.audit_events())
        record = await run_rush(scene, NODES)
        assert f"pods {{'Running on a node': {NODES}}}" in await how_far(scene.api)
        events = list(scene.plane.audit_events())[len(events_before) :]
        metrics = await scene.plane.kubectl_async("get", "--raw", "/metrics")
        assert await unstarted_pods(scene.api) == 0
        claims = (await scene.plane.kubectl_async("get", "nodeclaims", "-o", "name")).split()
    figures = rush_figures(Rushes(record, record))["paced"]

    answered = [event for event in events if event["user"]["username"] == STRANGER and code(event) == 200]
    refused = [event for event in events if event["user"]["username"] != STRANGER and is_refused(code(event))]
    strangers = [event for event in events if event["user"]["username"] == STRANGER and is_refused(code(event))]
    assert len(record.usable_s) == NODES
    assert NODES <= len(record.joined_s) <= len(claims)
    assert record.ordered_s[0] < record.joined_s[0] <= record.joined_s[-1] <= record.settled_s + LOOSE_S
    # Karpenter alone sometimes orders a machine twice: pods of its last round have not been bound when it looks again.
    assert NODES <= figures["machines"] <= len(claims) <= NODES + SPARE
    assert 0.0 < figures["api_server_busy"] < 1.5, "of one core, and what the clock's ticks round"
    # The record ends with the last worker, and the logs once the DaemonSets' pods run too.
    end_s = created_s(events) + figures["all_usable_s"]
    late = sum(at(event) > end_s - LOOSE_S for event in (*refused, *strangers))
    assert figures["errors"] <= errors_in(metrics) - errors_in(metrics_before) <= figures["errors"] + late + 5
    assert -5 <= len(refused) - figures["sent_in_vain"] <= late + 5
    assert abs(figures["innocent_requests"] - len(answered)) <= 5
    assert abs(figures["innocent_refusals"] - len(strangers)) <= 5
    assert 0 <= figures["daemon_pods_unstarted"] <= DAEMON_SETS * NODES
    assert figures["settled_s"] >= figures["all_usable_s"]
    # A kubelet may report on a pod again when it has run for a while.
    before = [
        [at_s for at_s in reports if at_s < figures["all_usable_s"] + 1] for reports in reports_s(events).values()
    ]
    assert len(before) == NODES
    assert all(before)
    assert figures["all_usable_s"] - max(map(max, before)) <= LOOSE_S
