"""Each check finds its own trouble, and nothing where there is none."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.doctor.check import Facts, Severity, called
from balloons.doctor.diagnose import ALL_CHECKS, NEEDS_CLUSTER, Diagnosis, chosen_checks, diagnose, kinds_of
from tests.doctor_cases import (
    CASES,
    FOREIGN,
    TAINT,
    Case,
    Cluster,
    Thing,
    autoscaler,
    autoscaler_status,
    claim,
    in_group,
    node,
    node_pool,
    placed,
    pod,
    pool,
    quota,
    ready,
    room,
    throttle,
)
from tests.unit.balloons.doctor.findings import CHECKS, seen, sentences, troubles
from throttler.kube.taints import NOT_READY_TAINT as NOT_READY
from tools.doctor_page import page


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_failing_case_is_found(case: Case) -> None:
    (sentence,) = sentences(case.code, case.failing)
    assert case.words in sentence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_passing_case_is_not(case: Case) -> None:
    assert sentences(case.code, case.passing) == []


NOT_THERE = {"KB005", "KB026", "KB040", "KB041"}
"""Checks of what is missing, or of what is no object of the API."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_finding_names_an_object_that_is_there(case: Case) -> None:
    (trouble,) = troubles(case.code, case.failing)
    there = {called(kind, thing) for kind, things in case.failing.items() for thing in things}
    assert (trouble.object in there) is (case.code not in NOT_THERE)


@pytest.mark.parametrize(("spec", "guards"), [({"selector": {}}, True), ({"selector": None}, False), ({}, False)])
def test_a_budget_without_a_selector_guards_nothing(spec: Thing, *, guards: bool) -> None:
    """An empty one guards every pod of its namespace."""
    budget = {"metadata": {"name": "all", "namespace": "default"}, "spec": {"minAvailable": 1, **spec}}
    assert bool(sentences("KB011", placed({kinds.DISRUPTION_BUDGETS: [budget]}))) is guards


def test_a_pool_that_was_just_made_is_not_unseen_yet() -> None:
    """The service has a minute to act on it."""
    fresh = pool(seen=0)
    fresh["metadata"] = {**fresh["metadata"], "creationTimestamp": "2026-11-21T11:59:30Z"}
    assert sentences("KB051", {kinds.BALLOON_POOLS: [fresh], kinds.THROTTLES: []}) == []


@pytest.mark.parametrize("ready", ["True", "False"])
def test_a_startup_taint_is_stuck_whether_or_not_the_node_is_ready(ready: str) -> None:
    tainted = {
        key: node("n1", ready=ready, taints=[{"key": key, "effect": "NoSchedule"}]) for key in (TAINT, NOT_READY)
    }
    assert sentences("KB043", {kinds.NODES: [tainted[TAINT]]})
    # The controller's own taint is no more than another word for "not Ready", and belongs to that check.
    assert bool(sentences("KB043", {kinds.NODES: [tainted[NOT_READY]]})) is (ready == "True")


def test_pods_that_have_a_node_have_ended_or_are_leaving_do_not_wait() -> None:
    leaving, ended = pod("leaving"), pod("ended")
    leaving["metadata"] |= {"deletionTimestamp": "2026-11-21T11:59:30Z"}
    ended["status"] = {"phase": "Failed"}
    pods = [pod("waits"), pod("placed", "n1"), leaving, ended]
    assert [each.key.name for each in Facts(seen({kinds.PODS: pods})).pending] == ["waits"]


def test_a_pause_container_at_an_ordinary_priority_keeps_no_room() -> None:
    """Work of priority 0 cannot preempt it, so it was made for something else."""
    assert sentences("KB014", room(namespace="kube-system", value=-1))
    assert sentences("KB014", room(namespace="kube-system", value=0)) == []


def nodes(bad: int, good: int) -> Cluster:
    """Of a cluster that cluster-autoscaler grows."""
    found = [*(node(f"bad{at}", ready="False") for at in range(bad)), *(node(f"good{at}") for at in range(good))]
    return {kinds.DEPLOYMENTS: [autoscaler()], kinds.AUTOSCALER_STATUS: [], kinds.NODES: found}


