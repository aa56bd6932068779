"""Checks of our own objects at their bounds."""

import re

import pytest

from balloons.cluster import kinds
from tests.doctor_cases import (
    GATED,
    LEFT,
    Cluster,
    Thing,
    lease,
    node,
    node_pool,
    owned,
    pod,
    pool,
    quota,
    throttle,
)
from tests.unit.balloons.doctor.findings import sentences, troubles
from throttler.kube.election import RENEW_S, LeaseSpec, LeaseWatch
from throttler.service.guard import GuardSettings


def pools(*found: Thing) -> Cluster:
    return {kinds.BALLOON_POOLS: list(found), kinds.THROTTLES: []}


def made(at: str, **status: object) -> Thing:
    found = pool(seen=0)
    return {**found, "metadata": {**found["metadata"], "creationTimestamp": at}, "status": status}


def without_a_generation() -> Thing:
    found = pool()
    del found["metadata"]["generation"]
    return {**found, "status": {}}


@pytest.mark.parametrize(
    ("objects", "is_found"),
    [
        (pools(made("2026-11-21T11:59:01Z")), False),
        (pools(made("2026-11-21T11:59:00Z")), True),
        (pools(made("2026-11-21T11:00:00Z", because="NotServed")), False),
        (pools(made("2026-11-21T11:00:00Z", because="Bound")), True),
        (pools({**pool(generation=3), "status": {"because": "Bound", "observedGeneration": 1}}), False),
        (pools(pool(generation=3, seen=3)), False),
        (pools(pool(generation=3, seen=2)), True),
        (pools(pool(generation=2, seen=3)), False),
        (pools(without_a_generation()), True),
        ({kinds.BALLOON_POOLS: [], kinds.THROTTLES: [throttle(seen=0)]}, True),
    ],
)
def test_an_object_is_unseen_when_nobody_has_acted_on_it_for_a_minute(objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences("KB051", objects)) is is_found


def another_lease(**change: Thing) -> Cluster:
    found = lease("2026-11-21T11:00:00.000000Z")
    return {kinds.LEASES: [{**found, **{part: {**found[part], **value} for part, value in change.items()}}]}


@pytest.mark.parametrize(
    ("objects", "is_found"),
    [
        ({kinds.LEASES: [lease("2026-11-21T11:58:20.000000Z")]}, False),
        ({kinds.LEASES: [lease("2026-11-21T11:58:19.900000Z")]}, True),
        (another_lease(spec={"holderIdentity": ""}), False),
        (another_lease(spec={"renewTime": None}), False),
        (another_lease(metadata={"name": "other"}), False),
    ],
)
def test_the_service_is_silent_when_its_lease_is_held_and_older_than_the_guard_waits(
    objects: Cluster, *, is_found: bool
) -> None:
    assert bool(sentences("KB052", objects)) is is_found


def in_another_namespace() -> Thing:
    found = lease("2026-11-21T11:50:00.000000Z")
    return {**found, "metadata": {**found["metadata"], "namespace": "platform"}}


@pytest.mark.parametrize("leases", [[], [in_another_namespace()]])
def test_what_gives_back_takes_nothing_from_a_service_that_lives(leases: list[Thing]) -> None:
    """Between two renewals it would hand all ceilings back, and the autoscaler would order everything at once."""
    held = {**LEFT, "annotations": {"kube-balloons.github.io/holder": "platform/kube-balloons-throttle"}}
    left = [node_pool({"cpu": "8"}, **held), {**node_pool({"cpu": "8"}, **LEFT), "metadata": {"name": "z", **LEFT}}]
    gated = [pod("a", schedulingGates=GATED)]
    objects: Cluster = {kinds.LEASES: leases, kinds.PODS: gated, kinds.NODE_POOLS: left, kinds.THROTTLES: []}
    usually = GuardSettings(namespace="kube-balloons")
    found = [trouble for code in ("KB052", "KB053", "KB054") for trouble in troubles(code, objects)]
    assert len(found) == 3 + len(leases)
    for fix in (trouble.fix for trouble in found):
        after_s, period_s = (
            float(given[1]) if (given := re.search(rf"--{name} (\S+)", fix)) else usual
            for name, usual in (("after", usually.after_s), ("period", usually.period_s))
        )
        watch, now_s = LeaseWatch(period_s), 0.0
        while now_s < 3 * after_s:
            watch = watch.read(LeaseSpec(renew_time=str(int(now_s / RENEW_S))), now_s)
            assert not watch.is_abandoned(after_s), fix
            now_s += period_s
    is_known = ["--lease-namespace platform" in trouble.fix for trouble in found]
    assert is_known == ([True] * 4 if leases else [True, False, False])


