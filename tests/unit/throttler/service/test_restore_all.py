"""Giving everything back: all of ours, nothing else, whatever fails in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from tests.unit.throttler.service.throttle_scene import a_throttle
from throttler.kube.errors import ForbiddenError, UnreachableError
from throttler.levers.lever_and_reasons import HOLDER_ANNOTATION, THROTTLE_LABEL
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, SavedLimits
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.restore_all import GIVE_BACK_S, restore_all

TAINT, LABEL = "startup-taint.cluster-autoscaler.kubernetes.io/ours", "example.com/daemons"
LEASE = "kube-balloons/kube-balloons-throttle"
LEVERS = {"startupTaint": {"key": TAINT}, "daemonSetLabel": {"key": LABEL}}
BURST_S = 0.1
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def left_behind() -> FakeCluster:
    """A cluster as a service leaves it that was killed in the middle of a ramp."""
    cluster = FakeCluster()
    cluster.put("jointhrottles", "default", spec={"levers": LEVERS})
    for name in ("n1", "n2"):
        taints = [{"key": "other", "effect": "NoSchedule"}, {"key": TAINT, "effect": "NoSchedule"}]
        cluster.put("nodes", name, spec={"taints": taints}, status=READY)
    cluster.put("nodes", "done", metadata={"labels": {LABEL: "true"}}, spec={}, status=READY)
    for name in ("p1", "p2"):
        gates = [{"name": PACED_GATE}]
        cluster.put("pods", name, metadata={"namespace": "team"}, spec={"containers": [], "schedulingGates": gates})
    theirs = [{"name": "kueue.x-k8s.io/admission"}]
    cluster.put("pods", "theirs", metadata={"namespace": "team"}, spec={"containers": [], "schedulingGates": theirs})
    made = {"labels": {THROTTLE_LABEL: "default"}, "annotations": {ORIGINAL_ANNOTATION: MADE, HOLDER_ANNOTATION: LEASE}}
    cluster.put("capacityquotas", "ours", metadata=made, spec={"limits": {"resources": {"nodes": 3}}})
    cluster.put("capacityquotas", "theirs", spec={"limits": {"resources": {"nodes": 3}}})
    cluster.put("nodepools", "theirs", spec={"limits": {"cpu": "8"}})
    moved = {**made, "annotations": {ORIGINAL_ANNOTATION: MOVED, HOLDER_ANNOTATION: LEASE}}
    cluster.put("nodepools", "moved", metadata=moved, spec={"limits": {"cpu": "8"}})
    return cluster


MOVED = msgspec.json.encode(SavedLimits(original={"cpu": "100"}, ceiling={"cpu": "8"})).decode()
MADE = msgspec.json.encode(SavedLimits(original={"nodes": None}, ceiling={"nodes": 3}, is_made=True)).decode()


def holds(cluster: FakeCluster) -> set[str]:
    """Names of objects that still hold something back."""
    nodes, pods = cluster.objects["nodes"], cluster.objects["pods"]
    tainted = {name for name, each in nodes.items() if any(t["key"] == TAINT for t in each["spec"].get("taints", []))}
    bare = {name for name, each in nodes.items() if LABEL not in each["metadata"].get("labels", {})}
    gated = {name for name, each in pods.items() if {"name": PACED_GATE} in each["spec"]["schedulingGates"]}
    low = {name for name, each in cluster.objects["nodepools"].items() if each["spec"]["limits"] == {"cpu": "8"}}
    quotas = {"ours"} & cluster.objects["capacityquotas"].keys()
    return tainted | bare | gated | quotas | (low - {"theirs"})


async def test_everything_of_ours_is_given_back_and_nothing_else_changes() -> None:
    cluster = left_behind()
    others = {("capacityquotas", "theirs"), ("nodepools", "theirs"), ("pods", "theirs"), ("nodes", "done")}
    others |= {("jointhrottles", "default")}
    before = {key: dict(cluster.objects[key[0]][key[1]]) for key in others}
    given = await restore_all(cluster.client, lease=LEASE)
    assert (given.problems, given.is_stopped, given.is_all) == ((), False, True)
    # Two taints, two labels, two gates, a ceiling and a quota, which is served in two versions.
    assert given.done == 8
    assert holds(cluster) == set()
    assert {key: cluster.objects[key[0]][key[1]] for key in others} == before
    assert cluster.objects["nodes"]["n1"]["spec"]["taints"] == [{"key": "other", "effect": "NoSchedule"}]


@pytest.mark.parametrize("is_down", [False, True], ids=["read", "not read"])
async def test_taints_and_labels_of_a_throttle_that_is_gone_are_given_back_by_who_knew_it(is_down: bool) -> None:
    cluster = left_behind()
    cluster.objects["jointhrottles"].clear()
    if is_down:
        cluster.faults["list", "jointhrottles"] = UnreachableError("no answer")
    await restore_all(cluster.client, lease=LEASE)
    assert holds(cluster) == {"n1", "n2"}, "nobody else knows their keys"
    given = await restore_all(cluster.client, lease=LEASE, gone=[a_throttle(levers=LEVERS)])
    assert (holds(cluster), given.is_all) == (set(), not is_down)


KEEPS = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
OTHER = {"example.com/owner": "team"}


def warm_nodes() -> FakeCluster:
    """One that a pool of strategy Annotate keeps, and one that its user does."""
    cluster = FakeCluster()
    cluster.objects["pods"] = {}
    kept = dict.fromkeys(KEEPS, "true")
    ours = {**kept, "kube-balloons.github.io/held-by": "team/gone", **OTHER}
    cluster.put("nodes", "ours", metadata={"annotations": ours}, spec={}, status=READY)
    cluster.put("nodes", "theirs", metadata={"annotations": {**kept, **OTHER}}, spec={}, status=READY)
    return cluster


async def test_nodes_that_pools_keep_are_let_go_at_an_uninstallation_and_no_others() -> None:
    cluster = warm_nodes()
    given = await restore_all(cluster.client, lets_nodes_go=True)
    assert (given.done, given.is_all) == (1, True)
    assert cluster.objects["nodes"]["ours"]["metadata"]["annotations"] == OTHER
    assert cluster.objects["nodes"]["theirs"]["metadata"]["annotations"] == {**dict.fromkeys(KEEPS, "true"), **OTHER}


async def test_an_outage_takes_no_warm_node_away() -> None:
    cluster = warm_nodes()
    assert (await restore_all(cluster.client)).done == 0
    assert cluster.written() == []


async def test_a_node_that_cannot_be_let_go_is_told() -> None:
    cluster = warm_nodes()
    cluster.faults["patch", "nodes"] = ForbiddenError("no right", status=403)
    given = await restore_all(cluster.client, lets_nodes_go=True)
    assert not given.is_all
    assert "ours" in given.problems[0]


async def test_ceilings_go_first_and_gates_last() -> None:
    cluster = left_behind()
    await restore_all(cluster.client, lease=LEASE)
    order = list(dict.fromkeys(plural for _, plural, _ in cluster.written()))
    assert order == ["capacityquotas", "nodepools", "nodes", "pods"]


@pytest.mark.virtual_time
async def test_one_that_gets_no_answer_keeps_no_other_waiting() -> None:
    """A stop has twelve seconds for all of it; a client gives up one write after twenty."""
    cluster = left_behind()
    cluster.hanging = {"moved", "n1"}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(GIVE_BACK_S):
            await restore_all(cluster.client, lease=LEASE)
    assert holds(cluster) == {"moved", "n1", "n2"}, "of n2 the label is put on in the next pass"


async def test_second_call_has_nothing_to_do() -> None:
    cluster = left_behind()
    await restore_all(cluster.client, lease=LEASE)
    cluster.calls.clear()
    assert (await restore_all(cluster.client, lease=LEASE)).done == 0
    assert cluster.written() == []


async def test_every_interrupted_prefix_is_finished_by_the_next_call() -> None:
    total = len((await _done(left_behind())).written())
    for allowed in range(total):
        cluster = left_behind()
        given = await restore_all(cluster.client, may_go_on=_times(allowed), lease=LEASE)
        assert given.is_stopped
        assert not given.is_all
        assert len(cluster.written()) <= allowed * 2
        await restore_all(cluster.client, lease=LEASE)
        assert holds(cluster) == set(), allowed


async def test_ceiling_that_another_lease_keeps_is_left_alone() -> None:
    cluster = left_behind()
    given = await restore_all(cluster.client, lease="elsewhere/lease")
    assert given.is_all
    assert holds(cluster) == {"ours", "moved"}
    assert (await restore_all(cluster.client, lease=None)).is_all
    assert holds(cluster) == set(), "where there is no throttle, nothing can be in force in the name of one"


async def test_nodes_that_no_throttle_selects_are_left_alone() -> None:
    cluster = left_behind()
    cluster.put("jointhrottles", "default", spec={"nodes": {"matchLabels": {"pool": "a"}}, "levers": LEVERS})
    cluster.put("nodes", "n1", metadata={"labels": {"pool": "a"}})
    await restore_all(cluster.client, lease=LEASE)
    assert holds(cluster) == {"n2"}


def others_write(cluster: FakeCluster, does: Callable[[str, str], bool]) -> None:
    """Let somebody else change an object, by its plural and name, right before we write it."""

    def write(plural: str, name: str) -> None:
        if does(plural, name):
            cluster.put(plural, name)

    cluster.before_write = write


async def test_a_node_that_loses_another_taint_meanwhile_is_read_again() -> None:
    """Ours stands elsewhere then, and the API server says nothing of a conflict."""
    cluster = left_behind()
    ours = {"key": TAINT, "effect": "NoSchedule"}

    def lose(plural: str, name: str) -> None:
        if plural == "nodes" and len(cluster.objects["nodes"][name]["spec"].get("taints", ())) == 2:
            cluster.put("nodes", name, spec={"taints": [ours]})

    cluster.before_write = lose
    assert (await restore_all(cluster.client, lease=LEASE)).is_all
    assert cluster.objects["nodes"]["n1"]["spec"]["taints"] == []


async def test_object_that_changed_meanwhile_is_read_again() -> None:
    cluster = left_behind()
    touched = {"capacityquotas"}

    def is_first(plural: str, name: str) -> bool:
        is_new = touched.isdisjoint({plural, name})
        touched.add(name)
        return is_new

    others_write(cluster, is_first)
    assert (await restore_all(cluster.client, lease=LEASE)).is_all
    assert holds(cluster) == set()


@pytest.mark.virtual_time
async def test_object_that_changes_with_each_machine_is_given_back_between_two_bursts() -> None:
    """Karpenter writes the status of its NodePool with every machine of a ramp."""
    cluster = left_behind()
    clock = asyncio.get_running_loop().time
    ends_s = clock() + BURST_S
    others_write(cluster, lambda plural, _: plural == "nodepools" and clock() < ends_s)
    assert (await restore_all(cluster.client, lease=LEASE)).is_all
    assert holds(cluster) == set()


@pytest.mark.virtual_time
async def test_object_that_never_stands_still_is_told_while_a_stop_has_time() -> None:
    cluster = left_behind()
    others_write(cluster, lambda plural, _: plural == "nodepools")
    async with asyncio.timeout(GIVE_BACK_S):
        given = await restore_all(cluster.client, lease=LEASE)
    assert "moved" in given.problems[0]
    assert holds(cluster) == {"moved"}


@pytest.mark.parametrize(
    ("verb", "plural", "kept"),
    [
        ("list", "jointhrottles", {"n1", "n2"}),
        ("list", "capacityquotas", {"ours"}),
        ("list", "nodepools", {"moved"}),
        ("list", "nodes", {"n1", "n2"}),
        ("list", "pods", {"p1", "p2"}),
        ("patch", "nodes", {"n1", "n2"}),
        ("patch", "pods", {"p1", "p2"}),
        ("delete", "capacityquotas", {"ours"}),
    ],
)
@pytest.mark.parametrize("error", [ForbiddenError("no right", status=403), UnreachableError("no answer")])
async def test_what_fails_is_told_and_the_rest_goes_on(verb: str, plural: str, kept: set[str], error: Any) -> None:
    cluster = left_behind()
    cluster.faults[verb, plural] = error
    given = await restore_all(cluster.client, lease=LEASE)
    assert holds(cluster) == kept
    assert given.problems
    assert not given.is_all


async def test_throttle_that_cannot_be_read_is_told_and_the_others_count() -> None:
    cluster = left_behind()
    cluster.put("jointhrottles", "broken", spec={"levers": {"startupTaint": {"key": 7}}})
    given = await restore_all(cluster.client, lease=LEASE)
    assert any("broken" in problem for problem in given.problems)
    assert holds(cluster) == set()


@pytest.mark.parametrize("plural", ["capacityquotas", "nodepools", "nodes", "pods"])
async def test_object_that_cannot_be_read_is_not_forgotten(plural: str) -> None:
    cluster = left_behind()
    cluster.put(plural, "odd", metadata={"labels": {THROTTLE_LABEL: "default"}}, spec=7)
    given = await restore_all(cluster.client, lease=LEASE)
    assert any("odd" in problem for problem in given.problems)
    del cluster.objects[plural]["odd"]
    assert holds(cluster) == set()


async def test_nodes_are_not_even_listed_where_no_throttle_marks_them() -> None:
    cluster = left_behind()
    cluster.put("jointhrottles", "default", spec={"levers": {}})
    await restore_all(cluster.client, lease=LEASE)
    assert "nodes" not in {plural for verb, plural, _ in cluster.calls if verb == "list"}


async def test_gates_go_also_where_no_throttle_is_installed() -> None:
    cluster = left_behind()
    for plural in ("jointhrottles", "capacityquotas", "nodepools"):
        del cluster.objects[plural]
    assert (await restore_all(cluster.client, lease=LEASE)).done == 2


async def test_dry_run_counts_and_writes_nothing() -> None:
    cluster = left_behind()
    given = await restore_all(cluster.client, lease=LEASE, is_dry_run=True)
    assert cluster.written() == []
    assert given.done > 5


async def _done(cluster: FakeCluster) -> FakeCluster:
    await restore_all(cluster.client, lease=LEASE)
    return cluster


def _times(count: int) -> Any:
    left = iter(range(count))

    async def may_go_on() -> bool:
        return next(left, None) is not None

    return may_go_on


@pytest.mark.parametrize("mark", ["{broken", '{"original":{},"ceiling":{"cpu":"8"}}'])
async def test_a_ceiling_whose_original_cannot_be_read_is_a_problem_and_not_given_back(mark: str) -> None:
    cluster = left_behind()
    cluster.put("nodepools", "moved", metadata={"annotations": {ORIGINAL_ANNOTATION: mark, HOLDER_ANNOTATION: LEASE}})
    given = await restore_all(cluster.client, lease=LEASE)
    assert not given.is_all
    assert "moved" in " ".join(given.problems)
    assert holds(cluster) == {"moved"}, "all else is given back"
    assert cluster.objects["nodepools"]["moved"]["metadata"]["labels"] == {THROTTLE_LABEL: "default"}