def scaled_by(*arguments: str) -> Cluster:
    return {kinds.DEPLOYMENTS: [autoscaler(*arguments)], kinds.AUTOSCALER_STATUS: []}


def one_pool(limits: Thing, used: Thing, **spec: int) -> Cluster:
    found = node_pool(limits, used)
    return {kinds.NODE_POOLS: [{**found, "spec": {**found["spec"], **spec}}], kinds.PODS: []}


def terminating_first(is_on: str) -> Thing:
    found = autoscaler()
    gates = [{"name": "FEATURE_GATES", "value": f"StaticCapacity=true,TerminateFirstDrift={is_on}"}]
    container = {"name": "controller", "image": "public.ecr.aws/karpenter/controller:1.15.0", "env": gates}
    found["spec"]["template"]["spec"]["containers"] = [container]
    return found


def unvalidated() -> Thing:
    found = quota()
    return {**found, "status": {}}


@pytest.mark.parametrize(
    ("code", "objects", "is_found"),
    [
        ("KB020", {kinds.DEPLOYMENTS: [autoscaler()], kinds.QUOTAS: []}, False),
        ("KB020", {kinds.DEPLOYMENTS: [], kinds.QUOTAS: [quota()]}, False),
        ("KB021", {kinds.QUOTAS: [unvalidated()]}, True),
        ("KB021", {kinds.QUOTAS: [quota("Unknown")]}, True),
        ("KB022", {kinds.QUOTAS: [quota(limit=4)], kinds.PODS: []}, True),
        ("KB022", {kinds.QUOTAS: [quota(limit=0)], kinds.PODS: []}, False),
        ("KB022", {kinds.QUOTAS: [quota(limit=5)], kinds.PODS: [pod("waits")]}, False),
        ("KB022", {kinds.QUOTAS: [unvalidated()], kinds.PODS: []}, False),
        ("KB022", {kinds.QUOTAS: [quota(limit=1, used=1)], kinds.PODS: []}, True),
        ("KB023", scaled_by("--max-nodes-per-scaleup=999"), True),
        ("KB023", scaled_by("--max-nodes-per-scaleup=many"), False),
        ("KB023", scaled_by("--max-nodes-per-scaleup=" + "0" * 9), False),
        ("KB023", scaled_by(), False),
        ("KB024", {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: []}, False),
        ("KB025", nodes(3, 1), False),
        ("KB025", nodes(4, 1), True),
        ("KB025", nodes(9, 11), False),
        ("KB025", nodes(10, 11), True),
        ("KB025", {**nodes(5, 5), kinds.DEPLOYMENTS: []}, False),
        ("KB025", nodes(0, 0), False),
        ("KB026", {kinds.DEPLOYMENTS: [autoscaler()], kinds.AUTOSCALER_STATUS: [], kinds.NODE_POOLS: []}, False),
        ("KB027", {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(at="11:54:59")]}, True),
        ("KB027", {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: [autoscaler_status(at="11:55:01")]}, False),
        ("KB027", {kinds.DEPLOYMENTS: [], kinds.AUTOSCALER_STATUS: []}, False),
        ("KB030", {kinds.NODE_POOLS: [node_pool({"nodes": "0"})]}, False),
        ("KB030", {kinds.NODE_POOLS: [node_pool({"nodes": "many"})]}, True),
        ("KB030", one_pool({"nodes": "4"}, {}, replicas=4), False),
        ("KB031", one_pool({"cpu": "64"}, {"cpu": "65"}), True),
        ("KB031", one_pool({"cpu": "64"}, {"cpu": "64"}), False),
        ("KB031", one_pool({"cpu": "0"}, {"cpu": "1"}), False),
        ("KB031", one_pool({"cpu": "64"}, {}), False),
        ("KB031", one_pool({"cpu": "64"}, {"cpu": "65"}, replicas=8), False),
        ("KB031", one_pool({"nodes": "8"}, {"nodes": "8"}, replicas=8), True),
        ("KB031", {**one_pool({"nodes": "8"}, {}, replicas=8), kinds.PODS: [pod("waits")]}, True),
        ("KB031", one_pool({"nodes": "9"}, {"nodes": "8"}, replicas=8), False),
        ("KB031", one_pool({"nodes": "0"}, {}, replicas=8), False),
        ("KB031", one_pool({"nodes": "1"}, {}, replicas=0), False),
        ("KB031", {**one_pool({"nodes": "8"}, {}, replicas=8), kinds.DEPLOYMENTS: [terminating_first("true")]}, False),
        ("KB031", {**one_pool({"nodes": "8"}, {}, replicas=8), kinds.DEPLOYMENTS: [terminating_first("false")]}, True),
        ("KB031", {**one_pool({"cpu": "64"}, {"cpu": "65"}), kinds.PODS: [pod("waits")]}, False),
        ("KB031", one_pool({"cpu": "64", "memory": "1Gi"}, {"cpu": "65", "memory": "1Mi"}), True),
        ("KB032", {kinds.NODE_CLAIMS: [claim("True", "False", created="2026-11-21T11:48:00Z")]}, False),
        ("KB032", {kinds.NODE_CLAIMS: [claim("True", "False", created="2026-11-21T11:47:59Z")]}, True),
        ("KB032", {kinds.NODE_CLAIMS: [claim("False", "False", created="2026-11-21T11:56:00Z")]}, False),
        ("KB032", {kinds.NODE_CLAIMS: [claim("False", "False", created="2026-11-21T11:55:59Z")]}, True),
        ("KB036", {kinds.NODE_POOLS: [ready("False")]}, True),
        ("KB036", {kinds.NODE_POOLS: [ready("Unknown", "object is awaiting reconciliation")]}, False),
        ("KB036", {kinds.NODE_POOLS: [node_pool()]}, False),
        (
            "KB034",
            {
                kinds.NODES: [
                    node(
                        "n1",
                        metadata={
                            "annotations": {
                                "karpenter.sh/do-not-disrupt": "true",
                                "kube-balloons.github.io/held-by": "default/warm",
                            }
                        },
                    )
                ]
            },
            False,
        ),
    ],
)
def test_checks_of_autoscalers_at_their_bounds(code: str, objects: Cluster, *, is_found: bool) -> None:
    assert bool(sentences(code, objects)) is is_found