@pytest.mark.parametrize(
    ("marks", "throttles", "named"),
    [
        (LEFT, ["joins"], None),
        (LEFT, ["other"], "throttle joins,"),
        ({"annotations": {"kube-balloons.github.io/original": "{}"}}, ["joins"], "throttle (no name),"),
        ({"annotations": {"else": "{}"}, "labels": {"app": "x"}}, [], None),
    ],
)
def test_a_ceiling_is_left_behind_when_it_bears_our_mark_and_no_throttles_name(
    marks: Thing, throttles: list[str], named: str | None
) -> None:
    for kind, thing in ((kinds.NODE_POOLS, node_pool({"cpu": "8"}, **marks)), (kinds.QUOTAS, quota(**marks))):
        found = sentences("KB053", {kind: [thing], kinds.THROTTLES: [throttle(name) for name in throttles]})
        assert [named in sentence for sentence in found if named] == ([True] if named else [])
        assert len(found) == (named is not None)


def refused_throttle() -> Thing:
    found = throttle(schedulingGates={})
    return {**found, "spec": {**found["spec"], "window": {"min": 9, "max": 2}}}


@pytest.mark.parametrize(
    ("throttles", "pods"),
    [
        ([], 2),
        ([throttle()], 2),
        ([refused_throttle()], 2),
        ([throttle("other"), throttle(schedulingGates={})], 0),
        ([refused_throttle(), throttle("good", schedulingGates={})], 0),
    ],
)
def test_pods_stay_behind_our_gate_where_no_sound_throttle_opens_it(throttles: list[Thing], pods: int) -> None:
    foreign = pod("other", schedulingGates=[{"name": "example.com/hold"}])
    gated = [pod("free"), foreign, pod("a", schedulingGates=GATED), pod("b", schedulingGates=[*GATED, {"name": "x"}])]
    found = troubles("KB054", {kinds.PODS: gated, kinds.THROTTLES: throttles})
    assert [trouble.sentence.partition(" behind")[0] for trouble in found] == ([f"{pods} pods"] if pods else [])
    assert all(trouble.object == "pod/a -n default" for trouble in found)


@pytest.mark.parametrize(
    ("managers", "others"),
    [
        (("kube-balloons-throttle",), None),
        (("kube-balloons-throttle", "kube-balloons-throttle"), None),
        (("argocd", "flux"), None),
        (("argocd", "flux", "kube-balloons-throttle"), "argocd, flux:"),
    ],
)
def test_a_ceiling_is_fought_over_where_we_are_one_of_its_managers(
    managers: tuple[str, ...], others: str | None
) -> None:
    found = sentences("KB055", {kinds.NODE_POOLS: [node_pool({"cpu": "8"}, managedFields=owned(*managers))]})
    assert [f"and {others}" in sentence for sentence in found if others] == ([True] if others else [])
    assert len(found) == (others is not None)


def test_a_quotas_limit_is_fought_over_like_a_pools() -> None:
    fields = {"f:spec": {"f:limits": {"f:resources": {"f:nodes": {}}}}}
    entries = [
        {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for manager in ("kube-balloons-throttle", "helm")
    ]
    (sentence,) = sentences("KB055", {kinds.QUOTAS: [quota(managedFields=entries)]})
    assert "kube-balloons-throttle and helm:" in sentence


def test_nodes_of_two_pools_are_told_once_for_each_set_of_pools() -> None:
    both, one = {"pool": "gpu", "size": "large"}, {"pool": "gpu"}
    objects = {
        kinds.BALLOON_POOLS: [pool("a"), pool("b", labels={"size": "large"}), pool("c", labels={"pool": "cpu"})],
        kinds.NODES: [node(f"n{number}", metadata={"labels": both}) for number in range(5)]
        + [node("m", metadata={"labels": one})],
    }
    (trouble,) = troubles("KB056", objects)
    assert trouble.object == "balloonpool/a -n default"
    assert trouble.sentence == (
        "5 nodes selected by default/a, default/b: only one pool gets them (n0, n1, n2 and 2 more)"
    )


def test_pools_that_are_turned_away_are_told_by_what_they_were_told() -> None:
    said = [("NotServed", "namespace a"), ("Bound", "too large"), ("Bound", "too large"), ("Steady", "all is well")]
    turned = [
        {**pool(f"p{number}"), "status": {"because": because, "message": message}}
        for number, (because, message) in enumerate(said)
    ]
    found = troubles("KB058", {kinds.BALLOON_POOLS: turned})
    assert [(trouble.object, trouble.sentence) for trouble in found] == [
        ("balloonpool/p0 -n default", "1 pool not served: namespace a"),
        ("balloonpool/p1 -n default", "2 pools not served: too large"),
    ]


def test_a_refused_throttle_is_told_in_its_own_words() -> None:
    (trouble,) = troubles(
        "KB050", {kinds.BALLOON_POOLS: [pool()], kinds.THROTTLES: [refused_throttle(), throttle("x")]}
    )
    assert trouble.object == "jointhrottle/joins"
    assert "window" in trouble.sentence
