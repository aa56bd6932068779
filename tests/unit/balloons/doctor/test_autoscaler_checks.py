"""Checks of the autoscalers: which objects they leave alone, and the figures that they tell."""

import pytest

from balloons.cluster import kinds
from tests.doctor_cases import (
    GPU_QUOTA,
    TAINT,
    Cluster,
    Thing,
    autoscaler,
    autoscaler_status,
    claim,
    in_group,
    meta,
    node,
    node_pool,
    quota,
    ready,
    throttle,
    with_taints,
)
from tests.unit.balloons.doctor.findings import sentences, troubles


def refused(thing: Thing) -> Thing:
    """A throttle that breaks a rule moves nothing."""
    return {**thing, "spec": {**thing["spec"], "window": {"min": 9, "max": 2}}}


def leaving(thing: Thing) -> Thing:
    return {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": "2026-11-21T11:59:00Z"}}


def undated(thing: Thing) -> Thing:
    """As in a manifest: it was found to be half a century old."""
    return {**thing, "metadata": {key: told for key, told in thing["metadata"].items() if key != "creationTimestamp"}}


TAINTING = throttle(startupTaint={"key": TAINT})
TWO_GROUPS = [in_group("n1", "gpu"), in_group("n2", "general")]
BY_NAME = throttle(nodePoolLimits={"names": ["spot"]})
TWO_POOLS = [node_pool(name="spot"), node_pool(name="general")]


@pytest.mark.parametrize(
    ("code", "objects", "is_found"),
    [
        ("KB028", {kinds.NODES: TWO_GROUPS, kinds.THROTTLES: [refused(GPU_QUOTA)]}, False),
        ("KB028", {kinds.NODES: TWO_GROUPS, kinds.THROTTLES: [throttle(), GPU_QUOTA]}, True),
        ("KB032", {kinds.NODE_CLAIMS: [leaving(claim("True", "False"))]}, False),
        ("KB032", {kinds.NODE_CLAIMS: [undated(claim("True", "False"))]}, False),
        ("KB033", {kinds.NODE_POOLS: [with_taints([TAINT], [])], kinds.THROTTLES: [throttle(), TAINTING]}, True),
        ("KB033", {kinds.NODE_POOLS: [with_taints([TAINT], [TAINT])], kinds.THROTTLES: [TAINTING]}, False),
        ("KB033", {kinds.NODE_POOLS: [with_taints([], [])], kinds.THROTTLES: [TAINTING]}, False),
        ("KB033", {kinds.NODE_POOLS: [with_taints([TAINT], [])], kinds.THROTTLES: [refused(TAINTING)]}, False),
        ("KB033", {kinds.NODE_POOLS: [with_taints([TAINT], [])], kinds.THROTTLES: [throttle()]}, False),
        ("KB035", {kinds.NODE_POOLS: TWO_POOLS, kinds.THROTTLES: [refused(BY_NAME)]}, False),
        ("KB035", {kinds.NODE_POOLS: TWO_POOLS[:1], kinds.THROTTLES: [BY_NAME]}, False),
    ],
)
def test_what_checks_of_autoscalers_leave_alone(code: str, objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences(code, objects)) is is_found


def without_message() -> Thing:
    found = quota("False")
    return {**found, "status": {"conditions": [{"type": "Valid", "status": "False", "message": ""}]}}


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (quota("False"), "(selector is invalid)"),
        (without_message(), "(it is not valid)"),
        ({**quota(), "status": {}}, "(cluster-autoscaler has not looked at it)"),
    ],
)
def test_a_quota_that_is_not_in_force_says_why(thing: Thing, words: str) -> None:
    (sentence,) = sentences("KB021", {kinds.QUOTAS: [thing]})
    assert words in sentence


def test_a_quota_that_does_not_count_nodes_is_never_full_of_them() -> None:
    of_cores = quota(used=10)
    of_cores["spec"] = {"limits": {"resources": {"cpu": "8"}}}
    assert sentences("KB022", {kinds.QUOTAS: [of_cores]}) == []


def test_the_share_of_nodes_that_are_not_ready_is_told() -> None:
    machines = [node(f"n{number}", ready="False" if number < 5 else "True") for number in range(8)]
    objects = {kinds.DEPLOYMENTS: [autoscaler()], kinds.AUTOSCALER_STATUS: [], kinds.NODES: machines}
    (sentence,) = sentences("KB025", objects)
    assert sentence.startswith("5 of 8 nodes are not ready (62 %): above 45 % ")