def paced(name: str, group: str) -> Thing:
    """A throttle whose quota counts one node group."""
    found = throttle(name, capacityQuota={"name": name})
    return {**found, "spec": {**found["spec"], "nodes": {"matchLabels": {"pool": group}}}}


@pytest.mark.parametrize(
    ("machines", "throttles", "beside"),
    [
        ([in_group("n1", "gpu"), in_group("n2", "web"), in_group("n3", "db")], ["gpu"], "nodes of db, web:"),
        ([in_group("n1", "gpu"), in_group("n2", "web"), in_group("n3", "db")], ["gpu", "web"], "nodes of db:"),
        ([in_group("n1", "gpu"), in_group("n2", "web")], ["gpu", "web"], None),
        ([in_group("n2", "web")], ["gpu"], None),
        ([in_group("n1", "gpu", taints=[FOREIGN]), in_group("n2", "web", taints=[FOREIGN])], ["gpu"], "nodes of web:"),
        ([in_group("n1", "gpu", taints=[FOREIGN]), in_group("n2", "web")], ["gpu"], "nodes of web:"),
        ([in_group("n1", "gpu"), node("n2")], ["gpu"], None),
    ],
)
def test_groups_beside_a_quota_are_those_that_no_throttle_counts_and_no_taint_keeps_apart(
    machines: list[Thing], throttles: list[str], beside: str | None
) -> None:
    found = sentences("KB028", {kinds.NODES: machines, kinds.THROTTLES: [paced(name, name) for name in throttles]})
    assert [beside in each for each in found if beside] == ([True] * len(throttles) if beside else [])
    assert bool(found) is (beside is not None)


