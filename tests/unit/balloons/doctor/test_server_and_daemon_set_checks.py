"""Checks of the control plane at their bounds, and the figures that they tell."""

from typing import Any

import pytest

from balloons.cluster import kinds
from tests.doctor_cases import (
    OURS,
    SERVICE,
    TAINT,
    Cluster,
    Thing,
    daemon_set,
    flow_schema,
    monitor,
    node,
    pod,
    prometheus,
)
from tests.unit.balloons.doctor.findings import sentences, troubles
from throttler.kube.taints import NOT_READY_TAINT


def manager(*arguments: str) -> Thing:
    """A controller manager's static pod."""
    container = {"name": "main", "image": "registry.k8s.io/kube-controller-manager:v1.36.3", "args": list(arguments)}
    metadata = {"name": "kube-controller-manager-a", "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def with_daemons(count: int, *pods: Thing) -> Cluster:
    sets = [daemon_set(f"d{number}", desired=1, ready=1) for number in range(count)]
    return {kinds.DAEMON_SETS: sets, kinds.PODS: list(pods)}


@pytest.mark.parametrize(
    ("daemons", "flags", "is_found"),
    [
        (0, (), False),
        (6, (), False),
        (7, (), True),
        (8, ("--kube-api-qps=24",), False),
        (8, ("--kube-api-qps=23.9",), True),
        (8, ("--kube-api-qps=0",), True),
        (8, ("--kube-api-qps=1e9",), True),
        (8, ("--kube-api-qps=many",), True),
        (2, ("--kube-api-qps=1",), True),
        (1, ("--kube-api-qps=0.5",), True),
    ],
)
def test_daemon_pods_that_come_to_fewer_than_three_nodes_a_second_are_told(
    daemons: int, flags: tuple[str, ...], *, is_found: bool
) -> None:
    assert bool(sentences("KB040", with_daemons(daemons, manager(*flags)))) is is_found


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ("--kube-api-qps=10",),
            "with 8 DaemonSets on a node at most 1.2 nodes/s get their pods (--kube-api-qps is 10): 500 nodes take "
            "400 s however idle the API servers are",
        ),
        (
            (),
            "with 8 DaemonSets on a node at most 2.5 nodes/s get their pods (its default of 20 requests/s is assumed): "
            "500 nodes take 200 s however idle the API servers are",
        ),
    ],
)
def test_how_long_daemon_pods_take_and_what_would_be_enough(flags: tuple[str, ...], sentence: str) -> None:
    (trouble,) = troubles("KB040", with_daemons(8, manager(*flags)))
    assert trouble.sentence == sentence
    # Six nodes a second, and half as much again at once.
    assert "--kube-api-qps=48 --kube-api-burst=72 " in trouble.fix


def test_daemon_sets_for_nodes_of_another_kind_slow_nobody_down() -> None:
    """As on AKS, where each agent comes once for Linux and once for Windows."""
    objects = with_daemons(8)
    halves = {"linux": range(4), "windows": range(4, 8)}
    placed = [daemon_pod(f"d{number}", f"{half}-1") for half, numbers in halves.items() for number in numbers]
    assert not sentences("KB040", {**objects, kinds.PODS: placed})
    many = [daemon_pod(f"d{number}", "linux-1") for number in range(7)]
    replaced = [daemon_pod("d0", "linux-1", suffix="-old")]
    (found,) = sentences("KB040", {**objects, kinds.PODS: [*placed, *many, *replaced]})
    assert found.startswith("with 7 DaemonSets on a node at most 2.9 nodes/s")


def daemon_pod(name: str, on: str, suffix: str = "") -> Thing:
    owner = {"kind": "DaemonSet", "name": name, "uid": name, "controller": True}
    found = pod(f"{name}-{on}{suffix}", on)
    return {**found, "metadata": {**found["metadata"], "ownerReferences": [owner]}}


def tainted(key: str, created: str, ready: str = "True", **metadata: str) -> Cluster:
    taints = [{"key": key, "effect": "NoSchedule"}]
    return {kinds.NODES: [node("n1", created=created, ready=ready, taints=taints, metadata=metadata)]}


def undated() -> Cluster:
    """As in a manifest: its taint was found to be half a century old."""
    objects = tainted(TAINT, "2026-11-21T11:00:00Z")
    for thing in objects[kinds.NODES]:
        del thing["metadata"]["creationTimestamp"]
    return objects


@pytest.mark.parametrize(
    ("objects", "is_found"),
    [
        (tainted(TAINT, "2026-11-21T11:50:00Z"), False),
        (tainted(TAINT, "2026-11-21T11:49:59Z"), True),
        (tainted(TAINT, "2026-11-21T11:00:00Z", deletionTimestamp="2026-11-21T11:59:00Z"), False),
        (undated(), False),
        (tainted(NOT_READY_TAINT, "2026-11-21T11:49:59Z"), True),
        (tainted(NOT_READY_TAINT, "2026-11-21T11:49:59Z", ready="False"), False),
        (tainted("mine", "2026-11-21T11:00:00Z", ready="False"), False),
    ],
)
def test_a_startup_taint_is_stuck_after_ten_minutes(objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences("KB043", objects)) is is_found