@pytest.mark.parametrize(
    ("flags", "above"),
    [
        ((), "45"),
        (("--max-total-unready-percentage=62.4",), "62.4"),
        (("--max-total-unready-percentage=62.5",), None),
        (("--max-total-unready-percentage=many",), "45"),
        (("--ok-total-unready-count=4",), "45"),
        (("--ok-total-unready-count=5",), None),
        (("--ok-total-unready-count", "0", "--max-total-unready-percentage=10"), "10"),
    ],
)
def test_how_many_unready_nodes_stop_it_is_what_its_flags_say(flags: tuple[str, ...], above: str | None) -> None:
    machines = [node(f"n{number}", ready="False" if number < 5 else "True") for number in range(8)]
    objects = {kinds.DEPLOYMENTS: [autoscaler(*flags)], kinds.AUTOSCALER_STATUS: [], kinds.NODES: machines}
    told = [sentence.partition(": ")[2].partition(" % ")[0] for sentence in sentences("KB025", objects)]
    assert told == ([] if above is None else [f"above {above}"])


@pytest.mark.parametrize(
    ("flags", "within"),
    [
        ((), "15 min"),
        (("--max-node-provision-time=30m",), "30 min"),
        (("--max-node-provision-time=2m30s",), "2.5 min"),
        (("--max-node-provision-time=soon",), "15 min"),
    ],
)
def test_when_a_machine_is_given_up_is_what_the_flag_says(flags: tuple[str, ...], within: str) -> None:
    objects = {kinds.DEPLOYMENTS: [autoscaler(*flags)], kinds.AUTOSCALER_STATUS: [autoscaler_status(lost=2)]}
    (sentence,) = sentences("KB024", objects)
    assert sentence.startswith(f"2 machines not registered within {within}: deleted")


def without_cores(thing: Thing) -> Thing:
    """A machine that has not said what it has."""
    return {**thing, "status": {**thing["status"], "allocatable": {}}}


def test_a_limit_by_count_is_one_by_whole_cores_of_the_largest_machine() -> None:
    labels = {"labels": {"karpenter.sh/nodepool": "web"}}
    machines = [node(f"n{cpu}", cpu, metadata=labels) for cpu in ("7", "15500m", "3")]
    pool = {"metadata": meta("web"), "spec": {"limits": {"nodes": "9"}}}
    (trouble,) = troubles("KB030", {kinds.NODE_POOLS: [pool], kinds.NODES: machines})
    assert '"cpu":"144"' in trouble.fix
    (trouble,) = troubles("KB030", {kinds.NODE_POOLS: [pool], kinds.NODES: [without_cores(machines[0])]})
    assert trouble.fix == "kubectl edit nodepool web  # spec.limits: cpu in place of nodes"


@pytest.mark.parametrize(
    ("limits", "fix"),
    [
        ({"nodes": "9", "cpu": "64"}, '{"nodes":null}'),
        ({"nodes": "9", "cpu": 640}, '{"nodes":null,"cpu":"144"}'),
        ({"nodes": "9", "cpu": "many"}, '{"nodes":null,"cpu":"144"}'),
        ({"nodes": "many"}, ""),
    ],
)
def test_a_limit_of_cores_that_is_lower_is_not_raised(limits: Thing, fix: str) -> None:
    """Nor is a limit by count that nobody can read one of no cores, which would block the pool."""
    machine = node("n", "16", metadata={"labels": {"karpenter.sh/nodepool": "web"}})
    pool = {"metadata": meta("web"), "spec": {"limits": limits}}
    (trouble,) = troubles("KB030", {kinds.NODE_POOLS: [pool], kinds.NODES: [machine]})
    by_hand = "kubectl edit nodepool web  # spec.limits: cpu in place of nodes"
    assert trouble.fix == (
        f'kubectl patch nodepool web --type=merge -p \'{{"spec":{{"limits":{fix}}}}}\'' if fix else by_hand
    )


@pytest.mark.parametrize(("message", "why"), [("no subnets found", "no subnets found"), ("", "it is not Ready")])
def test_a_pool_that_is_not_ready_says_why_as_far_as_karpenter_does(message: str, why: str) -> None:
    (sentence,) = sentences("KB036", {kinds.NODE_POOLS: [ready("False", message)]})
    assert sentence == f"Karpenter orders no machines from it: {why}"