@pytest.mark.parametrize(("used", "limit"), [(5, 6), (19, 20), (20, 22), (100, 110)])
def test_a_quota_gets_a_tenth_more_and_at_least_one_node(used: int, limit: int) -> None:
    objects = {kinds.QUOTAS: [quota(limit=used, used=used)], kinds.PODS: []}
    (finding,) = diagnose(seen(objects), [CHECKS["KB022"]]).findings
    assert f'"nodes":{limit}}}' in finding.trouble.fix


def test_every_check_has_a_case_a_unique_code_and_words() -> None:
    # KB057 is about bytes that no object can stand for; it is tested below.
    assert [check.code for check in ALL_CHECKS if check.code != "KB057"] == [case.code for case in CASES]
    assert len(CHECKS) == len(ALL_CHECKS) >= 20
    assert all(check.title and check.about.endswith(".") for check in ALL_CHECKS)


def test_every_finding_has_an_object_and_a_fix_on_one_line() -> None:
    for case in CASES:
        for each in diagnose(seen(case.failing)).findings:
            assert each.trouble.object
            assert each.trouble.fix
            assert "\n" not in each.trouble.fix + each.trouble.sentence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_fix_can_be_pasted_into_a_shell(case: Case) -> None:
    for finding in diagnose(seen(case.failing)).findings:
        fix = finding.trouble.fix
        assert fix.startswith(("kubectl ", "balloons ", "# ")), fix
        assert "<" not in fix.partition("# ")[0]
        if not fix.startswith("# "):
            parts = shlex.split(fix, comments=True)
            assert not any(mark in "".join(parts[:2]) for mark in "();")
            assert subprocess.run(["bash", "-n", "-c", fix], check=False, timeout=10).returncode == 0, fix


def test_a_limit_by_count_becomes_one_by_cores() -> None:
    pool = {"metadata": {"name": "web"}, "spec": {"limits": {"nodes": "9"}}}
    machine = node("n", sizes={"cpu": "16"}, metadata={"labels": {"karpenter.sh/nodepool": "web"}})
    (finding,) = diagnose(seen({kinds.NODE_POOLS: [pool], kinds.NODES: [machine]}), [CHECKS["KB030"]]).findings
    assert '"cpu":"144"' in finding.trouble.fix


def test_where_no_machine_tells_its_cores_the_limit_by_count_is_edited_by_hand() -> None:
    by_hand = "kubectl edit nodepool general  # spec.limits: cpu in place of nodes"
    pools = [node_pool({"nodes": "9"})]
    of_another = node("n", sizes={"cpu": "16"}, metadata={"labels": {"karpenter.sh/nodepool": "other"}})
    for machines in ([], [of_another]):
        assert [found.fix for found in troubles("KB030", {kinds.NODE_POOLS: pools, kinds.NODES: machines})] == [by_hand]


def test_an_empty_cluster_has_no_findings() -> None:
    found = diagnose(seen({}))
    assert (found.findings, found.skipped, found.checked) == ((), {}, len(ALL_CHECKS))


def test_what_was_cut_or_broken_is_told() -> None:
    lists = {"pods": Listed((), left_out=3), "nodes": Listed((), unreadable=1)}
    found = diagnose(replace(seen({}), lists=lists), [CHECKS["KB057"]])
    assert [each.trouble.object for each in found.findings] == ["nodes", "pods"]
    assert diagnose(seen({}), [CHECKS["KB057"]]).findings == ()


MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


def machine_deployment(*managers: str, **metadata: Any) -> dict[str, Any]:
    fields = {"f:metadata": {"f:annotations": {f"f:{MAX_SIZE}": {}}}}
    entries = [
        {"manager": name, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields} for name in managers
    ]
    return {"metadata": {"name": "workers", "namespace": "capi", "managedFields": entries, **metadata}, "spec": {}}