@pytest.mark.parametrize(
    ("desired", "ready", "is_found"), [(9, 0, False), (10, 8, False), (10, 7, True), (20, 16, False), (20, 15, True)]
)
def test_a_large_daemon_set_is_behind_below_four_in_five(desired: int, ready: int, *, is_found: bool) -> None:
    objects = {kinds.DAEMON_SETS: [daemon_set("agent", desired=desired, ready=ready)]}
    assert bool(sentences("KB044", objects)) is is_found


def watched_by(spec: Thing, labels: Thing | None = None) -> Cluster:
    watcher = {
        "metadata": {"name": "main", "namespace": "monitoring"},
        "spec": {"serviceMonitorNamespaceSelector": {}, **spec},
    }
    return {kinds.SERVICE_MONITORS: [monitor(OURS if labels is None else labels)], kinds.PROMETHEUSES: [watcher]}


HAS_TEAM = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("objects", "is_found"),
    [
        (watched_by({}), True),
        (watched_by({"serviceMonitorSelector": None}), True),
        (watched_by({"serviceMonitorSelector": {}}), False),
        (watched_by({"podMonitorSelector": {}}), True),
        (watched_by({"serviceMonitorSelector": HAS_TEAM}), True),
        (watched_by({"serviceMonitorSelector": HAS_TEAM}, {**OURS, "team": "a"}), False),
        (watched_by({}, {"app": "other"}), False),
        ({kinds.SERVICE_MONITORS: [monitor(OURS)], kinds.PROMETHEUSES: []}, False),
    ],
)
def test_a_monitor_of_ours_is_unseen_where_no_prometheus_selects_it(objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences("KB042", objects)) is is_found


NAMED, WATCHED = "kubernetes.io/metadata.name", {"matchLabels": {"watched": "yes"}}


@pytest.mark.parametrize(
    ("selector", "spaces", "is_found"),
    [
        (None, [], True),
        ({}, [], False),
        ({"matchLabels": {NAMED: "kube-balloons"}}, [], False),
        ({"matchLabels": {NAMED: "monitoring"}}, [], True),
        (WATCHED, [], False),
        (WATCHED, [{"metadata": {"name": "kube-balloons", "labels": {"watched": "yes"}}}], False),
        (WATCHED, [{"metadata": {"name": "kube-balloons", "labels": {"watched": "no"}}}], True),
    ],
)
def test_a_monitor_is_unseen_where_no_prometheus_looks(selector: Any, spaces: list[Thing], *, is_found: bool) -> None:
    """Without a selector of namespaces a Prometheus looks into its own; labels that were not read may be any."""
    spec = {"serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": selector}
    found = troubles("KB042", {**watched_by(spec), kinds.NAMESPACES: spaces})
    assert bool(found) is is_found
    if is_found:
        patch = """--type=merge -p '{"spec":{"serviceMonitorNamespaceSelector":{}}}'"""
        assert [each.fix for each in found] == [f"kubectl patch prometheus/main -n monitoring {patch}"]
        at_home = {"metadata": {"name": "own", "namespace": "kube-balloons"}, "spec": {"serviceMonitorSelector": {}}}
        assert not sentences("KB042", {kinds.SERVICE_MONITORS: [monitor(OURS)], kinds.PROMETHEUSES: [at_home]})


def test_one_prometheus_that_selects_a_monitor_is_enough() -> None:
    both = [prometheus({"release": "kps"}), prometheus({"release": "other"})]
    labels = {**OURS, "release": "other"}
    assert sentences("KB042", {kinds.SERVICE_MONITORS: [monitor(labels)], kinds.PROMETHEUSES: both}) == []
    (sentence,) = sentences("KB042", {kinds.POD_MONITORS: [monitor(OURS)], kinds.PROMETHEUSES: both})
    assert "(the first wants other labels)" in sentence, "it says nothing of PodMonitors"


@pytest.mark.parametrize(
    ("labels", "fix"),
    [
        ({"release": "kps"}, "kubectl label servicemonitor/kube-balloons -n default release=kps"),
        ({"team": "a", "release": "kps"}, "kubectl label servicemonitor/kube-balloons -n default release=kps team=a"),
        ({}, "kubectl edit servicemonitor/kube-balloons -n default  # labels that the selector matches"),
    ],
)
def test_a_monitor_is_given_each_label_by_itself(labels: Thing, fix: str) -> None:
    """With a comma between them kubectl would make one value of all."""
    selector = {"matchLabels": labels, "matchExpressions": [{"key": "team", "operator": "Exists"}]}
    (trouble,) = troubles("KB042", watched_by({"serviceMonitorSelector": selector}))
    name = trouble.object.partition("/")[2]
    assert trouble.fix == fix.replace("kube-balloons -n default", name)


def test_every_namespace_of_the_service_needs_a_flow_schema() -> None:
    elsewhere = {**SERVICE, "metadata": {**SERVICE["metadata"], "namespace": "second"}}
    both = [SERVICE, elsewhere]
    one = {kinds.DEPLOYMENTS: both, kinds.FLOW_SCHEMAS: [flow_schema("kube-balloons")]}
    assert len(sentences("KB041", one)) == 1
    two = {kinds.DEPLOYMENTS: both, kinds.FLOW_SCHEMAS: [flow_schema("kube-balloons"), flow_schema("second")]}
    assert sentences("KB041", two) == []
    assert sentences("KB041", {kinds.DEPLOYMENTS: [], kinds.FLOW_SCHEMAS: []}) == []