def test_ceilings_of_machine_deployments_are_looked_at_where_they_can_be_read() -> None:
    """Whoever has the lever machineDeployments was told of nothing."""
    left = machine_deployment(labels={"kube-balloons.github.io/throttle": "gone"})
    others: dict[Any, Any] = {kinds.NODE_POOLS: [], kinds.QUOTAS: [], kinds.THROTTLES: []}
    found = diagnose(seen({**others, kinds.MACHINE_DEPLOYMENTS: [left]}), [CHECKS["KB053"]])
    assert [finding.trouble.object for finding in found.findings] == ["machinedeployment/workers -n capi"]
    fought = machine_deployment("argocd", "kube-balloons-throttle")
    found = diagnose(seen({**others, kinds.MACHINE_DEPLOYMENTS: [fought]}), [CHECKS["KB055"]])
    (sentence,) = [finding.trouble.sentence for finding in found.findings]
    assert sentence.startswith(f"the annotation {MAX_SIZE} has two managers, kube-balloons-throttle and argocd: each ")
    assert kinds.MACHINE_DEPLOYMENTS in kinds_of([CHECKS["KB053"]])
    assert diagnose(seen(others), [CHECKS["KB053"], CHECKS["KB055"]]).skipped == {}


def test_an_object_that_is_none_of_its_kind_is_named() -> None:
    """A node whose memory nobody can read was missing in all checks, and nothing told."""
    found = diagnose(seen({kinds.NODES: [node("n1"), node("odd", cpu="8 cores")]}), [CHECKS["KB057"]])
    (trouble,) = [finding.trouble for finding in found.findings]
    assert trouble.object == "nodes"
    assert trouble.sentence.startswith("odd could not be decoded (cpu '8 cores' is not a quantity; accepted: ")
    assert trouble.fix == "kubectl get nodes odd -o yaml"


def test_a_check_that_cannot_see_says_so_and_others_go_on() -> None:
    whole = seen(CASES[0].failing)
    lists = {**whole.lists, kinds.PODS.name: Listed(unread=Unread.FORBIDDEN)}
    found = diagnose(replace(whole, lists=lists))
    assert found.skipped["KB004"] == "pods not allowed"
    assert "KB001" in [each.check.code for each in found.findings]


def test_only_checks_that_ought_to_have_looked_fail_a_build() -> None:
    """KB005 needs a cluster and is an error, as KB001 is; KB004 is a warning."""
    found = Diagnosis("", (), (), 0, {"KB005": NEEDS_CLUSTER, "KB001": "pods not allowed", "KB004": "pods not allowed"})
    assert found.unable(Severity.ERROR) == ["KB001"]
    assert found.unable(Severity.INFO) == ["KB001", "KB004"]


def test_kinds_that_are_not_served_are_empty() -> None:
    lists = {kind.name: Listed(unread=Unread.NOT_SERVED) for kind in kinds.ALL_KINDS}
    assert diagnose(replace(seen({}), lists=lists)).skipped == {}


def test_manifests_are_not_blamed_for_what_they_leave_out() -> None:
    case = next(case for case in CASES if case.code == "KB041")
    found = diagnose(seen(case.failing), is_live=False)
    assert found.findings == ()
    assert found.skipped["KB041"] == "needs a cluster"


def test_worst_comes_first_and_order_of_objects_changes_nothing() -> None:
    objects = {**room(-11, policy="PreemptLowerPriority"), kinds.NODES: [node("b"), node("a")]}
    turned = {kind: list(reversed(things)) for kind, things in objects.items()}
    found = diagnose(seen(objects))
    assert found == diagnose(seen(turned))
    severities = [each.check.severity for each in found.findings]
    assert severities == sorted(severities, reverse=True)
    assert severities[0] is Severity.ERROR


def test_only_karpenter_means_no_cutoff() -> None:
    objects = {**room(-1000), kinds.NODE_POOLS: [{"metadata": {"name": "default"}}]}
    assert sentences("KB001", objects) == []


@pytest.mark.parametrize(
    ("cutoff", "counts"),
    [("-1000", True), ("-500", True), ("-499", False), ("-9999999999", True)]
    + [(odd, False) for odd in ("-99999999999", "9" * 5000, "", "-", "low", "1e3", "-\N{ARABIC-INDIC DIGIT NINE}99")],
)
def test_a_cutoff_of_ones_own_counts_where_it_is_a_priority(cutoff: str, *, counts: bool) -> None:
    own = room(-500)
    told = autoscaler(f"--expendable-pods-priority-cutoff={cutoff}")
    found = sentences("KB001", {**own, kinds.DEPLOYMENTS: [*own[kinds.DEPLOYMENTS], told]})
    assert (found == []) is counts


def test_codes_choose_checks() -> None:
    assert [check.code for check in chosen_checks({"KB001", "KB002"}, {"KB002"})] == ["KB001"]
    assert len(chosen_checks(set(), {"KB001"})) == len(ALL_CHECKS) - 1
    with pytest.raises(KeyError, match="KB999"):
        chosen_checks({"KB999"}, set())


def test_only_the_kinds_that_are_needed_are_read() -> None:
    assert kinds.EVENTS not in kinds_of(ALL_CHECKS)
    assert kinds.PROMETHEUSES not in kinds_of([CHECKS["KB001"]])


@pytest.mark.parametrize(
    "odd", [None, 1, "x", [], [1], {}, {"spec": []}, {"metadata": {"labels": 1}, "spec": {"x": {}}}]
)
def test_odd_objects_of_any_kind_raise_nothing(odd: object) -> None:
    things = [odd if isinstance(odd, dict) else {"metadata": odd, "spec": odd, "status": odd}]
    objects = {kind: [*things, *(things and [{"spec": {"template": odd, "limits": odd}}])] for kind in kinds.ALL_KINDS}
    diagnose(seen(objects))
    diagnose(seen({**room(-11), kinds.PODS: [pod("room-1", "n1"), {"metadata": odd, "spec": odd}]}))


def test_the_page_is_the_checks() -> None:
    """`python -m tools.doctor_page > docs/doctor.md` makes it anew."""
    assert (Path(__file__).parents[4] / "docs" / "doctor.md").read_text() == page(ALL_CHECKS)


@pytest.mark.parametrize(("launched", "stage", "limit_s"), [("True", "registered", 900), ("False", "launched", 300)])
def test_a_machine_that_never_came_is_told_by_its_stage(launched: str, stage: str, limit_s: int) -> None:
    objects = {kinds.NODE_CLAIMS: [claim(launched, "False", created="2026-11-21T11:40:00Z")]}
    (sentence,) = sentences("KB032", objects)
    assert sentence == f"it has not {stage} after 1200 s; Karpenter deletes it after {limit_s} s"


@pytest.mark.parametrize(
    ("threshold", "cpu", "is_low"),
    [
        (None, "3999m", True),
        (None, "4", False),
        ("0.25", "1999m", True),
        ("0.25", "2", False),
        ("7", "7999m", True),
        ("7", "8", False),
        ("-1", "0", False),
        ("half", "3999m", True),
        ("half", "4", False),
    ],
)
def test_a_node_is_used_too_little_below_the_autoscalers_own_threshold(
    threshold: str | None, cpu: str, *, is_low: bool
) -> None:
    told = autoscaler() if threshold is None else autoscaler(f"--scale-down-utilization-threshold={threshold}")
    held = {kinds.NODES: [node("n1"), node("empty")], kinds.PODS: [pod("room-1", "n1", requests={"cpu": cpu})]}
    objects = placed(held)
    found = sentences("KB013", {**objects, kinds.DEPLOYMENTS: [*room()[kinds.DEPLOYMENTS], told]})
    assert [sentence.startswith("1 node held by balloons and used below") for sentence in found] == [True] * is_low
